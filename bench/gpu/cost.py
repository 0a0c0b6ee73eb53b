# SPDX-License-Identifier: Apache-2.0
"""The interposer's cost on a GPU: single calls, and a product of bf16 matrices; bare and in a vGPU, in one run.

Owns: the calls, sizes and limits; a part of the GPU suite (tests/gpu/run).
Never: asserts a time. Calls are only recorded; a product must reach a ratio of the bare speed.
"""
import harness
from suite import Failed, Skip, check, must

# Arguments of gpu-calls: the calls, and how many allocations exist meanwhile.
CALLS = {"launch": ("launch", "0"), "alloc+free, 0 live": ("pair", "0"), "alloc+free, 1,000 live": ("pair", "1000"),
         "cuMemGetInfo": ("info", "0")}
WAYS = {"bare": None, "no limit": [], "share 50 %": ["-c", "50"], "limit 50 %": ["-c", "50:50"]}
SKIP = 77  # the exit status of gpu-gemm where there is no cuBLASLt
SIZE = 8192
LEAST = 0.99  # of the bare speed


def measured(machine, way, command):
    limits = WAYS[way]
    return machine.run_json(machine.outside_vgpu(command) if limits is None else machine.in_vgpu(limits, command))


@check("cost")
def single_calls(machine, record):
    machine.require_soft_limits()
    for label, (loop, live) in CALLS.items():
        command = [machine.programs / "gpu-calls", loop, str(machine.options.milliseconds), live]
        samples = harness.interleave(machine.options.rounds, {
            way: lambda way=way, command=command: measured(machine, way, command)["ns_per_call"] for way in WAYS})
        record[f"{label}, ns"] = {way: round(value, 1) for way, value in harness.medians(samples).items()}


@check("cost")
def a_product_of_bf16_matrices(machine, record):
    machine.require_soft_limits()
    if machine.is_fake:
        raise Skip("a fake device runs no kernel of cuBLASLt")
    command = [machine.programs / "gpu-gemm", str(SIZE), str(machine.options.milliseconds)]
    first = machine.try_run(machine.outside_vgpu(command))
    if first.returncode == SKIP:
        raise Skip(first.stderr.strip())
    if first.returncode:
        raise Failed(first.stderr.strip())
    samples = harness.interleave(machine.options.rounds, {
        way: lambda way=way: measured(machine, way, command) for way in ("bare", "no limit")})
    speeds = harness.medians({way: [one["tflops"] for one in values] for way, values in samples.items()})
    record.update(n=SIZE, ratio=round(speeds["no limit"] / speeds["bare"], 4),
                  tflops={way: round(value, 1) for way, value in speeds.items()})
    must(all(one["right"] for values in samples.values() for one in values), "a wrong product")
    must(record["ratio"] >= LEAST, f"{record['ratio']} of the bare speed, expected {LEAST} at least")
