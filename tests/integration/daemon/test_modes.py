# SPDX-License-Identifier: Apache-2.0
"""The modes hard and partitioned through the API, on a simulated H100: partitions that are given, kept, refused, taken
back.

Owns: the effect of both modes as the provider sees it. Never: asserts how long anything takes.
"""
import json
import os
import signal
import sqlite3
import threading

from facetd import VgpuHolder, wait_until
from simulated import Simulated
from tap import contains, equal, main, test

GIB = 1 << 30


def refusal(daemon, **members):
    answer = daemon.call("POST", "/v1/vgpus", members)
    equal(answer.status >= 400, True, answer.text)
    return answer.status, answer.error.get("argument"), answer.error["message"]


@test
def a_partition_is_made_and_the_vgpu_has_its_amounts():
    with Simulated() as daemon:
        vgpu = daemon.create(name="a", mode="partitioned", template="1g.10gb")
        equal((vgpu["template"], vgpu["granted_compute_units"], vgpu["simulated"]), ("1g.10gb", 16, True))
        equal(vgpu["memory_limit_bytes"], vgpu["granted_memory_bytes"])
        equal(daemon.partitions(), {("1g.10gb", vgpu["partition_start"]): "a"})
        equal(vgpu["partition"] in json.dumps(vgpu["environment"]), True, vgpu["environment"])
        with open(os.path.join(vgpu["segment"], "policy"), "rb") as file:
            policy = file.read()
        equal(vgpu["partition"].encode() in policy, True, "the segment names the partition")
        equal(vgpu["address"].encode() in policy, True, "the segment holds the partition's address")
        equal(daemon.call("DELETE", "/v1/vgpus/a").status, 200)
        equal(daemon.partitions(), {})


@test
def the_smallest_sufficient_template_is_chosen():
    with Simulated() as daemon:
        equal(daemon.create(mode="partitioned", memory_limit_bytes=15 * GIB)["template"], "1g.20gb")
        equal(daemon.create(mode="partitioned", compute_request_milli=100)["template"], "1g.10gb")
        vgpu = daemon.create(mode="partitioned", compute_request_milli=300, memory_limit_bytes=GIB)
        equal((vgpu["template"], vgpu["memory_limit_bytes"]), ("3g.40gb", GIB))


@test
def a_quota_below_the_partition_holds():
    with Simulated() as daemon:
        vgpu = daemon.create(mode="partitioned", template="2g.20gb", memory_limit_bytes=GIB)
        equal(vgpu["memory_limit_bytes"], GIB)
        equal(vgpu["granted_memory_bytes"] > GIB, True)
        status, argument, message = refusal(daemon, mode="partitioned", template="1g.10gb", memory_limit_bytes=15 * GIB)
        equal((status, argument), (400, "template"))
        contains(message, "1g.10gb")


@test
def a_full_device_refuses_a_partition():
    with Simulated() as daemon:
        for _ in range(7):
            daemon.create(mode="partitioned", template="1g.10gb")
        status, argument, message = refusal(daemon, mode="partitioned", template="1g.10gb")
        equal((status, argument), (507, "template"))
        contains(message, "no place is free")
        contains(message, "its vGPUs: vgpu-1 (1g.10gb), vgpu-2 (1g.10gb)")
        equal(len(daemon.partitions()), 7)


@test
def hard_gives_the_next_step_and_never_more_than_the_device():
    with Simulated() as daemon:
        vgpu = daemon.create(name="h", mode="hard", compute_request_milli=300)
        equal(vgpu["granted_compute_units"], 40)  # 30 % of 132 units, rounded up
        equal(vgpu["granted_compute_milli"] >= 300, True)
        contains(vgpu["warning"], "next step")
        equal("warning" in daemon.get("/v1/vgpus/h").json, False, "said once")
        equal(daemon.workers(), {vgpu["id"]: "h"})
        status, _, message = refusal(daemon, mode="hard", compute_request_milli=800)
        equal(status, 507, message)
        contains(message, "its vGPUs: h (30.")
        equal(daemon.workers(), {vgpu["id"]: "h"}, "the refused request leaves no limit behind")
        daemon.call("DELETE", "/v1/vgpus/h")
        equal(daemon.workers(), {})


@test
def limits_of_a_hard_vgpu_cannot_be_changed():
    with Simulated() as daemon:
        daemon.create(name="h", mode="hard", memory_limit_bytes=GIB)
        for change in ({"memory_limit_bytes": 2 * GIB}, {"compute_request_milli": 500}, {"compute_limit_milli": 500}):
            answer = daemon.call("PATCH", "/v1/vgpus/h", change)
            equal((answer.status, answer.error["code"]), (409, "bad_state"), answer.text)
            contains(answer.text, "destroy the vGPU and create it anew")
        equal(daemon.call("POST", "/v1/vgpus/h/freeze").json["state"], "frozen")


@test
def modes_that_do_not_go_together_are_refused_by_name():
    with Simulated() as daemon:
        daemon.create(name="turns")
        daemon.create(name="open", mode="shared")
        for members in ({"mode": "hard", "memory_limit_bytes": GIB}, {"mode": "partitioned", "template": "1g.10gb"}):
            status, argument, message = refusal(daemon, **members)
            equal((status, argument), (409, "mode"))
            contains(message, "turns")
        equal((daemon.partitions(), daemon.workers()), ({}, {}))
        daemon.call("DELETE", "/v1/vgpus/turns")
        daemon.call("DELETE", "/v1/vgpus/open")
        daemon.create(mode="hard", memory_limit_bytes=GIB)
        contains(refusal(daemon)[2], "'hard'")


@test
def a_restart_finds_everything_as_it_was():
    for number in (signal.SIGTERM, signal.SIGKILL):
        with Simulated() as daemon:
            daemon.create(name="a", mode="partitioned", template="2g.20gb")
            daemon.create(name="b", mode="partitioned", template="3g.40gb", memory_limit_bytes=GIB)
            before, partitions = daemon.get("/v1/vgpus").json, daemon.partitions()
            daemon.restart(number)
            after = daemon.get("/v1/vgpus").json
            for vgpu in before["vgpus"] + after["vgpus"]:
                vgpu.pop("share_milli", None)
            equal(after, before)
            equal(daemon.partitions(), partitions)


@test
def a_partition_that_vanished_is_made_again_in_its_place():
    with Simulated() as daemon:
        before = daemon.create(name="a", mode="partitioned", template="2g.20gb")
        daemon.end()
        daemon.forget()
        daemon.start()
        after = daemon.get("/v1/vgpus/a").json
        equal((after["partition_start"], after["template"]), (before["partition_start"], "2g.20gb"))
        equal(daemon.partitions(), {("2g.20gb", before["partition_start"]): "a"})
        equal("warning" in after, False, after)


@test
def partitions_lost_while_the_daemon_lives_mix_no_vgpus_up():
    with Simulated() as daemon:
        start = daemon.create(name="a", mode="partitioned", template="2g.20gb")["partition_start"]
        daemon.forget()
        daemon.create(name="b", mode="partitioned", template="2g.20gb")
        owners = daemon.partitions()
        equal((owners[("2g.20gb", start)], sorted(owners.values())), ("a", ["a", "b"]))
        equal(daemon.call("DELETE", "/v1/vgpus/b").json, {})
        equal(daemon.partitions(), {("2g.20gb", start): "a"})
        daemon.forget()
        answer = daemon.call("DELETE", "/v1/vgpus/a")
        equal(answer.status, 200, answer.text)
        contains(answer.json["warning"], "not on the device any more")


@test
def vgpus_of_a_missing_device_are_removed_when_it_is_back():
    with Simulated("h200x8") as daemon:
        daemon.create(name="p", device="sim:3", mode="partitioned", template="1g.18gb")
        daemon.create(name="h", device="sim:7", mode="hard", compute_request_milli=300)
        equal((len(daemon.partitions("sim:3")), len(daemon.workers("sim:7"))), (1, 1))
        daemon.end()
        daemon.set_profile("h100")
        daemon.start()
        for name in ("p", "h"):
            answer = daemon.call("DELETE", f"/v1/vgpus/{name}")
            equal(answer.status, 200, answer.text)
            contains(answer.json["warning"], "when the device is back")
            equal(daemon.get(f"/v1/vgpus/{name}").json["state"], "removing")
        daemon.end()
        daemon.set_profile("h200x8")
        daemon.start()
        equal(daemon.names(), [])
        equal((daemon.partitions("sim:3"), daemon.workers("sim:7")), ({}, {}))


@test
def a_list_that_cannot_be_read_is_not_an_empty_one():
    with Simulated() as daemon:
        daemon.create(mode="partitioned", template="1g.10gb")
        daemon.corrupt()
        device = daemon.device()
        equal([template["id"] for template in device["templates"] if "placements" in template], [])
        equal("partitions" in device, False)
        equal(len(device["trouble"]) > 0, True)


@test
def an_intent_of_a_killed_daemon_is_undone():
    """A killed daemon left a row in state `creating` and a partition for it; no client got an answer about either."""
    with Simulated() as daemon:
        daemon.create(name="kept", mode="partitioned", template="1g.10gb")
        daemon.create(name="half", mode="partitioned", template="2g.20gb")
        daemon.end(signal.SIGKILL)
        with sqlite3.connect(os.path.join(daemon.state, "facet.db")) as database:
            database.execute("UPDATE vgpu SET state = 1, partition_uuid = '', address = '' WHERE name = 'half'")
        database.close()
        daemon.start()
        equal(daemon.names(), ["kept"])
        equal(list(daemon.partitions().values()), ["kept"])


@test
def kill_9_at_any_moment_leaves_no_partition_without_a_vgpu():
    with Simulated() as daemon:
        for _ in range(4):
            acknowledged, gone = [], []

            def work():
                try:
                    for number in range(200):
                        name = daemon.create(mode="partitioned", template="1g.10gb")["name"]
                        acknowledged.append(name)
                        if number % 2:
                            if daemon.call("DELETE", f"/v1/vgpus/{name}").status == 200:
                                gone.append(name)
                        if number % 5 == 4:
                            for other in daemon.names():
                                if daemon.call("DELETE", f"/v1/vgpus/{other}").status == 200:
                                    gone.append(other)
                except (OSError, AssertionError, Exception):  # the daemon is gone: the acknowledged changes count
                    return

            start = len(daemon.names())
            worker = threading.Thread(target=work)
            worker.start()
            wait_until(lambda: len(acknowledged) >= 3 or not worker.is_alive(), "some vGPUs are created")
            daemon.end(signal.SIGKILL)
            worker.join()
            daemon.start()
            names = daemon.names()
            # A call that was under way may have had an effect or not: at most one removal was not acknowledged.
            lost = [name for name in set(acknowledged) - set(gone) if name not in names]
            equal(len(lost) <= 1, True, f"acknowledged and lost: {lost}; vGPUs before: {start}")
            owners = sorted(daemon.partitions().values(), key=str)
            equal(owners, sorted(names), "partitions and vGPUs")
            for name in names:
                equal(daemon.call("DELETE", f"/v1/vgpus/{name}").status, 200)
            equal(daemon.partitions(), {})


@test
def an_ephemeral_partition_is_removed_after_its_holder():
    with Simulated() as daemon:
        vgpu = daemon.create(mode="partitioned", template="1g.10gb", ephemeral=True)
        with VgpuHolder(vgpu["segment"]):
            daemon.restart(signal.SIGKILL)
            equal(len(daemon.partitions()), 1)
        wait_until(lambda: daemon.names() == [], "the vGPU is removed after its holder")
        equal(daemon.partitions(), {})


@test
def one_device_is_shown_in_full():
    with Simulated() as daemon:
        device = daemon.device()
        equal(device["simulated"], True)
        contains(device["capabilities"], "partition")
        equal(device["mode_groups"]["soft"], ["shared"])
        starts = {template["id"]: [place["start"] for place in template["placements"] if place["free"]]
                  for template in device["templates"]}
        equal(starts["3g.40gb"], [0, 4])
        equal(daemon.get("/v1/devices/nobody").status, 404)


main()
