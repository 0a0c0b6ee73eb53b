#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`facet metrics` of nodes, devices, processes and control groups: both output forms, refusals, and
unknown values."""
import json
import os
import signal

from place import BUILD, SOURCE, Place, provider_processes, wait_until
from tap import Skip, contains, equal, main, test

SCHEMA = os.path.join(SOURCE, "schemas", "measurements.schema.json")


def make_group(place, **files):
    folder = os.path.join(place.root, "group")
    os.mkdir(folder)
    for name, text in {"cgroup_controllers": "", **files}.items():
        with open(os.path.join(folder, name.replace("_", ".")), "w", encoding="utf-8") as file:
            file.write(text)
    return folder


def simulate(place, *faults, providers=("sim",)):
    """Makes the command find simulated devices, with `faults`."""
    paths = [os.path.join(BUILD, f"facet-provider-{name}.so") for name in providers]
    if not all(map(os.path.exists, paths)):
        raise Skip("a provider is not built")
    os.mkdir(place.path("machine"))
    place.write("faults.json", json.dumps({"faults": [{"at_ns": 0, "device": 0, **fault} for fault in faults]}))
    place.env.pop("FACET_LIB_DIR", None)
    place.env.update(FACET_PROVIDER_PATH=":".join(paths), FACET_SIM_STATE=place.path("machine"),
                     FACET_SIM_FAULTS=place.path("faults.json"),
                     FACET_SIM_PROFILE=os.path.join(SOURCE, "providers", "sim", "profiles", "h100.json"))


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
def a_single_sample_has_no_rates():
    with Place() as place:
        done = place.facet("metrics", "--json", "--pid", str(os.getpid()))
        equal(by_key(json.loads(done.stdout)["subjects"][0])["cpu_utilization"]["unmeasured"], "first")


@test
def a_device_is_measured_by_its_provider():
    with Place() as place:
        simulate(place, {"kind": "ecc_corrected", "count": 7})
        uuid = place.json("devices", "--json")["devices"][0]["uuid"]
        done = place.facet("metrics", "--device", "sim:0", "-d", "0", "-d", uuid)  # one device by three names
        equal((done.returncode, done.stderr), (0, ""))
        contains(done.stdout, 'facet_device_ecc_corrected_total{id="sim:0"} 7\n')
        for meter, reason in (("encoder_active", "absent"), ("device_utilization", "first")):
            contains(done.stdout,
                     f'facet_unmeasurable{{kind="device",id="sim:0",meter="{meter}",reason="{reason}"}} 1\n')
        equal(done.stdout.count("facet_device_power_watts{"), 1)
        subjects = place.json("metrics", "--json", "-d", "sim:0", "--node", "--interval", "0.1")["subjects"]
        equal([(subject["kind"], subject["id"]) for subject in subjects][0], ("device", "sim:0"))
        found = by_key(subjects[0])
        equal((found["memory_used"]["value"], found["memory_used"]["capacity"]), (0, 85519761408))
        equal((found["device_utilization"]["value"], found["device_utilization"]["capacity"]), (0, 100000))
        equal(found["power"]["value"] > 0, True)


@test
def values_unknown_to_a_provider_are_absent_and_not_zero():
    with Place() as place:
        simulate(place, providers=("cpu",))  # measures work of its own process only, and runs none here
        found = by_key(place.json("metrics", "--json", "-d", "cpu:0", "--interval", "0.1")["subjects"][0])
        for key in ("memory_used", "busy_time", "device_utilization", "compute_active"):
            equal((found[key]["value"], found[key]["unmeasured"]), (None, "absent"), key)


@test
def a_device_that_is_lost_is_refused_and_later_gone():
    with Place() as place:
        simulate(place, {"kind": "crash", "operation": "metrics.device"})
        done = place.facet("metrics", "-d", "sim:0")
        equal((done.returncode, done.stdout), (1, ""))
        contains(done.stderr, "metrics.device")
        place.write("faults.json", '{"faults":[]}')
        process = place.start("metrics", "--json", "--node", "-d", "sim:0", "--interval", "1")
        wait_until(lambda: os.path.exists(f"/proc/{process.pid}/syscall"), "the process")

        def between_samples():
            with open(f"/proc/{process.pid}/syscall", encoding="ascii") as file:
                return file.read().split()[0] in ("230", "115")  # clock_nanosleep of x86-64, of aarch64
        wait_until(between_samples, "the time between the samples")
        for provider in provider_processes(process.pid):
            os.kill(provider, signal.SIGKILL)
        node, device = json.loads(process.communicate(timeout=60)[0])["subjects"]
        equal(process.returncode, 0)
        equal({item["unmeasured"] for item in device["measurements"]}, {"gone"})
        equal(by_key(node)["cpu_utilization"]["unmeasured"], None)


@test
def the_json_keeps_to_its_schema():
    try:
        import jsonschema
    except ImportError as error:
        raise Skip("python3-jsonschema is not installed") from error
    with open(SCHEMA, encoding="utf-8") as file:
        schema = json.load(file)
    with Place() as place:
        folder = make_group(place, memory_current="1\n", memory_max="2\n", cpu_max="max 100000\n", io_stat="x\n")
        simulate(place)
        for more in ([], ["--interval", "0.1"]):
            done = place.facet("metrics", "--json", "--node", "--device", "sim:0", "--pid", str(os.getpid()), "--cgroup", folder, *more)
            jsonschema.Draft202012Validator(schema).validate(json.loads(done.stdout))


@test
def wrong_requests_are_refused():
    with Place() as place:
        simulate(place)
        strange = os.path.join(os.fsencode(place.root), b"strange\xff")
        os.mkdir(strange)
        for status, text, arguments in (
                (1, "process 2147483647: not found", ["--pid", "2147483647"]),
                (1, "expected a control group", ["--cgroup", place.root]),
                (2, "strange", ["--cgroup", strange]),
                (1, "nowhere", ["--cgroup", os.path.join(place.root, "nowhere")]),
                (2, "expected a number", ["--pid", "0"]),
                (2, "expected a number", ["--pid", "-1"]),
                (2, "expected a number", ["--pid", "2147483648"]),
                (2, "expected a number", ["--pid", "1x"]),
                (2, "expected seconds", ["--node", "--interval", "0"]),
                (2, "expected seconds", ["--node", "--interval", "nan"]),
                (2, "expected one of", ["-d", "nowhere:0"]),
                (2, "expected --node, --device, --pid or --cgroup", ["--json"]),
                (2, "expected --node, --device, --pid or --cgroup", ["--interval", "1"]),
                (2, "", ["--node", "more"])):
            done = place.facet("metrics", *arguments)
            equal((done.returncode, done.stdout), (status, ""), str(arguments))
            contains(done.stderr, text)
        said = json.loads(place.facet("metrics", "--json", "--cgroup", strange).stdout)["error"]["message"]
        contains(said, "strange?': expected a line of UTF-8")


main()
