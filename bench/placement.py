# SPDX-License-Identifier: Apache-2.0
"""Placing requests on fleets (facet/placement.h).

decision: one decision over about as many GPUs as the public lists have, beside scoring every node for each request, in
one run. linear: fleets of up to 100,000 nodes. lists: the share of GPUs that each policy allocates on the public lists,
with several seeds; and how long all of that took.

Missing lists are reported as missing.
"""
import csv
import json
import os
import statistics
import subprocess
import time

import harness

NODES = 1213
REQUESTS = 10000
NAIVE_REQUESTS = 1500
SIZES = [1000, 3000, 10000, 30000, 100000]
POLICIES = ["first_fit", "best_fit", "fgd", "facet"]
LISTS = "openb"
SEEDS = 10
PARTS = ["decision", "linear", "lists"]


def measure_decision(bench, options):
    program = bench.program("bench_placement")
    calls = {f"facet, policy {policy}": lambda policy=policy: bench.last_json(
        [program, "ours", policy, NODES, REQUESTS]) for policy in POLICIES}
    calls["every node anew, FGD"] = lambda: bench.last_json([program, "naive", "fgd", NODES, NAIVE_REQUESTS])
    samples = harness.interleave(min(options.rounds, 5), calls)
    return {"results": [{"who": who, **{key: statistics.median(run[key] for run in runs)
                                        for key in ("p50_ns", "p99_ns", "mean_ns")}}
                        for who, runs in samples.items()]}


def decision_table(measured):
    naive = next(result for result in measured["results"] if "anew" in result["who"])
    rows = [[result["who"], f"{result['p50_ns'] / 1e3:.2f}", f"{result['p99_ns'] / 1e3:.2f}",
             f"{result['mean_ns'] / 1e3:.2f}", f"{naive['p50_ns'] / result['p50_ns']:.0f}",
             f"{naive['mean_ns'] / result['mean_ns']:.0f}"] for result in measured["results"]]
    return [harness.markdown_table(["", "P50 us", "P99 us", "mean us", "times as fast: P50", "mean"], rows),
            f"{NODES} nodes of four kinds, requests of 24 kinds; times include taking the GPUs. Every node anew: the "
            f"published formula, for each node and each request, over the first {NAIVE_REQUESTS} requests."]


def measure_linear(bench, options):
    program = bench.program("bench_placement")
    return {"results": [bench.last_json([program, "ours", "facet", nodes, nodes * 8]) for nodes in SIZES]}


def linear_table(measured):
    rows = [[result["nodes"], result["requests"], f"{result['p50_ns'] / 1e3:.2f}", f"{result['p99_ns'] / 1e3:.2f}",
             f"{result['mean_ns'] / 1e3:.2f}", f"{result['mean_ns'] / result['nodes']:.3f}"]
            for result in measured["results"]]
    return [harness.markdown_table(["nodes", "requests", "P50 us", "P99 us", "mean us", "mean ns per node"], rows)]


def published_of(folder):
    path = folder / "published_allocation.csv"
    if not path.exists():
        return {}
    with open(path, encoding="utf-8") as file:
        return {row["trace"]: row for row in csv.DictReader(file) if row["policy"].endswith("FGD")}


def measure_lists(bench, options):
    folder = options.traces / LISTS
    nodes = folder / "openb_node_list_gpu_node.csv"
    if not nodes.exists():
        return {"missing": f"there is no {LISTS}/{nodes.name} in the folder of --traces"}
    published = published_of(folder)
    results, begin = [], time.monotonic()
    for path in sorted(folder.glob("openb_pod_list_*.csv")):
        name = path.stem[len("openb_pod_list_"):]
        done = subprocess.run([bench.facet, "simulate", "--nodes", nodes, "--jobs", path, "--policy", "all",
                               "--seeds", str(SEEDS), "--json"], capture_output=True, text=True, check=True)
        row = published.get(name)
        results.append({"list": name, "policies": [json.loads(line) for line in done.stdout.splitlines()],
                        "published": row and [float(row[f"allocated_percent_at_{load}"]) for load in (100, 130)]})
    return {"results": results, "seconds": time.monotonic() - begin, "processors": os.cpu_count(),
            "runs": sum(len(result["policies"]) for result in results) * SEEDS}


def lists_table(measured):
    if "missing" in measured:
        return [f"The lists were skipped: {measured['missing']}."]
    rows = []
    for result in measured["results"]:
        shares = {policy["policy"]: policy["allocated_percent"] for policy in result["policies"]}
        published = result["published"]
        rows.append([result["list"], f"{published[0]:.2f} / {published[1]:.2f}" if published else "-",
                     *(f"{share['100']:.2f} / {share['130']:.2f}" for share in shares.values())])
    names = [policy["policy"] for policy in measured["results"][0]["policies"]]
    return [harness.markdown_table(["list", "FGD published", *names], rows),
            f"Per cent of the GPUs allocated when 100 / 130 % were requested, mean of {SEEDS} seeds. "
            f"{measured['runs']} runs in {measured['seconds']:.0f} s on {measured['processors']} processors. Seeds and a "
            "hash of the order of the nodes of each run are among the raw samples."]


def run(bench, options):
    parts = options.parts.split(",") if options.parts else PARTS
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        raise harness.Missing(f"there is no part '{unknown[0]}'; there are {', '.join(PARTS)}")
    results, tables = {}, []
    for part in parts:
        results[part] = globals()[f"measure_{part}"](bench, options)
        tables += [f"## {part}", *globals()[f"{part}_table"](results[part])]
    if parts == PARTS:
        harness.save("placement", results, tables)
    else:
        print("\n\n".join(tables), flush=True)
