#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that cannot enter their vGPU: they see no device, and the reason is reported, counted and shown.

Owns: each reason for which a segment cannot be entered. Never: tests a program that gets in (test_limits.py).
"""
import fcntl
import os
import shutil
import struct
import sys

from cuda import TENANT, CudaPlace
from place import BUILD
from real import Real, needs
from tap import Skip, contains, equal, main, test

SLOTS = 4096  # FACET_SEGMENT_SLOTS
SILENCED = "FACET_QUIET=1 silences this"


def occupy(usage):
    """Holds every slot, as 4096 processes would, until the returned file is closed."""
    file = open(usage, "r+b")  # pylint: disable=consider-using-with
    fcntl.fcntl(file, 37, struct.pack("hhqqixxxx", fcntl.F_WRLCK, 0, 1, SLOTS, 0))  # F_OFD_SETLK
    return file


def messages_of(errors):
    return [line for line in errors.splitlines() if SILENCED in line]


def check_refusal(place, vgpu, command, fragment, counted=True, env=None):
    """Checks that the program's message comes once, and that `facet vgpu show` reports the refusal."""
    before = place.json("vgpu", "show", vgpu["name"], "--json").get("refused_processes", 0)
    done = place.facet("run", "--vgpu", vgpu["name"], "--", *command, env=env)
    lines = messages_of(done.stderr)
    equal(len(lines), 1, f"lines of standard error in {done.stderr!r}")
    contains(lines[0], fragment)
    shown = place.json("vgpu", "show", vgpu["name"], "--json")
    equal(shown["refused_processes"], before + counted)
    if counted:
        contains(shown["warning"], "could not enter")
        contains(shown["warning"], fragment)
        contains(place.facet("vgpu", "show", vgpu["name"]).stdout, "refused processes")
        contains(place.facet("metrics").stdout, "facet_vgpu_refused_processes_total{")


def check_each_reason(place, device, command):
    place.facet("vgpu", "create", "--name", "a", "-m", "4G" if device else "64M", *(["-d", device] if device else []))
    vgpu = place.json("vgpu", "show", "a", "--json")
    usage = os.path.join(vgpu["segment"], "usage")
    equal(vgpu["refused_processes"], 0)
    equal(messages_of(place.facet("run", "--vgpu", "a", "--", *command).stderr), [], "messages of a program that gets in")
    with occupy(usage):
        check_refusal(place, vgpu, command, f"has {SLOTS} processes")
        done = place.facet("run", "--vgpu", "a", "--", *command, env={"FACET_QUIET": "1"})
        equal(messages_of(done.stderr), [], "silenced")
    equal(place.json("vgpu", "show", "a", "--json")["refused_processes"], 2, "silenced refusals are counted, too")
    # The program is given a copy of the segment, with `data` at an offset of a file: another version, or no segment.
    copy = place.path("copy")
    for file, offset, data, fragment in (("policy", 8, b"\x01\0\0\0", "segment version 1"),
                                         ("usage", 0, b"\0" * 8, "not a segment file")):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(vgpu["segment"], copy)
        with open(os.path.join(copy, file), "r+b") as out:
            out.seek(offset)
            out.write(data)
        done = place.facet("run", "--vgpu", "a", "--", "env", f"FACET_VGPU_DIR={copy}", *command)
        equal(len(messages_of(done.stderr)), 1, f"lines of standard error in {done.stderr!r}")
        contains(messages_of(done.stderr)[0], fragment)
    os.truncate(os.path.join(copy, "policy"), 100)
    done = place.facet("run", "--vgpu", "a", "--", "env", f"FACET_VGPU_DIR={copy}", *command)
    contains(messages_of(done.stderr)[0], "100 bytes")
    shutil.rmtree(copy)
    done = place.facet("run", "--vgpu", "a", "--", "env", f"FACET_VGPU_DIR={copy}", *command)
    contains(messages_of(done.stderr)[0], "No such file")
    equal(place.json("vgpu", "show", "a", "--json")["refused_processes"], 2, "refusals in other folders do not count")
    done = place.facet("vgpu", "destroy", "a")
    equal((done.returncode, os.path.exists(vgpu["segment"])), (0, False), done.stderr)


@test
def refusals_of_opencl_programs_are_reported():
    clinfo = needs("clinfo")
    with Real() as place:
        check_each_reason(place, None, [clinfo, "--raw"])


@test
def a_program_whose_drivers_lack_the_device_is_told():
    clinfo, vendors = needs("clinfo"), os.path.join(BUILD, "tests", "fake", "opencl", "vendors")
    with Real() as place:  # as in a container whose image has another driver than the machine
        place.facet("vgpu", "create", "--name", "a", "-m", "64M")
        vgpu = place.json("vgpu", "show", "a", "--json")
        check_refusal(place, vgpu, [clinfo, "--raw"], "no OpenCL driver here has the device of vGPU a",
                      env={"OCL_ICD_VENDORS": vendors + "/"})


@test
def refusals_of_cuda_programs_are_reported():
    with CudaPlace() as place:
        check_each_reason(place, "cuda:0", [TENANT, "info"])


# Each call of cuInit() tries to enter, in this process and in a child of fork(), which is another process.
TWICE = """
import ctypes, os
driver = ctypes.CDLL("libcuda.so.1")
driver.cuInit(0), driver.cuInit(0)
child = os.fork()
driver.cuInit(0), driver.cuInit(0)
if child:
    os.waitpid(child, 0)
"""


@test
def a_process_that_tries_again_is_reported_once():
    with CudaPlace() as place:
        place.facet("vgpu", "create", "--name", "a", "-m", "4G", "-d", "cuda:0")
        with occupy(os.path.join(place.json("vgpu", "show", "a", "--json")["segment"], "usage")):
            done = place.facet("run", "--vgpu", "a", "--", sys.executable, "-c", TWICE)
        lines = messages_of(done.stderr)
        equal((len(lines), len(set(lines))), (2, 2), done.stderr)


@test
def refusals_of_other_users_are_reported():
    clinfo = needs("clinfo")
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        raise Skip("needs root, to be another user")
    with Real() as place:
        os.chmod(place.root, 0o711)
        place.facet("vgpu", "create", "--name", "a", "-m", "64M")
        done = place.facet("run", "--vgpu", "a", "--", "setpriv", "--reuid", "65534", "--clear-groups", clinfo)
        if not os.access(BUILD, os.X_OK) or "FACET_QUIET" not in done.stderr:
            # That user may have no access to the layer's file.
            raise Skip(f"the other user cannot load the layer: {done.stderr[:200]}")
        contains(messages_of(done.stderr)[0], "Permission denied")


main()
