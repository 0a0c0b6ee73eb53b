# SPDX-License-Identifier: Apache-2.0
"""Device memory of many vGPUs (facet/memory.h, on host memory) against other allocators under the same work.

latency: one allocation and one free among 10^3 to 10^6 live blocks, beside malloc of three libraries, a buddy
allocator and a scanned list. replay: the memory that keys and values of language models need according to a trace of
inference, beside first fit, best fit and buddy. defragment: moving live data that a thread writes to, beside memcpy.
oversubscribe: tenants at once whose working sets do not fit together, beside one after the other. many: 1,000 spaces.

A missing part (a library, the trace) is reported as missing.
"""
import statistics

import harness

LIVE = [10**3, 10**4, 10**5, 10**6]
SCAN_MOST = 10**4
THREADS = [1, 2]
PRELOADED = {"glibc": None, "jemalloc": "libjemalloc.so.2", "mimalloc": "libmimalloc.so.2"}
# GiB of the pool, and how many times as fast as recorded requests arrive.
REPLAYS = [(pool, rate) for pool in (20, 40, 80) for rate in (4, 8, 16)]
POOLS = ["facet-64k", "facet-2m", "first-fit", "best-fit", "buddy"]
TRACE = "azure/AzureLLMInferenceTrace_conv.csv"
LIVE_MIB = 4096
# Size of an allocation and of a page in KiB, whether memory is committed at once in huge pages, whether the memory is
# that of the provider cpu.
MOVES = [(128, 64, 0, False), (2048, 64, 0, False), (4096, 2048, 0, False),
         (128, 64, 1, False), (2048, 64, 1, False), (4096, 2048, 1, False), (2048, 64, 1, True), (4096, 2048, 1, True)]
# Tenants, working set of each in milli of the device, passes. Without control a pass takes so much longer that a
# twentieth of the passes is enough.
SETS = [(2, 900, 1000), (3, 667, 1000)]
UNCONTROLLED = 20
DEVICE_MIB = 64
SPACES = 1000
PARTS = ["latency", "replay", "defragment", "oversubscribe", "many"]


def ratio(above, below):
    return f"{above / below:.2f}" if below else "-"


# --- latency ---------------------------------------------------------------------------------------------------------

class Latency:
    """Runs bench_memory latency. A library that cannot be loaded is noted in `missing`, and not tried again."""

    def __init__(self, bench, milliseconds):
        self.bench, self.milliseconds = bench, milliseconds
        self.program = bench.program("bench_memory")
        self.missing = {}

    def run(self, name, live, threads):
        preload = PRELOADED.get(name)
        allocator = "malloc" if name in PRELOADED else name
        result = self.bench.last_json([self.program, "latency", allocator, live, threads, self.milliseconds],
                                      {"LD_PRELOAD": preload} if preload else None)
        if preload and result["library"] != name:
            self.missing[name] = f"{preload} cannot be loaded"
        return result

    def probe_libraries(self):
        for name, preload in PRELOADED.items():
            if preload:
                self.run(name, LIVE[0], 1)

    def names(self, live):
        names = ["facet", *(name for name in PRELOADED if name not in self.missing), "buddy"]
        return names + (["scan"] if live <= SCAN_MOST else [])


def median_sample(samples):
    """The median of each number over several runs."""
    return {**samples[0],
            **{call: {key: statistics.median(sample[call][key] for sample in samples) for key in samples[0][call]}
               for call in ("allocate", "free")},
            "pair_ns": statistics.median(sample["pair_ns"] for sample in samples)}


def measure_latency(bench, options):
    latency = Latency(bench, options.milliseconds)
    latency.probe_libraries()
    results = []
    for threads in THREADS:
        for live in LIVE:
            samples = harness.interleave(options.rounds, {
                name: lambda name=name, live=live, threads=threads: latency.run(name, live, threads)
                for name in latency.names(live)})
            results += [{"name": name, **median_sample(runs)} for name, runs in samples.items()]
    return {"missing": latency.missing, "results": results}


def nanoseconds(call):
    return f"{call['median_ns']:.0f} / {call['p99_ns']:.0f}"


def latency_table(measured):
    rows = []
    ours = {(result["threads"], result["live"]): result for result in measured["results"] if result["name"] == "facet"}
    for result in measured["results"]:
        facet = ours[result["threads"], result["live"]]
        rows.append([result["threads"], result["live"], result["name"], nanoseconds(result["allocate"]),
                     nanoseconds(result["free"]), f"{result['pair_ns']:.0f}",
                     ratio(result["allocate"]["median_ns"], facet["allocate"]["median_ns"]),
                     ratio(result["free"]["median_ns"], facet["free"]["median_ns"]),
                     ratio(result["pair_ns"], facet["pair_ns"])])
    notes = [f"{name} is missing: {why}." for name, why in measured["missing"].items()]
    return [harness.markdown_table(["threads", "live blocks", "", "allocate ns: median / P99", "free ns: median / P99",
                                    "pair ns", "times ours: allocate", "free", "pair"], rows),
            " ".join(["Blocks of 256 B to 4 KiB, freed in random order; with two threads, half of them by the thread "
                      "that did not allocate them. Each call is timed alone, between fences, less the clock's own "
                      "time. pair: a free and an allocation without a clock between, with the choice of the block.",
                      *notes])]


# --- replay ----------------------------------------------------------------------------------------------------------

def measure_replay(bench, options):
    trace = options.traces / TRACE
    if not trace.exists():
        return {"missing": f"there is no {TRACE} in the folder of --traces"}
    program = bench.program("bench_memory")
    return {"results": [bench.last_json([program, "replay", trace, name, pool, rate])
                        for pool, rate in REPLAYS for name in POOLS]}


def percent(part, whole):
    return f"{100 * part / whole:.2f}" if whole else "-"


def replay_table(measured):
    if "missing" in measured:
        return [f"Replay was skipped: {measured['missing']}."]
    rows = [[f"{result['pool_gib']} GiB, x{result['rate']:g}", result["allocator"],
             percent(result["refused"], result["requests"]), percent(result["refused_free"], result["requests"]),
             percent(result["peak_payload"], result["peak_reserved"]),
             percent(result["peak_payload"], result["pool_gib"] * 2**30),
             result["mappings"] or "-", f"{result['allocate_ns'] / 1e3:.1f} / {result['free_ns'] / 1e3:.1f}",
             result["refusal"]]
            for result in measured["results"]]
    return [harness.markdown_table(["pool, rate", "", "refused %", "refused with enough free %",
                                    "payload % of reserved at the peak", "of the pool", "mappings",
                                    "allocate / free us", "first refusal that was not for quota"], rows),
            "KV cache of the Azure LLM trace (conversations): 128 KiB for each token of context and answer, in one "
            "piece, for 20 ms per token of the answer. Enough free: the pool less the bytes of live requests would "
            "have sufficed. Reserved: whole pages, whole blocks, or the range up to the last byte in use."]


# --- defragment ------------------------------------------------------------------------------------------------------

def measure_defragment(bench, options):
    program = bench.program("bench_memory")
    provider = bench.build / "facet-provider-cpu.so"
    samples = harness.interleave(min(options.rounds, 3), {
        (run, page, commit, cpu): lambda run=run, page=page, commit=commit, cpu=cpu: bench.last_json(
            [program, "defragment", LIVE_MIB, run, page, commit, provider if cpu else ""])
        for run, page, commit, cpu in MOVES})
    return {"results": [result for runs in samples.values() for result in runs]}


def gaps(seen):
    own = seen["over_ms"] - seen["taken"]
    return f"{seen['own_us']:.0f} ({own}); {seen['longest_us']:.0f} ({seen['over_ms']})"


def defragment_table(measured):
    rows = [[result["on"], f"{result['run_kib']}, {result['page_kib']}", "yes" if result["commit"] else "no",
             result["live_mib"], result["moved_mib"],
             f"{result['move_gib_s']:.2f}", f"{result['all_gib_s']:.2f}", f"{result['copy_gib_s']:.2f}",
             ratio(result["move_gib_s"], result["copy_gib_s"]), ratio(result["all_gib_s"], result["copy_gib_s"]),
             f"{result['steps']} / {result['longest_step_us']:.0f}",
             *(gaps(result[phase]) for phase in ("idle", "copying", "moving")),
             f"{result['fragmentation_before'] / 10:g} -> {result['fragmentation_after'] / 10:g}",
             "equal" if result["right"] else "DIFFERENT"]
            for result in measured["results"]]
    return [harness.markdown_table(["on", "allocations, pages KiB", "huge pages", "live MiB", "moved MiB", "moving GiB/s",
                                    "with giving back", "memcpy GiB/s", "moving / memcpy", "with giving back / memcpy",
                                    "steps / longest us", "longest gap us: empty loop", "memcpy", "moving",
                                    "fragmentation %", "contents"], rows),
            "Before, every other chunk loses every other allocation. A thread on a core of its own writes counters all "
            "over the data. Gap: the time between two of its writes, while the other core runs an empty loop for half "
            "a second, memcpy, and moving. In brackets: how many gaps were over 1 ms. The first numbers leave out gaps "
            "during most of which one of the two threads waited for its core, because another program had it; the "
            "second ones are of all gaps. Giving back: empty chunks go back to the operating system. memcpy: an eighth "
            "of the data before and again after, while the thread writes. Huge pages: `commit`; else pages have 4 KiB."]


# --- oversubscribe ---------------------------------------------------------------------------------------------------

def measure_oversubscribe(bench, options):
    program = bench.program("bench_memory")
    results = []
    for tenants, milli, passes in SETS:
        samples = harness.interleave(min(options.rounds, 3), {
            mode: lambda mode=mode, tenants=tenants, milli=milli, passes=passes: bench.last_json(
                [program, "oversubscribe", mode, tenants, milli, DEVICE_MIB,
                 passes // UNCONTROLLED if mode == "uncontrolled" else passes])
            for mode in ("serial", "turns", "uncontrolled")})
        results += [result for runs in samples.values() for result in runs]
    return {"results": results}


def pass_seconds(result):
    return result["seconds"] / result["passes"]


def oversubscribe_table(measured):
    rows = []
    for result in measured["results"]:
        serial = statistics.median(pass_seconds(other) for other in measured["results"]
                                   if other["mode"] == "serial" and other["tenants"] == result["tenants"])
        rows.append([f"{result['tenants']} x {result['set_milli'] / 10:g} %", result["mode"], result["passes"],
                     f"{result['seconds']:.2f}", f"{pass_seconds(result) / serial:.3f}", f"{result['first_s']:.2f}",
                     f"{result['swapped_in_mib']} / {result['swapped_out_mib']}", f"{result['swap_s']:.2f}",
                     "equal" if result["right"] else "DIFFERENT"])
    return [harness.markdown_table(["tenants", "mode", "passes", "s", "time of a pass / serial", "first tenant's end s",
                                    "MiB swapped in / out", "s of swapping", "contents"], rows),
            f"A device of {DEVICE_MIB} MiB. A pass: pin the whole set, read and write every word, release. "
            "Uncontrolled: a tenant may not keep the pages that it brought in."]


# --- many ------------------------------------------------------------------------------------------------------------

def measure_many(bench, options):
    program = bench.program("bench_memory")
    results = [bench.last_json([program, "many", SPACES]) for _ in range(options.rounds)]
    return {"results": results, **{key: statistics.median(result[key] for result in results) for key in results[0]}}


def many_table(measured):
    each = measured["create_us"] + measured["destroy_us"]
    return [harness.markdown_table(
        ["spaces", "created and destroyed per s", "create us", "destroy us", "first block us",
         "usage of all spaces us", "usage of the memory us", "resident bytes of an empty space", "with one block"],
        [[SPACES, f"{1e6 / each:.0f}", f"{measured['create_us']:.1f}", f"{measured['destroy_us']:.1f}",
          f"{measured['allocate_us']:.1f}", f"{measured['usage_all_us']:.0f}", f"{measured['usage_memory_us']:.1f}",
          f"{measured['resident_empty_bytes']:.0f}", f"{measured['resident_bytes']:.0f}"]])]


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
        harness.save("memory", results, tables)
    else:
        print("\n\n".join(tables), flush=True)
