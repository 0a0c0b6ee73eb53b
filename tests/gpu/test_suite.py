#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The GPU suite itself, over the fakes: it passes, it skips with reasons, and it detects limits that are not enforced.

Owns: the list of checks that the suite may skip over the fakes. Never: runs on a real GPU.
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration" / "command"))

from tap import contains, equal, main, test  # noqa: E402

BUILD = Path(os.environ["FACET_BUILD_DIR"])
# Checks that no fake device can pass; any other skipped check is a fault of the suite.
CANNOT_PASS_ON_FAKES = {"devices: mig mode and instances are listed", "cost: a product of bf16 matrices",
                        "frameworks: pytorch works within a quota", "frameworks: jax works within a quota",
                        "frameworks: cupy works within a quota",
                        "kernels: compiled kernels compute the results of other devices"}
# Checks that are skipped if this build lacks the parts that they need.
SKIPPED_IN_SOME_BUILDS = {"snapshot: memory leaves the gpu and comes back",
                          "swap: two tenants of three quarters each keep every word"}

# A `facet` that runs programs without a virtual GPU, so that no limit is enforced.
UNLIMITED_FACET = """#!/bin/sh
if [ "$1" = run ] && [ "$2" != --help ]; then
    while [ "$1" != -- ]; do shift; done
    shift
    exec "$@"
fi
exec "{facet}" "$@"
"""


def run(build, *arguments, **environment):
    """Runs the suite. Returns the finished process, and the texts of its result files by their suffix."""
    with tempfile.TemporaryDirectory(prefix="facet-gpu-") as results:
        command = [HERE / "run", build, *arguments, "--seconds", "1", "--rounds", "1", "--milliseconds", "20"]
        done = subprocess.run([*command, "--results", results], env={**os.environ, **environment}, capture_output=True,
                              text=True, timeout=500, check=False)
        files = {path.suffix: path.read_text() for path in Path(results).iterdir()}
    return done, files


def names(lines, verdict, directive=""):
    """The names of the checks with this verdict, and with this directive behind the name."""
    return {line.split(" - ", 1)[1].split(" # ")[0] for line in lines if line.startswith(verdict) and directive in line}


@test
def the_suite_passes_over_the_fakes():
    done, files = run(BUILD, "--fake")
    lines = done.stdout.splitlines()
    equal((done.returncode, names(lines, "not ok")), (0, set()), done.stdout + done.stderr)
    skipped = names(lines, "ok ", "# SKIP")
    equal((CANNOT_PASS_ON_FAKES <= skipped, skipped <= CANNOT_PASS_ON_FAKES | SKIPPED_IN_SOME_BUILDS), (True, True),
          f"skipped {sorted(skipped)}")
    record = json.loads(files[".json"])
    equal((record["result"]["fake"], record["result"]["driver"]), (True, "580.65.06"))
    equal(len(record["result"]["checks"]), int(lines[0].removeprefix("1..")), "checks in the results")
    contains(files[".md"], "a made-up device: no measurement")
    contains(files[".md"], "| limits: a program sees its quota | passed |")


@test
def without_a_gpu_every_check_is_skipped_with_the_reason():
    done, files = run(BUILD, FACET_CUDA_NVML="/nonexistent/libnvidia-ml.so.1")
    lines = [line for line in done.stdout.splitlines() if not line.startswith("1..")]
    equal((done.returncode, files), (0, {}), done.stderr)
    equal([line for line in lines if "# SKIP no NVIDIA GPU: the provider finds none" not in line], [])


@test
def limits_that_are_not_enforced_are_detected():
    with tempfile.TemporaryDirectory(prefix="facet-unlimited-") as folder:
        for entry in BUILD.iterdir():
            if entry.name != "facet":
                os.symlink(entry, Path(folder) / entry.name)
        command = Path(folder) / "facet"
        command.write_text(UNLIMITED_FACET.format(facet=BUILD / "facet"))
        command.chmod(0o755)
        done, _ = run(folder, "limits", "--fake", "--patience", "5", FACET_LIB_DIR=str(BUILD))
    lines = done.stdout.splitlines()
    equal(done.returncode, 1, done.stderr)
    for wanted in ("limits: a program sees its quota", "limits: no kind of memory goes beyond the quota",
                   "limits: a quota below a context is refused"):
        equal(wanted in names(lines, "not ok"), True, f"{wanted}: {done.stdout}")


@test
def an_unknown_part_of_the_suite_is_refused():
    done, _ = run(BUILD, "nonsense")
    equal(done.returncode, 2)
    contains(done.stderr, "unknown part 'nonsense'; there are devices, limits, shares, cost")


main()
