#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Check that no entry point of the HIP runtime is forgotten.

Owns: running tools/check-hip-coverage on this source tree, and on made-up trees, each with a fault that the tool must
find. Never: needs a real runtime: the tool compares the list with each runtime that it finds.
"""
import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(os.environ["FACET_SOURCE_DIR"])
LIBRARY, FAKE, OLD = (os.environ[f"FACET_TEST_HIP_{name}"] for name in ("LIBRARY", "FAKE", "OLD"))
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tests/integration/command"))
from tap import contains, equal, main, test  # noqa: E402

ENTRY_POINTS = "hipA hip_4.2\nhipA_spt hip_5.2\nhipB hip_4.3\n"
HOOKS = "X(hipA) X(hipA_spt)"
PASSED_THROUGH = "#   asks     answers a question\nhipB asks\n"


def load_coverage_check():
    loader = importlib.machinery.SourceFileLoader("coverage", str(ROOT / "tools/check-hip-coverage"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("coverage", loader))
    loader.exec_module(module)
    return module


@test
def no_entry_point_is_forgotten():
    command = [ROOT / "tools/check-hip-coverage", ROOT, LIBRARY]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    equal(done.returncode, 0, done.stdout)
    contains(done.stdout, "entry points")


def faults_of(entries, hooks, passed_through):
    """The faults that the tool finds in a made-up tree with these entry points, hooks and passed-through functions."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, text in {"vendor/hip/entry_points.txt": entries, "interpose/hip/passed_through.txt": passed_through,
                           "interpose/hip/hooks.h": f"#define FACET_HIP_HOOKS(X) {hooks}\n"}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        return list(load_coverage_check().faults_of(root, None, []))


@test
def each_missing_hook_is_named():
    equal(faults_of(ENTRY_POINTS, HOOKS, PASSED_THROUGH), [])
    for (entries, hooks, passed_through), fault in {
        (ENTRY_POINTS, "X(hipA)", PASSED_THROUGH + "hipA_spt asks\n"):
            "hipA_spt is passed through, another form of hipA is not",
        (ENTRY_POINTS, HOOKS + " X(hipC)", PASSED_THROUGH): "hipC is not in vendor/hip/entry_points.txt",
        (ENTRY_POINTS, HOOKS + " X(hipA)", PASSED_THROUGH): "hipA is listed twice",
        (ENTRY_POINTS + "hipC hip_6.0\n", HOOKS, PASSED_THROUGH): "hipC is not hooked and has no line here",
        (ENTRY_POINTS, HOOKS, PASSED_THROUGH + "hipA asks\n"): "hipA is hooked",
        (ENTRY_POINTS, HOOKS, PASSED_THROUGH + "hipC asks\n"): "hipC is not in vendor/hip/entry_points.txt",
        (ENTRY_POINTS, HOOKS, PASSED_THROUGH.replace("hipB asks", "hipB perhaps")): "perhaps is not a known verdict",
    }.items():
        faults = faults_of(entries, hooks, passed_through)
        equal(len(faults), 1, faults)
        contains(faults[0], fault)


@test
def library_and_list_agree():
    module = load_coverage_check()
    entries = module.read_pairs(ROOT / module.LIST)
    equal(list(module.check_library(entries, LIBRARY)), [])
    contains("".join(module.check_library({**entries, "hipNew": "hip_9.0"}, LIBRARY)),
             "hipNew is in the list and not exported")
    contains("".join(module.check_library({**entries, "hipMalloc": "hip_4.3"}, LIBRARY)),
             "hipMalloc has version hip_4.2, not hip_4.3")
    del entries["hipInit"]
    contains("".join(module.check_library(entries, LIBRARY)), "hipInit is exported and not in the list")


@test
def runtime_with_more_symbols_or_other_versions_is_reported():
    module = load_coverage_check()
    entries = module.read_pairs(ROOT / module.LIST)
    for runtime in (FAKE, OLD):
        equal(list(module.check_runtime(entries, runtime)), [])
    contains("".join(module.check_runtime({**entries, "hipMalloc": "hip_4.3"}, OLD)),
             "hipMalloc has version hip_4.2, in vendor/hip/entry_points.txt it is hip_4.3")
    del entries["hipFree"]
    contains("".join(module.check_runtime(entries, FAKE)), "hipFree is not in")


main()
