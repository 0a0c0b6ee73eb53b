#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Write the fake runtime's entry points: the table of its lookups, and functions that the fake does not imitate.

Owns: the C file made of vendor/hip/entry_points.txt, and the version script with the version nodes of that list.
Never: knows a function's behaviour. A definition in another file of the fake replaces the weak one that this writes.

usage: entry_points.py LIST OUTPUT.c
       entry_points.py LIST OUTPUT.map [VERSION]   of a runtime whose newest node is hip_VERSION
"""
import sys


def entry_points(path):
    """(symbol, node) of each line; a node as a pair of numbers."""
    for line in open(path, encoding="utf-8"):
        if line.strip() and not line.startswith("#"):
            symbol, node = line.split()
            yield symbol, tuple(int(number) for number in node.removeprefix("hip_").split("."))


def table(entries):
    yield '#include "entry_points.h"'
    for symbol, _ in entries:
        yield f"int {symbol}(void);"
        yield f"__attribute__((weak)) int {symbol}(void)\n{{\n    return fake_not_supported();\n}}"
    yield "const struct fake_entry_point fake_entry_points[] = {"
    for symbol, (major, minor) in entries:
        yield f'    {{"{symbol}", {major * 100 + minor}, (void *){symbol}}},'
    yield f"}};\nconst size_t fake_entry_point_count = {len(entries)};"


def exports(entries, newest):
    before = ""
    for node in sorted({node for _, node in entries if node <= newest}):
        yield f"hip_{node[0]}.{node[1]} {{\nglobal:"
        yield from (f"    {symbol};" for symbol, its_node in entries if its_node == node)
        yield ("local:\n    *;\n" if not before else "") + f"}} {before};".replace(" ;", ";")
        before = f"hip_{node[0]}.{node[1]}"


def main():
    entries = list(entry_points(sys.argv[1]))
    newest = tuple(int(number) for number in sys.argv[3].split(".")) if len(sys.argv) > 3 else (99, 0)
    lines = table(entries) if sys.argv[2].endswith(".c") else exports(entries, newest)
    with open(sys.argv[2], "w", encoding="utf-8") as output:
        output.writelines(line + "\n" for line in lines)


if __name__ == "__main__":
    main()
