# SPDX-License-Identifier: Apache-2.0
"""On the GPU the kernels of the oracle tests (tests/integration/kernel) have the results of the host and a reference.

If the build has the kernel compiler, the kernels are compiled here. Otherwise they are read from the folder of
--recorded, which tests/gpu/record makes on a machine with the compiler, with the host's results.

Owns: the list of programs, and counting the passed cases. Never: contains an expected result.
"""
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from suite import Skip, check, must

PROGRAMS = Path(__file__).resolve().parents[1] / "integration" / "kernel"
NAMES = ("math", "special", "random", "types", "language", "group", "integer", "overflow", "relaxed")
SEEDS = "1:45"  # of the random kernels
LIMIT_S = 120


def image_variables(machine):
    """The environment variables that name the folder of recorded images; none if the build has the compiler."""
    if machine.options.recorded:
        return {"FACET_TEST_REPLAY": str(machine.options.recorded.resolve())}
    if not (machine.build / "facet-kernel-compiler.so").exists():
        raise Skip("this build has no kernel compiler; give --recorded the folder that tests/gpu/record made with "
                   "a build that has it")
    properties = machine.facet_json("devices", machine.gpu["id"])["properties"]
    return {"FACET_TEST_TARGET": properties["kernel_target"]}


def run_program(machine, name, images):
    """The output lines of one program."""
    environment = {**machine.environment, **images, "FACET_BUILD_DIR": str(machine.build),
                   "FACET_TEST_PROVIDER": "cuda",
                   "FACET_TEST_SEEDS": SEEDS, "PYTHONDONTWRITEBYTECODE": "1",
                   "CUDA_VISIBLE_DEVICES": machine.gpu["uuid"]}
    try:
        done = subprocess.run([machine.options.python, PROGRAMS / f"test_{name}.py"], env=environment, text=True,
                              capture_output=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired as late:
        return [*(late.stdout or b"").decode().splitlines(), f"not ok - {name}: no end after {LIMIT_S} s"]
    lines = done.stdout.splitlines()
    if not lines:
        return [f"not ok - {name}: ended with {done.returncode}: {done.stderr.strip()}"]
    return lines


def is_passed_case(line):
    return re.match(r"ok \d+", line) and "# SKIP" not in line


@check("kernels")
def compiled_kernels_compute_the_results_of_other_devices(machine, record):
    machine.require_soft_limits()
    if machine.is_fake:
        raise Skip("a fake device runs no kernel")
    images = image_variables(machine)
    with ThreadPoolExecutor(max(1, min(len(NAMES), (os.cpu_count() or 1) // 2))) as several:
        all_lines = dict(zip(NAMES, several.map(lambda name: run_program(machine, name, images), NAMES)))
    failed = []
    for name, lines in all_lines.items():
        skipped = [line for line in lines if "# SKIP" in line]
        record[name] = f"{sum(map(bool, map(is_passed_case, lines)))} passed, {len(skipped)} skipped"
        failed += [f"{name}: {line}" for line in lines if line.startswith(("not ok", "# "))]
    must(not failed, "\n".join(failed))
