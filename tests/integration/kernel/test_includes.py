#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Sources that include files are compiled by the real compiler, through the cache. A constant in the PTX shows which
header was compiled.

Owns: the proof that a cache hit gives what a new compile would give. Never: judges times.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "command"))
from tap import Skip, contains, equal, main, test

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("FACET_BUILD_DIR", ROOT / "build")).resolve()
SOURCE = '#include "number.h"\nkernel void k(global int *x) { x[0] = NUMBER; }\n'


class Folder:
    """A folder with a cache, a source and its headers. Each header has the same time of change."""

    def __init__(self, source=SOURCE):
        if not (BUILD / "facet-kernel-compiler.so").exists():
            raise Skip("this build has no kernel compiler")
        self.temporary = tempfile.TemporaryDirectory(prefix="facet-includes-")
        self.root = Path(self.temporary.name)
        self.env = {**os.environ, "FACET_CACHE_DIR": str(self.root / "cache"), "FACET_LIB_DIR": str(BUILD)}
        (self.root / "k.cl").write_text(source)

    def put(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (1000, 1000))

    def number(self, number, name="a/number.h"):
        self.put(name, f"#define NUMBER {number}\n")

    def run(self, *arguments, where="."):
        return subprocess.run([BUILD / "facet", "compile", "--target", "sm_90", self.root / "k.cl", *arguments],
                              env=self.env, cwd=self.root / where, text=True, capture_output=True, check=False)

    def compile(self, *arguments, where="."):
        """Compiles; returns whether the image came from the cache, and the number that the kernel stores."""
        image = self.root / "k.ptx"
        done = self.run("--json", "-o", image, *arguments, where=where)
        equal((done.returncode, done.stderr), (0, ""), "exit status and standard error")
        stored = re.search(r"st\.global\.\w+\s+\[%rd\d+\], (\d+);", image.read_text())
        if not stored:  # the number goes through a register
            stored = re.search(r"mov\.b32\s+%r\d+, (\d+);", image.read_text())
        return json.loads(done.stdout)["statistics"]["cache_hit"], int(stored.group(1))


@test
def the_second_compile_is_a_hit():
    folder = Folder()
    folder.number(11)
    equal(folder.compile("-I", "a"), (False, 11))
    equal(folder.compile("-I", "a"), (True, 11))
    contains(folder.run("--stats", "-I", "a", "-o", "k.ptx").stdout, "from        cache\n")


@test
def a_changed_header_is_a_miss_even_of_the_same_size_and_time():
    folder = Folder()
    folder.number(11)
    folder.compile("-I", "a")
    folder.number(22)
    equal(folder.compile("-I", "a"), (False, 22))
    equal(folder.compile("-I", "a"), (True, 22))
    os.utime(folder.root / "a/number.h")
    equal(folder.compile("-I", "a"), (True, 22))


@test
def a_header_that_appears_earlier_is_a_miss():
    folder = Folder()
    folder.number(11, "b/number.h")
    paths = ("-I", "missing", "-I", "a", "-I", "b")
    (folder.root / "a").mkdir()
    equal(folder.compile(*paths), (False, 11))
    equal(folder.compile(*paths), (True, 11))
    folder.number(22, "a/number.h")
    equal(folder.compile(*paths), (False, 22))
    folder.number(33, "missing/number.h")
    equal(folder.compile(*paths), (False, 33))
    equal(folder.compile(*paths), (True, 33))
    (folder.root / "missing/number.h").unlink()
    equal(folder.compile(*paths), (False, 22))


@test
def a_changed_header_of_a_header_is_a_miss():
    folder = Folder()
    folder.put("a/number.h", '#include "more/number.h"\n')
    folder.number(11, "a/more/number.h")
    equal(folder.compile("-I", "a"), (False, 11))
    equal(folder.compile("-I", "a"), (True, 11))
    folder.number(22, "a/more/number.h")
    equal(folder.compile("-I", "a"), (False, 22))


@test
def a_changed_header_of_an_include_option_is_a_miss():
    folder = Folder("kernel void k(global int *x) { x[0] = NUMBER; }\n")
    folder.number(11)
    words = ("--", "-include", "a/number.h")
    equal(folder.compile(*words), (False, 11))
    equal(folder.compile(*words), (True, 11))
    folder.number(22)
    equal(folder.compile(*words), (False, 22))


@test
def a_header_that_has_include_finds_later_is_a_miss():
    folder = Folder('#if __has_include("number.h")\n#define NUMBER 22\n#else\n#define NUMBER 11\n#endif\n'
                    "kernel void k(global int *x) { x[0] = NUMBER; }\n")
    equal(folder.compile("-I", "a"), (False, 11))
    equal(folder.compile("-I", "a"), (True, 11))
    folder.put("a/number.h", "")
    equal(folder.compile("-I", "a"), (False, 22))
    equal(folder.compile("-I", "a"), (True, 22))


@test
def relative_folders_are_searched_from_the_working_folder():
    folder = Folder()
    folder.number(11, "here/a/number.h")
    folder.number(22, "there/a/number.h")
    equal(folder.compile("-I", "a", where="here"), (False, 11))
    equal(folder.compile("-I", "a", where="there"), (False, 22))
    equal(folder.compile("-I", "a", where="there"), (True, 22))
    equal(folder.compile("-I", "a", where="here"), (False, 11))


@test
def an_include_in_a_comment_does_not_prevent_a_hit():
    folder = Folder("/* #include, import, embed */ kernel void k(global int *x) { x[0] = 11; }\n")
    equal(folder.compile(), (False, 11))
    equal(folder.compile(), (True, 11))


@test
def an_image_that_depends_on_the_time_is_not_kept():
    folder = Folder("#include \"number.h\"\nkernel void k(global int *x) { x[0] = NUMBER + 0 * sizeof(__TIME__); }\n")
    folder.number(11)
    equal(folder.compile("-I", "a"), (False, 11))
    equal(folder.compile("-I", "a"), (False, 11))


@test
def warnings_in_headers_are_shown_again():
    folder = Folder()
    folder.put("a/number.h", "#warning once more\n#define NUMBER 11\n")
    first, second = (folder.run("-I", "a", "--stats", "-o", "k.ptx") for _ in range(2))
    contains(first.stderr, "number.h:1:2: warning: once more")
    equal(second.stderr, first.stderr)
    contains(second.stdout, "from        cache\n")


@test
def a_header_with_errors_is_not_kept():
    folder = Folder()
    folder.put("a/number.h", "#error never\n")
    equal(folder.run("-I", "a", "-o", "k.ptx").returncode, 1)
    folder.number(11)
    equal(folder.compile("-I", "a"), (False, 11))


main()
