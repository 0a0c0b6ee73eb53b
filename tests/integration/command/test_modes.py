#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The isolation modes through the command: what a program sees in each mode on this machine's first OpenCL device.

Owns: the modes' real effects. Never: asserts how long anything takes.
"""
import json
import re


from real import BURN, Real, needs
from place import wait_until
from tap import Skip, contains, equal, main, test


def device_of(place, mode):
    for device in place.json("devices", "--json")["devices"]:
        if device["id"].startswith("opencl:") and mode in device["modes"] and device["compute_units"] >= 2:
            return device
    raise Skip(f"no OpenCL device of two compute units offers mode {mode}")


def visible_amounts(place, *options):
    """(compute units, bytes of memory) that a program sees."""
    done = place.facet("run", *options, needs("clinfo"), "--raw")
    equal(done.returncode, 0, done.stderr)
    return (int(re.search(r"CL_DEVICE_MAX_COMPUTE_UNITS\s+(\d+)", done.stdout)[1]),
            int(re.search(r"CL_DEVICE_GLOBAL_MEM_SIZE\s+(\d+)", done.stdout)[1]))


@test
def a_program_in_mode_hard_sees_its_part_of_the_device():
    with Real() as place:
        device = device_of(place, "hard")
        units, memory = visible_amounts(place, "-d", device["id"], "--mode", "hard", "-c", "50")
        equal(units, -(-device["compute_units"] // 2))  # a half, rounded up
        equal(memory <= device["memory_bytes"] * (units + 1) // device["compute_units"], True, f"{memory} bytes")
        equal(place.names(), [])


@test
def hard_parts_never_add_up_to_more_than_the_device():
    with Real() as place:
        device = device_of(place, "hard")
        for name in ("a", "b"):
            equal(place.facet("vgpu", "create", "-d", device["id"], "--mode", "hard", "-c", "50", "-m", "40%", "--name",
                              name).returncode, 0)
        done = place.facet("run", "-d", device["id"], "--mode", "hard", "-c", "50", "-m", "1M", "true")
        equal(done.returncode, 1, done.stderr)
        equal(visible_amounts(place, "--vgpu", "a")[0], -(-device["compute_units"] // 2))
        done = place.facet("vgpu", "set", "a", "-m", "1M")
        equal(done.returncode, 1)
        contains(done.stderr, "create it anew")
        equal(sorted(place.names()), ["a", "b"])


@test
def a_program_in_a_partition_sees_the_partition():
    with Real() as place:
        device = device_of(place, "partitioned")
        templates = json.loads(place.facet("devices", device["id"], "--json").stdout)["templates"]
        smallest = min(templates, key=lambda template: template["compute_units"])
        equal(place.facet("vgpu", "create", "-d", device["id"], "--mode", "partitioned", "--template", smallest["id"],
                          "-m", "100M", "--name", "p").returncode, 0)
        equal(visible_amounts(place, "--vgpu", "p"), (smallest["compute_units"], 100 << 20))
        card = place.facet("vgpu", "show", "p").stdout
        contains(card, smallest["id"])
        shown = json.loads(place.facet("devices", device["id"], "--json").stdout)
        equal([part["vgpu"] for part in shown["partitions"]], ["p"])
        contains(place.facet("devices", device["id"]).stdout, shown["partitions"][0]["uuid"])


@test
def a_partition_survives_the_daemon():
    with Real() as place:
        device = device_of(place, "partitioned")
        equal(place.facet("vgpu", "create", "-d", device["id"], "--mode", "partitioned", "-c", "1", "--name", "p")
              .returncode, 0)
        before = place.json("vgpu", "show", "p", "--json")
        place.kill_daemon()
        after = place.json("vgpu", "show", "p", "--json")
        equal((after["template"], after["partition_start"]), (before["template"], before["partition_start"]))
        equal("warning" in after, False, after.get("warning"))
        equal(visible_amounts(place, "--vgpu", "p")[0], after["granted_compute_units"])


@test
def modes_in_conflict_are_refused_and_name_the_other_vgpu():
    with Real() as place:
        device = device_of(place, "hard")
        equal(place.facet("vgpu", "create", "-d", device["id"], "--name", "turns").returncode, 0)
        groups = json.loads(place.facet("devices", device["id"], "--json").stdout)["mode_groups"]
        if "hard" in groups["soft"]:
            raise Skip("the device has both at the same time")
        done = place.facet("run", "-d", device["id"], "--mode", "hard", "-c", "50", "true")
        equal(done.returncode, 1)
        contains(done.stderr, "vGPU turns in mode 'soft'")


@test
def mode_shared_has_no_limits_and_is_accounted():
    with Real() as place:
        device = device_of(place, "shared")
        done = place.facet("run", "-d", device["id"], "--mode", "shared", "-m", "1G", "true")
        equal(done.returncode, 2)
        contains(done.stderr, "only accounts")
        equal(visible_amounts(place, "-d", device["id"], "--mode", "shared")[1], device["memory_bytes"])


@test
def an_idle_vgpu_freezes_and_the_next_launch_resumes_it():
    burn = needs(BURN)
    with Real() as place:
        device_of(place, "soft")
        equal(place.facet("vgpu", "create", "--name", "v", "--idle-freeze", "1").returncode, 0)
        wait_until(lambda: place.json("vgpu", "show", "v", "--json")["idle_frozen"], "it freezes")
        done = place.facet("run", "--vgpu", "v", burn, "--seconds", "1")
        equal(done.returncode, 0, done.stderr)
        equal(place.json("vgpu", "show", "v", "--json")["launches"] > 0, True)
        equal(place.facet("vgpu", "set", "v", "--idle-freeze", "0").returncode, 0)
        wait_until(lambda: not place.json("vgpu", "show", "v", "--json")["idle_frozen"], "the vGPU is resumed")


main()
