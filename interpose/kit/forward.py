#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Make of a list of names what a library exports that stands in for a vendor's.

Owns: the header that forward.S and forward.c read, and the version script.
Never: knows a vendor. A line of the list begins with the name; the rest is not looked at.

usage: forward.py LIST forward_names.h exports.map
"""
import sys

MARK = "facet_interposer"


def names_of(path):
    with open(path, encoding="utf-8") as lines:
        return [line.split()[0] for line in lines if line.strip() and not line.startswith("#")]


def write(path, lines):
    with open(path, "w", encoding="utf-8") as output:
        output.writelines(f"{line}\n" for line in lines)


def main():
    names = names_of(sys.argv[1])
    if len(set(names)) != len(names):
        sys.exit(f"{sys.argv[1]}: a name stands there twice")
    write(sys.argv[2], [f"FORWARD({index}, {name})" for index, name in enumerate(names)])
    write(sys.argv[3], ["{", "global:", *[f"    {name};" for name in [*names, MARK]], "local:", "    *;", "};"])


if __name__ == "__main__":
    main()
