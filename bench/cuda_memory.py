# SPDX-License-Identifier: Apache-2.0
"""The CUDA interposer's cost of calls for memory: over a fake driver, bare and in a vGPU, in the same run."""
import harness

CALLERS = {"1 thread": (1, 1), "2 threads": (2, 1), "2 processes, one vGPU": (1, 2)}  # threads of a process, processes
# Arguments of bench_cuda_memory: the calls, and how many allocations each thread has meanwhile.
CASES = {"alloc+free 4 KiB, 0 live": ("pair", 0), "alloc+free, 1,000 live": ("pair", 1000),
         "alloc+free, 10,000 live": ("pair", 10000), "cuMemGetInfo": ("info", 0)}

# Recorded earlier, not measured here: HAMi-core 8f3a89c, built with its own flags, over another fake driver, on a
# machine of 2 cores. Nanoseconds of a call, bare and hooked.
RECORDED = {
    "alloc+free 4 KiB, 0 live": {"1 thread": (37, 664), "2 threads": (77, 1382), "2 processes, one vGPU": (36, 1021)},
    "alloc+free, 1,000 live": {"1 thread": (35, 3396), "2 threads": (74, 10309), "2 processes, one vGPU": (40, 3196)},
    "alloc+free, 10,000 live": {"1 thread": (38, 32515), "2 threads": (57, 279776),
                                "2 processes, one vGPU": (83, 32915)},
    "cuMemGetInfo": {"1 thread": (2.4, 1138), "2 threads": (2.4, 1275), "2 processes, one vGPU": (6.0, 1185)},
}


def libraries(bench):
    found = {"bare": bench.build / "tests" / "fake" / "cuda" / "libcuda.so.1",
             "vgpu": bench.build / "interpose" / "cuda" / "libcuda.so.1"}
    for path in found.values():
        if not path.exists():
            raise harness.Missing(f"{path} was not built")
    return found


def measure(bench, case, callers, options):
    found = libraries(bench)
    threads, processes = callers
    state = bench.folder / "machine"
    environment = {"FACET_REAL_CUDA": str(found["bare"]), "FAKE_CUDA_STATE": str(state), "FAKE_CUDA_CONTEXT": "1M",
                   "FAKE_CUDA_TRUST": "1"}  # else cuMemGetInfo asks Linux for live processes, which hides our cost

    def measure_once(way):
        state.unlink(missing_ok=True)  # else processes that have ended would count
        command = [bench.program("cuda/bench_cuda_memory"), found[way], way, *case, threads, processes,
                   options.milliseconds]
        return bench.last_json(command, environment)["ns_per_call"]

    samples = harness.interleave(options.rounds, {way: lambda way=way: measure_once(way) for way in found})
    return {"samples": samples, **harness.medians(samples)}


def row(result):
    bare, hooked = RECORDED[result["case"]][result["callers"]]
    added, recorded = result["vgpu"] - result["bare"], hooked - bare
    is_significant = added > result["bare"] / 20  # two runs of bare differ by up to that
    return [result["case"], result["callers"], f"{result['bare']:.1f}", f"{result['vgpu']:.1f}", f"{added:+.1f}",
            f"{recorded:+.0f}", f"{recorded / added:.0f}" if is_significant else "-"]


def run(bench, options):
    results = [{"case": case, "callers": callers, **measure(bench, CASES[case], CALLERS[callers], options)}
               for case in CASES for callers in CALLERS]
    table = harness.markdown_table(["call", "callers", "bare ns", "in a vGPU", "added ns", "recorded peer: added",
                                    "peer / ours"], [row(result) for result in results])
    note = (f"Medians of {options.rounds} interleaved rounds. Recorded peer: HAMi-core 8f3a89c as recorded earlier over "
            "another fake driver, not measured here. Each caller has a processor of its own. Batches during which "
            "another caller made no progress are left out. Two threads share the fake driver's one lock, which serves "
            "them in FIFO order: their waits for it are in both columns, and work that Facet does during such a wait "
            "does not show. With an unfair lock, the bare loop would keep the lock from the other thread, and the two "
            "columns could not be compared.")
    harness.save("cuda-memory", results, [table, note])
