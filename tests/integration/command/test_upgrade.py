#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A new facetd, and new interposers, take over vGPUs in which processes of the release before live.

Owns: what holds across an upgrade, with real limited programs over the fake GPU driver, and when the runtime folder is
lost. Never: builds the earlier release; old_process.py and make_old() do with a segment what it did.
"""
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
from contextlib import contextmanager

from cuda import CONTEXT, GIB, TENANT, TOO_MUCH_MIB, CudaPlace
from place import wait_until
from tap import contains, equal, main, test

QUOTA, HELD = 2 * GIB, GIB + GIB // 2  # three quarters, as 192 of 256 MiB
OLD, BELL_BYTES = 7, 128
VERSION_AT, NEW_WORDS = 8, {"policy": [(800, 8)], "usage": [(80, 4)]}  # where version 8 has members that 7 has not
HERE = os.path.dirname(os.path.abspath(__file__))


def patch(path, offset, data):
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(data)


def version_of(segment):
    with open(os.path.join(segment, "policy"), "rb") as file:
        return struct.unpack_from("<I", file.read(12), VERSION_AT)[0]


def make_old(place, segment):
    """Turns a segment, which no daemon has, into one of version 7, with the doorbell of its device."""
    devices = place.path("run/devices")
    lock = next(name for name in os.listdir(devices) if name.endswith(".lock"))
    bell = os.path.join(devices, lock.removesuffix(".lock") + ".bell")
    os.unlink(os.path.join(devices, lock))
    os.unlink(os.path.join(segment, "device"))
    with open(bell, "wb") as file:
        file.write(b"FACBELL0".ljust(BELL_BYTES, b"\0"))
    os.link(bell, os.path.join(segment, "bell"))
    for name, words in NEW_WORDS.items():
        patch(os.path.join(segment, name), VERSION_AT, struct.pack("<I", OLD))
        for offset, size in words:
            patch(os.path.join(segment, name), offset, bytes(size))
    return bell


@contextmanager
def old_process(segment, held):
    command = [sys.executable, os.path.join(HERE, "old_process.py"), segment, str(held)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        equal(process.stdout.readline(), "inside\n", "the process of the release before")
        yield process


def create(place):
    equal(place.facet("vgpu", "create", "--name", "a", "-d", "cuda:0", "-m", "2G").returncode, 0)
    return place.json("vgpu", "show", "a", "--json")["segment"]


def used(place):
    return place.json("vgpu", "show", "a", "--json").get("memory_used_bytes")


def grab(place):
    """How much a new program gets in the vGPU, its context included."""
    done = place.facet("run", "--vgpu", "a", "--", TENANT, "grab", "plain", "64", TOO_MUCH_MIB, "0")
    equal(done.returncode, 0, done.stderr)
    return json.loads(done.stdout)["granted_bytes"] + CONTEXT


@test
def what_a_process_of_the_release_before_holds_is_not_given_out_again():
    with CudaPlace() as place:
        segment = create(place)
        place.kill_daemon()
        bell = make_old(place, segment)
        with old_process(segment, HELD) as process:
            equal(used(place), HELD, "the new daemon counts it")
            equal(version_of(segment), OLD, "the segment keeps its version while the process is in it")
            equal("warning" in place.json("vgpu", "show", "a", "--json"), False)

            def is_heard():
                with open(bell, "rb") as file:
                    return struct.unpack_from("<I", file.read(16), 12)[0] == 1
            wait_until(is_heard, "the daemon sleeps, and listens to the doorbell")
            for _ in range(2):
                got = grab(place)
                equal(QUOTA - HELD - (64 << 20) < got <= QUOTA - HELD, True, f"{got} beside {HELD} of {QUOTA}")
                place.kill_daemon()
            process.communicate("", timeout=30)
        got = grab(place)
        equal(QUOTA - (64 << 20) < got <= QUOTA, True, f"{got} of {QUOTA}")
        equal(place.json("vgpu", "show", "a", "--json")["memory_peak_bytes"] <= QUOTA, True, "the peak")


@test
def a_process_of_the_release_before_is_refused_what_new_programs_hold():
    with CudaPlace() as place:
        segment = create(place)
        place.kill_daemon()
        make_old(place, segment)
        with old_process(segment, 1 << 20):
            holder, got = place.holding("--vgpu", "a")
            command = [sys.executable, os.path.join(HERE, "old_process.py"), segment, str(QUOTA - got["granted_bytes"])]
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                                  check=False)
            equal(done.stdout, "refused\n", done.stderr)
            holder.send_signal(signal.SIGTERM)
            holder.communicate(timeout=30)


@test
def an_unused_segment_is_renewed_when_the_daemon_starts():
    with CudaPlace() as place:
        segment = create(place)
        place.kill_daemon()
        make_old(place, segment)
        equal(used(place), 0)
        equal(version_of(segment), OLD + 1)
        got = grab(place)
        equal(QUOTA - (64 << 20) < got <= QUOTA, True, f"{got} of {QUOTA}")
        old = subprocess.run([sys.executable, os.path.join(HERE, "old_process.py"), segment, "1"], text=True,
                             stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
        contains(old.stderr, "another version")


@test
def what_is_held_in_a_lost_segment_is_not_given_out_again():
    with CudaPlace() as place:
        segment = create(place)
        holder, _ = place.holding("--vgpu", "a")
        place.kill_daemon()
        shutil.rmtree(place.path("run/vgpu"))
        for _ in range(2):
            vgpu = place.json("vgpu", "show", "a", "--json")
            contains(vgpu["warning"], "its segment was removed from outside, and processes are in it")
            equal(os.path.exists(segment), False)
            done = place.facet("run", "--vgpu", "a", "--", "echo", "entered")
            equal((done.returncode, done.stdout), (1, ""), done.stderr)
            place.kill_daemon()
        equal("memory_used_bytes" in place.json("vgpu", "show", "a", "--json"), False)
        holder.send_signal(signal.SIGTERM)
        holder.communicate(timeout=30)
        wait_until(lambda: used(place) == 0, "the vGPU is served again")
        got = grab(place)
        equal(QUOTA - (64 << 20) < got <= QUOTA, True, f"{got} of {QUOTA}")


@test
def a_vgpu_with_a_lost_segment_is_destroyed_by_force_and_its_processes_get_nothing_more():
    with CudaPlace() as place:
        create(place)
        holder = place.start("run", "--vgpu", "a", "--", TENANT, "grab", "plain", "64", "64", "3000")
        equal(bool(holder.stdout.readline()), True)
        place.kill_daemon()
        shutil.rmtree(place.path("run/vgpu"))
        done = place.facet("vgpu", "destroy", "a")
        equal(done.returncode, 1, done.stdout)
        done = place.facet("vgpu", "destroy", "a", "--force")
        equal(done.returncode, 0, done.stderr)
        holder.send_signal(signal.SIGTERM)
        holder.communicate(timeout=30)


@test
def a_removed_file_of_a_served_segment_is_told():
    for name in ("policy", "usage"):
        with CudaPlace() as place:
            segment = create(place)
            holder, _ = place.holding("--vgpu", "a")
            os.unlink(os.path.join(segment, name))
            vgpu = place.json("vgpu", "show", "a", "--json")
            contains(vgpu["warning"], "damaged from outside")
            done = place.facet("run", "--vgpu", "a", "--", TENANT, "grab", "plain", "64", "64", "0")
            equal(done.returncode != 0, True, f"entered without {name}: {done.stdout}")
            holder.send_signal(signal.SIGTERM)
            holder.communicate(timeout=30)


main()
