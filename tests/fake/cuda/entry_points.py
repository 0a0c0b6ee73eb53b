#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Write the fake driver's entry points: the table of cuGetProcAddress(), and functions that the fake does not imitate.

Owns: the C file made of vendor/cuda/entry_points.txt, and the version script of an older driver.
Never: knows a function's behaviour. A definition in another file of the fake replaces the weak one that this writes.

usage: entry_points.py LIST OUTPUT.c            every entry point
       entry_points.py LIST OUTPUT.map VERSION  the exports of the driver of that version
"""
import re
import sys

SYMBOL = re.compile(r"(?P<name>\w+?)(_v\d+)?(?P<stream>_pt[sd][sz])?$")


def entry_points(path):
    """(symbol, name asked for, version, per-thread default stream) of each line."""
    for line in open(path, encoding="utf-8"):
        if line.strip() and not line.startswith("#"):
            symbol, version = line.split()
            match = SYMBOL.match(symbol)
            yield symbol, match["name"], int(version), bool(match["stream"])


def table(entries):
    yield '#include "entry_points.h"'
    for symbol, *_ in entries:
        yield f"int {symbol}(void);"
        yield f"__attribute__((weak)) int {symbol}(void)\n{{\n    return fake_not_supported();\n}}"
    yield "const struct fake_entry_point fake_entry_points[] = {"
    for symbol, name, version, per_thread in entries:
        yield f'    {{"{name}", {version}, {str(per_thread).lower()}, (void *){symbol}}},'
    yield f"}};\nconst size_t fake_entry_point_count = {len(entries)};"


def exports(entries, newest):
    yield "{\nglobal:"
    yield from (f"    {symbol};" for symbol, _, version, _ in entries if version <= newest)
    yield "local:\n    *;\n};"


def main():
    entries = list(entry_points(sys.argv[1]))
    lines = exports(entries, int(sys.argv[3])) if len(sys.argv) > 3 else table(entries)
    with open(sys.argv[2], "w", encoding="utf-8") as output:
        output.writelines(line + "\n" for line in lines)


if __name__ == "__main__":
    main()
