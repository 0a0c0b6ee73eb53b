# SPDX-License-Identifier: Apache-2.0
"""Reservations over HTTP: granting, storing, rebuilding after kills and damage, races, and amounts that vGPUs hold.
Owns: the whole path through the daemon. Never: tests each inner step (tests/unit/facetd/test_reservations.c).
"""
import json
import os
import shutil
import signal
import sqlite3
import threading

from facetd import BUILD, SOURCE, Facetd, wait_until
from simulated import Simulated
from tap import Skip, contains, equal, main, test

PATH = "/v1/reservations"


def reserve(daemon, amount, slot="test.device", query="", **more):
    return daemon.call("POST", PATH + query, {"slots": {slot: amount}, **more})


def check_status(answer, status=201):
    if answer.status != status:
        raise AssertionError(answer.text)
    return answer.json


def reservations_of(daemon):
    return daemon.get(PATH).json["reservations"]


def grants(reservation):
    return {grant["device"]: grant["amount"] for grant in reservation["grants"]}


def to_millionths(amount):
    whole, _, part = amount.partition(".")
    return int(whole) * 1000000 + int((part + "000000")[:6])


def total_millionths(reservations):
    return sum(to_millionths(grant["amount"]) for each in reservations for grant in each["grants"])


def taken_per_device(reservations):
    taken = {}
    for each in reservations:
        for grant in each["grants"]:
            taken[grant["device_id"]] = taken.get(grant["device_id"], 0) + to_millionths(grant["amount"])
    return taken


@test
def a_reservation_is_granted_shown_and_released_once():
    with Facetd() as daemon:
        got = check_status(reserve(daemon, "1.5", name="job", affinity="prefer-single-node", strategy="fill"))
        equal((got["name"], got["state"], got["strategy"], got["affinity"]),
              ("job", "held", "fill", "prefer-single-node"))
        equal(got["slots"], {"test.device": "1.5"})
        equal(grants(got), {"test:0": "1", "test:1": "0.5"})
        equal(got["grants"][0]["device_id"], daemon.get("/v1/node").json["devices"][0]["device_id"])
        for ref in ("job", got["id"]):
            equal(daemon.get(f"{PATH}/{ref}").json, got)
        equal([each["id"] for each in reservations_of(daemon)], [got["id"]])
        equal(check_status(daemon.call("DELETE", f"{PATH}/job"), 200), {})
        answer = daemon.call("DELETE", f"{PATH}/{got['id']}")
        equal((answer.status, answer.error["code"], answer.error["argument"]), (404, "not_found", "reservation"))
        equal(reservations_of(daemon), [])


@test
def refusals_name_the_available_amount():
    with Facetd() as daemon:
        check_status(reserve(daemon, "0.75"))
        for amount, status, code, said in (("2", 507, "no_space", "1.25 can be had on 2 places: 0.75 short; "
                                                             "reservation reservation-1 has 0.75 of test:1"),
                                           ("2.5", 400, "out_of_range", "2.5 asked for, expected at most 2: all that "
                                                                        "this node's 2 devices have of it"),
                                           ("0.001", 400, "out_of_range", "a multiple of 0.01"),
                                           ("0", 400, "out_of_range", "expected more"),
                                           (0.5, 400, "invalid_argument", "decimal as text")):
            answer = reserve(daemon, amount)
            equal((answer.status, answer.error["code"], answer.error["argument"]), (status, code, "slots"))
            contains(answer.error["message"], said)
        answer = reserve(daemon, "1", slot="other.device")
        equal((answer.status, answer.error["code"]), (404, "not_found"))
        answer = reserve(daemon, "0.1", name="reservation-1")
        equal((answer.status, answer.error["code"], answer.error["argument"]), (409, "already_exists", "name"))
        answer = reserve(daemon, "0.1", query="?render=vm")
        equal((answer.status, answer.error["argument"]), (400, "render"))
        contains(answer.error["message"], "docker, oci, cdi or environment")
        equal(reserve(daemon, "0.1", query="?force=1").status, 400)
        equal(len(reservations_of(daemon)), 1)


@test
def a_dry_run_keeps_nothing():
    with Facetd() as daemon:
        got = check_status(reserve(daemon, "2", dry_run=True), 200)
        equal((got["state"], "id" in got, grants(got)), ("planned", False, {"test:0": "1", "test:1": "1"}))
        equal(reservations_of(daemon), [])
        check_status(reserve(daemon, "2"))


@test
def a_reservation_has_its_configuration_in_any_form():
    with Simulated("h200x8") as daemon:
        got = check_status(reserve(daemon, "1.5", slot="sim.device"))
        uuids = [grant["device_id"] for grant in got["grants"]]
        equal(len(uuids), 2)
        workload = got["workload"]
        equal(workload["environment"]["FACET_SIM_VISIBLE_DEVICES"], ",".join(uuids))
        equal([node["path"] for node in workload["device_nodes"]],
              [f"/dev/facet-sim/{grant['device'].split(':')[1]}" for grant in got["grants"]])
        equal("warning" in got, False)
        for form, known, member in (("docker", "docker", "HostConfig"), ("oci", "oci", "process"),
                                    ("cdi", "cdi", "devices"), ("environment", "env", "env"), ("env", "env", "env")):
            rendered = daemon.get(f"{PATH}/{got['name']}?render={form}").json["rendered"]
            equal((rendered["form"], member in rendered["configuration"]), (known, True), form)
        left = daemon.get(f"{PATH}/{got['name']}?render=oci").json["rendered"]["left"]
        equal(any("/device_nodes" in item["pointer"] for item in left), True, "absent nodes have no numbers")


@test
def a_vgpu_in_a_reservation_is_entered_by_the_configuration():
    with Facetd() as daemon:
        check_status(reserve(daemon, "0.5", name="job"))
        equal("environment" in daemon.get(f"{PATH}/job").json["workload"], False)
        vgpu = daemon.create(reservation="job", memory_limit_bytes=4096)
        equal(vgpu["device"], daemon.get(f"{PATH}/job").json["grants"][0]["device"])
        got = daemon.get(f"{PATH}/job?render=environment").json
        layer = os.path.join(BUILD, "libfacet-opencl-layer.so")
        if not os.path.exists(layer):
            contains(got["warning"], "libfacet-opencl-layer.so")
            raise Skip("the layer is not built")
        equal(got["workload"]["environment"], {"OPENCL_LAYERS": layer, "OCL_ICD_LAYERS": layer, "FACET_VGPU_DIR": vgpu["segment"],
                                               f"FACET_VGPU_DIR_{vgpu['id']}": vgpu["segment"]})
        equal([(mount["source"], mount["permission"]) for mount in got["workload"]["mounts"]],
              [(layer, "ro"), (vgpu["segment"], "ro"),
               *((os.path.join(vgpu["segment"], name), "rw") for name in ("usage", "refused"))])
        equal(got["rendered"]["left"], [])
        cdi = daemon.get(f"{PATH}/job?render=cdi").json["rendered"]["configuration"]
        equal((cdi["kind"], cdi["devices"][0]["name"]), ("facet.dev/vgpu", vgpu["name"]))
        daemon.create(reservation="job", name="second")
        got = daemon.get(f"{PATH}/job").json
        equal(("environment" in got["workload"], got["vgpus"]), (False, [vgpu["name"], "second"]))
        contains(got["warning"], "2 vGPUs are in the reservation")


@test
def a_provider_that_does_not_say_what_a_container_needs_is_warned_of():
    with Facetd() as daemon:
        got = check_status(reserve(daemon, "0.5"))
        contains(got["warning"], "its provider does not say what a container needs")


@test
def kill_9_anywhere_loses_nothing_acknowledged():
    """Callers reserve and release until the daemon is killed, eight times in a row on the same state."""
    with Facetd(FACET_TEST_DEVICES="4") as daemon:
        acknowledged, unsure = {}, set()
        lock = threading.Lock()

        def work(worker, rounds):
            mine = []
            for number in range(rounds):
                name = f"w{worker}-{number}-{len(acknowledged)}-{daemon.process.pid}"
                try:
                    answer = reserve(daemon, "0.05", name=name)
                    if answer.status == 201:
                        mine.append(name)
                        with lock:
                            acknowledged[name] = answer.json["grants"]
                    elif answer.error["code"] != "no_space":
                        raise AssertionError(answer.text)
                    if len(mine) > 2:
                        gone = mine.pop(0)
                        with lock:
                            unsure.add(gone)
                        if daemon.call("DELETE", f"{PATH}/{gone}").status == 200:
                            with lock:
                                acknowledged.pop(gone)
                                unsure.discard(gone)
                except OSError:
                    return
                except Exception as reason:  # a connection that was cut in the middle
                    if "http.client" not in type(reason).__module__ and "json" not in type(reason).__module__:
                        raise
                    return

        for _ in range(8):
            threads = [threading.Thread(target=work, args=(worker, 1000)) for worker in range(3)]
            for thread in threads:
                thread.start()
            before = len(acknowledged)
            wait_until(lambda before=before: len(acknowledged) >= min(before + 3, 40), "some reservations are acknowledged")
            daemon.process.send_signal(signal.SIGKILL)
            for thread in threads:
                thread.join()
            daemon.process.communicate()
            daemon.start()
            stored = {each["name"]: each["grants"] for each in reservations_of(daemon)}
            for name, grant in acknowledged.items():
                if name not in unsure:
                    equal(stored.get(name), grant, name)
            for each in reservations_of(daemon):
                equal(each["state"], "held")
            equal(max(taken_per_device(reservations_of(daemon)).values(), default=0) <= 1000000, True,
                  "no more of a device than the whole")
            for name in set(stored) - set(acknowledged):  # the daemon was killed before it answered
                check_status(daemon.call("DELETE", f"{PATH}/{name}"), 200)
            for name in unsure:
                acknowledged.pop(name, None)
                daemon.call("DELETE", f"{PATH}/{name}")
            unsure.clear()


@test
def of_many_requests_for_the_last_unit_one_succeeds():
    with Facetd() as daemon:
        check_status(reserve(daemon, "1.5"))
        for _ in range(5):
            answers = []

            def ask(answers=answers):
                answers.append(reserve(daemon, "0.5"))

            threads = [threading.Thread(target=ask) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            equal(sorted(answer.status for answer in answers), [201] + [507] * 7)
            equal(total_millionths(reservations_of(daemon)), 2000000)
            winner = next(answer.json["name"] for answer in answers if answer.status == 201)
            outcomes = []

            def release(outcomes=outcomes, winner=winner):
                outcomes.append(daemon.call("DELETE", f"{PATH}/{winner}").status)

            threads = [threading.Thread(target=release) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            equal(sorted(outcomes), [200, 404, 404, 404], "releases")


@test
def devices_that_have_gone_are_reported():
    with Facetd(FACET_TEST_DEVICES="3") as daemon:
        got = check_status(reserve(daemon, "3", name="all"))
        daemon.end()
        daemon.environment["FACET_TEST_DEVICES"] = "1"
        daemon.start()
        now = daemon.get(f"{PATH}/all").json
        equal((now["id"], now["state"], grants(now)), (got["id"], "impaired", grants(got)))
        equal([grant.get("trouble", "") for grant in now["grants"]],
              ["", "device test:1 is not there", "device test:2 is not there"])
        contains(now["warning"], "test:2")
        equal(reserve(daemon, "0.01").status, 507, "the devices that remain have nothing free")
        daemon.restart(signal.SIGKILL)
        equal(daemon.get(f"{PATH}/all").json["state"], "impaired")
        daemon.end()
        daemon.environment["FACET_TEST_DEVICES"] = "3"
        daemon.start()
        equal(daemon.get(f"{PATH}/all").json["state"], "held")
        equal(check_status(daemon.call("DELETE", f"{PATH}/all"), 200), {})


@test
def a_reservation_of_devices_that_have_gone_can_be_released():
    with Facetd() as daemon:
        check_status(reserve(daemon, "1.5", name="a"))
        daemon.end()
        daemon.environment["FACET_TEST_DEVICES"] = "0"
        daemon.start()
        equal(daemon.get(f"{PATH}/a").json["state"], "impaired")
        equal(reserve(daemon, "0.5").error["code"], "not_found")
        check_status(daemon.call("DELETE", f"{PATH}/a"), 200)
        daemon.restart()
        equal(reservations_of(daemon), [])


def change(daemon, sql, *values):
    with sqlite3.connect(os.path.join(daemon.state, "facet.db"), isolation_level=None) as database:
        database.execute(sql, values)
    database.close()


@test
def damaged_state_is_refused_and_left_as_it_is():
    with Facetd() as daemon:
        check_status(reserve(daemon, "0.5", name="a"))
        daemon.end()
        with sqlite3.connect(os.path.join(daemon.state, "facet.db")) as database:
            text, = database.execute("SELECT resources FROM reservation").fetchone()
        database.close()
        for wrong in (b"", text[:-20], text.replace(b"500000", b"900000"), text + b"x", b"\xff" * 64):
            change(daemon, "UPDATE reservation SET resources = ?", wrong)
            status, verdict, _ = daemon.refuse()
            equal(status, 1)
            contains(verdict, "reservation 'a'")
            contains(verdict, "restore it from a backup")
            with sqlite3.connect(os.path.join(daemon.state, "facet.db")) as database:
                equal(database.execute("SELECT resources FROM reservation").fetchone()[0], wrong)
            database.close()
        change(daemon, "UPDATE reservation SET resources = ?, id = 'none'", text)
        contains(daemon.refuse()[1], "is malformed")
        change(daemon, "UPDATE reservation SET id = '00000000000000aa'")
        contains(daemon.refuse()[1], "is that of another reservation")


@test
def of_a_node_that_became_smaller_no_more_is_granted_than_is_left():
    with Facetd(FACET_TEST_DEVICES="2") as daemon:
        first = check_status(reserve(daemon, "0.6", name="first"))
        second = check_status(reserve(daemon, "0.6", name="second"))
        equal(taken_per_device([first, second]), {each["grants"][0]["device_id"]: 600000 for each in (first, second)})
        daemon.end()
        daemon.environment["FACET_TEST_DEVICES"] = "1"
        daemon.start()
        equal([each["state"] for each in reservations_of(daemon)].count("impaired"), 1)
        dry = check_status(reserve(daemon, "0.4", dry_run=True), 200)
        equal(to_millionths(dry["grants"][0]["amount"]), 400000)
        equal(reserve(daemon, "0.41").status, 507)


@test
def partitions_are_slots_of_their_own():
    with Simulated("h100") as daemon:
        daemon.create(device="sim:0", mode="partitioned", template="1g.10gb", name="cut")
        slot = "sim.device:1g.10gb-mig"
        equal([spec["slot_name"] for spec in daemon.get("/v1/node").json["resource_specs"]], [slot])
        answer = reserve(daemon, "1", slot=slot)
        equal((answer.status, answer.error["code"]), (507, "no_space"), "the vGPU has it")
        equal(reserve(daemon, "0.5", slot="sim.device").error["code"], "not_found")
        daemon.call("DELETE", "/v1/vgpus/cut")
        got = check_status(reserve(daemon, "0.5", slot="sim.device", name="half"))
        answer = daemon.call("POST", "/v1/vgpus", {"mode": "partitioned", "template": "1g.10gb"})
        equal((answer.status, answer.error["code"], answer.error["argument"]), (409, "bad_state", "mode"))
        contains(answer.error["message"], "half")
        equal(daemon.get(f"{PATH}/{got['id']}").json["state"], "held")


@test
def hard_vgpus_and_reservations_leave_each_other_alone():
    with Simulated("h100") as daemon:
        daemon.create(mode="hard", compute_request_milli=250, memory_limit_bytes=1 << 30, name="own")
        answer = reserve(daemon, "0.8", slot="sim.device")
        equal((answer.status, answer.error["code"]), (507, "no_space"))
        check_status(reserve(daemon, "0.5", slot="sim.device", name="job"))
        answer = daemon.call("POST", "/v1/vgpus", {"mode": "hard", "compute_request_milli": 300,
                                                   "memory_limit_bytes": 1 << 30})
        equal((answer.status, answer.error["code"], answer.error["argument"]), (507, "no_space", "reservation"))
        inside = daemon.create(mode="hard", compute_request_milli=300, memory_limit_bytes=1 << 30, reservation="job")
        equal(inside["reservation"], daemon.get(f"{PATH}/job").json["id"])
        equal(daemon.get(f"{PATH}/job").json["vgpus"], [inside["name"]])
        answer = daemon.call("POST", "/v1/vgpus", {"mode": "hard", "compute_request_milli": 250,
                                                   "memory_limit_bytes": 1 << 30, "reservation": "job"})
        equal((answer.status, answer.error["code"]), (507, "no_space"))
        answer = daemon.call("DELETE", f"{PATH}/job")
        equal((answer.status, answer.error["code"]), (409, "busy"))
        daemon.restart(signal.SIGKILL)
        equal(daemon.get(f"{PATH}/job").json["vgpus"], [inside["name"]])
        check_status(daemon.call("DELETE", f"/v1/vgpus/{inside['name']}"), 200)
        check_status(daemon.call("DELETE", f"{PATH}/job"), 200)


@test
def a_lost_provider_is_reported_and_its_reservations_stay():
    daemon = Simulated("h100")
    profile = shutil.copy(daemon.environment["FACET_SIM_PROFILE"], daemon.base)
    daemon.environment["FACET_SIM_PROFILE"] = profile
    with daemon:
        check_status(reserve(daemon, "0.5", slot="sim.device", name="job"))
        os.rename(profile, profile + ".away")  # the machine is gone for a daemon that starts anew
        equal(daemon.kill_provider() > 0, True)
        wait_until(lambda: reservations_of(daemon)[0]["state"] == "impaired", "the reservation shows it")
        got = daemon.get(f"{PATH}/job").json
        equal(grants(got), {"sim:0": "0.5"})
        contains(got["grants"][0]["trouble"], "device sim:0 is not available")
        contains(got["warning"], "sim:0")
        answer = reserve(daemon, "0.5", slot="sim.device")
        equal((answer.status, answer.error["code"]), (404, "not_found"), "nothing is offered")
        os.rename(profile + ".away", profile)
        wait_until(lambda: reservations_of(daemon)[0]["state"] == "held", "the provider is back")
        equal(reserve(daemon, "0.6", slot="sim.device").error["code"], "no_space")
        check_status(reserve(daemon, "0.5", slot="sim.device"))


@test
def answers_keep_to_their_schemas():
    try:
        import jsonschema
    except ImportError as missing:
        raise Skip("no python3-jsonschema") from missing

    def check(name, document):
        with open(os.path.join(SOURCE, "schemas", name), encoding="utf-8") as file:
            schema = json.load(file)
        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.Draft202012Validator(schema).validate(document)

    with Simulated("h200x8") as daemon:
        body = {"slots": {"sim.device": "1.25"}, "affinity": "interleaved", "strategy": "evenly", "name": "job"}
        check("reserve.schema.json", body)
        check("reserve.schema.json", {"slots": {"sim.device": 2}, "dry_run": True})
        check("reservation.schema.json", check_status(reserve(daemon, 2, slot="sim.device", dry_run=True), 200))
        for query in ("", "?render=docker", "?render=oci", "?render=cdi", "?render=environment"):
            got = check_status(daemon.call("POST", PATH + query, body))
            check("reservation.schema.json", got)
            check("accelerator-workload.schema.json", got["workload"])
            check("reservations.schema.json", daemon.get(PATH).json)
            check_status(daemon.call("DELETE", f"{PATH}/job"), 200)
        check("error.schema.json", reserve(daemon, "99", slot="sim.device").json)
        check_status(reserve(daemon, "0.5", slot="sim.device", name="job"))
        vgpu = daemon.create(mode="hard", compute_request_milli=100, reservation="job")
        check("vgpu.schema.json", vgpu)
        check("request.schema.json", {"mode": "hard", "compute_request_milli": 100, "reservation": "job"})
        check("vgpus.schema.json", daemon.get("/v1/vgpus").json)
        check("reservation.schema.json", daemon.get(f"{PATH}/job").json)
        try:
            check("reservation.schema.json", {**daemon.get(f"{PATH}/job").json, "other": 1})
        except jsonschema.ValidationError:
            return
        raise AssertionError("the schema of a reservation accepts an unknown member, expected a refusal")


main()
