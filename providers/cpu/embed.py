#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a file's bytes as a C array: embed.py INPUT OUTPUT NAME.

Owns: turning the conformance image into C source. Never: interprets the bytes.
"""
import sys
from pathlib import Path


def main():
    source, target, name = sys.argv[1:]
    data = Path(source).read_bytes()
    rows = [", ".join(map(str, data[at:at + 32])) for at in range(0, len(data), 32)]
    Path(target).write_text(
        "/* Made from an object by embed.py. */\n"
        f"extern const unsigned char {name}[];\nextern const unsigned int {name}_size;\n"
        f"const unsigned char {name}[] = {{\n" + ",\n".join(rows) + f"}};\nconst unsigned int {name}_size = {len(data)};\n")


if __name__ == "__main__":
    main()
