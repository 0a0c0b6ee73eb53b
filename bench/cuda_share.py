# SPDX-License-Identifier: Apache-2.0
"""Programs' shares of a GPU against their requests: the CUDA interposer and the daemon's scheduler over a fake driver,
whose engine records what really ran."""
import json
import re
import statistics
from dataclasses import dataclass, field

import cuda_launch
import harness

SETTLE_S = 1  # left out at the start

STALL_MS = 5  # the target: the most that a launch may wait beyond its own wait, at the 99th percentile

MIX = "work_5us,work_100us,work_1000us"


@dataclass
class Case:
    name: str
    vgpus: list  # request:limit in milli
    kernel: str
    blocks: int  # of a launch
    depth: int  # the most launches in flight
    graph: list = field(default_factory=list)  # ["graph", how many launches a graph has]; empty: no graphs

    @property
    def requested_percent(self):
        """The limit of each vGPU in percent; the guarantee where there is no limit."""
        pairs = [[int(part) for part in vgpu.split(":")] for vgpu in self.vgpus]
        return [limit / 10 if limit < 1000 else request / 10 for request, limit in pairs]

    @property
    def longest_ms(self):
        """The length of the longest launch of the mix, which cannot be interrupted."""
        nodes = int(self.graph[1]) if self.graph else 1
        return nodes * max(int(us) for us in re.findall(r"(\d+)us", self.kernel)) / 1000

    @property
    def own_waits_ms(self):
        """For each share, how long the next launch must wait after the longest launch. No scheduler can shorten that
        wait."""
        return [self.longest_ms * (100 / share - 1) for share in self.requested_percent]


CASES = [
    *(Case(f"{percent} % alone, 1 ms", [f"{10 * percent}:{10 * percent}"], "work_1000us", 1056, 8)
      for percent in (10, 30, 50, 80)),
    Case("30 % alone, 5 us", ["300:300"], "work_5us", 1056, 64),
    Case("30 % alone, 100 us", ["300:300"], "work_100us", 1056, 16),
    Case("30 % alone, 8 blocks of 1 ms", ["300:300"], "work_1000us", 8, 8),
    Case("30 % alone, 20 ms, each waited for", ["300:300"], "work_20000us", 1056, 1),
    Case("80 % alone, 20 ms, each waited for", ["800:800"], "work_20000us", 1056, 1),
    Case("30 % alone, graphs of 10 x 100 us", ["300:300"], "work_100us", 1056, 4, ["graph", "10"]),
    Case("30 + 70 limits, 1 ms", ["300:300", "700:700"], "work_1000us", 1056, 8),
    Case("30 + 70 limits, 20 ms", ["300:300", "700:700"], "work_20000us", 1056, 2),
    Case("30 + 70 guarantees, 1 ms", ["300:1000", "700:1000"], "work_1000us", 1056, 8),
    Case("30 + 70 guarantees, 100 us", ["300:1000", "700:1000"], "work_100us", 8, 16),
    Case("30 + 70 guarantees, 5 us, 100 us, 1 ms in turn", ["300:1000", "700:1000"], MIX, 1056, 32),
    Case("30 + 70 guarantees, 20 ms", ["300:1000", "700:1000"], "work_20000us", 1056, 2),
    Case("30 + 70 guarantees, graphs of 10 x 100 us", ["300:1000", "700:1000"], "work_100us", 1056, 4,
         ["graph", "10"]),
    Case("four of 25, 1 ms", ["250:1000"] * 4, "work_1000us", 1056, 8),
    Case("four of 25, limits, 1 ms", ["250:250"] * 4, "work_1000us", 1056, 8),
    Case("four of 25, 100 us", ["250:1000"] * 4, "work_100us", 1056, 16),
    Case("four of 25, 5 us", ["250:1000"] * 4, "work_5us", 1056, 64),
    Case("four of 25, 5 us, 100 us, 1 ms in turn", ["250:1000"] * 4, MIX, 1056, 32),
    Case("four of 25, 20 ms", ["250:1000"] * 4, "work_20000us", 1056, 2),
]


def measure(bench, case, options):
    seconds = round(options.seconds)
    command = [cuda_launch.program(bench, "cuda-burn"), seconds + SETTLE_S + 1, case.kernel, case.blocks, case.depth,
               *case.graph]
    lines = bench.output(cuda_launch.host(bench, seconds + SETTLE_S, case.vgpus, command),
                         cuda_launch.environment(bench)).splitlines()
    parsed = [json.loads(line) for line in lines]
    windows = [line for line in parsed if "second" in line][SETTLE_S:]
    got = [[value / 10 for value in window["got_milli"]] for window in windows]
    told = [[value / 10 for value in window["told_milli"]] for window in windows]
    ends = {line["pid"]: line["stall_p99_us"] / 1000 for line in parsed if "stall_p99_us" in line}
    return {"case": case.name, "asked": case.requested_percent, "got": got, "told": told,
            "mean": [statistics.mean(column) for column in zip(*got)],
            "error": statistics.mean(abs(a - b) for window in got for a, b in zip(window, case.requested_percent)),
            "longest_ms": case.longest_ms, "stall_p99_ms": [ends[pid] for pid in windows[0]["pids"]],
            "own_wait_ms": case.own_waits_ms}


def percents(values):
    return " / ".join(f"{value:.1f}" for value in values)


def worst(result):
    """P99 and own wait of the vGPU whose P99 exceeds its own wait most."""
    return max(zip(result["stall_p99_ms"], result["own_wait_ms"]), key=lambda pair: pair[0] - pair[1])


def row(result):
    told = [statistics.mean(column) for column in zip(*result["told"])]
    stall_ms, own_ms = worst(result)
    return [result["case"], percents(result["asked"]), percents(result["mean"]), percents(told),
            f"{result['error']:.1f}", f"{result['longest_ms']:g}", percents(result["stall_p99_ms"]), f"{own_ms:.1f}",
            f"{max(0, stall_ms - own_ms):.1f}", "yes" if stall_ms - own_ms < STALL_MS else "no"]


NOTE = ("Got: what ran in each second, by the fake driver's engine. Told: what the limiter reported complete in the "
        "same second. "
        "Stall: how long a launch call took. Own wait: L x (1 / share - 1), where L is the longest launch: a vGPU that "
        "had the device for L must wait that long to keep to its share, and no limiter can shorten it. The rule for "
        f"every row: the P99 of stalls may exceed the own wait by less than {STALL_MS} ms, for the vGPU of the row "
        "that exceeds it most. The rule allows for no other wait that a limiter cannot avoid: a program that launches "
        "ahead also waits for its own previous launch (another L), and for whole launches of others. "
        "Recorded peer, not measured here (HAMi-core 8f3a89c in a simulation of that record): 10 / 30 / 50 / 80 % "
        "asked alone with kernels of 1 ms got 52.5 / 85.8 / 94.7 / 97.0; 30 + 70 got 48.0 + 51.8; graphs at 30 % "
        "got 99.5.")


def raw_note(results):
    """The cases that miss the target when stalls of any cause count."""
    above = [result["case"] for result in results if max(result["stall_p99_ms"]) >= STALL_MS]
    return f"Raw P99 of {STALL_MS} ms and more: {'; '.join(above) if above else 'none'}."


def run(bench, options):
    results = [measure(bench, case, options) for case in CASES]
    table = harness.markdown_table(["case", "asked %", "got %", "told %", "mean error per second, points",
                                    "longest launch ms", "stall P99 ms, each", "own wait ms", "beyond it ms",
                                    f"under {STALL_MS} ms"], [row(result) for result in results])
    harness.save("cuda-share", results, [table, NOTE, raw_note(results)])
