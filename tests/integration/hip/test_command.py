#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`facet run` on AMD GPUs: the whole path from the command to a limited program, over the fake runtime.

Owns: the proof that a program has the limits with which it was started, whether it is linked with the runtime, bundles
the runtime or opens it. Never: uses real hardware, or fails in a build without the provider rocm: then the tests are
skipped with a reason.
"""
import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "command"))
from place import BUILD, FACET  # noqa: E402
from real import Real  # noqa: E402
from tap import Skip, contains, equal, main, test  # noqa: E402

PROGRAMS, FAKE = os.environ["FACET_TEST_HIP_PROGRAMS"], os.environ["FACET_TEST_HIP_FAKE"]
PROVIDER = os.path.join(BUILD, "facet-provider-rocm.so")
SMI = os.path.join(BUILD, "tests", "fake", "amdsmi")


class HipPlace(Real):
    """Two AMD GPUs, of 16 and 8 GiB."""

    def __init__(self):
        if not os.path.exists(PROVIDER):
            raise Skip("this build has no provider rocm")
        super().__init__()

    def facet(self, *arguments, **options):
        self.env.update(FACET_PROVIDER_PATH=PROVIDER, FACET_ROCM_HIP=os.path.join(FAKE, "libamdhip64.so.6"),
                        FACET_ROCM_SMI=os.path.join(SMI, "libamd_smi.so.26"),
                        FACET_ROCM_ROOT=os.path.join(SMI, "kernel"), FAKE_HIP_STATE=self.path("hip"),
                        FAKE_HIP_MEMORY="16G,8G", LD_LIBRARY_PATH=FAKE)
        return super().facet(*arguments, **options)

    def program(self, *options, name="program-linked", arguments=()):
        """Run the program with these options of `facet run`, and return its output."""
        done = self.facet("run", *options, "--", os.path.join(PROGRAMS, name), *arguments)
        equal((done.returncode, done.stderr), (0, ""))
        return done.stdout.strip()


@test
def program_sees_a_gpu_of_its_quota_however_it_loads_the_runtime():
    with HipPlace() as place:
        limits = ("-d", "rocm:0", "-m", "3G")
        inside = "1 devices, 3072 MiB, 2 GiB 0, launch 0, 0"
        equal(place.program(*limits), inside)
        equal(place.program(*limits, name="program-bundled"), inside)
        for name in ("libamdhip64.so", "libamdhip64.so.6"):
            equal(place.program(*limits, name="program", arguments=(name,)), inside)


@test
def allocation_beyond_the_quota_is_refused():
    with HipPlace() as place:
        equal(place.program("-d", "rocm:1", "-m", "2G"), "1 devices, 2048 MiB, 2 GiB 2, launch 0, 0")  # 2: out of memory


@test
def quota_too_small_to_begin_the_device_is_explained():
    with HipPlace() as place:
        done = place.facet("run", "-d", "rocm:0", "-m", "128M", "--", os.path.join(PROGRAMS, "program-linked"))
        contains(done.stdout, "1 devices, 128 MiB, 2 GiB 2, launch ")
        equal(done.stderr.count("\n"), 1, done.stderr)
        contains(done.stderr, "the memory quota, 128 MiB, is too small to use rocm:0: the first allocation")


@test
def a_broken_runtime_is_reported_before_the_program_starts():
    with HipPlace() as place:
        broken = {"FACET_ROCM_HIP": "/proc/self/status"}
        place.facet("devices")  # sets up the environment, which the next call changes
        for options in ({}, broken):
            place.kill_daemon()
            done = subprocess.run([FACET, "run", "-d", "rocm:0", "true"], env={**place.env, **options},
                                  capture_output=True, text=True, timeout=60, check=True)
            equal(done.stderr.count("\n"), 1 if options else 0, done.stderr)
        contains(done.stderr, "device rocm:0: HIP programs that bring no runtime of their own will find no GPU: ")
        contains(done.stderr, "/proc/self/status")


@test
def runtime_that_is_named_and_not_there_is_refused():
    with HipPlace() as place:
        done = place.facet("run", "-d", "rocm:0", "--", "touch", "started", env={"FACET_REAL_HIP": "/nowhere/lib.so"})
        equal((done.returncode, done.stderr.count("\n"), place.exists("started")), (1, 1, False), done.stderr)
        contains(done.stderr, "FACET_REAL_HIP is '/nowhere/lib.so': No such file or directory; expected the path of")


@test
def program_in_two_vgpus_sees_both_in_their_order():
    with HipPlace() as place:
        for name, device, memory in (("small", "rocm:1", "1G"), ("large", "rocm:0", "5G")):
            done = place.facet("vgpu", "create", "--name", name, "-d", device, "-m", memory)
            equal((done.returncode, done.stderr), (0, ""))
        equal(place.program("--vgpu", "small", "--vgpu", "large"), "2 devices, 1024 MiB, 2 GiB 2, launch 0, 0")
        equal(place.program("--vgpu", "large", "--vgpu", "small"), "2 devices, 5120 MiB, 2 GiB 0, launch 0, 0")


@test
def a_reservation_rendered_as_environment_enters_the_vgpu():
    with HipPlace() as place:
        equal(place.facet("place", "--slot", "rocm.device=0.25", "--name", "job").returncode, 0)
        equal(place.facet("vgpu", "create", "--name", "a", "--reservation", "job", "-m", "3G").returncode, 0)
        shown = json.loads(place.facet("place", "show", "job", "--render", "environment", "--json").stdout)
        given = dict(pair.split("=", 1) for pair in shown["rendered"]["configuration"]["env"])
        equal(given["HIP_VISIBLE_DEVICES"], "0")
        given["LD_LIBRARY_PATH"] += f":{FAKE}"  # on a real machine the loader finds the runtime by itself
        program = os.path.join(PROGRAMS, "program-linked")
        done = subprocess.run([program], env={**place.env, **given}, capture_output=True, text=True, timeout=60,
                              check=True)
        contains(done.stdout, "1 devices, 3072 MiB")


main()
