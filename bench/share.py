# SPDX-License-Identifier: Apache-2.0
"""How exactly busy tenants get the shares they asked for, and the cost of that.

Each scenario runs five ways on the same work: without any control; under Facet with exclusive leases (its default), and
with parallel ones; and under HAMi's published control loop (bench/peers/hami_loop: our re-implementation from its
description), sized for this device, and sized for a data-center GPU, since its step grows with the square of the number
of compute units. The error of a window is the distance, in points, between a tenant's share and its part of all kernels
that completed in the window.
"""
import json
import statistics
import time
from dataclasses import dataclass

import harness

WINDOW_MS = 100
SETTLE_S = 2   # left out at the start, so that every control can settle
HAMI_SIZES = {"hami loop": {}, "hami loop, 132 units": {"HAMI_LOOP_UNITS": "132", "HAMI_LOOP_THREADS": "2048"}}
# The alternative of docs/adr/0003: all tenants may launch at once, and the device's timeline is divided among them.
PARALLEL = "facet, parallel leases"
CAPS = (10, 30, 50, 80)
START_S = 1.5  # from starting the processes to their common start of work


@dataclass
class Scenario:
    name: str
    percents: list
    kernel_us: int
    depth: int = 4


SCENARIOS = [
    *(Scenario(f"50/30/20, {us / 1000:g} ms kernels", [50, 30, 20], us) for us in (100, 1000, 10000, 50000)),
    Scenario("90/10, 1 ms kernels", [90, 10], 1000),
    Scenario("90/10, 10 ms kernels", [90, 10], 10000),
    Scenario("eight equal, 1 ms kernels", [12.5] * 8, 1000),
]


class Runner:
    """Runs tenants under one kind of control and reads how much they completed."""

    def __init__(self, bench, options):
        self.bench = bench
        self.seconds = options.seconds + SETTLE_S
        self.steps_of = {}
        self.parallel = {**bench.own_daemon("parallel"), "FACET_PARALLEL": "64"}

    def steps(self, kernel_us):
        if kernel_us not in self.steps_of:
            self.steps_of[kernel_us] = self.bench.steps(kernel_us)
        return self.steps_of[kernel_us]

    def command(self, control, percent, burn):
        if control == "facet":
            return self.bench.inside(["-c", f"{percent}%"], burn), {}
        if control == PARALLEL:
            return self.bench.inside(["-c", f"{percent}%"], burn), self.parallel
        if control in HAMI_SIZES:
            return burn, {"OPENCL_LAYERS": str(self.bench.program("hami_loop.so")),
                          "HAMI_LOOP_PERCENT": f"{percent:.0f}", **HAMI_SIZES[control]}
        return burn, {}

    def tenants(self, control, percents, kernel_us, depth=4, extra=None):
        """Runs one process per share; returns the JSON lines of each."""
        start_ns = time.monotonic_ns() + int(START_S * 1e9)
        processes = []
        for index, percent in enumerate(percents):
            burn = [self.bench.burn, "--steps", self.steps(kernel_us), "--depth", depth, "--seconds", self.seconds,
                    "--start-ns", start_ns, "--windows", WINDOW_MS, *(extra or {}).get(index, [])]
            command, environment = self.command(control, percent, burn)
            processes.append(self.bench.start(command, environment))
        return [[json.loads(line) for line in self.bench.finish(process).splitlines()] for process in processes]


def done(lines):
    return lines[-1]


def windows(tenants, begin_ns=0, end_ns=2**63):
    """Kernels per tenant, for each window in which all tenants were at work and the controls had settled."""
    begin = max([begin_ns] + [done(lines)["begin_ns"] + SETTLE_S * 10**9 for lines in tenants])
    end = min([end_ns] + [done(lines)["end_ns"] for lines in tenants])
    counts = [{line["start_ns"]: line["kernels"] for line in lines if line["event"] == "window"} for lines in tenants]
    common = sorted(set.intersection(*map(set, counts)))
    return [[count[at] for count in counts] for at in common if begin <= at and at + WINDOW_MS * 10**6 <= end]


def merge(rows, factor):
    """Merges `factor` windows into one, and drops an incomplete one at the end."""
    return [[sum(column) for column in zip(*rows[at:at + factor])]
            for at in range(0, len(rows) - factor + 1, factor)]


def errors(rows, percents):
    """Distances in points, one per tenant and window; a window without a completed kernel is left out."""
    return [abs(100 * count / sum(row) - percent)
            for row in rows if sum(row) for count, percent in zip(row, percents)]


def summarize(tenants, percents):
    rows = windows(tenants)
    if not rows or not any(map(sum, rows)):
        raise harness.Missing("no window in which all tenants were at work")
    totals = [sum(column) for column in zip(*rows)]
    short, long = errors(rows, percents), errors(merge(rows, 10), percents)
    return {
        "shares": [100 * total / sum(totals) for total in totals],
        "kernels_per_s": sum(totals) / (len(rows) * WINDOW_MS / 1000),
        "windows": len(rows),
        "error_100ms_mean": statistics.mean(short), "error_100ms_max": max(short),
        "error_1s_mean": statistics.mean(long) if long else None, "error_1s_max": max(long) if long else None,
        "stall_p99_ms": max(done(lines).get("gap_p99_ns", 0) for lines in tenants) / 1e6,
        "stall_max_ms": max(done(lines).get("gap_max_ns", 0) for lines in tenants) / 1e6,
    }


def points(value):
    return "-" if value is None else f"{value:.1f}"


def scenario_rows(name, results):
    base = results["no control"]["kernels_per_s"]
    for control, result in results.items():
        yield [name, control, " / ".join(f"{share:.1f}" for share in result["shares"]),
               f"{points(result['error_100ms_mean'])} ({points(result['error_100ms_max'])})",
               f"{points(result['error_1s_mean'])} ({points(result['error_1s_max'])})",
               f"{result['kernels_per_s'] / base:.3f}",
               f"{result['stall_p99_ms']:.1f} ({result['stall_max_ms']:.1f})"]


def run_scenario(runner, scenario, repeats):
    """Runs each control in turn, several times, so that noise affects all alike. Returns means of means, and maxima."""
    samples = harness.interleave(repeats, {
        control: lambda control=control: summarize(
            runner.tenants(control, scenario.percents, scenario.kernel_us, scenario.depth), scenario.percents)
        for control in ("no control", "facet", PARALLEL, *HAMI_SIZES)})
    return {control: combine(results) for control, results in samples.items()}


def combine(results):
    combined = {"shares": [statistics.mean(column) for column in zip(*(result["shares"] for result in results))]}
    for key in results[0].keys() - combined.keys():
        values = [result[key] for result in results if result[key] is not None]
        worst = key.endswith("max") or key == "stall_max_ms"
        combined[key] = (max(values) if worst else statistics.mean(values)) if values else None
    return combined


def run_idle(runner):
    """Shares of 50/30/20, of which the first tenant is idle in the second half: its time goes to the others, 60/40."""
    half = SETTLE_S + (runner.seconds - SETTLE_S) / 2
    results = {}
    for control in ("facet", *HAMI_SIZES):
        tenants = runner.tenants(control, [50, 30, 20], 1000, extra={0: ["--idle-after", half]})
        middle = max(done(lines)["begin_ns"] for lines in tenants) + int((half + 0.5) * 1e9)
        before, after = windows(tenants, 0, middle - 10**9), windows(tenants, middle)
        totals = [[sum(column) for column in zip(*rows)] for rows in (before, after)]
        results[control] = {
            "shares_while_idle": [100 * count / sum(totals[1]) for count in totals[1]],
            "throughput_kept": (sum(totals[1]) / len(after)) / (sum(totals[0]) / len(before)),
        }
    return results


def run_caps(runner):
    """One tenant alone: its speed under a cap as a part of its speed without control, measured just before."""
    results = {}
    for percent in CAPS:
        burn = [runner.bench.burn, "--steps", runner.steps(1000), "--seconds", runner.seconds, "--windows", WINDOW_MS]
        speed = {}
        for control in ("no control", "facet", *HAMI_SIZES):
            command, environment = runner.command(control, percent, burn)
            if control == "facet":
                command = runner.bench.inside(["-c", f"{percent}:{percent}"], burn)
            lines = [json.loads(line) for line in runner.bench.output(command, environment).splitlines()]
            speed[control] = summarize([lines], [100])["kernels_per_s"]
        results[percent] = {control: 100 * value / speed["no control"] for control, value in speed.items()}
    return results


def run(bench, options):
    runner = Runner(bench, options)
    results, rows = {}, []
    for scenario in SCENARIOS:
        results[scenario.name] = run_scenario(runner, scenario, options.repeats)
        for row in scenario_rows(scenario.name, results[scenario.name]):
            rows.append(row)
            print(*row, sep="   ", flush=True)
    idle, caps = run_idle(runner), run_caps(runner)
    tables = [
        harness.markdown_table(["tenants", "control", "shares", "error 100 ms: mean (max)", "error 1 s: mean (max)",
                                "throughput", "stall p99 (max) ms"], rows),
        f"Errors in points over {options.repeats} times {options.seconds:g} s after {SETTLE_S} s to settle, all "
        "tenants busy. Throughput: kernels of all tenants against no control. Stall: the longest of the "
        "tenants' times between two completions.",
        harness.markdown_table(
            ["the 50 % tenant of 50/30/20 is idle", "shares then", "throughput kept"],
            [[control, " / ".join(f"{share:.1f}" for share in result["shares_while_idle"]),
              f"{result['throughput_kept']:.3f}"] for control, result in idle.items()]),
        harness.markdown_table(
            ["one tenant alone, capped at", "facet", *HAMI_SIZES],
            [[f"{percent} %", *(f"{caps[percent][control]:.1f} %" for control in ("facet", *HAMI_SIZES))]
             for percent in CAPS]),
        "\"hami loop\" is bench/peers/hami_loop, our re-implementation of HAMi's published control loop; it is not "
        "HAMi. \"132 units\" tells it the device has the size of a data-center GPU (and counts the work-groups of a "
        "program that fills one).",
    ]
    harness.save("share", {"scenarios": results, "idle": idle, "caps": caps}, tables)
