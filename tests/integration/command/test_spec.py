#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`facet spec` on this machine and on simulated ones; what it writes, as an independent validator sees it.

Owns: agreement of our checks, our schemas and python3-jsonschema. Never: needs an accelerator.

The schemas are of draft 2020-12; Draft202012Validator has been in jsonschema since 4.0. An older one makes these tests
skip: they are the proof, and half of one would be none.
"""
import copy
import json
import os

from place import BUILD, SOURCE, Place
from real import Real
from tap import Skip, contains, equal, main, test

PROVIDER = os.path.join(BUILD, "facet-provider-sim.so")

WORKLOAD = {
    "format": "facet-accelerator-workload", "version": "1.0",
    "environment": {"A": "1"}, "device_nodes": [{"path": "/dev/kfd", "permissions": "rw"}],
    "group_names": ["render"], "ulimits": {"memlock": {"soft": -1, "hard": -1}}, "ipc_mode": "host",
}


def validator(name):
    try:
        from jsonschema import Draft202012Validator
    except ImportError as missing:
        raise Skip(f"no validator of JSON Schema 2020-12: {missing}") from None
    with open(os.path.join(SOURCE, "schemas", f"accelerator-{name}.schema.json"), encoding="utf-8") as file:
        schema = json.load(file)
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def simulated(place, profile):
    """The environment of a machine that does not exist."""
    if not os.path.exists(PROVIDER):
        raise Skip("the simulated provider is not built")
    state = place.path("machine-" + profile)
    os.makedirs(state, exist_ok=True)
    return {"FACET_PROVIDER_PATH": PROVIDER, "FACET_SIM_STATE": state,
            "FACET_SIM_PROFILE": os.path.join(SOURCE, "providers", "sim", "profiles", profile + ".json")}


def show(place, *arguments, env=None):
    done = place.facet("spec", "show", "--json", *arguments, env=env)
    equal((done.returncode, done.stderr), (0, ""))
    return json.loads(done.stdout)


def check(place, document, *arguments):
    """Exit status and violations, by pointer."""
    done = place.facet("spec", "validate", "--json", *arguments, "-", stdin=json.dumps(document))
    answer = json.loads(done.stdout)
    equal(answer["valid"], done.returncode == 0)
    return done.returncode, {item["pointer"]: item["message"] for item in answer["violations"]}


class Simulated(Real):
    """A machine that does not exist, of which the daemon makes partitions."""

    def facet(self, *arguments, env=None, **options):
        return super().facet(*arguments, env={**simulated(self, "h200x8"), **(env or {})}, **options)


@test
def this_machine_is_described_and_valid():
    with Place(real=True) as place:
        done = place.facet("spec", "show", "--json")
        equal(done.returncode, 0, done.stderr)
        document = json.loads(done.stdout)
        validator("node").validate(document)
        listed = {device["id"] for device in place.json("devices", "--json")["devices"]}
        equal({device["facet_id"] for device in document["devices"] if "facet_id" in device}, listed)
        equal(check(place, document), (0, {}))
        place.write("node.json", done.stdout)
        done = place.facet("spec", "validate", "node.json")
        equal((done.returncode, done.stdout, done.stderr), (0, "node.json: valid\n", ""))


@test
def machines_of_every_profile_are_valid():
    profiles = [name[:-5] for name in os.listdir(os.path.join(SOURCE, "providers", "sim", "profiles"))
                if name.endswith(".json")]
    with Place(real=True) as place:
        for profile in sorted(profiles):
            env = simulated(place, profile)
            document = show(place, env=env)
            validator("node").validate(document)
            slots = {slot["slot_name"]: slot for slot in document["resource_specs"]}
            equal(float(slots["sim.device"]["amount"]), float(len(slots["sim.device"]["shares"])), profile)
            for device in document["devices"]:
                equal(device["simulated"], True)
                equal(device["memory_size"], device["memory_spec"]["total_memory"])
                equal(device["processing_units"], device["compute_units"][0]["count"])


@test
def one_device_can_be_chosen():
    with Place(real=True) as place:
        env = simulated(place, "h200x8")
        everything = show(place, env=env)
        one = show(place, "-d", "sim:3", "-d", "sim:3", "-d", "sim:1", env=env)
        equal([device["facet_id"] for device in one["devices"]], ["sim:3", "sim:1"])
        equal(len(everything["devices"]), 8)
        done = place.facet("spec", "show", "-d", "sim:9", env=env)
        equal(done.returncode, 2)
        table = place.facet("spec", "show", "-d", "sim:3", env=env).stdout
        contains(table, "sim.device")


@test
def partitions_have_slots_of_their_own():
    """Two GPUs cut into pieces, six whole ones: three definitions of slots at once."""
    with Simulated() as place:
        for number, (device, template) in enumerate([(0, "1g.18gb"), (0, "3g.71gb"), (1, "1g.18gb")]):
            done = place.facet("vgpu", "create", "--mode", "partitioned", "-d", f"sim:{device}", "--template", template,
                               "--name", f"p{number}")
            equal(done.returncode, 0, done.stderr)
        document = show(place)
        validator("node").validate(document)
        equal(check(place, document), (0, {}))
        slots = {slot["slot_name"]: (slot["type"], slot["amount"], len(slot["shares"]))
                 for slot in document["resource_specs"]}
        equal(slots, {"sim.device": ("count", "6", 6), "sim.device:1g.18gb-mig": ("unique", "2", 2),
                      "sim.device:3g.71gb-mig": ("unique", "1", 1)})
        parts = [device for device in document["devices"] if "parent_id" in device]
        whole = {device["device_id"]: device for device in document["devices"] if "parent_id" not in device}
        equal((len(parts), len(whole)), (3, 8))
        for part in parts:
            active = [entry["active"] for entry in whole[part["parent_id"]]["partitioning_support"]]
            equal(active, [True])
        contains(place.facet("spec", "show").stdout, "sim.device:3g.71gb-mig")


@test
def our_checks_and_the_schema_agree():
    """Each change is refused by both, at the same place; what only rules can tell is refused by us."""
    node = {
        "format": "facet-accelerator-node", "version": "1.0",
        "resource_specs": [{"slot_name": "cuda.device:1g.5gb-mig", "type": "unique", "amount": "1",
                            "shares": [{"device_id": "MIG-1", "amount": "1"}]},
                           {"slot_name": "cuda.device", "type": "count", "amount": "0", "x-new": {"a": 1}}],
        "devices": [{"device_id": "0", "device_name": "cuda", "memory_spec": {"total_memory": 1}, "x-new": 1.5},
                    {"device_id": "MIG-1", "device_name": "cuda", "parent_id": "0"}],
    }
    changes = [
        (("format",), "other"), (("version",), "2.0"), (("resource_specs", 0, "slot_name"), "Cuda"),
        (("resource_specs", 0, "type"), "all"), (("resource_specs", 0, "amount"), "1.0000001"),
        (("resource_specs", 0, "amount"), "-1"), (("resource_specs", 0, "amount"), 1),
        (("resource_specs", 0, "shares", 0, "amount"), "1e3"), (("devices", 0, "device_id"), ""),
        (("devices", 0, "numa_node"), -1), (("devices", 0, "memory_spec", "total_memory"), 1.5),
        (("devices", 0, "memory_spec", "total_memory"), "1"), (("devices", 0, "health"), {"status": "ok"}),
        (("devices", 0, "precision_support"), [{"format": "fp8", "support": "native"}]),
        (("devices", 0, "kind"), "tpu"), (("node",), []), (("devices",), {}),
    ]
    rules = [(("resource_specs", 0, "amount"), "2"), (("resource_specs", 0, "shares", 0, "device_id"), "9"),
             (("devices", 1, "parent_id"), "9"), (("resource_specs", 1, "slot_name"), "cuda.device:1g.5gb-mig"),
             (("devices", 0, "memory_size"), 2)]
    judge = validator("node")
    with Place() as place:
        equal(check(place, node), (0, {}))
        equal(list(judge.iter_errors(node)), [])
        for path, value in changes + rules:
            changed = copy.deepcopy(node)
            at = changed
            for key in path[:-1]:
                at = at[key]
            at[path[-1]] = value
            status, found = check(place, changed, "--schema", "node")
            theirs = {"".join(f"/{part}" for part in error.absolute_path) for error in judge.iter_errors(changed)}
            equal(status, 1, f"{path} {value}")
            equal(theirs <= set(found), True, f"{path}: {theirs} in {set(found)}")
            equal(bool(theirs), (path, value) in changes, f"{path}: {theirs}")
            contains(" ".join(found), "/" + "/".join(map(str, path)))


@test
def everything_wrong_is_printed():
    with Place() as place:
        place.write("bad.json", json.dumps({"format": "facet-accelerator-node", "version": "1.0", "devices": [{}, 1],
                                            "resource_specs": [{"slot_name": "A", "type": "x"}]}))
        done = place.facet("spec", "validate", "bad.json")
        equal((done.returncode, done.stderr), (1, ""))
        equal(done.stdout.count("\n"), 6)
        for text in ("/devices/0: expected the member 'device_id'", "/devices/1: expected object, got integer",
                     "/resource_specs/0/slot_name: ", "/resource_specs/0/type: expected one of count",
                     "bad.json: 5 violations"):
            contains(done.stdout, text)


@test
def what_is_no_document_is_refused_with_its_place():
    with Place() as place:
        for text, fragment in (('{"a": 1,\n "a": 2}', "line 2, column"), ('{"a": 1e999}', "line 1"),
                               ("[" * 5000, "depth"), ("", "line 1"), ('{"a": 99999999999999999999}', "too big"),
                               ('{"format": "facet-accelerator-node"', "line 1")):
            done = place.facet("spec", "validate", "-", stdin=text)
            equal((done.returncode, done.stdout), (1, ""))
            contains(done.stderr, fragment)
        done = place.facet("spec", "validate", "missing.json")
        equal(done.returncode, 1)
        contains(done.stderr, "missing.json")


@test
def schemas_are_the_published_ones():
    with Place() as place:
        equal(place.facet("spec", "schema").stdout, "node\nworkload\n")
        for name in ("node", "workload"):
            with open(os.path.join(SOURCE, "schemas", f"accelerator-{name}.schema.json"), encoding="utf-8") as file:
                equal(place.facet("spec", "schema", name).stdout, file.read())
        done = place.facet("spec", "schema", "nodes")
        equal(done.returncode, 2)


@test
def a_configuration_is_rendered_or_says_what_is_left():
    with Place() as place:
        validator("workload").validate(WORKLOAD)
        place.write("w.json", json.dumps(WORKLOAD))
        equal(check(place, WORKLOAD), (0, {}))
        docker = place.json("spec", "render", "--to", "docker", "w.json")
        equal(docker, {"Env": ["A=1"], "HostConfig": {
            "Devices": [{"PathOnHost": "/dev/kfd", "PathInContainer": "/dev/kfd", "CgroupPermissions": "rw"}],
            "GroupAdd": ["render"], "Ulimits": [{"Name": "memlock", "Soft": -1, "Hard": -1}], "IpcMode": "host"}})
        done = place.facet("spec", "render", "--to", "oci", "w.json")
        equal((done.returncode, done.stdout), (1, ""))
        contains(done.stderr, "oci cannot say")
        done = place.facet("spec", "render", "--to", "oci", "--partial", "w.json")
        equal(done.returncode, 0)
        contains(done.stderr, "group_names is left to you")
        equal(json.loads(done.stdout)["process"]["rlimits"],
              [{"type": "RLIMIT_MEMLOCK", "soft": 2**64 - 1, "hard": 2**64 - 1}])
        done = place.facet("spec", "render", "--to", "cdi", "--partial", "--cdi", "facet.dev/gpu=v1", "w.json")
        equal((json.loads(done.stdout)["kind"], json.loads(done.stdout)["cdiVersion"]), ("facet.dev/gpu", "0.6.0"))
        for arguments in (["--to", "k8s"], ["--to", "cdi", "--cdi", "x"], []):
            equal(place.facet("spec", "render", *arguments, "w.json").returncode, 2)
        equal(place.facet("spec", "render", "--to", "cdi", "--partial", "--cdi", "x=y", "w.json").returncode, 1)


main()
