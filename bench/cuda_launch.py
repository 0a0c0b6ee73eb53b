# SPDX-License-Identifier: Apache-2.0
"""What the CUDA interposer adds to a launch: over a fake driver, bare and in a vGPU, in the same run."""
import json

import harness

# Threads, processes, kernels that each launches in turn.
CALLERS = {"1 thread": (1, 1, 1), "1 thread, 4 kernels in turn": (1, 1, 4), "2 threads": (2, 1, 1),
           "2 processes, one vGPU": (1, 2, 1)}
WAYS = {"bare": "bare", "no limit": "0:1000", "limit 50 %": "500:500"}

# Recorded earlier, not measured here: HAMi-core 8f3a89c over a fake driver of that record, built with its own flags,
# bare and hooked, on a machine of 2 cores.
RECORDED = {"1 thread": {"no limit": (1.7, 24.6), "limit 50 %": (1.9, 41.2)},
            "2 threads": {"no limit": (2.1, 24.5), "limit 50 %": (3.6, 78.3)},
            "2 processes, one vGPU": {"no limit": (1.9, 25.6), "limit 50 %": (3.5, 77.7)}}


def environment(bench):
    """Where cuda-host finds the two libraries."""
    folders = {"FACET_TEST_CUDA_OURS": bench.build / "interpose" / "cuda",
               "FACET_TEST_CUDA_FAKE": bench.build / "tests" / "fake" / "cuda"}
    for folder in folders.values():
        if not (folder / "libcuda.so.1").exists():
            raise harness.Missing(f"{folder}/libcuda.so.1 was not built")
    return {name: str(folder) for name, folder in folders.items()}


def program(bench, name):
    """One of the programs that the tests of launches have, too."""
    path = bench.build / "tests" / "integration" / "cuda" / name
    if not path.exists():
        raise harness.Missing(f"{path} was not built")
    return path


def host(bench, seconds, vgpus, command):
    """The command line that runs `command` in each of the vGPUs."""
    return [program(bench, "cuda-host"), seconds, ",".join(vgpus), *command]


def measure(bench, callers, options):
    threads, processes, kernels = callers
    command = [program(bench, "cuda-launch"), options.milliseconds, threads, kernels]

    def one(way):
        vgpus = [way] + [way if way == "bare" else "+"] * (processes - 1)
        lines = bench.output(host(bench, 0, vgpus, command), environment(bench)).splitlines()
        values = [json.loads(line)["ns_per_call"] for line in lines]
        return sum(values) / len(values)

    samples = harness.interleave(options.rounds, {name: lambda way=way: one(way) for name, way in WAYS.items()})
    return {"samples": samples, **harness.medians(samples)}


def row(label, result):
    def added(name):
        own = result[name] - result["bare"]
        if label not in RECORDED:
            return f"{own:+.1f}"
        bare, hooked = RECORDED[label][name]
        return f"{own:+.1f} (recorded peer: {hooked - bare:+.1f})"

    return [label, f"{result['bare']:.1f}", added("no limit"), added("limit 50 %")]


def run(bench, options):
    results = [{"label": label, **measure(bench, callers, options)} for label, callers in CALLERS.items()]
    table = harness.markdown_table(["callers", "bare ns", "no limit: +ns", "limit 50 %: +ns"],
                                   [row(result["label"], result) for result in results])
    note = (f"Medians of {options.rounds} interleaved rounds, kernels of no device time. Recorded peer: HAMi-core "
            "8f3a89c as recorded earlier on another machine over another fake driver, not measured here.")
    harness.save("cuda-launch", results, [table, note])
