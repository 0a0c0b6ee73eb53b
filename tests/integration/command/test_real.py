#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The command with the real daemon, limiter and OpenCL layer, on the first device of this machine."""
import json
import os
import signal

from place import BUILD, wait_until
from real import BURN, Real, needs
from tap import contains, equal, main, test


@test
def devices_are_listed_without_a_daemon():
    with Real() as place:
        devices = place.json("devices", "--json")["devices"]
        table = place.facet("devices").stdout.splitlines()
        equal(table[0].split(), ["ID", "NAME", "KIND", "MEMORY", "UNITS", "MODES", "HEALTH"])
        equal([line.split()[0] for line in table[1:]], [device["id"] for device in devices])
        contains(table[1], devices[0]["name"])
        equal(os.path.exists(place.runtime), False, "a runtime folder")


@test
def refused_provider_is_shown_with_its_reason():
    with Real() as place:
        os.mkdir(place.path("lib"))
        place.write("lib/facet-provider-broken.so", "not a library")
        env = {"FACET_PROVIDER_PATH": f"{BUILD}:{place.path('lib')}"}
        providers = json.loads(place.facet("provider", "list", "--json", env=env).stdout)["providers"]
        broken = [provider for provider in providers if provider["state"] == "refused"]
        equal(len(broken), 1, "refused providers")
        contains(broken[0]["path"], "facet-provider-broken.so")
        contains(place.facet("provider", "list", env=env).stdout, broken[0]["reason"])
        done = place.facet("devices", env=env)
        equal(done.returncode, 0)
        equal(len(done.stderr.splitlines()), 1)
        contains(done.stderr, broken[0]["reason"])


@test
def bad_values_are_refused_by_the_daemon_and_nothing_is_created():
    with Real() as place:
        for options, fragment in ((["-m", "1000000G"], "memory"), (["-d", "opencl:99"], "opencl:99"),
                                  (["-m", "101%"], "101%"), (["-c", "130"], "130"), (["-c", "50:20"], "50:20")):
            for command in (["run", *options, "true"], ["vgpu", "create", *options]):
                done = place.facet(*command)
                equal(done.returncode, 2, f"exit status of {command}: {done.stderr}")
                equal(len(done.stderr.splitlines()), 1)
                contains(done.stderr, fragment)
        equal(place.names(), [])
        equal(os.listdir(os.path.join(place.runtime, "vgpu")), [], "segments")


@test
def program_sees_a_device_of_its_quota():
    clinfo = needs("clinfo")
    with Real() as place:
        done = place.facet("run", "-m", "256M", clinfo, "--raw")
        equal(done.returncode, 0, done.stderr)
        equal(done.stderr.count("no program entered"), 0, done.stderr)
        contains(place.facet("run", "-m", "256M", "true").stderr, "no program entered")
        sizes = [line.split()[-1] for line in done.stdout.splitlines() if "CL_DEVICE_GLOBAL_MEM_SIZE" in line]
        equal(sizes, [str(256 << 20)])


@test
def report_counts_real_work():
    burn = needs(BURN)
    with Real() as place:
        done = place.facet("run", "-m", "256M", "-c", "50", "--report", "use.json", burn, "--seconds", "1")
        equal(done.returncode, 0, done.stderr + done.stdout)
        report = json.loads(place.read("use.json"))
        for member in ("launches", "device_time_ns", "memory_peak_bytes", "wall_ns"):
            equal(report[member] > 0, True, f"{member} is positive")
        equal(report["memory_limit_bytes"], 256 << 20)
        equal(report["compute_request_milli"], 500)
        equal(report["device_time_ns"] <= report["wall_ns"], True, "device time within wall time")
        equal(place.names(), [])


@test
def private_daemon_leaves_and_persistent_vgpus_come_back():
    with Real() as place:
        equal(place.facet("vgpu", "create", "--name", "alice", "-m", "64M", "-c", "30:60").returncode, 0)
        before = place.json("vgpu", "show", "alice", "--json")
        wait_until(lambda: place.daemon_pid() is None, "the private daemon leaves")
        equal(place.facet("run", "--vgpu", "alice", "true").returncode, 0)
        after = place.json("vgpu", "show", "alice", "--json")
        for member in ("id", "memory_limit_bytes", "compute_request_milli", "compute_limit_milli", "created_ns"):
            equal(after[member], before[member], member)
        equal(place.facet("vgpu", "destroy", "alice").returncode, 0)
        equal(place.names(), [])


@test
def freeze_and_resume_are_remembered():
    with Real() as place:
        place.facet("vgpu", "create", "--name", "alice")
        equal(place.json("vgpu", "freeze", "alice", "--json")["state"], "frozen")
        place.kill_daemon()
        equal(place.json("vgpu", "show", "alice", "--json")["state"], "frozen")
        equal(place.json("vgpu", "resume", "alice", "--json")["state"], "idle")


@test
def killed_daemon_does_not_disturb_a_run():
    with Real() as place:
        process = place.start("run", "sh", "-c", "touch started; while [ ! -e go ]; do sleep 0.05; done; exit 8")
        wait_until(lambda: place.exists("started"), "the command starts")
        place.kill_daemon()
        place.write("go", "")
        errors = process.communicate(timeout=60)[1]
        equal((process.returncode, errors), (8, ""))
        equal(place.names(), [])


@test
def killed_facet_leaves_no_vgpu():
    with Real() as place:
        process = place.start("run", "sh", "-c", "touch started; exec sleep 2")
        wait_until(lambda: place.exists("started"), "the command starts")
        process.kill()
        process.communicate(timeout=60)
        wait_until(lambda: place.names() == [], "the ephemeral vGPU goes")


@test
def vgpu_in_use_is_not_destroyed():
    with Real() as place:
        place.facet("vgpu", "create", "--name", "alice")
        process = place.start("run", "--vgpu", "alice", "sh", "-c", "touch started; exec sleep 60")
        wait_until(lambda: place.exists("started"), "the command starts")
        equal(place.facet("vgpu", "destroy", "alice").returncode, 1)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        equal(place.facet("vgpu", "destroy", "alice").returncode, 0)


@test
def strange_references_are_not_found():
    with Real() as place:
        for ref in ("..", ".", "a/b", "%2e%2e", "a?force=1", "a b", "\u00e9"):
            done = place.facet("vgpu", "show", ref)
            equal(done.returncode, 1, f"exit status for {ref!r}: {done.stderr}")
            equal(len(done.stderr.splitlines()), 1)


@test
def metrics_and_top_agree_with_the_list():
    with Real() as place:
        place.facet("vgpu", "create", "--name", "alice", "-m", "64M")
        contains(place.facet("metrics").stdout, 'name="alice"')
        contains(place.facet("top", "--once", "--interval", "0.1").stdout, "alice")
        equal(json.loads(place.facet("top", "--once", "--json").stdout)["vgpus"][0]["name"], "alice")


main()
