#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compare the list of NVML's functions with the libraries and tools that export, hook and call them.

Owns: checks that Facet's libnvidia-ml.so.1, the twin, exports the list, and that the list has the functions that the
fake library exports, that the twin hooks, and that the tools of each installed CUDA toolkit call.
Never: needs a toolkit.

usage: test_nvml_names.py ROOT TWIN FAKE
"""
import re
import subprocess
import sys
from pathlib import Path

ROOT, TWIN, FAKE = sys.argv.pop(1), sys.argv.pop(1), sys.argv.pop(1)
sys.path.insert(0, f"{ROOT}/tests/integration/command")
from tap import Skip, equal, main, test

LIST = {line for line in Path(ROOT, "vendor/cuda/nvml_entry_points.txt").read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")}


def exported(library):
    """The symbols that a library exports, except those that gcc adds to measure coverage."""
    lines = subprocess.run(["nm", "-D", "--defined-only", library], text=True, capture_output=True, check=True).stdout
    return {line.split()[-1] for line in lines.splitlines() if not re.search(r" (__gcov_\w+|mangle_path)$", line)}


@test
def twin_exports_the_list_and_facet_interposer():
    equal(exported(TWIN), LIST | {"facet_interposer"})


@test
def list_has_the_exports_of_the_fake():
    equal(exported(FAKE) - LIST, set())


@test
def list_has_the_hooks():
    hooks = set(re.findall(r"\bX\((nvml\w+)\)", Path(ROOT, "interpose/nvml/hooks.h").read_text(encoding="utf-8")))
    equal(len(hooks) > 30, True, "more than 30 hooks were found in hooks.h")
    equal(hooks - LIST, set())


@test
def list_has_the_functions_that_toolkits_call():
    libraries = list(Path("/usr/local").glob("cuda*/**/libcupti.so.*"))
    if not libraries:
        raise Skip("no CUDA toolkit in /usr/local")
    for library in libraries:
        called = set(re.findall(rb"\0(nvml[A-Z]\w+)(?=\0)", library.read_bytes()))
        equal(len(called) > 100, True, f"more than 100 names of functions were found in {library}")
        equal({name.decode() for name in called} - LIST, set())


main()
