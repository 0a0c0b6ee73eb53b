#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The tool check-cycles must find files that call each other in circles. Prints TAP.

Owns: made-up rooms, which it compiles. Never: compiles the real tree.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from test_tools import ROOT, load, report, write  # noqa: E402  (found beside this file)

CHAIN = {"src/one/a.c": "void b(void); void a(void) { b(); }", "src/one/b.c": "void c(void); void b(void) { c(); }",
         "src/one/c.c": "void c(void) {}", "src/two/d.c": "void d(void) {}"}


def found(files, known, every=False):
    """The output of check() for these files, each of which is compiled once for the product and once for a test."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        build, entries = root / "build", []
        write(root, {**files, "build/tests/empty": ""})
        for number, source in enumerate(sorted(files) * 2):
            output = f"{'tests/' if number < len(files) else ''}{number}.o"
            subprocess.run(["cc", "-c", "-o", build / output, root / source], check=True)
            entries.append({"directory": str(build), "file": f"../{source}", "output": output})
        write(root, {"build/compile_commands.json": json.dumps(entries)})
        return load("check-cycles").check(root, build, known, every)


def test_a_chain_of_calls_is_no_circle():
    assert found(CHAIN, {}) == [] and found(CHAIN, {}, every=True) == []


def test_each_call_of_a_circle_is_named():
    lines = found({**CHAIN, "src/one/c.c": "void a(void); void c(void) { a(); }"}, {})
    assert lines == ["src/one: 3 files in circles, expected at most 0",
                     "  src/one/a.c calls b() of src/one/b.c; src/one/b.c calls c() of src/one/c.c; "
                     "src/one/c.c calls a() of src/one/a.c"], lines


def test_known_circles_may_not_grow():
    circle = {**CHAIN, "src/one/b.c": "void a(void); void b(void) { a(); }"}
    assert found(circle, {"src/one": (2, "one object")}) == []
    assert found(circle, {"src/one": (1, "one object")})[0] == "src/one: 2 files in circles, expected at most 1"


def test_a_circle_over_two_rooms_is_left_to_check_includes():
    assert found({"src/one/a.c": "void d(void); void a(void) { d(); }",
                  "src/two/d.c": "void a(void); void d(void) { a(); }"}, {}) == []


def test_rooms_without_circles_are_not_among_the_known_ones():
    tool = load("check-cycles")
    assert not {"src/base", "src/memory", "src/session"} & set(tool.KNOWN) and tool.KNOWN["apps/facetd"][0] == 2
    assert subprocess.run([ROOT / "tools" / "check-cycles", "/nonexistent"], check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(report(globals()))
