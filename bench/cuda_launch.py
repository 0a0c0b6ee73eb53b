# SPDX-License-Identifier: Apache-2.0
"""The CUDA interposer's cost of a launch: over a fake driver, bare and in a vGPU, in the same run."""
from pathlib import Path

import launch

VENDOR = launch.Vendor("cuda", "libcuda.so.1", Path("tests/integration/cuda"))

# Recorded earlier, not measured here: HAMi-core 8f3a89c, built with its own flags, over another fake driver, on a
# machine of 2 cores. Nanoseconds of a launch, bare and hooked.
RECORDED = {"1 thread": {"no limit": (1.7, 24.6), "limit 50 %": (1.9, 41.2)},
            "2 threads": {"no limit": (2.1, 24.5), "limit 50 %": (3.6, 78.3)},
            "2 processes, one vGPU": {"no limit": (1.9, 25.6), "limit 50 %": (3.5, 77.7)}}
NOTE = (" Recorded peer: HAMi-core 8f3a89c as recorded earlier on another machine over another fake driver, "
        "not measured here.")


def environment(bench):
    return VENDOR.environment(bench)


def program(bench, name):
    return VENDOR.program(bench, name)


def host(bench, seconds, vgpus, command):
    return VENDOR.host(bench, seconds, vgpus, command)


def run(bench, options):
    launch.run(bench, VENDOR, options, RECORDED, NOTE)
