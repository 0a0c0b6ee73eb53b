#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`facet pci plan`, `bind`, `unbind`, `state`, `recover` and `persist` where nothing can be bound: over described
machines, and on this machine.

Owns: the golden plans (tests/golden/pci/plan-*.txt), refusals, rules, and the proof that none of this writes to a
machine. Never: binds; tests with a model of the kernel (tests/unit/passthrough/bind) and in virtual machines do.
"""
import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile

from golden import matches_golden
from place import FACET, SOURCE, Place
from schema import keeps_to, refuses
from tap import Skip, contains, equal, main, test

MACHINES = os.path.join(SOURCE, "tests", "fixtures", "pci")
sys.path.insert(0, MACHINES)
sys.dont_write_bytecode = True
import pci_machine  # noqa: E402

PLANS = [("desktop", "0000:26:00.0"), ("server", "0000:1a:00.0"), ("ready", "0000:01:00.0"), ("laptop", "0000:00:02.0"),
         ("npu", "0000:c5:00.1"), ("sriov", "0000:3a:00.2")]
GPU = "0000:1a:00.0"  # a GPU of the machine "server"


@contextlib.contextmanager
def machine(name, more=""):
    with tempfile.TemporaryDirectory(prefix="facet-pci-") as root:
        planted = pci_machine.machine_of(os.path.join(MACHINES, name + ".tree"))
        planted.read_text(more)
        planted.plant(root)
        try:
            yield root
        finally:
            for path in planted.modes:
                os.chmod(os.path.join(root, path), 0o700)


def digest_of(root):
    """A digest of all files of a tree."""
    total = hashlib.sha256()
    for folder, names, files in sorted(os.walk(root)):
        for name in sorted(names + files):
            path = os.path.join(folder, name)
            total.update(path.encode())
            if os.path.islink(path):
                total.update(os.readlink(path).encode())
            elif os.path.isfile(path):
                with open(path, "rb") as file:
                    total.update(file.read())
    return total.hexdigest()


@test
def plans_match_the_golden_files_and_write_nothing():
    with Place() as place:
        for name, address in PLANS:
            with machine(name) as root:
                before = digest_of(root)
                done = place.facet("pci", "plan", "--root", root, "--reset", "--owner", "1000:78", address)
                matches_golden(f"pci/plan-{name}.txt", done.stdout + f"exit status {done.returncode}\n")
                equal(digest_of(root), before, f"tree of {name}")


@test
def plans_and_states_keep_to_the_schema():
    with Place() as place:
        for name, address in PLANS:
            with machine(name) as root:
                plan = json.loads(place.facet("pci", "plan", "--root", root, "--json", "--reset", "--owner", "1000:78",
                                              address).stdout)
                keeps_to("pci.schema.json", plan)
                state = place.json("pci", "state", "--root", root, "--json")
                keeps_to("pci.schema.json", state)
                for wrong in ({**plan, "direction": "up"}, {**plan, "functions": []}, {**plan, "more": 1},
                              {**plan, "steps": [{"step": "write"}]},
                              {member: value for member, value in plan.items() if member != "passthrough"},
                              {**state, "notes": [{"note": "stuck"}]},
                              {**state, "functions": [{**function, "state": "asleep"} for function in state["functions"]]},
                              {**state, "functions": [{**function, "bound_by_facet": True}
                                                      for function in state["functions"]]}):
                    refuses("pci.schema.json", wrong)
        keeps_to("pci.schema.json", place.json("pci", "state", "--json"))


@test
def a_plan_as_json_names_its_direction_and_steps():
    with Place() as place, machine("server") as root:
        done = place.facet("pci", "plan", "--root", root, "--json", GPU)
        plan = json.loads(done.stdout)
        equal(plan["direction"], "bind")
        equal(done.returncode, 0 if plan["passthrough"]["answer"] == "yes" else 1)
        steps = {step["step"] for step in plan["steps"]}
        equal({"override", "unbind", "probe"} <= steps, True, "steps")
        for step in plan["steps"]:
            if step["step"] == "override":
                contains(step["path"], f"/sys/bus/pci/devices/{step['address']}/driver_override")
                equal(step["before"], "")
        equal("new_id" in done.stdout, False, "new_id")


@test
def impossible_plans_are_refused():
    with Place() as place, machine("desktop") as root:
        for arguments, status, text in [
                (["plan"], 2, "ADDRESS is missing"),
                (["plan", "01"], 2, "is no PCI address"),
                (["plan", "--root", root, "0000:7f:00.0"], 1, "0000:7f:00.0"),
                (["plan", "--root", "/nonexistent", "01:00.0"], 1, "cannot open the directory"),
                (["plan", "--root", root, "--driver", "../x", "01:00.0"], 2, "no name of a driver"),
                (["plan", "--root", root, "--driver", "nvme", "26:00.0"], 2, "no driver of vfio"),
                (["plan", "--unbind", "26:00.0"], 1, "was not bound by Facet"),
                (["bind", "--owner", ":78", "01:00.0"], 2, "expected USER"),
                (["bind", "--owner", "nobody-like-this", "01:00.0"], 2, "expected USER"),
                (["bind", "--root", root, "01:00.0"], 2, "'--root' is not known"),
                (["bind", "0000:7f:1f.7"], 1, "0000:7f:1f.7"),
                (["unbind", "0000:7f:1f.7"], 1, "was not bound by Facet"),
                (["unbind"], 2, "ADDRESS is missing"),
                (["state", "x"], 2, "x"),
                (["persist"], 2, "which one"),
                (["persist", "remove", "0000:7f:1f.7"], 1, "no rule has"),
        ]:
            done = place.facet("pci", *arguments, env={"FACET_PCI_RULES_DIR": place.path("rules")})
            contains(done.stderr, text)
            equal(done.returncode, status, f"exit status of {arguments}")


@test
def functions_of_another_machine_are_not_bound_by_facet():
    with Place() as place, machine("ready") as root:
        listed = place.json("pci", "state", "--root", root, "--json")
        for function in listed["functions"]:
            equal(function["state"] in ("host", "ready", "in_vm"), True, "state")
            equal(function["bound_by_facet"], False, "bound_by_facet")
        contains(place.facet("pci", "state", "--root", root).stdout, "ADDRESS")


@test
def recover_reports_that_nothing_was_interrupted():
    with Place() as place:
        done = place.facet("pci", "recover")
        equal((done.returncode, done.stdout), (0, "nothing is bound, and nothing was interrupted\n"))
        equal(place.json("pci", "recover", "--json"), {"outcome": "untouched", "notes": []})


@test
def a_damaged_journal_is_reported_and_left_alone():
    with Place() as place:
        os.makedirs(place.path("state/passthrough"), 0o700)
        place.write("state/passthrough/group-5.journal", "garbage\n")
        done = place.facet("pci", "recover")
        equal(done.returncode, 1)
        contains(done.stdout, "damaged journal: journal group-5.journal")
        equal(place.read("state/passthrough/group-5.journal"), "garbage\n")


@test
def journals_that_others_may_write_are_not_trusted():
    with Place() as place:
        os.makedirs(place.path("state/passthrough"))
        os.chmod(place.path("state/passthrough"), 0o770)
        for verb in ("recover", "state"):
            done = place.facet("pci", verb)
            equal(done.returncode, 1)
            contains(done.stderr, "may be written by others (mode 0770)")


# Makes root's folder of journals, in a mount namespace of its own, and runs the arguments as another user.
AS_ANOTHER_USER = """
set -e
mount -t tmpfs -o mode=0755 none /var/lib
mkdir -m 0755 /var/lib/facet
mkdir -m "$MODE" /var/lib/facet/passthrough
echo garbage >/var/lib/facet/passthrough/group-5.journal
chmod 0644 /var/lib/facet/passthrough/group-5.journal
exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"
"""


@test
def another_user_reads_the_journals_of_root_or_is_told_that_they_are_closed():
    def run(mode, *words):
        return subprocess.run(["unshare", "--mount", "sh", "-c", AS_ANOTHER_USER, "sh", FACET, *words],
                              env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "MODE": mode}, cwd="/",
                              capture_output=True, text=True, timeout=60, check=False)
    if os.geteuid() != 0 or not shutil.which("setpriv") or not shutil.which("unshare") or \
            run("0700", "--version").returncode:
        raise Skip("needs root, setpriv, a mount namespace, and a program that another user may run")
    closed = "facet pci {}: warning: cannot read the journals in /var/lib/facet/passthrough: "
    done = run("0700", "pci", "state")
    equal(done.returncode, 0, done.stderr)
    contains(done.stderr, closed.format("state"))
    contains(run("0700", "pci", "plan", "--unbind", "0000:7f:1f.7").stderr, closed.format("plan"))
    done = run("0755", "pci", "state", "--json")
    equal([note["note"] for note in json.loads(done.stdout)["notes"]], ["damaged"], done.stderr)
    equal(run("0755", "pci", "recover").returncode, 1)  # it may not lock the journal of root


@test
def a_machine_without_accelerators_is_reported():
    with Place() as place, machine("ready") as root:
        os.rename(os.path.join(root, "sys/bus/pci/devices"), os.path.join(root, "sys/bus/pci/none"))
        os.makedirs(os.path.join(root, "sys/bus/pci/devices"))
        equal(place.facet("pci", "state", "--root", root).stdout,
              "no accelerators, nothing is with vfio, and nothing was bound\n")


def plant_rule(place, name, functions, **more):
    os.makedirs(place.path("rules"), exist_ok=True)
    place.write(f"rules/{name}", json.dumps({"version": 1, "functions": functions, "whole_group": True, **more}))


@test
def a_rule_applies_only_to_the_card_that_it_names():
    with Place() as place, machine("server") as root:
        rules = {"FACET_PCI_RULES_DIR": place.path("rules")}
        equal(place.facet("pci", "persist", "assert", "--root", root, env=rules).returncode, 0)
        function = json.loads(place.facet("pci", "plan", "--root", root, "--json", GPU).stdout)["functions"][0]
        identity = {key: function[key] for key in ("address", "model")}
        plant_rule(place, "same.json", [identity])
        plant_rule(place, "other.json", [{**identity, "model": "10de:0001:0000:0000"}])
        plant_rule(place, "serial.json", [{**identity, "serial": "00-00-00-00-00-00-00-01"}])
        plant_rule(place, "gone.json", [{**identity, "address": "0000:7f:00.0"}])
        plant_rule(place, "unknown.json", [identity], colour="red")
        place.write("rules/notes.txt", "not a rule")
        before = digest_of(root)
        done = place.facet("pci", "persist", "assert", "--root", root, "--json", env=rules)
        states = {rule["rule"]: rule for rule in json.loads(done.stdout)}
        equal(done.returncode, 1)
        equal(sorted(states), ["gone.json", "other.json", "same.json", "serial.json", "unknown.json"])
        equal({name: states[name]["state"] for name in ("gone.json", "other.json", "serial.json", "unknown.json")},
              {"gone.json": "drift", "other.json": "drift", "serial.json": "drift", "unknown.json": "damaged"})
        equal(states["same.json"]["state"], "pending")
        contains(states["other.json"]["reason"], "10de:0001")
        contains(states["unknown.json"]["reason"], "colour")
        equal(digest_of(root), before, "tree")


@test
def nothing_is_applied_to_another_card():
    with Place() as place:
        rules = {"FACET_PCI_RULES_DIR": place.path("rules")}
        plant_rule(place, "gone.json", [{"address": "0000:7f:1f.7", "model": "10de:0001:0000:0000"}])
        done = place.facet("pci", "persist", "apply", env=rules)
        equal(done.returncode, 1)
        contains(done.stdout, "gone.json: drift: 0000:7f:1f.7 is not on this machine")
        equal(place.facet("pci", "persist", "remove", "0000:7f:1f.7", env=rules).returncode, 0)
        equal(os.listdir(place.path("rules")), [])


main()
