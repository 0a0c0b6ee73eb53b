#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`facet place replay`: verdicts, TAP, exit statuses, malformed files, and agreement with a plain model."""
import copy
import json
import os
import random

import allocation_model
from place import SOURCE, Place
from schema import keeps_to, refuses
from tap import Skip, contains, equal, main, test

SHARED = os.path.join(os.path.dirname(SOURCE), "shared", "vectors", "allocmap_vectors.json")


def devices(*capacities, slot="x", **more):
    return [{"id": f"a{i}", "slot": slot, "slot_type": "count", "capacity": str(capacity), **more}
            for i, capacity in enumerate(capacities)]


def vector(name, steps, origin="repo_test", kind="discrete", **more):
    return {"id": name, "origin": origin, "map": kind, "strategy": "evenly", "devices": devices(2, 2), "steps": steps,
            **more}


def allocate(amount, result, state, **more):
    return {"op": "allocate", "request": {"x": amount}, **more,
            "expect": {"result": {"x": result}, "state_after": {"x": state}}}


def refused(amount, name, state, **more):
    return {"op": "allocate", "request": {"x": amount}, **more, "expect": {"error": name, "state_after": {"x": state}}}


def released(step, state):
    return {"op": "free", "result_of": step, "expect": {"state_after": {"x": state}}}


GOOD = vector("allocate and free",
              [allocate("3", {"a0": "2", "a1": "1"}, {"a0": "2", "a1": "1"}),
               refused("2", "InsufficientResource", {"a0": "2", "a1": "1"}), released(0, {})])


def replay(place, document, *options):
    text = document if isinstance(document, str) else json.dumps(document)
    return place.facet("place", "replay", *options, place.write("vectors.json", text))


def file_of(*vectors, **more):
    return {"schema": 1, "vectors": list(vectors), **more}


def verdicts(done):
    return [line for line in done.stdout.splitlines() if line.startswith(("ok ", "not ok "))]


@test
def recorded_vectors_pass():
    with Place() as place:
        done = replay(place, file_of(GOOD, {**GOOD, "id": "again"}))
        equal((done.returncode, done.stderr), (0, ""))
        equal(done.stdout.splitlines(), ["TAP version 13", "ok 1 - allocate and free", "ok 2 - again", "1..2",
                                         "# 2 passed, 0 failed; 0 recorded a defect of the original"])


@test
def results_as_json_keep_to_their_schema():
    with Place() as place:
        wrong = vector("no", [allocate("1", {"zz": "1"}, {"zz": "1"})])
        done = replay(place, file_of(GOOD, wrong), "--json")
        document = json.loads(done.stdout)
        equal((done.returncode, document["passed"], document["failed"]), (1, 1, 1))
        keeps_to("replay.schema.json", document)
        refuses("replay.schema.json", {**document, "passed": "1"})


@test
def any_changed_number_fails_and_is_shown():
    with Place() as place:
        for path in (("result", "x", "a1"), ("state_after", "x", "a0")):
            wrong = copy.deepcopy(GOOD)
            inner = wrong["steps"][0]["expect"]
            for key in path[:-1]:
                inner = inner[key]
            inner[path[-1]] = "0.5"
            done = replay(place, file_of(GOOD, wrong))
            equal((done.returncode, verdicts(done)), (1, ["ok 1 - allocate and free", "not ok 2 - allocate and free"]))
            contains(done.stdout, "recorded 0.5")
        wrong = copy.deepcopy(GOOD)
        wrong["steps"][1]["expect"]["error"] = "NotMultipleOfQuantum"
        done = replay(place, file_of(wrong))
        equal((done.returncode, verdicts(done)), (1, ["not ok 1 - allocate and free"]))
        contains(done.stdout, "refused as InsufficientResource: slot 'x': 2 asked for, 1 can be had")


@test
def a_recorded_result_on_an_unknown_device_fails():
    with Place() as place:
        done = replay(place, file_of(vector("v", [allocate("1", {"zz": "1"}, {"zz": "1"})])))
        equal((done.returncode, verdicts(done)), (1, ["not ok 1 - v"]))


@test
def a_recorded_defect_is_reported_and_passes_only_in_a_probe():
    cases = {
        "exact": [allocate("1.5", {"a0": "1"}, {"a0": "1"})],
        "whole": [allocate("1.5", {"a0": "1", "a1": "0.5"}, {"a0": "1", "a1": "0.5"})],
        "bounds": [allocate("1", {"a0": "1"}, {"a0": "1"}), released(0, {}), released(0, {"a0": "-1"})],
        "refusal": [refused("0.5", "IndexError", {})],
        "atomic": [refused("5", "InsufficientResource", {"a0": "2"})],
        "amount": [{"op": "allocate", "request": {"x": "-1"}, "expect": {"result": {}, "state_after": {}}}],
        "account": [allocate("1", {"a0": "1"}, {"a0": "2"})],
    }
    with Place() as place:
        for rule, steps in cases.items():
            done = replay(place, file_of(vector(rule, steps, origin="executed_probe")))
            equal((done.returncode, verdicts(done)), (0, [f"ok 1 - {rule}"]), rule)
            contains(done.stdout, f"# defect of what was recorded, rule '{rule}:")
            for origin in ("repo_test", "issue_wish", "mine", None):
                done = replay(place, file_of(vector(rule, steps, origin=origin)))
                equal((done.returncode, verdicts(done)), (1, [f"not ok 1 - {rule}"]), f"{rule} {origin}")


@test
def a_difference_that_breaks_no_rule_fails_even_in_a_probe():
    with Place() as place:
        done = replay(place, file_of(vector("v", [allocate("1", {"a1": "1"}, {"a1": "1"})], origin="executed_probe")))
        equal((done.returncode, verdicts(done)), (1, ["not ok 1 - v"]))


@test
def a_malformed_vector_is_named_and_the_others_run():
    broken = {
        "steps/0/op": vector("v", [{"op": "steal", "expect": {}}]),
        "steps/0/request": vector("v", [{"op": "allocate", "request": 7, "expect": {}}]),
        "steps/0/expect": vector("v", [{"op": "allocate", "request": {"x": "1"}}]),
        "steps/0/result_of": vector("v", [{"op": "free", "result_of": 9, "expect": {}}]),
        "steps/0/request/x": vector("v", [{"op": "allocate", "request": {"x": "two"}, "expect": {}}]),
        "steps": {**GOOD, "steps": {}},
        "devices": {**GOOD, "devices": None},
        "devices/0/capacity": {**GOOD, "devices": devices("-1")},
        "devices/1/capacity": {**GOOD, "devices": devices("1", "0.0000001")},
        "quantum": {**GOOD, "quantum": "0"},
        "strategy": {**GOOD, "strategy": "best"},
        "map": {**GOOD, "map": "spiral"},
        "affinity_policy": {**GOOD, "affinity_policy": "PACKED"},
    }
    with Place() as place:
        for pointer, wrong in broken.items():
            done = replay(place, file_of(GOOD, wrong, GOOD))
            equal((done.returncode, [line.split(" - ")[0] for line in verdicts(done)]),
                  (1, ["ok 1", "not ok 2", "ok 3"]), pointer)
            contains(done.stdout, f"/vectors/1/{pointer}: expected")


@test
def a_file_without_vectors_is_refused():
    cases = {"": "line 1", "{": "line 1", "[]": "expected", '{"vectors": 3}': "/vectors: expected an array",
             '{"vectors": []}': "/vectors: expected at least one vector", '{"vectors": [{}]}': "/vectors/0/id: expected a text",
             '{"vectors": [{"id": 1}]}': "/vectors/0/id", '{"schema": 2, "vectors": [{"id": "a"}]}': "/schema: expected 1",
             '{"a": 1, "a": 1}': "duplicate", '{"vectors": ["' + "\udcff" + '"]}': "line 1",
             "[" * 100000: "depth", '{"a": 1' + "0" * 5000 + "}": "line 1"}
    with Place() as place:
        for text, why in cases.items():
            path = place.path("bad.json")
            with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write(text)
            done = place.facet("place", "replay", path)
            equal(done.returncode, 2, text[:40])
            contains(done.stderr.lower(), why)
            equal(len(done.stderr.splitlines()), 1, "lines on standard error")


@test
def wrong_use_is_refused():
    with Place() as place:
        for arguments in ([], ["a", "b"], ["--fast", "a"], ["/nowhere/at/all"], [place.root]):
            done = place.facet("place", "replay", *arguments)
            equal((done.returncode, done.stdout), (2, ""), arguments)
            equal(len(done.stderr.splitlines()), 1)
        equal(place.facet("place").returncode, 2)
        contains(place.facet("place", "replya").stderr, "did you mean 'replay'?")


@test
def results_as_json_count_and_name_the_vectors():
    with Place() as place:
        wrong = vector("w", [allocate("1", {"a1": "1"}, {"a1": "1"})])
        done = replay(place, file_of(GOOD, wrong), "--json")
        answer = json.loads(done.stdout)
        equal(done.returncode, 1)
        equal((answer["passed"], answer["failed"], answer["defects"]), (1, 1, 0))
        equal([(result["id"], result["passed"]) for result in answer["results"]],
              [("allocate and free", True), ("w", False)])
        contains(answer["results"][1]["fault"], "recorded 1")


@test
def names_control_neither_the_terminal_nor_the_reader_of_tap():
    with Place() as place:
        done = replay(place, file_of({**GOOD, "id": "a\n2..1 # SKIP \u001b[31m"}))
        equal(verdicts(done), ["ok 1 - a?2..1 ? SKIP ?[31m"])


@test
def vectors_of_densities_agents_and_aligned_memory_are_checked():
    table = {"device_capacity": "1", "quantum": "0.1",
             "rows": [{"requested": "2.5", "devices": 3, "quantized_share": "0.8", "extra_devices": 1}]}
    split = {"id": "s", "map": "agent_partition", "mode": "auto-split", "num_agents": 2, "total_slots": "16",
             "system_reserved": "4", "alloc_map_kind": "discrete", "manual_allocation": None,
             "expect": {"agent_reserved_slots": ["10", "10"]}}
    align = {"id": "m", "map": "align_memory", "orig": 20049, "reserved": 1000, "align": 10,
             "expect": {"usable": 19050, "actual_reserved": 999}}
    with Place() as place:
        done = replay(place, file_of(split, align, guard_density_table=table))
        equal((done.returncode, verdicts(done)), (0, ["ok 1 - s", "ok 2 - m", "ok 3 - guard_density_table"]))
        table["rows"][0]["extra_devices"] = 2
        align["expect"]["usable"] = 19049
        split["expect"]["agent_reserved_slots"][1] = "9"
        done = replay(place, file_of(split, align, guard_density_table=table))
        equal((done.returncode, verdicts(done)),
              (1, ["not ok 1 - s", "not ok 2 - m", "not ok 3 - guard_density_table"]))


@test
def the_published_vectors_pass():
    if not os.path.exists(SHARED):
        raise Skip("there is no folder shared beside the project")
    with Place() as place:
        done = place.facet("place", "replay", SHARED)
        equal((done.returncode, [line for line in verdicts(done) if line.startswith("not")]), (0, []))
        with open(SHARED, encoding="utf-8") as file:
            names = [vector["id"] for vector in json.load(file)["vectors"]]
        equal([line.split(" - ")[1] for line in verdicts(done)], [*names, "guard_density_table"])


@test
def random_vectors_agree_with_a_plain_model():
    source = random.Random(20260823)
    with Place() as place:
        vectors = [allocation_model.random_vector(source, number) for number in range(1500)]
        done = replay(place, file_of(*vectors))
        equal([line for line in verdicts(done) if line.startswith("not")], [])
        equal((done.returncode, len(verdicts(done))), (0, 1500))
        steps = [step["expect"] for vector in vectors for step in vector["steps"]]
        refusals = {expect["error"] for expect in steps if "error" in expect}
        equal(refusals, {"InsufficientResource", "FractionalResourceFragmented", "NotMultipleOfQuantum"})


main()
