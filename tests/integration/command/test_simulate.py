#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`facet simulate` on small lists, and on the public traces if they are installed, against their authors' results."""
import csv
import json
import os
import subprocess
import xml.etree.ElementTree

from place import FACET, SOURCE, Place
from schema import keeps_to, refuses
from tap import Skip, contains, equal, main, test

TRACES = os.path.join(SOURCE, "..", "shared", "traces", "openb")
POLICIES = ["random", "first_fit", "best_fit", "dot_product", "gpu_packing", "gpu_clustering", "fgd", "facet"]
TOLERANCE_POINTS = 0.2  # percentage points between a published result and that of `facet simulate`


def write_lists(place, jobs=None):
    nodes = "".join(f"n{i},64000,262144,{1 << i % 4},{'A' if i % 2 else 'B'}\n" for i in range(40))
    place.write("nodes.csv", "sn,cpu_milli,memory_mib,gpu,model\n" + nodes)
    if jobs is None:
        rows = "".join(f"j{i},{1000 + 500 * (i % 9)},1024,{1 if i % 7 else 0},{1000 if i % 3 else 370},"
                       f"{'' if i % 11 else 'A'},{i * 10},{i * 10 + 100}\r\n" for i in range(60))
        jobs = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\r\n" + rows
    place.write("jobs.csv", jobs)
    return ["--nodes", os.path.join(place.root, "nodes.csv"), "--jobs", os.path.join(place.root, "jobs.csv")]


def objects(done):
    equal((done.returncode, done.stderr), (0, ""))
    return [json.loads(line) for line in done.stdout.splitlines()]


def without_times(results):
    return [{key: value for key, value in result.items() if key != "decision_ns"} for result in results]


@test
def one_object_per_policy():
    with Place() as place:
        lists = write_lists(place)
        results = objects(place.facet("simulate", *lists, "--policy", "first-fit,best_fit,fgd,facet", "--seeds", "3",
                                      "--json"))
        equal([result["policy"] for result in results], ["first_fit", "best_fit", "fgd", "facet"])
        for result in results:
            equal((result["seeds"], sorted(result["allocated_percent"])), (3, ["100", "130"]))
            equal(0 < result["allocated_percent"]["100"] <= result["allocated_percent"]["130"] <= 100, True, "percent")
            # The 40 nodes have 150 GPUs: ten nodes each have 1, 2, 4 and 8.
            equal(abs(result["unallocated_gpus"] - 150 * (1 - result["allocated_percent"]["130"] / 100)) < 0.01, True)
            equal(result["decision_ns"]["p50"] <= result["decision_ns"]["p99"], True, "decision_ns")
            equal([run["seed"] for run in result["runs"]], [1000, 1001, 1002])
            equal(len({run["node_order"] for run in result["runs"]}), 3)


@test
def printed_results_keep_to_their_schema():
    with Place() as place:
        lists = write_lists(place)
        for options in (["--policy", "all"], ["--load", "50,97.5"], ["--departures", "--migrate", "2"]):
            for result in objects(place.facet("simulate", *lists, "--seeds", "2", "--json", *options)):
                keeps_to("simulation.schema.json", result)
        refuses("simulation.schema.json", {**result, "other": 1})
        refuses("simulation.schema.json", {key: value for key, value in result.items() if key != "runs"})


@test
def the_number_of_threads_changes_no_result():
    with Place() as place:
        lists = write_lists(place)
        runs = [without_times(objects(place.facet("simulate", *lists, "--policy", "all", "--seeds", "4", "--json",
                                                  "--threads", str(threads)))) for threads in (1, 2, 5)]
        equal(runs[0], runs[1])
        equal(runs[0], runs[2])
        equal([result["policy"] for result in runs[0]], POLICIES)


@test
def loads_are_those_of_the_option():
    with Place() as place:
        lists = write_lists(place)
        result = objects(place.facet("simulate", *lists, "--seeds", "1", "--load", "50,97.5", "--json"))[0]
        equal((result["policy"], sorted(result["allocated_percent"])), ("facet", ["50", "97.5"]))


@test
def a_table_has_a_row_per_policy():
    with Place() as place:
        lists = write_lists(place)
        done = place.facet("simulate", *lists, "--policy", "fgd,facet", "--seeds", "1")
        equal((done.returncode, done.stderr), (0, ""))
        lines = done.stdout.splitlines()
        equal(len(lines), 3)
        contains(lines[0], "% AT 130")
        contains(lines[2], "facet")


@test
def departures_give_mean_and_peak_and_migration_places_more():
    with Place() as place:
        lists = write_lists(place)
        result = objects(place.facet("simulate", *lists, "--seeds", "1", "--departures", "--json"))[0]
        equal(sorted(result["allocated_percent"]), ["mean", "peak"])
        equal(result["requests"], 60.0)
        plain = objects(place.facet("simulate", *lists, "--policy", "random", "--seeds", "3", "--json"))[0]
        moved = objects(place.facet("simulate", *lists, "--policy", "random", "--seeds", "3", "--migrate", "2",
                                    "--json"))[0]
        equal(moved["moved"] > 0, True, "moved")
        equal(moved["allocated_percent"]["130"] > plain["allocated_percent"]["130"], True, "percent with moves")


@test
def plots_are_svg_or_html_by_their_name():
    with Place() as place:
        lists = write_lists(place)
        plot = os.path.join(place.root, "plot.svg")
        equal(place.facet("simulate", *lists, "--policy", "fgd,facet", "--seeds", "1", "--plot", plot).returncode, 0)
        root = xml.etree.ElementTree.parse(plot).getroot()
        equal(len(root.findall("{http://www.w3.org/2000/svg}polyline")), 2)
        plot = os.path.join(place.root, "plot.html")
        equal(place.facet("simulate", *lists, "--seeds", "1", "--plot", plot).returncode, 0)
        with open(plot, encoding="utf-8") as file:
            contains(file.read(), "<!doctype html>")
        done = place.facet("simulate", *lists, "--seeds", "1", "--plot", os.path.join(place.root, "none", "x.svg"))
        equal(done.returncode, 1)
        contains(done.stderr, "none/x.svg")


REFUSED = [
    ([], "--nodes FILE is missing"),
    (["--nodes", "x"], "--jobs FILE is missing"),
    (["--policy", "best"], "--policy 'best'"),
    (["--policy", "fgd,fgd"], "--policy 'fgd'"),
    (["--seeds", "0"], "--seeds '0'"),
    (["--seeds", "-1"], "--seeds '-1'"),
    (["--load", "130,100"], "--load '100'"),
    (["--load", "x"], "--load 'x'"),
    (["--load", "1844674407370955162"], "--load '1844674407370955162'"),
    (["--migrate", "65"], "--migrate '65'"),
    (["--threads", "1e3"], "--threads '1e3'"),
    (["--stretch", "2", "--nodes", "x", "--jobs", "y"], "--stretch"),
    (["--departures", "--plot", "a.svg", "--nodes", "x", "--jobs", "y"], "--plot"),
    (["--departures", "--load", "50", "--nodes", "x", "--jobs", "y"], "--load"),
    (["--sedes", "3"], "did you mean '--seeds'"),
]


@test
def wrong_options_are_refused():
    with Place() as place:
        for options, said in REFUSED:
            done = place.facet("simulate", *options)
            equal((done.returncode, done.stdout, len(done.stderr.splitlines())), (2, "", 1), str(options))
            contains(done.stderr, said)


@test
def wrong_lists_are_named():
    with Place() as place:
        for jobs, said in (("name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1,1,x,1\n",
                            "jobs.csv:2: column num_gpu: 'x': expected a whole number"),
                           ("name,cpu_milli\na,1\n", "column num_gpu: '': expected this heading"),
                           ("cpu_milli,num_gpu,gpu_milli\n1,0,0\n", "jobs: none of them has a GPU"),
                           ("", "jobs.csv: empty")):
            lists = write_lists(place, jobs)
            for more in ([], ["--json"]):
                done = place.facet("simulate", *lists, *more)
                equal(done.returncode in (1, 2), True, done.stderr)
                contains(done.stderr, said)
        done = place.facet("simulate", "--nodes", os.path.join(place.root, "none.csv"), *lists[2:])
        contains(done.stderr, "none.csv")


@test
def lists_may_come_through_a_pipe():
    with Place() as place:
        lists = write_lists(place)
        expected = place.facet("simulate", *lists, "--seeds", "1", "--json")
        done = place.facet("simulate", *lists[:3], "/dev/stdin", "--seeds", "1", "--json", stdin=place.read("jobs.csv"))
        equal(without_times(objects(done)), without_times(objects(expected)))
        done = place.facet("simulate", *lists[:3], "/dev/null")
        equal((done.returncode, done.stdout), (2, ""))
        equal(done.stderr, "facet simulate: /dev/null: empty, expected a line of headings\n")


@test
def a_plot_overwrites_no_list():
    with Place() as place:
        lists = write_lists(place)
        for path in (lists[1], lists[3]):
            with open(path, encoding="utf-8") as file:
                before = file.read()
            done = place.facet("simulate", *lists, "--plot", path)
            equal((done.returncode, done.stdout), (2, ""))
            contains(done.stderr, "expected another file than")
            with open(path, encoding="utf-8") as file:
                equal(file.read(), before)


@test
def published_results_are_met():
    published = os.path.join(TRACES, "published_allocation.csv")
    if not os.path.exists(published):
        raise Skip("the public traces are not beside the checkout")
    with open(published, encoding="utf-8") as file:
        rows = {(row["trace"], row["policy"][3:]): row for row in csv.DictReader(file)}
    for trace in ("default", "gpuspec33", "multigpu50"):
        path = os.path.join(TRACES, f"openb_pod_list_{trace}.csv")
        if not os.path.exists(path):
            continue
        done = subprocess.run([FACET, "simulate", "--nodes", os.path.join(TRACES, "openb_node_list_gpu_node.csv"),
                               "--jobs", path, "--policy", "fgd,facet", "--seeds", "10", "--json"],
                              capture_output=True, text=True, timeout=300, check=False)
        fgd, facet = objects(done)
        for load in ("100", "130"):
            expected = float(rows[trace, "FGD"][f"allocated_percent_at_{load}"])
            got = fgd["allocated_percent"][load]
            equal(abs(got - expected) <= TOLERANCE_POINTS, True, f"{trace} at {load}: fgd {got}, published {expected}")
            equal(facet["allocated_percent"][load] > expected, True, f"{trace} at {load}: facet above published FGD")


main()
