#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`facet vgpu`, `top` and `metrics`: their requests to the daemon, and their output."""
import json
import os
import pty
import re
import signal
import subprocess

from golden import matches_golden
from place import FACET, Place, wait_until
from tap import contains, equal, main, test


def create_two_vgpus(place):
    equal(place.facet("vgpu", "create", "--name", "alice", "-m", "50%", "-c", "30:60").stdout, "alice\n")
    equal(place.facet("vgpu", "create").stdout, "vgpu-2\n")


@test
def create_prints_the_name_or_the_answer():
    with Place() as place:
        create_two_vgpus(place)
        made = place.json("vgpu", "create", "--name", "carol", "--json")
        equal((made["name"], made["ephemeral"]), ("carol", False))
        done = place.facet("vgpu", "create", "--name", "carol")
        equal(done.returncode, 1)
        contains(done.stderr, "carol")


@test
def list_is_a_table_when_piped():
    with Place() as place:
        create_two_vgpus(place)
        # In a pipe no column is cut, with any COLUMNS.
        matches_golden("vgpu-list.txt", place.facet("vgpu", "list", env={"COLUMNS": "40"}).stdout)


@test
def an_empty_list_says_what_to_do():
    with Place() as place:
        done = place.facet("vgpu", "list")
        equal((done.returncode, done.stdout), (0, ""))
        contains(done.stderr, "facet vgpu create")


@test
def show_prints_a_card():
    with Place() as place:
        create_two_vgpus(place)
        shown = place.facet("vgpu", "show", "alice").stdout
        matches_golden("vgpu-show.txt", shown.replace(place.runtime, "RUNTIME"))
        contains(place.facet("vgpu", "show", "vgpu-2").stdout, "not measured yet")


@test
def json_is_the_answer_of_the_daemon():
    with Place() as place:
        create_two_vgpus(place)
        one = place.json("vgpu", "show", "alice", "--json")
        equal(one["compute_limit_milli"], 600)
        equal("share_milli" in place.json("vgpu", "show", "vgpu-2", "--json"), False, "absent stays absent")
        text = place.facet("vgpu", "show", "alice", "--json").stdout
        equal(text, json.dumps(json.loads(text), indent=2) + "\n", "indented by two")
        by_id = place.json("vgpu", "show", one["id"], "--json")
        equal(by_id["name"], "alice")


@test
def set_sends_only_changed_members():
    with Place() as place:
        create_two_vgpus(place)
        equal(place.facet("vgpu", "set", "alice", "-m", "512M").returncode, 0)
        equal(place.facet("vgpu", "set", "alice", "-c", "20").returncode, 0)
        equal(place.facet("vgpu", "set", "alice", "-m", "25%", "--priority", "low").returncode, 0)
        changes = [json.loads(line.partition("{")[1] + line.partition("{")[2]) for line in place.log()
                   if line.startswith("change")]
        equal(changes, [{"memory_limit_bytes": 512 << 20},
                        {"compute_request_milli": 200, "compute_limit_milli": 1000},
                        {"memory_limit_bytes": 2 << 30, "priority": "low"}])


@test
def labels_mark_and_find_vgpus():
    with Place(real=True) as place:
        place.facet("vgpu", "create", "--name", "a", "--label", "job=17", "--label", "team=x=y z", "-d", "opencl:0")
        place.facet("vgpu", "create", "--name", "b", "--label", "job=18", "-d", "opencl:0")
        listed = lambda *labels: [vgpu["name"] for vgpu in place.json("vgpu", "list", "--json", *labels)["vgpus"]]
        equal((listed("--label", "job"), listed("--label", "job=17"), listed("--label", "team=x=y z")),
              (["a", "b"], ["a"], ["a"]))
        equal((listed("--label", "job=18", "--label", "team"), listed("--label", "jo")), ([], []))
        contains(place.facet("vgpu", "list", "--label", "jo").stderr, "no virtual GPU has label jo")
        contains(place.facet("vgpu", "show", "a").stdout, "team=x=y z")
        equal(place.facet("vgpu", "set", "a", "--label", "job=", "--label", "stage=done").returncode, 0)
        equal(place.json("vgpu", "show", "a", "--json")["labels"], {"team": "x=y z", "stage": "done"})
        for label, said in (("job", "expected KEY=VALUE"), ("=x", "expected a key"), ("a b=c", "expected a key"),
                            ("a=\t", "expected a value"), ("a=" + "x" * 64, "expected a value")):
            done = place.facet("vgpu", "set", "a", "--label", label)
            equal(done.returncode, 2, label)
            contains(done.stderr, said)
        contains(place.facet("vgpu", "set", "a", "--label", "k=1", "--label", "k=2").stderr, "label k: given twice")
        setters = [place.start("vgpu", "set", "a", "--label", f"p{i}=1") for i in range(6)]  # none loses another's label
        equal([process.wait(timeout=60) for process in setters], [0] * 6)
        equal(sorted(place.json("vgpu", "show", "a", "--json")["labels"]), ["p0", "p1", "p2", "p3", "p4", "p5", "stage", "team"])
        for wrong in ("", "=v", "a\x1b[31m", "a=\x1b[31m"):
            equal(place.facet("vgpu", "list", "--label", wrong).returncode, 2, wrong)
        many = [word for i in range(17) for word in ("--label", f"k{i}=v")]
        contains(place.facet("vgpu", "create", *many).stderr, "given 17 times, expected at most 16")


@test
def freeze_and_resume_change_the_state():
    with Place() as place:
        create_two_vgpus(place)
        equal(place.facet("vgpu", "freeze", "alice").returncode, 0)
        equal(place.json("vgpu", "freeze", "alice", "--json")["state"], "frozen")
        equal(place.json("vgpu", "resume", "alice", "--json")["state"], "idle")


@test
def destroy_goes_on_after_a_failure():
    with Place() as place:
        create_two_vgpus(place)
        done = place.facet("vgpu", "destroy", "alice", "nobody", "vgpu-2")
        equal(done.returncode, 1)
        equal(len(done.stderr.splitlines()), 1)
        equal(place.json("vgpu", "list", "--json"), {"vgpus": []})


@test
def destroy_of_a_busy_vgpu_needs_force():
    with Place() as place:
        place.facet("vgpu", "create", "--name", "busy")
        done = place.facet("vgpu", "destroy", "busy")
        equal(done.returncode, 1)
        contains(done.stderr, "--force")
        equal(place.facet("vgpu", "destroy", "--force", "busy").returncode, 0)


@test
def options_may_follow_the_name():
    with Place() as place:
        create_two_vgpus(place)
        equal(place.json("vgpu", "show", "alice", "--json"), place.json("vgpu", "show", "--json", "alice"))


@test
def top_once_shows_rates():
    with Place() as place:
        create_two_vgpus(place)
        lines = place.facet("top", "--once", "--interval", "0.2").stdout.splitlines()
        equal(lines[0].split(), ["NAME", "DEVICE", "STATE", "SHARE", "ASK", "CAP", "MEMORY", "THR", "L/S", "PROC", "DENY"])
        row = re.fullmatch(r"alice +opencl:0 idle +29\.5% [█░]{8} +30% +60% +12M/4G +0% +(\d+) +2 +1", lines[1])
        equal(row is not None, True, f"row {lines[1]!r}")
        equal(int(row[1]) > 0, True, "launches a second")
        equal(all(len(line) <= 80 for line in lines), True, "within 80 columns")


@test
def top_json_is_one_line_a_refresh():
    with Place() as place:
        create_two_vgpus(place)
        process = place.start("top", "--json", "--interval", "0.1")
        first, second = (json.loads(process.stdout.readline()) for _ in range(2))
        equal([vgpu["name"] for vgpu in first["vgpus"]], ["alice", "vgpu-2"])
        equal(second["vgpus"][0]["launches"] > first["vgpus"][0]["launches"], True, "the second is newer")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        equal(process.returncode, 0, "exit status after ^C")


def on_terminal(place, arguments, env, done):
    """Runs `facet` on a terminal of its own until done(output), then types ^C; returns output and exit status."""
    master, slave = pty.openpty()
    process = subprocess.Popen([FACET, *arguments], stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                               env={**place.env, "TERM": "xterm", **env})
    os.close(slave)
    output = b""
    while not done(output):
        output += os.read(master, 65536)
    process.send_signal(signal.SIGINT)
    process.wait(timeout=60)
    os.close(master)
    return output.decode(), process.returncode


@test
def top_redraws_in_place_on_a_terminal():
    with Place() as place:
        create_two_vgpus(place)
        output, status = on_terminal(place, ["top", "--interval", "0.1"], {}, lambda seen: seen.count(b"\033[J") >= 3)
        equal(status, 0, "exit status after ^C")
        contains(output, "\033[H")
        contains(output, "\033[32m")
        output, _ = on_terminal(place, ["top", "--interval", "0.1"], {"NO_COLOR": "1"},
                                lambda seen: seen.count(b"\033[J") >= 2)
        equal("\033[32m" in output, False, "colour although NO_COLOR is set")


@test
def top_is_yellow_only_while_launches_wait():
    """In both cases the vGPU gets less than its guarantee; if its launches do not wait, it may have little to do."""
    for waited_ns, yellow in (("0", False), ("1000", True)):
        with Place() as place:
            place.env.update(FAKE_MISSING_MILLI="100", FAKE_WAITED_NS=waited_ns)
            create_two_vgpus(place)
            output, _ = on_terminal(place, ["top", "--interval", "0.1"], {}, lambda seen: seen.count(b"\033[J") >= 3)
            equal("\033[1;33m" in output, yellow, f"yellow after {waited_ns} ns in each interval")


@test
def dumb_terminal_gets_neither_colours_nor_cursor_codes():
    with Place() as place:
        create_two_vgpus(place)
        output, status = on_terminal(place, ["top", "--interval", "0.1"], {"TERM": "dumb"},
                                     lambda seen: seen.count(b"NAME") >= 3)
        equal(status, 0, "exit status after ^C")
        equal("\033" in output, False, "an escape code")


@test
def top_outlives_its_daemon_on_a_terminal():
    with Place() as place:
        create_two_vgpus(place)
        killed = []

        def done(seen):
            if not killed and seen.count(b"\033[J") >= 1:
                killed.append(place.kill_daemon())
            return b"waiting for it" in seen

        equal(on_terminal(place, ["top", "--interval", "0.1"], {}, done)[1], 0)


@test
def top_waits_for_a_daemon_on_a_terminal():
    with Place() as place:
        created = []

        def done(seen):
            if not created and b"no daemon listens" in seen and b"waiting for it" in seen:
                created.append(create_two_vgpus(place))
            return created and b"alice" in seen

        output, status = on_terminal(place, ["top", "--interval", "0.1"], {}, done)
        equal(status, 0)
        equal("no virtual GPUs" in output.partition("waiting for it")[0], False, output)  # it cannot know


@test
def metrics_are_passed_through():
    with Place() as place:
        create_two_vgpus(place)
        equal(place.facet("metrics").stdout, "# TYPE facet_up gauge\nfacet_up 1\n")


main()
