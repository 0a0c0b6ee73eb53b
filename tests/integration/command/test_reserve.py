#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`facet place` on a simulated node with the real daemon, and `facet place fleet`.

Owns: the output and exit statuses of the command. Never: checks which devices a request gets (tests/unit/placement).
"""
import json
import os
import signal

from place import BUILD, SOURCE, wait_until
from real import Real
from schema import keeps_to, refuses
from tap import Skip, contains, equal, main, test

PROVIDER = os.path.join(BUILD, "facet-provider-sim.so")
SLOT = "sim.device"


class Node(Real):
    """Eight simulated GPUs."""

    def __init__(self):
        if not os.path.exists(PROVIDER):
            raise Skip("the simulated provider is not built")
        self.prepared = False
        super().__init__()

    def facet(self, *arguments, **options):
        if not self.prepared:  # the base class's constructor already runs a command
            self.prepared = True
            self.env.update(FACET_PROVIDER_PATH=PROVIDER, FACET_SIM_STATE=self.path("machine"), FACET_IDLE_EXIT_S="30",
                            FACET_SIM_PROFILE=os.path.join(SOURCE, "providers", "sim", "profiles", "h200x8.json"))
            os.mkdir(self.path("machine"))
        return super().facet(*arguments, **options)

    def place(self, *arguments):
        return self.facet("place", *arguments)


def output_of(done):
    equal((done.returncode, done.stderr), (0, ""))
    return done.stdout


def rows(text):
    return [line.split(None, 5) for line in text.splitlines()[1:]]


@test
def a_reservation_lives_from_place_to_release():
    with Node() as node:
        made = rows(output_of(node.place("--slot", f"{SLOT}=1.5", "--name", "job")))
        equal([(row[0], row[2], row[4], row[5]) for row in made], [("job", SLOT, "0.75", "held")] * 2)
        equal(rows(output_of(node.place("list"))), made)
        equal(rows(output_of(node.place("show", "job"))), made)
        equal(rows(output_of(node.place("show", made[0][1]))), made)
        equal(output_of(node.place("release", "job")), "")
        done = node.place("release", "job")
        equal((done.returncode, done.stdout), (1, ""))
        contains(done.stderr, "facet place release: reservation: no reservation has the id or name 'job'")
        done = node.place("list")
        equal((done.returncode, done.stdout), (0, ""))
        contains(done.stderr, "no reservations")


@test
def printed_json_keeps_to_its_schemas():
    with Node() as node:
        planned = json.loads(output_of(node.place("--slot", f"{SLOT}=2", "--dry-run", "--json")))
        keeps_to("reservation.schema.json", planned)
        equal(planned["state"], "planned")
        made = json.loads(output_of(node.place("--slot", f"{SLOT}=2", "--strategy", "fill", "--affinity", "interleaved",
                                          "--json")))
        keeps_to("reservation.schema.json", made)
        equal((made["strategy"], made["affinity"]), ("fill", "interleaved"))
        keeps_to("reservations.schema.json", json.loads(output_of(node.place("list", "--json"))))
        keeps_to("reservation.schema.json", json.loads(output_of(node.place("show", made["id"], "--json"))))
        equal(json.loads(output_of(node.place("release", made["id"], "--json"))), {})


@test
def a_configuration_is_printed_alone():
    with Node() as node:
        made = node.place("--slot", f"{SLOT}=0.5", "--name", "a", "--render", "docker")
        contains(json.loads(output_of(made))["HostConfig"]["Devices"][0]["PathOnHost"], "/dev/facet-sim/")
        variables = json.loads(node.place("show", "a", "--render", "environment").stdout)["env"]
        equal(any(line.startswith("FACET_SIM_VISIBLE_DEVICES=") for line in variables), True)
        contains(output_of(node.place("show", "a", "--render", "cdi")), '"cdiVersion"')
        done = node.place("show", "a", "--render", "oci")
        equal(done.returncode, 0)
        contains(done.stderr, "left to you: /device_nodes")


REFUSED = [
    ([], 2, "nothing to reserve; give --slot"),
    (["--slot", "x"], 2, "expected NAME=AMOUNT"),
    (["--slot", "x.y=1", "--slot", "x.y=2"], 2, "expected each slot once"),
    (["--slot", "X=1"], 2, "--slot 'X=1'"),
    (["--slot", "x.y=1.0000001"], 2, "--slot 'x.y=1.0000001'"),
    (["--slot", "x.y=-1"], 2, "--slot 'x.y=-1'"),
    (["--slot", f"{SLOT}=1", "--strategy", "most"], 2, "expected evenly or fill"),
    (["--slot", f"{SLOT}=1", "--affinity", "far"], 2, "prefer-single-node"),
    (["--slot", f"{SLOT}=1", "--render", "vm"], 2, "docker, oci, cdi or environment"),
    (["--slot", f"{SLOT}=1", "--name", "a b"], 2, "a b"),
    (["--slot", f"{SLOT}=1", "more"], 2, "one argument too many"),
    (["lst"], 2, "did you mean 'list'"),
    (["show"], 2, "the reservation is missing"),
    (["--solt", "1"], 2, "did you mean '--slot'"),
]


@test
def wrong_requests_start_no_daemon():
    with Node() as node:
        for arguments, status, said in REFUSED:
            done = node.place(*arguments)
            equal((done.returncode, done.stdout, len(done.stderr.splitlines())), (status, "", 1), str(arguments))
            contains(done.stderr, said)
        equal(node.exists("run/facetd.sock"), False)


@test
def impossible_amounts_are_refused():
    with Node() as node:
        for arguments, status, said in ((["--slot", f"{SLOT}=9"], 2, "9 asked for, expected at most 8: all that"),
                                        (["--slot", f"{SLOT}=0.005"], 2, "a multiple of 0.01"),
                                        (["--slot", "gpu.device=1"], 1, "no device of this node has it")):
            done = node.place(*arguments)
            equal((done.returncode, done.stdout), (status, ""), str(arguments))
            contains(done.stderr, said)
            done = node.place(*arguments, "--json")
            error = json.loads(done.stdout)["error"]
            keeps_to("error.schema.json", {"error": {key: value for key, value in error.items() if value}})


@test
def reservations_outlive_their_daemon():
    with Node() as node:
        output_of(node.place("--slot", f"{SLOT}=3.25", "--name", "a"))
        before = output_of(node.place("list"))
        os.kill(node.daemon_pid(), signal.SIGKILL)
        wait_until(lambda: node.daemon_pid() is None, "the daemon is gone")
        done = node.place("list", "--no-start")
        equal(done.returncode, 1)
        contains(done.stderr, "no daemon listens")
        equal(output_of(node.place("list")), before)
        equal(node.place("--slot", f"{SLOT}=5").returncode, 1)
        output_of(node.place("--slot", f"{SLOT}=4.75"))


@test
def a_vgpu_is_made_within_a_reservation():
    with Node() as node:
        device = rows(output_of(node.place("--slot", f"{SLOT}=0.6", "--name", "job")))[0][3]
        output_of(node.facet("vgpu", "create", "--mode", "hard", "-c", "50", "--reservation", "job", "--name", "inside"))
        shown = json.loads(output_of(node.facet("vgpu", "show", "inside", "--json")))
        equal(shown["device"], device)
        contains(output_of(node.facet("vgpu", "show", "inside")), "reservation")
        done = node.facet("vgpu", "create", "--mode", "hard", "-c", "40", "--reservation", "job")
        equal(done.returncode, 1)
        contains(done.stderr, "expected at most 0.1")
        done = node.facet("vgpu", "create", "-m", "50%", "--mode", "hard", "--reservation", "job")
        equal(done.returncode, 2)
        contains(done.stderr, "a device beside --reservation")
        done = node.place("release", "job")
        equal(done.returncode, 1)
        contains(done.stderr, "vGPU inside is in it")
        output_of(node.facet("vgpu", "destroy", "inside"))
        output_of(node.place("release", "job"))


# --- a fleet --------------------------------------------------------------------------------------------------------

NODES = "sn,cpu_milli,memory_mib,gpu,model\nsmall,32000,65536,2,T4\nlarge,64000,262144,8,G2\nbare,64000,262144,0,\n"


def fleet(place, job, *options):
    place.write("nodes.csv", NODES)
    return place.facet("place", "fleet", "--nodes", place.path("nodes.csv"), "--job",
                       job if isinstance(job, str) else json.dumps(job), *options)


@test
def one_job_goes_where_the_policy_wants_it():
    with Node() as node:
        half = {"num_gpu": 1, "gpu_milli": 500, "cpu_milli": 2000, "memory_mib": 1024}
        decision = json.loads(output_of(fleet(node, half, "--policy", "best-fit", "--json")))
        keeps_to("decision.schema.json", decision)
        refuses("decision.schema.json", {**decision, "gpus": [16]})
        equal((decision["policy"], decision["node"], decision["gpus"]), ("best_fit", "small", [0]))
        equal(json.loads(output_of(fleet(node, {**half, "gpu_spec": "G2|V100"}, "--json")))["node"], "large")
        equal(json.loads(output_of(fleet(node, {"cpu_milli": 64000}, "--policy", "first-fit", "--json")))["gpus"], [])
        equal(output_of(fleet(node, half, "--policy", "best-fit")).splitlines()[1].split()[:3], ["small", "0", "best_fit"])


@test
def placed_jobs_are_known_to_the_next_decision():
    with Node() as node:
        job, placed = {"num_gpu": 1, "gpu_milli": 500, "gpu_spec": "T4"}, node.path("placed")
        node.write("placed", "\n")
        chosen = []
        for _ in range(4):
            text = output_of(fleet(node, job, "--placed", placed, "--json"))
            chosen.append(json.loads(text)["gpus"][0])
            with open(placed, "a", encoding="ascii") as file:
                file.write(text)
        equal(sorted(chosen), [0, 0, 1, 1])
        done = fleet(node, job, "--placed", placed)
        equal((done.returncode, done.stdout), (1, ""))
        contains(done.stderr, "no node has room")
        done = fleet(node, job, "--placed", placed, "--json")
        equal((done.returncode, json.loads(done.stdout)["error"]["code"]), (1, "no_space"))
        # After an empty line and four jobs, line 6 has a job more than the GPUs have room for.
        with open(placed, "a", encoding="ascii") as file:
            file.write(text)
        done = fleet(node, job, "--placed", placed)
        equal(done.returncode, 1)
        contains(done.stderr, "placed:6:")


@test
def jobs_placed_one_by_one_fill_the_fleet_as_in_a_simulation():
    """With each policy, as many jobs can be placed one by one as the fleet's GPUs have room for, and as `facet simulate`
    places when jobs of the same list arrive."""
    with Node() as node:
        node.write("jobs.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1000,1024,1,370\n")
        job = {"num_gpu": 1, "gpu_milli": 370, "cpu_milli": 1000, "memory_mib": 1024}
        jobs = node.path("jobs.csv")
        for policy in ("fgd", "facet", "best_fit", "dot_product"):
            placed, count = node.write("placed", ""), 0
            while True:
                done = fleet(node, job, "--placed", placed, "--jobs", jobs, "--policy", policy, "--json")
                if done.returncode:
                    break
                with open(placed, "a", encoding="ascii") as file:
                    file.write(done.stdout)
                count += 1
            equal(count, 20, policy)  # two jobs on each of ten GPUs
            done = node.facet("simulate", "--nodes", node.path("nodes.csv"), "--jobs", jobs, "--policy", policy,
                              "--seeds", "1", "--load", "100", "--json")
            percent = json.loads(output_of(done))["allocated_percent"]["100"]
            equal(round(percent * 100 / job["gpu_milli"], 6), count, f"{policy}: jobs of the simulation")  # of 10,000 milli


@test
def wrong_fleets_are_refused():
    with Node() as node:
        for job, said in (("{", "--job: not JSON"), ("[]", "--job: expected a JSON object"),
                          ('{"gpu": 1}', "unknown member 'gpu'"), ('{"num_gpu": 17}', "num_gpu: expected"),
                          ('{"num_gpu": 1.5}', "num_gpu: expected"),
                          ('{"num_gpu": 1, "num_gpu": 2}', "--job: not JSON"),
                          ('{"gpu_spec": 1}', "gpu_spec: expected"), ('{"cpu_milli": -1}', "cpu_milli: expected")):
            done = fleet(node, job)
            equal((done.returncode, done.stdout, len(done.stderr.splitlines())), (2, "", 1), job)
            contains(done.stderr, said)
        for line, said in (("{", "placed:1: not JSON"), ('{"node": "x", "gpus": []}', "node 'x'"),
                           ('{"node": "small", "gpus": [16], "num_gpu": 1}', "gpus: expected"),
                           ('{"node": "small", "gpus": [1, 1], "num_gpu": 2}', "placed:1"),
                           ('{"node": "small", "gpus": [3], "num_gpu": 1}', "placed:1"),
                           ('{"node": "small", "gpus": [1, 1], "num_gpu": 1}', "gpus: expected each number once"),
                           ('{"node": "small", "gpus": "all"}', "gpus: expected a list"),
                           ('{"node": "small", "gpus": [0], "num_gpu": 1}\n\0', "placed: a zero byte")):
            node.write("placed", line + "\n")
            done = fleet(node, {"num_gpu": 1}, "--placed", node.path("placed"))
            equal((done.returncode in (1, 2), done.stdout), (True, ""), line)
            contains(done.stderr, said)
        equal(fleet(node, {"num_gpu": 1}, "--placed", node.path("none")).returncode, 1)
        contains(fleet(node, {"num_gpu": 1}, "--policy", "best").stderr, "--policy")
        contains(node.facet("place", "fleet", "--job", "{}").stderr, "--nodes is missing")


@test
def nodes_that_cannot_be_told_apart_are_refused():
    with Node() as node:
        for lines, said in ((b"a,8000,1024,1,T4\nb,8000,1024,1,T4\na,8000,1024,2,T4\n", "node 'a' is there twice"),
                            (b"a,8000,1024,1,T4\n,8000,1024,1,T4\n", "node 2: its name (column sn) is empty"),
                            (b"a\xff,8000,1024,1,T4\n", "node 1: its name (column sn) is not UTF-8")):
            with open(node.path("nodes.csv"), "wb") as file:
                file.write(b"sn,cpu_milli,memory_mib,gpu,model\n" + lines)
            done = node.facet("place", "fleet", "--nodes", node.path("nodes.csv"), "--job", "{}")
            equal((done.returncode, done.stdout), (2, ""), said)
            contains(done.stderr, said)


main()
