# SPDX-License-Identifier: Apache-2.0
"""Two programs whose memory does not fit on a GPU together: one after the other, in turns, and without turns. They run
through the CUDA interposer and the daemon's scheduler, over a fake driver whose copies take as long as on a bus."""
import json
import statistics
import time

import cuda_launch
import harness

DEVICE_MIB = 64
SET_MIB = 48
KERNEL = "add_words_1000us"
COPY = "512M"  # bytes per second between device and host: a set takes 0.1 s, and 60 GB over PCIe 5.0 take 1 s
SECONDS_EACH = 8
WAYS = {"one after the other": ("20", False), "in turns": ("20", True), "without turns": ("0", True)}


def environment(bench, factor):
    return {**cuda_launch.environment(bench), "FAKE_CUDA_MEMORY": f"{DEVICE_MIB}M", "FAKE_CUDA_CONTEXT": "1M",
            "FAKE_CUDA_COPY": COPY, "FACET_SWAP_FACTOR": factor}


def wall_s(bench, vgpus, factor, launches):
    """Seconds until the last program is done. The programs check every word."""
    command = [cuda_launch.program(bench, "swap/cuda-swap-tenant"), SET_MIB, launches, KERNEL]
    begun = time.monotonic()
    lines = bench.output(cuda_launch.host(bench, 0, vgpus, command), environment(bench, factor)).splitlines()
    ended = time.monotonic()
    assert all(json.loads(line)["wrong"] == 0 for line in lines) and len(lines) == len(vgpus)
    return ended - begun


def measure(bench, way, launches):
    factor, together = WAYS[way]
    vgpu = f"swap:{2 * DEVICE_MIB}"
    if together:
        return wall_s(bench, [vgpu, vgpu], factor, launches)
    return sum(wall_s(bench, [vgpu], factor, launches) for _ in range(2))


def run(bench, options):
    launches = SECONDS_EACH * 1000
    rounds = min(options.rounds, 3)
    samples = {way: [] for way in WAYS}
    for _ in range(rounds):
        for way in WAYS:
            # Without turns, the work takes a hundred times as long, so that way does a hundredth of it.
            part = 100 if way == "without turns" else 1
            samples[way].append(part * measure(bench, way, launches // part))
    medians = {way: statistics.median(values) for way, values in samples.items()}
    serial = medians["one after the other"]
    table = harness.markdown_table(["way", "seconds", "to serial"],
                                   [[way, f"{value:.1f}", f"{value / serial:.2f}"] for way, value in medians.items()])
    note = (f"Two programs of {SET_MIB} MiB each on a device of {DEVICE_MIB} MiB, {SECONDS_EACH} s of kernels each, "
            f"{COPY}B/s between device and host; every word checked. Without turns (FACET_SWAP_FACTOR=0) a hundredth of the "
            f"work was done, and its time multiplied. Medians of {rounds} rounds. Recorded peer, not measured here "
            "(nvshare's own table, two jobs of 15.3 GB on 16 GB): 7.95 without scheduling, 1.02 with quanta of 60 s, "
            "1.94 with 5 s.")
    harness.save("cuda-swap", {"samples": samples, "medians": medians}, [table, note])
