#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`facet metrics` of nodes, processes and control groups: both forms, what is refused, what is not known."""
import json
import os

from place import SOURCE, Place
from tap import Skip, contains, equal, main, test

SCHEMA = os.path.join(SOURCE, "schemas", "measurements.schema.json")


def make_group(place, **files):
    folder = os.path.join(place.root, "group")
    os.mkdir(folder)
    for name, text in {"cgroup_controllers": "", **files}.items():
        with open(os.path.join(folder, name.replace("_", ".")), "w", encoding="utf-8") as file:
            file.write(text)
    return folder


def by_key(subject):
    return {measurement["key"]: measurement for measurement in subject["measurements"]}


@test
def a_group_is_measured():
    with Place() as place:
        folder = make_group(place, memory_current="9007199254740993\n", memory_max="max\n")
        done = place.facet("metrics", "--cgroup", folder)
        equal((done.returncode, done.stderr), (0, ""))
        contains(done.stdout, f'facet_container_memory_used_bytes{{id="{folder}"}} 9007199254740993\n')
        contains(done.stdout, f'facet_unmeasurable{{kind="container",id="{folder}",meter="io_read",reason="absent"}} 1\n')
        found = by_key(json.loads(place.facet("metrics", "--cgroup", folder, "--json").stdout)["subjects"][0])
        equal(found["memory_used"]["value"], 9007199254740993)
        equal(found["memory_used"]["capacity"], None)
        equal((found["tasks"]["value"], found["tasks"]["unmeasured"]), (None, "absent"))


@test
def this_machine_and_a_process_are_measured():
    with Place() as place:
        done = place.facet("metrics", "--json", "--node", "--pid", str(os.getpid()), "--interval", "0.1")
        equal((done.returncode, done.stderr), (0, ""))
        node, process = json.loads(done.stdout)["subjects"]
        equal((node["kind"], process["kind"], process["id"]), ("node", "process", str(os.getpid())))
        equal(by_key(process)["cpu_utilization"]["unmeasured"], None)
        equal(by_key(process)["memory_used"]["value"] > 0, True)
        equal(by_key(node)["cpu_utilization"]["capacity"], by_key(node)["cpu_limit"]["value"])


@test
def one_look_has_no_rates():
    with Place() as place:
        done = place.facet("metrics", "--json", "--pid", str(os.getpid()))
        equal(by_key(json.loads(done.stdout)["subjects"][0])["cpu_utilization"]["unmeasured"], "first")


@test
def the_json_is_what_the_schema_says():
    try:
        import jsonschema
    except ImportError as error:
        raise Skip("python3-jsonschema is not installed") from error
    with open(SCHEMA, encoding="utf-8") as file:
        schema = json.load(file)
    with Place() as place:
        folder = make_group(place, memory_current="1\n", memory_max="2\n", cpu_max="max 100000\n", io_stat="x\n")
        for more in ([], ["--interval", "0.1"]):
            done = place.facet("metrics", "--json", "--node", "--pid", str(os.getpid()), "--cgroup", folder, *more)
            jsonschema.Draft202012Validator(schema).validate(json.loads(done.stdout))


@test
def refusals():
    with Place() as place:
        for status, text, arguments in (
                (1, "process 2147483647: not found", ["--pid", "2147483647"]),
                (1, "expected a control group", ["--cgroup", place.root]),
                (1, "nowhere", ["--cgroup", os.path.join(place.root, "nowhere")]),
                (2, "expected a number", ["--pid", "0"]),
                (2, "expected a number", ["--pid", "-1"]),
                (2, "expected a number", ["--pid", "2147483648"]),
                (2, "expected a number", ["--pid", "1x"]),
                (2, "expected seconds", ["--node", "--interval", "0"]),
                (2, "expected seconds", ["--node", "--interval", "nan"]),
                (2, "expected --node, --pid or --cgroup", ["--json"]),
                (2, "expected --node, --pid or --cgroup", ["--interval", "1"]),
                (2, "", ["--node", "more"])):
            done = place.facet("metrics", *arguments)
            equal((done.returncode, done.stdout), (status, ""), str(arguments))
            contains(done.stderr, text)


main()
