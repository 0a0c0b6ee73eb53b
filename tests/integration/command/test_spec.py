#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`facet spec` on this machine and on simulated ones; its output, checked by an independent validator.

Owns: agreement of our checks, our schemas and python3-jsonschema. Never: needs an accelerator.

The schemas are of draft 2020-12, for which jsonschema has Draft202012Validator since release 4.0. With an older release
these tests are skipped as a whole, as a partial check would prove nothing.
"""
import copy
import json
import os
import shutil

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
    """The environment in which Facet finds a simulated machine."""
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
    """The command's exit status, and the violations by their JSON pointer."""
    done = place.facet("spec", "validate", "--json", *arguments, "-", stdin=json.dumps(document))
    answer = json.loads(done.stdout)
    equal(answer["valid"], done.returncode == 0)
    return done.returncode, {item["pointer"]: item["message"] for item in answer["violations"]}


class Simulated(Real):
    """A simulated machine on which the daemon makes partitions."""

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
def chosen_devices_are_shown_in_the_given_order():
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
    """Two partitioned GPUs and six whole ones give three definitions of slots."""
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
def a_machine_without_devices_says_so():
    with Place(real=True) as place:
        env = {"FACET_PROVIDER_PATH": os.path.join(BUILD, "facet-provider-null.so")}
        document = show(place, env=env)
        equal((document["resource_specs"], document["devices"]), ([], []))
        validator("node").validate(document)
        done = place.facet("spec", "show", env=env)
        equal((done.returncode, done.stdout), (0, "no devices; 'facet provider list' says why\n"))


@test
def a_mixed_node_is_one_document():
    """Two partitioned GPUs, six whole ones and an NPU, as a caller of the C interface may describe them."""
    devices = [{"device_id": f"GPU-{i}", "device_name": "cuda", "hw_location": f"0000:{i:02x}:00.0", "numa_node": i // 4,
                "memory_size": 85899345920, "processing_units": 132,
                "memory_spec": {"total_memory": 85899345920, "memory_type": "HBM3", "memory_channels": 5,
                                "bandwidth_bytes_per_second": 3350000000000, "l2_cache": 52428800},
                "compute_units": [{"name": "SM", "count": 132}, {"name": "Tensor Core", "count": 528}],
                "precision_support": [{"format": "FP8", "support": "native"}, {"format": "FP4", "support": "none"}],
                "partitioning_support": [{"technology": "MIG", "max_partitions": 7, "active": i < 2}],
                "health": {"status": "healthy"}, "__proto__": {"of": ["nobody", 1.5, None]}} for i in range(8)]
    devices += [{"device_id": f"MIG-{i}/{kind}", "device_name": "cuda", "parent_id": f"GPU-{i}"}
                for i in range(2) for kind in ("1g", "3g")]
    devices.append({"device_id": "npu \"0\":\n\u00e9", "device_name": "rngd", "kind": "npu"})
    parts = {"cuda.device": ("count", [f"GPU-{i}" for i in range(2, 8)]),
             "cuda.device:1g.10gb-mig": ("unique", ["MIG-0/1g", "MIG-1/1g"]),
             "cuda.device:3g.40gb-mig": ("unique", ["MIG-0/3g", "MIG-1/3g"]),
             "rngd.device": ("count", [devices[-1]["device_id"]])}
    document = {"format": "facet-accelerator-node", "version": "1.0", "devices": devices, "resource_specs": [
        {"slot_name": name, "type": kind, "amount": str(len(ids)), "exclusive_with": ["cuda.device*"],
         "number_format": {"binary": False, "round_length": 0},
         "shares": [{"device_id": device, "amount": "1"} for device in ids]} for name, (kind, ids) in parts.items()]}
    validator("node").validate(document)
    with Place() as place:
        equal(check(place, document), (0, {}))
        document["resource_specs"][1]["shares"][0]["device_id"] = "GPU-9"
        equal(list(check(place, document)[1]), ["/resource_specs/1/shares/0/device_id"])


@test
def a_device_that_cannot_be_queried_is_not_offered():
    """The provider dies while it is asked for a device's partitions, which are then unknown, not absent."""
    with Place(real=True) as place:
        env = simulated(place, "h200x8")
        for operation in ("partition.list", "device.properties"):
            env["FACET_SIM_FAULTS"] = place.write(
                "faults.json", json.dumps({"faults": [{"at_ns": 0, "device": 2, "kind": "crash",
                                                       "operation": operation}]}))
            document = show(place, env=env)
            validator("node").validate(document)
            slots = {slot["slot_name"]: slot for slot in document["resource_specs"]}
            equal(slots["sim.device"]["amount"], "7", operation)
            third = document["devices"][2]
            equal((third["facet_id"], third["health"]["status"]), ("sim:2", "degraded"))
            contains(third["health"]["status_info"], "crashed")
            equal("active" in third["partitioning_support"][0], False)
            others = [device["health"]["status"] for device in document["devices"] if device is not third]
            equal(set(others), {"healthy"})


@test
def a_second_provider_of_a_name_is_listed_beside_the_first():
    with Place(real=True) as place:
        env = simulated(place, "h200x8")
        os.makedirs(place.path("others"))
        shutil.copy(PROVIDER, place.path("others/facet-provider-again.so"))
        place.write("others/facet-provider-facet.so", "no library")
        paths = [PROVIDER, place.path("others/facet-provider-again.so"), place.path("others/facet-provider-facet.so")]
        document = show(place, env={**env, "FACET_PROVIDER_PATH": ":".join(paths)})
        parts = {part["name"]: part for part in document["node"]["components"]}
        equal(sorted(parts), ["facet", "facet#2", "sim", "sim#2"])
        equal([parts[name].get("health", {}).get("status") for name in ("facet", "facet#2", "sim", "sim#2")],
              [None, "unavailable", "healthy", "unavailable"])
        equal("version" in parts["facet"], True)


@test
def our_checks_and_the_schema_agree():
    """Both refuse each change, with the same pointer. Only our checks refuse a fault that a schema cannot express."""
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
            inner = changed
            for key in path[:-1]:
                inner = inner[key]
            inner[path[-1]] = value
            status, found = check(place, changed, "--schema", "node")
            theirs = {"".join(f"/{part}" for part in error.absolute_path) for error in judge.iter_errors(changed)}
            equal(status, 1, f"{path} {value}")
            equal(theirs <= set(found), True, f"{path}: {theirs} in {set(found)}")
            equal(bool(theirs), (path, value) in changes, f"{path}: {theirs}")
            contains(" ".join(found), "/" + "/".join(map(str, path)))


@test
def all_violations_are_printed():
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
def a_text_that_is_no_document_is_refused_with_the_position():
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
def names_bring_no_control_character_to_the_terminal():
    """Another user may have chosen the names of members and files. In text, their line breaks and control characters
    are replaced; JSON has the names as they are."""
    name = "x\nw.json: valid\x1b[2J"
    document = {"format": "facet-accelerator-workload", "version": "1.0", "sysctls": {name: "1"}}
    with Place() as place:
        place.write("w\x1b.json", json.dumps(document))
        done = place.facet("spec", "validate", "w\x1b.json")
        equal(done.returncode, 1)
        equal("\x1b" in done.stdout, False)
        lines = done.stdout.splitlines()
        equal((len(lines), lines[0].split(": ")[0], lines[1]), (2, "/sysctls/x?w.json", "w?.json: 1 violation"))
        equal(list(check(place, document)[1]), ["/sysctls/" + name])


@test
def a_cut_list_of_violations_says_so():
    with Place() as place:
        place.write("many.json", json.dumps({"format": "facet-accelerator-node", "version": "1.0", "resource_specs": [],
                                             "devices": [1] * 5000}))
        done = place.facet("spec", "validate", "many.json")
        equal(done.stdout.splitlines()[-1], "many.json: 5000 violations, of which the first 4096 are shown")


@test
def no_violation_is_lost_by_a_long_quotation():
    """A quoted text is cut to a length, even within a character."""
    document = {"format": "facet-accelerator-workload", "version": "1.0", "runtime": "a" + "\u00e9" * 60,
                "ipc_mode": "a" + "\u00e9" * 60, "networks": ["x" + "\u00e9" * 80]}
    with Place() as place:
        status, found = check(place, document)
        equal((status, sorted(found)), (1, ["/ipc_mode", "/networks/0", "/runtime"]))


@test
def refusals_are_json_for_any_name_of_a_file():
    with Place() as place:
        for name in (b"\xff.json", ("a" + "\u00e9" * 60).encode()):
            done = place.facet("spec", "validate", "--json", os.fsdecode(name), errors="surrogateescape")
            equal(done.returncode, 1)
            equal(json.loads(done.stdout)["error"]["code"], "not_found")


@test
def the_option_partial_is_advised_only_where_it_helps():
    with Place() as place:
        done = place.facet("spec", "render", "--to", "docker", "--json", "missing.json")
        equal((done.returncode, "--partial" in done.stdout + done.stderr), (1, False))
        place.write("w.json", json.dumps(WORKLOAD))
        done = place.facet("spec", "render", "--to", "oci", "--json", "w.json")
        contains(done.stderr, "oci cannot express")
        contains(json.loads(done.stdout)["error"]["advice"], "--partial")
        place.write("nothing.json", json.dumps({"format": "facet-accelerator-workload", "version": "1.0"}))
        for arguments in ([], ["--partial"]):
            done = place.facet("spec", "render", "--to", "cdi", "--json", *arguments, "nothing.json")
            equal((done.returncode, "--partial" in done.stdout), (1, False))


@test
def printed_schemas_are_the_files_of_schemas():
    with Place() as place:
        equal(place.facet("spec", "schema").stdout, "node\nworkload\n")
        for name in ("node", "workload"):
            with open(os.path.join(SOURCE, "schemas", f"accelerator-{name}.schema.json"), encoding="utf-8") as file:
                equal(place.facet("spec", "schema", name).stdout, file.read())
        done = place.facet("spec", "schema", "nodes")
        equal(done.returncode, 2)


@test
def a_configuration_is_rendered_or_names_the_members_left_out():
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
        contains(done.stderr, "oci cannot express")
        done = place.facet("spec", "render", "--to", "oci", "--partial", "w.json")
        equal(done.returncode, 0)
        contains(done.stderr, "group_names is left to you")
        equal(json.loads(done.stdout)["process"]["rlimits"],
              [{"type": "RLIMIT_MEMLOCK", "soft": 2**64 - 1, "hard": 2**64 - 1}])
        done = place.facet("spec", "render", "--to", "cdi", "--partial", "--cdi", "facet.dev/gpu=v1", "w.json")
        equal((json.loads(done.stdout)["kind"], json.loads(done.stdout)["cdiVersion"]), ("facet.dev/gpu", "0.3.0"))
        for arguments in (["--to", "k8s"], ["--to", "cdi", "--cdi", "x"], []):
            equal(place.facet("spec", "render", *arguments, "w.json").returncode, 2)
        equal(place.facet("spec", "render", "--to", "cdi", "--partial", "--cdi", "x=y", "w.json").returncode, 1)


@test
def the_example_of_the_page_works():
    with open(os.path.join(SOURCE, "docs", "spec.md"), encoding="utf-8") as file:
        text = file.read().split("```json\n")[1].split("```")[0]
    validator("workload").validate(json.loads(text))
    with Place() as place:
        place.write("workload.json", text)
        docker = place.json("spec", "render", "--to", "docker", "workload.json")
        equal(docker["HostConfig"]["Mounts"],
              [{"Type": "bind", "Source": "/srv/models", "Target": "/models", "ReadOnly": True}])
        for form in ("oci", "cdi", "env"):
            equal(place.facet("spec", "render", "--to", form, "--partial", "workload.json").returncode, 0)


main()
