# SPDX-License-Identifier: Apache-2.0
"""Providers that crash or block while the daemon uses them, and the measurements of their devices.

Owns: tests that the daemon survives, reports the fault, and recovers. Never: asserts how long anything takes.
"""
import threading

from facetd import wait_until
from simulated import DEVICE, Simulated
from tap import contains, equal, main, test


def fault(kind, operation="", at_ns=0):
    return {"at_ns": at_ns, "device": 0, "kind": kind, "operation": operation}


def first_device(daemon):
    return daemon.get("/v1/devices").json["devices"][0]


def metric(daemon, name):
    return [line for line in daemon.get("/metrics").text.splitlines() if line.startswith(name + "{")]


@test
def a_provider_that_crashes_takes_nothing_with_it():
    with Simulated(faults=[fault("crash", "partition.create")]) as daemon:
        answer = daemon.call("POST", "/v1/vgpus", {"mode": "partitioned", "template": "1g.10gb"})
        equal((answer.status, answer.error["code"]), (503, "device_lost"), answer.text)
        contains(answer.error["advice"], "try in a moment")
        daemon.set_faults([])
        wait_until(lambda: first_device(daemon)["health"] == "ok", "the provider is started again")
        wait_until(lambda: daemon.names() == [], "the half-made vGPU is removed")
        equal(daemon.partitions(), {})
        messages = [event["message"] for event in daemon.get("/v1/events").json["events"] if event["kind"] == "health"]
        equal(len(messages) >= 2, True, f"expected an event for the loss and one for the return: {messages}")
        contains(messages[0], "partition.create")
        body = {"mode": "partitioned", "template": "1g.10gb"}  # the script may have been read before it was emptied
        wait_until(lambda: daemon.call("POST", "/v1/vgpus", body).status == 201, "the provider makes a partition again")


@test
def a_provider_that_died_while_idle_is_started_again_when_needed():
    with Simulated() as daemon:
        daemon.create(name="a", mode="partitioned", template="1g.10gb")
        equal(daemon.kill_provider(), 1)
        daemon.create(name="b", mode="partitioned", template="1g.10gb")
        equal(sorted(daemon.partitions().values()), ["a", "b"])
        equal(first_device(daemon)["health"], "ok")


@test
def a_lost_provider_is_a_warning_and_vgpus_have_their_parts_afterwards():
    with Simulated(faults=[]) as daemon:
        daemon.end()
        daemon.environment["FACET_SIM_FAULTS"] = daemon.script
        daemon.set_faults([])
        daemon.start()
        daemon.create(name="a", mode="partitioned", template="2g.20gb")
        daemon.end()
        daemon.set_faults([fault("crash", "partition.placements")])
        daemon.start()
        equal(daemon.call("POST", "/v1/vgpus", {"mode": "partitioned", "template": "1g.10gb"}).status, 503)
        wait_until(lambda: "warning" in daemon.get("/v1/vgpus/a").json, "the provider's vGPU has a warning")
        daemon.set_faults([])
        wait_until(lambda: "warning" not in daemon.get("/v1/vgpus/a").json, "the provider is back")
        equal(list(daemon.partitions().values()), ["a"])


@test
def a_provider_that_blocks_keeps_only_its_caller_waiting():
    with Simulated(faults=[fault("block", "partition.create")]) as daemon:
        order = []

        def create():
            answer = daemon.call("POST", "/v1/vgpus", {"mode": "partitioned", "template": "1g.10gb"})
            order.append(answer.status)

        daemon.create(name="other", device=DEVICE, mode="shared")
        daemon.call("DELETE", "/v1/vgpus/other")
        caller = threading.Thread(target=create)
        caller.start()
        for _ in range(20):
            equal(daemon.get("/metrics").status, 200)
            equal(daemon.get("/v1/vgpus").status, 200)
            equal(daemon.get("/v1/devices").status, 200)
        order.append("answered")
        caller.join()
        equal(order, ["answered", 503])
        equal(daemon.process.poll(), None, "the daemon lives")
        daemon.set_faults([])
        wait_until(lambda: first_device(daemon)["health"] == "ok", "the provider is started again")
        wait_until(lambda: daemon.names() == [], "the half-made vGPU is removed")


@test
def a_vgpu_of_a_lost_provider_is_removed_by_force():
    with Simulated(faults=[fault("crash", "partition.destroy")]) as daemon:
        daemon.create(name="a", mode="partitioned", template="1g.10gb")
        equal(daemon.call("DELETE", "/v1/vgpus/a").status, 503)
        answer = daemon.call("DELETE", "/v1/vgpus/a?force=1")
        equal(answer.status, 200, answer.text)
        if daemon.names():
            equal(daemon.get("/v1/vgpus/a").json["state"], "removing")
        wait_until(lambda: "partition.destroy" in first_device(daemon).get("health_reason", ""), "the device shows it")
        wait_until(lambda: any('health="failed"' in line and line.endswith(" 1")
                               for line in metric(daemon, "facet_device_health")), "the metrics show it")
        daemon.set_faults([])
        wait_until(lambda: daemon.names() == [], "the vGPU is removed when the provider is back")
        equal(daemon.partitions(), {})


@test
def readings_of_devices_are_in_the_metrics():
    with Simulated() as daemon:
        daemon.get("/metrics")
        wait_until(lambda: metric(daemon, "facet_device_power_watts"), "the first reading")
        text = daemon.get("/metrics").text
        for name in ("facet_device_temperature_celsius", "facet_device_clock_hertz", "facet_device_memory_used_bytes",
                     "facet_device_throttled", "facet_device_energy_joules_total"):
            contains(text, f'{name}{{device="{DEVICE}"')
        equal(text.count("# TYPE facet_device_power_watts gauge"), 1)


@test
def events_are_kept_and_numbered():
    with Simulated() as daemon:
        daemon.get("/v1/events")
        daemon.create(name="a", mode="partitioned", template="1g.10gb")
        wait_until(lambda: daemon.get("/v1/events").json["last"] >= 1, "the partition's event")
        answer = daemon.get("/v1/events").json
        event = answer["events"][-1]
        equal((event["kind"], event["device"], event["value"]), ("partition", DEVICE, 1))
        equal(daemon.get(f"/v1/events?after={answer['last']}").json["events"], [])
        equal([each["sequence"] for each in answer["events"]], list(range(1, answer["last"] + 1)))
        equal(daemon.get("/v1/events?after=x").status, 400)
        equal(daemon.get("/v1/vgpus?after=1").status, 400)


main()
