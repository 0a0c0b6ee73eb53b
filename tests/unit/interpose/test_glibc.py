# SPDX-License-Identifier: Apache-2.0
"""The interposers enter programs of systems with glibc 2.28 and newer, for example of a container's image.

Owns: the check of the symbol versions that each interposer needs. Never: loads one.
"""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../integration/command"))

from tap import equal, main, test

NEWEST = (2, 28)
MOVED_INTO_LIBC = {"libdl.so.2", "libpthread.so.0"}  # by glibc 2.34


def output_of(*command):
    return subprocess.run(command, text=True, capture_output=True, check=True).stdout


def versions(library):
    """Each symbol that the library takes from glibc, with its version as a tuple."""
    for line in output_of("nm", "-D", "--undefined-only", library).splitlines():
        name, _, version = line.split()[-1].partition("@")
        if found := re.fullmatch(r"GLIBC_([0-9.]+)", version):
            yield name, tuple(map(int, found[1].split(".")))


@test
def no_interposer_needs_a_symbol_that_glibc_2_28_lacks():
    for library in sys.argv[1:]:
        needed = dict(versions(library))
        equal(needed != {}, True, f"symbols of glibc in {library}")
        equal({name: version for name, version in needed.items() if version > NEWEST}, {}, library)


@test
def each_interposer_needs_the_libraries_that_later_became_part_of_libc():
    for library in sys.argv[1:]:
        needed = set(re.findall(r"NEEDED +(\S+)", output_of("objdump", "-p", library)))
        equal(needed & MOVED_INTO_LIBC, MOVED_INTO_LIBC, library)


main()
