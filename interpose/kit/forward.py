#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Make the exports of a library that replaces a vendor's, from a list of names.

Owns: the header that forward.S and forward.c read, and the version script.
Never: knows a vendor.

A line of the list begins with the name. The next word that begins with a letter is the symbol's version (hip_4.2).
Versions inherit from each other in the order of their numbers.

usage: forward.py LIST forward_names.h exports.map
"""
import re
import sys

MARKER_SYMBOL = "facet_interposer"  # exported by every interposer, so that real.c recognises one


def entries_of(path):
    """The version of each name; "" for none."""
    with open(path, encoding="utf-8") as lines:
        words = [line.split() for line in lines if line.strip() and not line.startswith("#")]
    if len({name for name, *_ in words}) != len(words):
        sys.exit(f"{path}: a name is listed twice")
    return {name: next((word for word in rest if re.match("[A-Za-z]", word)), "") for name, *rest in words}


def numbers_of(version):
    return [int(number) for number in re.findall(r"[0-9]+", version)]


def exports(entries):
    """Lines of the version script. The marker belongs to the first version; all other symbols are local."""
    previous = ""
    for version in sorted(set(entries.values()), key=numbers_of):
        yield f"{version} {{".strip()
        yield "global:"
        yield from (f"    {name};" for name in entries if entries[name] == version)
        yield from [] if previous else [f"    {MARKER_SYMBOL};", "local:", "    *;"]
        yield f"}} {previous};" if previous else "};"
        previous = version


def write(path, lines):
    with open(path, "w", encoding="utf-8") as output:
        output.writelines(f"{line}\n" for line in lines)


def main():
    entries = entries_of(sys.argv[1])
    write(sys.argv[2], [f"FORWARD({index}, {name})" for index, name in enumerate(entries)])
    write(sys.argv[3], exports(entries))


if __name__ == "__main__":
    main()
