# SPDX-License-Identifier: Apache-2.0
"""Allocation maps (facet/allocation.h) beside the algorithm of Backend.AI's maps, written plainly in Python, its
language, and in C. One node: 8 GPUs in shares, 144 cores, two sockets, memory.

Owns: interleaved rounds, medians, ratios. Never: compares rounds of different runs.
"""
import statistics
import sys

import harness

sys.path.insert(0, str(harness.ROOT / "bench" / "placement"))

import naive_maps


def run(bench, options):
    program = bench.program("bench_allocation_maps")
    rounds = []
    for _ in range(options.rounds):
        cases = bench.last_json([program, options.milliseconds])["cases"]
        for case in cases:
            case["python_ns"] = naive_maps.measure(case["case"], options.milliseconds / 1000)
        rounds.append(cases)
    rows = []
    for samples in zip(*rounds):
        middle = {key: statistics.median(sample[key] for sample in samples)
                  for key in ("ours_ns", "naive_ns", "python_ns")}
        rows.append({"case": samples[0]["case"], **middle, "times_python": middle["python_ns"] / middle["ours_ns"],
                     "times_c": middle["naive_ns"] / middle["ours_ns"]})
    table = harness.markdown_table(["request", "ours ns", "naive Python ns", "times ours", "naive C ns", "times ours"],
                                   [[row["case"], f"{row['ours_ns']:.0f}", f"{row['python_ns']:.0f}",
                                     f"{row['times_python']:.0f}", f"{row['naive_ns']:.0f}", f"{row['times_c']:.0f}"]
                                    for row in rows])
    harness.save("allocation", {"cases": rows}, [
        table, "An operation is an allocation and the release of the oldest of four grants. The naive forms do what the "
               "original does: copy all maps first, find NUMA groups in a graph, count in decimals by name."])
