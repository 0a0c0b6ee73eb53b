# SPDX-License-Identifier: Apache-2.0
"""Kernels on this machine's cores: Facet against PoCL, on the same source, inputs and threads, in one process. For
comparison, some kernels run as a loop in C, and each kernel's memory is read and written once. A kernel that waits for
memory cannot be faster than such a pass over its memory.

Every output is checked against a reference in plain C, and no speed is reported for a wrong output. A missing part (the
compiler, PoCL) is reported as missing.
"""
import json
import math
import statistics
import tempfile
from pathlib import Path

import harness

SOURCES = harness.ROOT / "bench" / "kernels"
THREADS = [1, 2]
WAYS = ["pocl", "facet"]
HITS = 5   # how many processes launch a cached image
COLDS = 3  # how many processes compile with empty caches
BUILDS = ("cold_ns", "again_ns", "warm_ns", "first_launch_ns")
SHARE_SECONDS = 4


class Kernels:
    """The programs that measure, and folders for their images."""

    def __init__(self, bench, options):
        self.bench, self.options = bench, options
        self.program = bench.program("bench_kernel")
        self.provider = bench.build / "facet-provider-cpu.so"
        self.set = bench.last_json([self.program, "list"])
        if options.kernels:
            wanted = options.kernels.split(",")
            unknown = set(wanted) - {kernel["kernel"] for kernel in self.set}
            if unknown:
                raise harness.Missing(f"there is no kernel '{sorted(unknown)[0]}' in the set")
            self.set = [kernel for kernel in self.set if kernel["kernel"] in wanted]

    def environment(self, folder, threads):
        caches = {name: folder / name for name in ("pocl", "facet")}
        for cache in caches.values():
            cache.mkdir(mode=0o700)
        return {"POCL_CACHE_DIR": str(caches["pocl"]), "POCL_MAX_PTHREAD_COUNT": str(threads),
                "FACET_CACHE_DIR": str(caches["facet"]), "FACET_CPU_UNITS": str(threads),
                "FACET_LIB_DIR": str(self.bench.build), "BENCH_TARGET": self.options.target or "host"}

    def report(self, command, environment):
        """A program's output, with BUILD in place of the build folder's path."""
        text = json.dumps(self.bench.last_json(command, environment))
        return json.loads(text.replace(str(self.bench.build), "BUILD"))

    def measure(self, name, threads):
        with tempfile.TemporaryDirectory(dir=self.bench.folder) as folder:
            environment = self.environment(Path(folder), threads)
            result = self.report([self.program, "run", name, SOURCES, self.provider, self.options.rounds,
                                  self.options.milliseconds], environment)
            if "missing" not in result["facet"]:
                result["hits"] = [self.report([self.program, "hit", name, SOURCES, self.provider], environment)["facet"]
                                  for _ in range(HITS)]
        result["builds"] = [builds_of(result), *[self.build(name, threads) for _ in range(COLDS - 1)]]
        return {"threads": threads, **result}

    def build(self, name, threads):
        """Runs the preparation of the rounds once more."""
        with tempfile.TemporaryDirectory(dir=self.bench.folder) as folder:
            return builds_of(self.report([self.program, "run", name, SOURCES, self.provider, 1, 1],
                                         self.environment(Path(folder), threads)))


def builds_of(result):
    return {way: {what: result[way].get(what) for what in BUILDS} for way in WAYS}


def usable(way):
    return "missing" not in way and way["right"]


def best(way, what):
    """The best of all rounds; None when the runtime did not say, or the output is wrong."""
    values = [sample[what] for sample in way.get("rounds", []) if sample[what]]
    return min(values) if values and usable(way) else None


def built(result, way, what):
    """The median over all processes that built the kernel."""
    values = [build[way][what] for build in result["builds"] if build[way][what]]
    return statistics.median(values) if values else None


def ratio(above, below):
    return above / below if above and below else None


def ratios(result):
    """How many times faster Facet is. None: there is nothing to compare."""
    pocl, facet = result["pocl"], result["facet"]
    hits = [hit["hit_to_launch_ns"] for hit in result.get("hits", []) if "missing" not in hit]
    compared = {"wall": ratio(best(pocl, "wall_ns"), best(facet, "wall_ns")),
                "device": ratio(best(pocl, "device_ns"), best(facet, "device_ns")),
                "loop": ratio(best(pocl, "wall_ns"), best(result["loop"], "wall_ns")),
                "touch": ratio(best(pocl, "wall_ns"), best(result["touch"], "wall_ns")),
                "cold": None, "cold_again": None, "cold_to_end": None,
                "hit_us": statistics.median(hits) / 1e3 if hits else None}
    if usable(pocl) and usable(facet):
        cold = {way: built(result, way, "cold_ns") for way in WAYS}
        ends = [cold[way] + built(result, way, "first_launch_ns") for way in WAYS]
        compared.update(cold=ratio(cold["pocl"], cold["facet"]),
                        cold_again=ratio(cold["pocl"], built(result, "facet", "again_ns")), cold_to_end=ratio(*ends))
    return compared


def number(value, form="{:.2f}"):
    return "-" if value is None else form.format(value)


def milliseconds(value):
    return number(None if value is None else value / 1e6, "{:.3f}")


def remark(result):
    for name in WAYS:
        way = result[name]
        if "missing" in way:
            return f"{name}: {way['missing']}"
        if not way["right"]:
            return f"{name}: wrong output"
    return ""


def speed_table(results):
    rows = []
    for result in results:
        compared = ratios(result)
        rows.append([result["kernel"], result["tag"], milliseconds(best(result["pocl"], "wall_ns")),
                     milliseconds(best(result["facet"], "wall_ns")), number(compared["wall"]),
                     number(compared["device"]), *[number(compared[way]) if result["threads"] == 1 else "-"
                                                   for way in ("loop", "touch")], remark(result)])
    return harness.markdown_table(["kernel", "kind", "PoCL ms", "Facet ms", "times faster",
                                   "by the runtimes' own clocks", "a loop in C", "its memory read and written once", ""],
                                  rows)


def building_table(results):
    rows = []
    for result in results:
        compared = ratios(result)
        rows.append([result["kernel"],
                     *[milliseconds(built(result, "pocl", name)) for name in ("cold_ns", "first_launch_ns", "warm_ns")],
                     *[milliseconds(built(result, "facet", name))
                       for name in ("cold_ns", "again_ns", "first_launch_ns", "warm_ns")],
                     number(compared["cold"]), number(compared["cold_again"]), number(compared["cold_to_end"]),
                     number(compared["hit_us"], "{:.0f}")])
    return harness.markdown_table(["kernel", "PoCL cold ms", "first launch", "warm", "Facet cold ms", "cold again",
                                   "first launch", "warm", "cold: times faster", "cold again",
                                   "cold and first launch", "hit to launch us"], rows)


def geometric(values):
    values = [value for value in values if value]
    return math.exp(statistics.fmean(map(math.log, values))) if values else None


def summarize(results, what):
    """Sums up the kernels that could be compared, and says how many of all they are."""
    values = {result["kernel"]: ratios(result)[what] for result in results}
    there = {kernel: value for kernel, value in values.items() if value}
    vector = [there[result["kernel"]] for result in results if result["tag"] == "vector" and result["kernel"] in there]
    least = min(there, key=there.get) if there else None
    return {"kernels": len(values), "compared": len(there), "geometric_mean": geometric(there.values()),
            "geometric_mean_vector": geometric(vector), "least_vector": min(vector, default=None),
            "least": there.get(least), "least_kernel": least}


def summary_table(summaries):
    rows = [[f"{threads} thread{'s' if threads > 1 else ''}", title, f"{row['compared']} of {row['kernels']}",
             number(row["geometric_mean"]), number(row["geometric_mean_vector"]), number(row["least_vector"]),
             f"{number(row['least'])} ({row['least_kernel']})" if row["least_kernel"] else "-"]
            for (threads, title), row in summaries.items()]
    return harness.markdown_table(["", "times faster", "compared", "geometric mean", "of kind vector",
                                   "least of kind vector", "least"], rows)


def measure_set(kernels):
    kernels.measure(kernels.set[0]["kernel"], 1)  # warms the disk cache, so that no cold compile includes it
    results = []
    for threads in THREADS:
        for kernel in kernels.set:
            results.append(kernels.measure(kernel["kernel"], threads))
            compared = ratios(results[-1])
            print(f"{kernel['kernel']}, {threads} threads: {number(compared['wall'])} {remark(results[-1])}",
                  flush=True)
    return results


def tables_of(results):
    summaries, tables = {}, []
    for threads in THREADS:
        own = [result for result in results if result["threads"] == threads]
        for what, title in [("wall", "running"), ("cold", "cold compile"), ("cold_to_end", "cold to first result")]:
            summaries[threads, title] = summarize(own, what)
        tables += [f"## Running, {threads} thread{'s' if threads > 1 else ''}", speed_table(own)]
        if threads == 1:
            tables += ["## Building", building_table(own)]
    return summaries, ["## Summary", summary_table(summaries), *tables]


def measure_sharing(kernels):
    """Measures two tenants, 70/30, one of which submits kernels of one second; and how long an urgent kernel waits."""
    program = kernels.bench.program("bench_kernel_share")
    results = []
    for case in ("fairness", "preemption"):
        for way in WAYS:
            for threads in THREADS:
                with tempfile.TemporaryDirectory(dir=kernels.bench.folder) as folder:
                    environment = kernels.environment(Path(folder), threads)
                    results.append({"threads": threads, **kernels.report(
                        [program, case, way, kernels.provider, SHARE_SECONDS], environment)})
    return results


def sharing_tables(results):
    fair = [[row["way"], row["threads"],
             *[number(row.get(name)) for name in ("charged_percent", "charged_worst_points", "short_percent",
                                                  "worst_window_points", "short_longest_ms")],
             row.get("missing", "")] for row in results if row["case"] == "fairness"]
    urgent = [[row["way"], row["threads"], number(row.get("group_us"), "{:.0f}"), row.get("samples", "-"),
               *[number(row.get(name), "{:.0f}") for name in ("p50_us", "p99_us", "most_us", "p99_beyond_group_us")],
               row.get("missing", "")] for row in results if row["case"] == "preemption"]
    return ["## Two tenants, 70/30; the tenant with 30 submits kernels of one second",
            harness.markdown_table(["", "threads", "percent of processor time for the tenant with 70",
                                    "worst 100 ms: points off", "percent of the work done", "worst 100 ms: points off",
                                    "its longest kernel ms (2 ms of work)", ""], fair),
            "## An urgent kernel against a long one of low priority",
            harness.markdown_table(["", "threads", "work-group us", "samples", "start after us, P50", "P99", "most",
                                    "P99 less one work-group", ""], urgent)]


def run(bench, options):
    kernels = Kernels(bench, options)
    results = measure_set(kernels)
    summaries, tables = tables_of(results)
    shared = [] if options.kernels or options.target else measure_sharing(kernels)
    if shared:
        tables += sharing_tables(shared)
    note = (f"Best of {options.rounds} interleaved rounds of {options.milliseconds} ms each, for the caller: "
            "launch and wait included. Both runtimes are warm and have the same memory sizes. Cold: with an empty "
            f"cache; this and the columns beside it are medians of {COLDS} processes. Again: a second compile in the "
            f"same process, without caching. Hit to launch: in a new process, median of {HITS}. streaming: a kernel "
            "that waits for memory, because its inputs and outputs exceed a core's own cache; compare it with `its "
            "memory read and written once`, which no kernel can beat. vector: no barrier; each item can be a lane. "
            "..._cached: the same kernel at a size that fits into half of that cache.")
    if options.target:
        note = f"Facet compiled for {options.target}, PoCL for all features of this processor. {note}"
    record = {"kernels": [{**result, "ratios": ratios(result)} for result in results], "sharing": shared,
              "summary": {f"{threads} threads, {title}": row for (threads, title), row in summaries.items()}}
    harness.save("-".join(["kernel", *(options.target or "").split(":")[1:]]), record, [*tables, note])
    wrong = [remark(result) for result in results if remark(result)]
    if wrong:
        raise harness.Missing(f"{len(wrong)} of {len(results)} could not be compared; the first: {wrong[0]}")
