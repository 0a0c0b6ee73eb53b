# SPDX-License-Identifier: Apache-2.0
"""The HIP interposer's cost of a launch: over a fake runtime, bare and in a vGPU, in the same run."""
from pathlib import Path

import launch

VENDOR = launch.Vendor("hip", "libamdhip64.so.6", Path("tests/integration/hip/execution"))


def run(bench, options):
    launch.run(bench, VENDOR, options)
