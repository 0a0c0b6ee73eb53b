# SPDX-License-Identifier: Apache-2.0
"""PyTorch, JAX and CuPy as tenants, where they are installed: they see the vGPU, compute right results, and go on after
a refusal.

Owns: running a program of each framework with the Python of --python. Never: installs anything.
"""
from pathlib import Path

from machine import GIB
from suite import Skip, check, must

PROGRAMS = Path(__file__).resolve().parent / "programs"


def run_program(machine, record, name):
    machine.require_soft_limits()
    python = machine.options.python
    if machine.is_fake:
        raise Skip("a fake device runs no kernel of a framework")
    if machine.try_run([python, "-c", f"import {name}"]).returncode:
        raise Skip(f"{python} has no {name}")
    if machine.gpu["memory_bytes"] < 8 * GIB:
        raise Skip("a framework needs a vGPU of 4 GiB, and the GPU is too small for two")
    quota = 4 * GIB
    answer = machine.run_json(machine.in_vgpu(["-m", machine.size(quota), "-c", "50"],
                                          [python, PROGRAMS / f"{name}_tenant.py"]))
    record.update(answer)
    must(answer["right"], "the framework computed a wrong result")
    must(answer["total_bytes"] <= quota, f"the program sees {answer['total_bytes']} bytes, its quota is {quota}")
    must(answer["refused"] and answer["taken_bytes"] <= quota,
         f"the program took {answer['taken_bytes']} bytes, expected a refusal within its quota of {quota}")


@check("frameworks")
def pytorch_works_within_a_quota(machine, record):
    run_program(machine, record, "torch")


@check("frameworks")
def jax_works_within_a_quota(machine, record):
    run_program(machine, record, "jax")


@check("frameworks")
def cupy_works_within_a_quota(machine, record):
    run_program(machine, record, "cupy")
