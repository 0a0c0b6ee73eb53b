#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Backend.AI's allocation map, built on the C library's maps: layouts, amounts, test vectors, threads, lifetimes.

Owns: tests of the interface that callers see. Never: repeats the proofs of placement in the C library's own tests.
"""
import copy
import ctypes
import gc
import json
import os
import random
import shlex
import shutil
import subprocess
import threading
from collections import Counter
from decimal import Decimal as D

import world
from ai.backend.agent import exception
from ai.backend.agent.affinity_map import AffinityHint, AffinityPolicy
from ai.backend.agent.resources import AbstractComputeDevice, allocate
from ai.backend.common.types import DeviceSlotInfo
from facet_backendai import interface, library
from facet_backendai.maps import EXACT, ROUND_DOWN, FacetAllocMap
from tap import Skip, contains, equal, main, test


def make(capacities, slot="facet.shares", kind_of_slot="count", **options):
    return FacetAllocMap(device_slots={device: DeviceSlotInfo(kind_of_slot, slot, D(capacity))
                                       for device, capacity in capacities.items()}, **options)


def taken_amounts(alloc_map):
    return {slot: {device: amount for device, amount in devices.items() if amount}
            for slot, devices in alloc_map.allocations.items()}


def refused(kind, function, *arguments, **options):
    try:
        function(*arguments, **options)
    except Exception as error:
        if not isinstance(error, kind):
            raise
        return error
    raise AssertionError(f"expected {kind.__name__}")


# --- between Python and C ---

@test
def structs_are_those_of_the_headers():
    compiler = shlex.split(os.environ.get("CC", "cc"))  # may have a wrapper such as ccache
    if not shutil.which(compiler[0]):
        raise Skip("no C compiler")
    lines = ["#include <stddef.h>", "#include <stdio.h>", "#include <facet/allocation.h>", "#include <facet/device.h>",
             "#include <facet/workload.h>", "int main(void) {"]
    expected = []
    for name, struct in library.LAYOUTS.items():
        lines.append(f'printf("%zu\\n", sizeof(struct {name}));')
        expected.append(f"{name} {ctypes.sizeof(struct)}")
        for member, *_ in struct._fields_:
            lines.append(f'printf("%zu %zu\\n", offsetof(struct {name}, {member}), '
                         f'sizeof(((struct {name} *)0)->{member}));')
            field = getattr(struct, member)
            expected.append(f"{name}.{member} {field.offset} {field.size}")
    source, program = (os.path.join(world.FOLDER.name, name) for name in ("layout.c", "layout"))
    with open(source, "w", encoding="utf-8") as file:
        file.write("\n".join([*lines, "return 0; }\n"]))
    subprocess.run([*compiler, "-I", os.path.join(world.SOURCE, "include"), "-o", program, source], check=True)
    printed = subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()
    equal([f"{line.split()[0]} {numbers}" for line, numbers in zip(expected, printed)], expected)
    equal(len(printed), len(expected))


@test
def backend_ais_classes_are_used():
    equal(interface.InsufficientResource, exception.InsufficientResource)
    contains([kind.__module__ for kind in FacetAllocMap.__mro__], "ai.backend.agent.alloc_map")


@test
def the_adapter_imports_without_backend_ai():
    code = ("import facet_backendai.interface as i, facet_backendai.plugin, facet_backendai.maps as m; from "
            "decimal import Decimal as D; slot = i.DeviceSlotInfo(i.SlotTypes.COUNT, 'x', D(1)); "
            "a = m.FacetAllocMap(device_slots={'d': slot}); "
            "print(i.ResourceError.__module__, a.allocate({'x': D('0.5')}))")
    done = subprocess.run(["/usr/bin/python3", "-c", code], env={**os.environ, "PYTHONPATH": world.PACKAGE},
                          capture_output=True, text=True, check=False)
    equal((done.stdout, done.stderr), ("facet_backendai.interface {'x': {'d': Decimal('0.5')}}\n", ""))


@test
def amounts_are_converted_exactly():
    source = random.Random(1)
    for text in ("0", "0.000001", "-0.03", "9223372036854.775807", "1E+3", "1.500000000000"):
        equal(library.from_micro(library.to_micro(D(text))), D(text), text)
    for _ in range(2000):
        micro = source.randrange(2**63)
        equal(library.to_micro(library.from_micro(micro)), micro)
    equal(str(library.from_micro(1_500_000)), "1.5")
    for text in ("0.0000001", "NaN", "Infinity", "9223372036854.775808", "1E+999999", "1E-999999"):
        refused(library.FacetError, library.to_micro, D(text))


@test
def errors_carry_status_argument_and_message():
    error = refused(library.FacetError, make, {"a": "1", "b": "-1"})
    equal((error.name, error.status), ("out_of_range", library.OUT_OF_RANGE))
    contains(error.message, "-1")
    refused(library.FacetError, make, {"a\0b": "1"})


# --- semantics ---

@test
def all_is_granted_or_nothing():
    alloc_map = FacetAllocMap(device_slots={name: DeviceSlotInfo("count", slot, D(1)) for name, slot in ("ap", "bq")})
    refused(exception.InsufficientResource, alloc_map.allocate, {"p": D(1), "q": D(2)})
    equal(taken_amounts(alloc_map), {"p": {}, "q": {}})


@test
def granted_amounts_equal_the_request():
    exact = make({"a": "1", "b": "1"}, quantum=D("0.1"))
    equal(exact.allocate({"facet.shares": D("1.5")}), {"facet.shares": {"a": D("0.8"), "b": D("0.7")}})
    rounded = make({"a": "1", "b": "1"}, quantum=D("0.1"), rules=ROUND_DOWN)
    equal(rounded.allocate({"facet.shares": D("1.5")}), {"facet.shares": {"a": D("0.7"), "b": D("0.7")}})
    refused(exception.NotMultipleOfQuantum, exact.allocate, {"facet.shares": D("0.05")})


@test
def refusals_raise_errors_of_backend_ai():
    alloc_map = make({"a": "1"}, exclusive_slot_types={"facet.*"})
    error = refused(exception.InsufficientResource, alloc_map.allocate, {"facet.shares": D(2)}, context_tag="k")
    equal((error.slot_name, error.requested_alloc, error.total_allocatable, error.context_tag),
          ("facet.shares", D(2), D(1), "k"))
    refused(exception.UnsupportedResource, alloc_map.allocate, {"other": D(1)})
    refused(exception.InvalidResourceArgument, alloc_map.allocate, {"facet.shares": D(-1)})
    refused(exception.InvalidResourceArgument, alloc_map.allocate, {"facet.shares": D("NaN")})
    guarded = make({"a": "1", "b": "1", "c": "1", "d": "1"}, quantum=D("0.1"))
    guarded.apply_allocation({"facet.shares": {"a": D("0.5"), "b": D("0.5")}})
    error = refused(exception.FractionalResourceFragmented, guarded.allocate, {"facet.shares": D("2.8")},
                    allow_resource_fragmentation=False)
    equal(error.slot_name, "facet.shares")
    unique = make({"m": "1"}, slot="facet.device:1g-mig", kind_of_slot="unique")
    refused(exception.InvalidResourceArgument, unique.allocate, {"facet.device:1g-mig": D("0.3")})


@test
def a_grant_on_more_than_most_devices_is_refused():
    alloc_map = make({"a": "1", "b": "1"}, most_devices=1)
    refused(exception.FractionalResourceFragmented, alloc_map.allocate, {"facet.shares": D("1.5")})
    equal(taken_amounts(alloc_map), {"facet.shares": {}})


@test
def free_gives_back_amounts_and_only_once():
    alloc_map = make({"a": "1", "b": "1"})
    first, second = (alloc_map.allocate({"facet.shares": D("0.3")}) for _ in range(2))
    alloc_map.free(first)
    equal(taken_amounts(alloc_map), taken_of(second))
    alloc_map.free(second)
    refused(exception.InvalidResourceArgument, alloc_map.free, second)
    equal(taken_amounts(alloc_map), {"facet.shares": {}})
    for amount in ("0.3", "0.4"):
        alloc_map.apply_allocation({"facet.shares": {"a": D(amount)}})
    alloc_map.free({"facet.shares": {"a": D("0.5")}})
    equal(taken_amounts(alloc_map), {"facet.shares": {"a": D("0.2")}})
    before = taken_amounts(alloc_map)
    refused(exception.ResourceError, alloc_map.free, {"facet.shares": {"a": D("0.1"), "b": D("0.1")}})
    refused(exception.ResourceError, alloc_map.free, {"facet.shares": {"z": D("0.1")}})
    equal(taken_amounts(alloc_map), before)


def taken_of(alloc):
    return {slot: dict(devices) for slot, devices in alloc.items()}


@test
def apply_never_takes_more_than_there_is():
    alloc_map = make({"a": "1"})
    refused(exception.ResourceError, alloc_map.apply_allocation, {"facet.shares": {"a": D(5)}})
    equal(taken_amounts(alloc_map), {"facet.shares": {}})
    alloc_map.apply_allocation({"facet.shares": {"a": D("0.7")}})
    alloc_map.clear()
    equal(taken_amounts(alloc_map), {"facet.shares": {}})


@test
def a_copy_is_independent_and_amounts_can_be_put_back():
    alloc_map = make({"a": "1"})
    alloc_map.allocate({"facet.shares": D("0.4")})
    saved = copy.deepcopy(alloc_map)
    amounts = copy.deepcopy(alloc_map.allocations)
    grant = alloc_map.allocate({"facet.shares": D("0.5")})
    equal((taken_amounts(saved), saved.allocate({"facet.shares": D("0.6")})), ({"facet.shares": {"a": D("0.4")}},
                                                                       {"facet.shares": {"a": D("0.6")}}))
    alloc_map.allocations = amounts
    equal(taken_amounts(alloc_map), {"facet.shares": {"a": D("0.4")}})
    refused(exception.ResourceError, alloc_map.free, grant)


# --- vectors ---

def devices_of(listed):
    return [AbstractComputeDevice(device["id"], "", 0, 0, device.get("numa_node"), device.get("device_name", "x"))
            for device in listed]


def map_of(vector, listed, rules):
    return FacetAllocMap(
        device_slots={item["id"]: DeviceSlotInfo(item.get("slot_type", "count"), item["slot"], D(item["capacity"]))
                      for item in listed},
        exclusive_slot_types=set(vector.get("exclusive_slot_types") or ()), kind=vector["map"],
        strategy=vector.get("strategy") or "evenly", quantum=D(vector["quantum"]) if vector.get("quantum") else None,
        numa_nodes={item["id"]: item.get("numa_node") for item in listed}, rules=rules)


def amounts_of(allocation):
    return {slot: {device: D(amount) for device, amount in devices.items()} for slot, devices in allocation.items()}


def without_empty(allocation):
    nonzero = {slot: {device: D(amount) for device, amount in devices.items() if D(amount)}
               for slot, devices in allocation.items()}
    return {slot: devices for slot, devices in nonzero.items() if devices}


class Replay:
    """Runs the steps of one test vector; `check` compares the result of each step with the expectation."""

    def __init__(self, vector, rules, check):
        self.vector, self.check = vector, check
        policy = vector.get("affinity_policy")
        self.policy = AffinityPolicy[policy] if policy else None
        self.kernel = vector["map"] == "kernel"
        tables = vector["devices"] if self.kernel else {"": vector["devices"]}
        self.devices = {name: devices_of(listed) for name, listed in tables.items()}
        self.maps = {name: map_of(vector["maps"][name] if self.kernel else vector, listed, rules)
                     for name, listed in tables.items()}
        self.hint, self.results = None, []

    def state(self):
        states = {name: without_empty(taken_amounts(alloc_map)) for name, alloc_map in self.maps.items()}
        return states if self.kernel else states[""]

    def allocate(self, step):
        options = {"allow_resource_fragmentation": step.get("allow_fragmentation", True)}
        if self.kernel:
            wanted = {slot: D(amount) for slot, amount in step["slots"].items()}
            return allocate(self.maps, wanted, self.vector["alloc_order"], self.devices, self.policy, **options)
        hint = AffinityHint(self.hint if step.get("reuse_hint") else None, None, self.policy) if self.policy else None
        granted = self.maps[""].allocate({slot: D(amount) for slot, amount in step["request"].items()},
                                         affinity_hint=hint, min_memory=step.get("min_memory"), **options)
        ids = {device for amounts in granted.values() for device in amounts}
        self.hint = [device for device in self.devices[""] if device.device_id in ids]
        return granted

    def step(self, step):
        alloc_map = self.maps.get("")
        if step["op"] in ("allocate", "allocate_kernel"):
            return self.allocate(step)
        if step["op"] == "free":
            given = self.results[step["result_of"]] if "result_of" in step else amounts_of(step["allocation"])
            for name, part in (given.items() if self.kernel else [("", given)]):
                self.maps[name].free(part)
        elif step["op"] == "apply":
            alloc_map.apply_allocation(amounts_of(step["allocation"]))
        elif step["op"] == "set":
            now = {slot: dict(devices) for slot, devices in alloc_map.allocations.items()}
            for slot, devices in amounts_of(step["allocation"]).items():
                now[slot].update(devices)
            alloc_map.allocations = now
        elif step["op"] == "seed_hint":
            self.hint = [device for device in self.devices[""] if device.device_id in step["devices"]]
        elif step["op"] == "set_strategy":
            alloc_map.set_strategy(step["strategy"])
        return None

    def run(self):
        for index, step in enumerate(self.vector["steps"]):
            try:
                result, error = self.step(step), None
            except (exception.ResourceError, library.FacetError) as raised:
                result, error = None, type(raised).__name__
            self.results.append(result)
            self.check(self, f"{self.vector['id']} step {index}", step, result, error)


def check_exactly(replay, what, step, result, error):
    """Expects the result that was recorded from the original. Where the original raised ConfigurationError, any error
    is accepted."""
    expect = step["expect"]
    wanted = expect.get("error")
    if wanted != "ConfigurationError" or error is None:
        equal(error, wanted, what + ": error")
    if "result" in expect and error is None:
        equal({name: without_empty(part) for name, part in result.items()} if replay.kernel else without_empty(result),
              {name: without_empty(part) for name, part in expect["result"].items()} if replay.kernel
              else without_empty(expect["result"]), what + ": result")
    if "state_after" in expect:
        recorded = expect["state_after"]
        equal(replay.state(), {name: without_empty(part) for name, part in recorded.items()} if replay.kernel
              else without_empty(recorded), what + ": state")


def check_invariants(replay, what, step, result, error):
    """Does not compare with the recorded result, which may be a defect of the original: the granted amounts must be the
    requested ones, and no device may give more than it has."""
    if result is not None and not replay.kernel:
        asked = {slot: D(amount) for slot, amount in step["request"].items() if D(amount)}
        equal({slot: sum(devices.values()) for slot, devices in result.items()}, asked, what)
    for name, alloc_map in replay.maps.items():
        for slot, devices in alloc_map.allocations.items():
            for device, amount in devices.items():
                equal(0 <= amount <= alloc_map.device_slots[device].amount, True, f"{what}: {name} {slot} {device}")


def check_agent_split(vector):
    kinds = {"shared": 0, "auto-split": 1, "manual": 2}
    withheld = (ctypes.c_int64 * vector["num_agents"])()
    library.load().call("agents_split", ctypes.byref(library.AgentsConfig(
        size=ctypes.sizeof(library.AgentsConfig), mode=kinds[vector["mode"]],
        kind={"discrete": 0, "fraction": 1}[vector["alloc_map_kind"]], count=vector["num_agents"],
        total=library.to_micro(vector["total_slots"]), system=library.to_micro(vector["system_reserved"]),
        manual=library.to_micro(vector["manual_allocation"] or "0"))), withheld)
    equal([library.from_micro(amount) for amount in withheld],
          [D(amount) for amount in vector["expect"]["agent_reserved_slots"]], vector["id"])


def check_alignment(vector):
    usable, reserved = ctypes.c_uint64(), ctypes.c_uint64()
    library.load().call("agents_align_memory", vector["orig"], vector["reserved"], vector["align"],
                        ctypes.byref(usable), ctypes.byref(reserved))
    expect = vector["expect"]
    equal((usable.value, reserved.value), (expect["usable"], expect["actual_reserved"]), vector["id"])


OWN_VECTORS = [
    {"id": "spread", "origin": "repo_test", "map": "discrete", "strategy": "evenly",
     "devices": [{"id": f"c{n}", "slot": "cpu", "capacity": "10"} for n in range(3)], "steps": [
         {"op": "allocate", "request": {"cpu": "7"}, "expect": {"result": {"cpu": {"c0": "3", "c1": "2", "c2": "2"}}}},
         {"op": "allocate", "request": {"cpu": "23"}, "expect": {"result": {"cpu": {"c0": "7", "c1": "8", "c2": "8"}}}},
         {"op": "allocate", "request": {"cpu": "1"}, "expect": {"error": "InsufficientResource"}},
         {"op": "free", "result_of": 0, "expect": {"state_after": {"cpu": {"c0": "7", "c1": "8", "c2": "8"}}}}]},
    {"id": "best fit", "origin": "repo_test", "map": "fraction", "strategy": "evenly",
     "devices": [{"id": f"g{n}", "slot": "x", "capacity": c} for n, c in enumerate((".05", ".1", ".2", ".3", "0"))],
     "steps": [{"op": "allocate", "request": {"x": "0.2"}, "expect": {"result": {"x": {"g2": "0.2"}}}},
               {"op": "allocate", "request": {"x": "0.02"}, "min_memory": "0.25",
                "expect": {"result": {"x": {"g3": "0.02"}}}}]},
    {"id": "guard", "origin": "repo_test", "map": "fraction", "strategy": "fill", "quantum": "0.1",
     "devices": [{"id": f"g{n}", "slot": "x", "capacity": c} for n, c in enumerate((".5", ".5", "1", "1"))], "steps": [
         {"op": "allocate", "request": {"x": "2.8"}, "allow_fragmentation": False,
          "expect": {"error": "FractionalResourceFragmented", "state_after": {"x": {}}}}]},
    {"id": "near", "origin": "repo_test", "map": "discrete", "strategy": "evenly",
     "affinity_policy": "PREFER_SINGLE_NODE",
     "devices": [{"id": f"{c}{n}", "slot": "cpu", "capacity": "1", "numa_node": node}
                 for node, c in enumerate("ab") for n in range(2)], "steps": [
         {"op": "seed_hint", "devices": ["b0"], "expect": {}},
         {"op": "allocate", "request": {"cpu": "2"}, "reuse_hint": True,
          "expect": {"result": {"cpu": {"b0": "1", "b1": "1"}}}}]},
]


@test
def own_vectors_give_the_expected_results():
    for vector in OWN_VECTORS:
        Replay(vector, ROUND_DOWN, check_exactly).run()


@test
def recorded_vectors_give_the_expected_results():
    path = os.path.join(world.SHARED, "allocmap_vectors.json")
    if not os.path.exists(path):
        raise Skip(f"{path} does not exist")
    with open(path, encoding="utf-8") as file:
        vectors = json.load(file)["vectors"]
    faults, count = [], Counter()
    for vector in vectors:
        recorded = vector["origin"] == "repo_test"
        count[vector["origin"]] += 1
        try:
            if vector["map"] == "agent_partition":
                check_agent_split(vector)
            elif vector["map"] == "align_memory":
                check_alignment(vector)
            elif recorded or vector["map"] != "kernel":  # probes of kernels test the agent's own transaction
                Replay(vector, ROUND_DOWN if recorded else EXACT, check_exactly if recorded else check_invariants).run()
        except Exception as error:
            faults.append(f"{vector['id']}: {type(error).__name__} {error}")
    print("# " + ", ".join(f"{number} of origin {origin}" for origin, number in count.items()))
    equal(faults, [])


# --- threads, and lifetimes of objects ---

@test
def threads_never_take_more_than_there_is():
    alloc_map, faults = make({f"g{n}": "1" for n in range(4)}), []

    def work(seed):
        source, held = random.Random(seed), []
        try:
            for _ in range(150):
                if held and source.random() < 0.5:
                    alloc_map.free(held.pop())
                else:
                    try:
                        held.append(alloc_map.allocate({"facet.shares": D(source.randint(1, 60)) / 100}))
                    except exception.InsufficientResource:
                        pass
                if any(not 0 <= amount <= 1 for amount in alloc_map.allocations["facet.shares"].values()):
                    raise AssertionError("a device has less than 0 or more than 1 taken")
            for grant in held:
                alloc_map.free(grant)
        except Exception as error:
            faults.append(repr(error))
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal((faults, taken_amounts(alloc_map)), ([], {"facet.shares": {}}))


@test
def maps_are_destroyed_exactly_once():
    gc.collect()  # destroys objects that other tests left
    with world.count_objects() as count:
        for _ in range(20):
            alloc_map = make({"a": "1"})
            grant = alloc_map.allocate({"facet.shares": D("0.5")})
            twin = copy.deepcopy(alloc_map)
            alloc_map.free(grant)
            refused(exception.ResourceError, alloc_map.free, grant)
            refused(library.FacetError, make, {"a": "-1"})
            twin.close()
            twin.close()
        del alloc_map, twin
        gc.collect()
    # Each round makes at least four maps: the map, its copy, and a copy in each of the two calls of free().
    equal((count["made"], count["made"] >= 80), (count["ended"], True))


main()
