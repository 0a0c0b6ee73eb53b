# SPDX-License-Identifier: Apache-2.0
"""Every call of docs/api.md is answered as that page and the schemas say.

Owns: the answers to correct requests. Never: tests refusals (test_refusals.py).
"""
import ctypes
import json
import os
import shutil
import subprocess

from facetd import BUILD, Facetd, VgpuHolder, SOURCE, wait_until
from tap import Skip, contains, equal, main, test

GIB = 1 << 30
CLONE_NEWUTS = 0x04000000


@test
def health_describes_the_daemon():
    with Facetd() as daemon:
        health = daemon.get("/v1/health").json
        equal(health["pid"], daemon.process.pid)
        equal(health["private"], False)
        equal(health["vgpus"], 0)
        daemon.create()
        later = daemon.get("/v1/health").json
        equal(later["vgpus"], 1)
        equal(later["uptime_ns"] > health["uptime_ns"], True)


@test
def devices_and_providers_are_listed():
    with Facetd() as daemon:
        devices = daemon.get("/v1/devices").json["devices"]
        equal([device["id"] for device in devices], ["test:0", "test:1"])
        equal(devices[0]["memory_bytes"], GIB)
        equal(devices[0]["simulated"], True)
        equal("clock_mhz" in devices[0], False, "a clock that was not measured")
        providers = daemon.get("/v1/providers").json["providers"]
        equal([(p["name"], p["state"], p["devices"]) for p in providers], [("test", "loaded", 2)])


@test
def a_node_is_the_document_that_the_command_shows():
    with Facetd() as daemon:
        document = daemon.get("/v1/node").json
        shown = subprocess.run([os.path.join(BUILD, "facet"), "spec", "show", "--json"], env=daemon.environment,
                               capture_output=True, text=True, check=True)
        equal(document, json.loads(shown.stdout))
        equal([(spec["slot_name"], spec["amount"]) for spec in document["resource_specs"]], [("test.device", "2")])
        equal([device["facet_id"] for device in document["devices"]], ["test:0", "test:1"])


def meters_of_kind(document, kind):
    return {subject["id"]: {measured["key"]: measured for measured in subject["measurements"]}
            for subject in document["subjects"] if subject["kind"] == kind}


@test
def measurements_have_the_node_and_its_devices():
    with Facetd() as daemon:
        first = daemon.get("/v1/measurements").json
        equal(sorted(meters_of_kind(first, "device")), ["test:0", "test:1"])
        node, = meters_of_kind(first, "node").values()
        equal(node["memory_used"]["value"] > 0, True)
        equal((node["cpu_utilization"]["value"], node["cpu_utilization"]["unmeasured"]), (None, "first"))
        again, = meters_of_kind(daemon.get("/v1/measurements").json, "node").values()
        equal(again["cpu_utilization"]["unmeasured"] == "first", False, "the second look has something to compare with")


def name_machine(name):
    """Names the machine for the process that starts now, in a name space of its own, so that no other process sees
    the name."""
    libc = ctypes.CDLL(None)
    if libc.unshare(CLONE_NEWUTS) != 0 or libc.sethostname(name, len(name)) != 0:
        raise OSError("the machine cannot be named in a UTS namespace of its own")


@test
def a_machine_may_have_any_name():
    with Facetd(start=False) as daemon:
        for name, shown in ((b"a\xffb", "a?b"), (b"a\nb", "a?b"), (b"\x1b[31m", "?[31m"), (b"", "node")):
            try:
                daemon.start(preexec_fn=lambda name=name: name_machine(name))
            except subprocess.SubprocessError as denied:
                raise Skip("no name spaces here") from denied
            equal(list(meters_of_kind(daemon.get("/v1/measurements").json, "node")), [shown])
            done = subprocess.run([os.path.join(BUILD, "facet"), "metrics", "--node"], env=daemon.environment,
                                  capture_output=True, text=True, check=True, preexec_fn=lambda name=name: name_machine(name))
            contains(done.stdout, f'{{id="{shown}"}}')
            daemon.end()


@test
def a_vgpu_that_asks_for_nothing_gets_the_defaults():
    with Facetd() as daemon:
        vgpu = daemon.create()
        expected = {"name": "vgpu-1", "device": "test:0", "device_name": "Test device 0", "mode": "soft",
                    "priority": "normal", "state": "idle", "ephemeral": False, "memory_limit_bytes": GIB,
                    "memory_used_bytes": 0, "compute_request_milli": 0, "compute_limit_milli": 1000, "processes": 0,
                    "segment": os.path.join(daemon.runtime, "vgpu", vgpu["id"])}
        equal({member: vgpu[member] for member in expected}, expected)
        equal("warning" in vgpu, False)
        equal(sorted(os.listdir(vgpu["segment"])), ["belief", "device", "policy", "refused", "usage"])


@test
def a_vgpu_gets_the_requested_members():
    with Facetd() as daemon:
        asked = {"name": "render", "device": "test:1", "memory_limit_bytes": 12345678, "compute_request_milli": 305,
                 "compute_limit_milli": 600, "mode": "soft", "priority": "high", "ephemeral": True, "idle_freeze_s": 90}
        vgpu = daemon.create(**asked)
        equal({member: vgpu[member] for member in asked}, asked)


@test
def a_device_is_named_by_index_and_uuid_too():
    with Facetd() as daemon:
        equal(daemon.create(device="1")["device"], "test:1")
        uuid = daemon.get("/v1/devices").json["devices"][1]["uuid"]
        equal(daemon.create(device=uuid)["device"], "test:1")


@test
def a_vgpu_is_found_by_id_and_by_name():
    with Facetd() as daemon:
        vgpu = daemon.create(name="a")
        daemon.create(name="b")
        equal(daemon.get("/v1/vgpus/a").json["id"], vgpu["id"])
        equal(daemon.get("/v1/vgpus/" + vgpu["id"]).json["name"], "a")
        equal(daemon.names(), ["a", "b"])


@test
def a_change_changes_only_named_members():
    with Facetd() as daemon:
        before = daemon.create(name="a", compute_request_milli=200)
        answer = daemon.call("PATCH", "/v1/vgpus/a", {"compute_limit_milli": 700, "priority": "low"})
        equal(answer.status, 200)
        after = answer.json
        equal((after["compute_request_milli"], after["compute_limit_milli"], after["priority"]), (200, 700, "low"))
        equal(after["memory_limit_bytes"], before["memory_limit_bytes"])
        equal(daemon.call("PATCH", "/v1/vgpus/a", {}).json["compute_limit_milli"], 700)


@test
def labels_are_kept_until_a_change_replaces_them():
    labels = {"job": "17", "example.org/team": "vision, audio = all", "z" * 63: "~" * 63}
    with Facetd() as daemon:
        equal(daemon.create(name="plain")["labels"], {})
        equal(daemon.create(name="a", labels=labels)["labels"], labels)
        most = {f"key{i:060d}": "x" * 63 for i in range(16)}
        equal(daemon.call("PATCH", "/v1/vgpus/plain", {"labels": most}).json["labels"], most)
        refused = daemon.call("PATCH", "/v1/vgpus/plain", {"labels": {**most, "one": "more"}})
        equal((refused.status, refused.error["argument"]), (400, "labels"))
        daemon.restart()
        equal([daemon.get(f"/v1/vgpus/{name}").json["labels"] for name in ("a", "plain")], [labels, most])
        equal(daemon.call("PATCH", "/v1/vgpus/a", {"priority": "low"}).json["labels"], labels)
        changed = daemon.call("PATCH", "/v1/vgpus/a", {"labels": {"job": "18", "z" * 63: None, "absent": None}}).json
        equal(changed["labels"], {"job": "18", "example.org/team": "vision, audio = all"})
        equal(daemon.create(name="none", labels={"a": None})["labels"], {})


@test
def users_of_containers_reach_a_segment_by_a_mount_alone():
    modes = {"": 0o755, "policy": 0o644, "usage": 0o666, "device": 0o444, "refused": 0o666, "belief": 0o600}
    with Facetd() as daemon:
        segment = daemon.create(name="a")["segment"]
        for _ in range(2):
            equal({name: os.stat(os.path.join(segment, name)).st_mode & 0o777 for name in modes}, modes)
            equal(os.stat(os.path.dirname(segment)).st_mode & 0o777, 0o700)
            os.chmod(segment, 0o700)  # as an earlier daemon left it
            os.chmod(os.path.dirname(segment), 0o755)
            daemon.restart()
        if os.geteuid() != 0 or not shutil.which("setpriv"):
            raise Skip("needs root, to be another user")
        os.chmod(daemon.base, 0o755)
        os.chmod(daemon.runtime, 0o755)
        user = ["setpriv", "--reuid", "65534", "--clear-groups", "test"]
        equal(subprocess.run([*user, "-e", os.path.join(segment, "policy")], check=False).returncode, 1)
        place = os.path.join(daemon.base, "mounted")
        os.mkdir(place, 0o755)
        inside = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" "$1" && shift && exec "$@"', segment, place]
        for test_of, expected in ((("-w", "usage"), 0), (("-w", "refused"), 0), (("-r", "policy"), 0), (("-w", "policy"), 1)):
            done = subprocess.run([*inside, *user, test_of[0], os.path.join(place, test_of[1])], check=False)
            equal(done.returncode, expected, test_of)


@test
def a_vgpu_belongs_to_the_calling_user():
    with Facetd() as daemon:
        equal(daemon.create(name="a")["owner_uid"], os.geteuid())
        daemon.restart()
        equal(daemon.get("/v1/vgpus/a").json["owner_uid"], os.geteuid())


@test
def freezing_and_resuming_are_idempotent():
    with Facetd() as daemon:
        daemon.create(name="a")
        for verb, state in (("freeze", "frozen"), ("freeze", "frozen"), ("resume", "idle"), ("resume", "idle")):
            answer = daemon.call("POST", f"/v1/vgpus/a/{verb}")
            equal((answer.status, answer.json["state"]), (200, state), verb)
        equal(daemon.call("POST", "/v1/vgpus/a/freeze", {}).status, 200)


@test
def destroying_removes_the_segment():
    with Facetd() as daemon:
        vgpu = daemon.create(name="a")
        answer = daemon.call("DELETE", "/v1/vgpus/a")
        equal((answer.status, answer.json), (200, {}))
        equal(os.path.exists(vgpu["segment"]), False)
        equal(daemon.call("DELETE", "/v1/vgpus/a").status, 404)


@test
def a_vgpu_in_use_is_destroyed_by_force_only():
    with Facetd() as daemon:
        vgpu = daemon.create(name="a")
        with VgpuHolder(vgpu["segment"]):
            answer = daemon.call("DELETE", "/v1/vgpus/a")
            equal((answer.status, answer.error["code"]), (409, "busy"))
            equal(daemon.call("DELETE", "/v1/vgpus/a?force=0").status, 409)
            equal(daemon.call("DELETE", "/v1/vgpus/a?force=1").status, 200)


@test
def guarantees_above_the_whole_are_warned_of():
    with Facetd() as daemon:
        equal("warning" in daemon.create(compute_request_milli=700), False)
        contains(daemon.create(compute_request_milli=600)["warning"], "130.0 %")


@test
def limits_above_the_whole_are_warned_of_once():
    with Facetd() as daemon:
        whole = daemon.create(name="whole")["memory_limit_bytes"]
        vgpu = daemon.create(name="a", memory_limit_bytes=whole // 2)
        contains(vgpu["warning"], f"limits on {vgpu['device']} add up to")
        equal("warning" in daemon.get("/v1/vgpus/a").json, False, "said once")
        equal("warning" in daemon.create(name="b"), False, "a vGPU for which no limit was asked")


@test
def an_ephemeral_vgpu_ends_without_a_holder():
    with Facetd() as daemon:
        vgpu = daemon.create(name="brief", ephemeral=True)
        daemon.create(name="lasting")
        with VgpuHolder(vgpu["segment"]):
            daemon.create(name="unheld", ephemeral=True)
            wait_until(lambda: "unheld" not in daemon.names(), "the vGPU without a holder is removed")
            equal(daemon.names(), ["brief", "lasting"])
        wait_until(lambda: daemon.names() == ["lasting"], "the held vGPU is removed after its holder")
        equal(os.path.exists(vgpu["segment"]), False)


@test
def metrics_have_every_vgpu():
    with Facetd() as daemon:
        vgpu = daemon.create(name="a", compute_request_milli=305, memory_limit_bytes=4096)
        answer = daemon.get("/metrics")
        equal(answer.headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
        labels = f'{{vgpu="{vgpu["id"]}",name="a",device="test:0"}}'
        contains(answer.text, f"facet_vgpu_memory_limit_bytes{labels} 4096\n")
        contains(answer.text, f"facet_vgpu_compute_request_ratio{labels} 0.305\n")
        contains(answer.text, f'facet_vgpu_state{labels[:-1]},state="idle"}} 1\n')
        contains(answer.text, "facet_build_info{version=")
        contains(answer.text, r'facet_device_memory_bytes{device="test:1",name="Test \"device\" \\1"} 1073741824')
        equal(answer.text.count("# TYPE facet_vgpu_state gauge"), 1)


@test
def promtool_accepts_the_metrics():
    promtool = os.environ.get("PROMTOOL") or shutil.which("promtool")
    if not promtool:
        raise Skip("no promtool")
    with Facetd() as daemon:
        daemon.create()
        daemon.create(compute_request_milli=500)
        result = subprocess.run([promtool, "check", "metrics"], input=daemon.get("/metrics").text, text=True,
                                capture_output=True, check=False)
        equal((result.returncode, result.stdout + result.stderr), (0, ""))


@test
def a_client_that_reconnects_makes_many_calls():
    from facetd import UnixConnection
    with Facetd() as daemon:
        connection = UnixConnection(daemon.socket)  # connects anew for each call, as the daemon closes after one
        for _ in range(50):
            connection.request("GET", "/v1/health")
            equal(json.loads(connection.getresponse().read())["vgpus"], 0)
        connection.request("HEAD", "/v1/health")
        response = connection.getresponse()
        equal((response.status, response.read()), (200, b""))
        connection.close()


@test
def answers_keep_to_their_schemas():
    try:
        import jsonschema
    except ImportError as missing:
        raise Skip("no python3-jsonschema") from missing

    def check(name, answer):
        with open(os.path.join(SOURCE, "schemas", name), encoding="utf-8") as file:
            schema = json.load(file)
        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.Draft202012Validator(schema).validate(answer.json)

    with Facetd() as daemon:
        check("health.schema.json", daemon.get("/v1/health"))
        check("devices.schema.json", daemon.get("/v1/devices"))
        check("device.schema.json", daemon.get("/v1/devices/test:1"))
        check("events.schema.json", daemon.get("/v1/events?after=0"))
        check("measurements.schema.json", daemon.get("/v1/measurements"))
        check("measurements.schema.json", daemon.get("/v1/measurements"))
        check("accelerator-node.schema.json", daemon.get("/v1/node"))
        check("providers.schema.json", daemon.get("/v1/providers"))
        check("vgpus.schema.json", daemon.get("/v1/vgpus"))
        check("vgpu.schema.json", daemon.call("POST", "/v1/vgpus", {"compute_request_milli": 900}))
        check("vgpu.schema.json", daemon.call("POST", "/v1/vgpus", {"compute_request_milli": 900, "ephemeral": True}))
        check("vgpus.schema.json", daemon.get("/v1/vgpus"))
        check("vgpu.schema.json", daemon.call("POST", "/v1/vgpus/vgpu-1/freeze"))
        check("error.schema.json", daemon.get("/v1/vgpus/nobody"))
        check("error.schema.json", daemon.call("POST", "/v1/vgpus", "{"))
        try:
            check("vgpu.schema.json", daemon.get("/v1/vgpus/nobody"))
        except jsonschema.ValidationError:
            return
        raise AssertionError("the schema of a vGPU accepts an error, expected a refusal")


main()
