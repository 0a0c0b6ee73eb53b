#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The command's output about AMD GPUs, and about virtual GPUs that are partitions of such a GPU, over fake libraries.

Owns: tests that the command shows the answers of the provider rocm. Never: uses real hardware, or asserts how long
anything takes.
"""
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "command"))
from place import BUILD  # noqa: E402
from real import Real  # noqa: E402
from tap import Skip, contains, equal, main, test  # noqa: E402

SOURCES = {"FACET_ROCM_SMI": os.environ["FACET_TEST_AMDSMI"], "FACET_ROCM_HIP": os.environ["FACET_TEST_HIP"],
           "FACET_ROCM_ROOT": os.environ["FACET_TEST_AMDGPU"]}


class Machine(Real):
    """A machine with two AMD GPUs, which can be partitioned when `parts` says so."""

    def __init__(self, parts=False):
        self.parts = parts
        super().__init__()

    def facet(self, *arguments, **options):
        self.env.update(SOURCES, FACET_PROVIDER_PATH=os.path.join(BUILD, "facet-provider-rocm.so"),
                        FAKE_HIP_STATE=self.path("hip"), FACET_ROCM_PARTITIONS="1" if self.parts else "0")
        return super().facet(*arguments, **options)

    def answer(self, *arguments):
        done = self.facet(*arguments)
        equal((done.returncode, done.stderr), (0, ""))
        return done.stdout


@test
def devices_are_listed_with_their_modes():
    with Machine() as machine:
        devices = json.loads(machine.answer("devices", "--json"))["devices"]
        equal([device["id"] for device in devices], ["rocm:0", "rocm:1"])
        equal({tuple(device["modes"]) for device in devices}, {("shared", "soft")})
        text = machine.answer("devices", "rocm:0")
        for line in ("amdgcn:gfx942", "0000:05:00.0", "192G", "xgmi", "fa00000000cade00"):
            contains(text, line)


@test
def a_virtual_gpu_is_a_partition_and_the_compute_partition_is_set_and_reset_with_it():
    with Machine(parts=True) as machine:
        contains(machine.answer("devices", "rocm:0"), "CPX/NPS1")
        create = ("vgpu", "create", "-d", "rocm:0", "--mode", "partitioned")
        machine.answer(*create, "--name", "a", "--template", "CPX/NPS1")
        shown = machine.answer("devices", "rocm:0")
        contains(shown, "compute_partition    CPX")
        contains(shown, "12.5% a")
        refused = machine.facet(*create, "--name", "b", "--template", "DPX/NPS1")
        equal(refused.returncode, 1)
        contains(refused.stderr, "its vGPUs: a (CPX/NPS1)")
        machine.answer("vgpu", "destroy", "a")
        contains(machine.answer("devices", "rocm:0"), "compute_partition    SPX")


@test
def a_hip_program_sees_its_virtual_gpu_and_its_limits_hold():
    program = os.path.join(BUILD, "tests", "integration", "hip", "program-linked")
    for needed in (program, os.path.join(BUILD, "interpose", "hip", "libamdhip64.so.6")):
        if not os.path.exists(needed):
            raise Skip(f"{needed} is not built")
    with Machine() as machine:
        machine.env["LD_LIBRARY_PATH"] = os.path.dirname(SOURCES["FACET_ROCM_HIP"])
        report = machine.path("report")
        done = machine.facet("run", "-d", "rocm:1", "-m", "1G", "-c", "30", "--report", report, "--", program)
        equal((done.returncode, done.stdout), (0, "1 devices, 1024 MiB, 2 GiB 2, launch 0, 0\n"), done.stderr)
        figures = json.loads(machine.read("report"))
        equal((figures["device"], figures["denied_allocations"], figures["launches"]), ("rocm:1", 1, 1))


if __name__ == "__main__":
    main()
