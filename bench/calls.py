# SPDX-License-Identifier: Apache-2.0
"""The cost of an intercepted call: bare, in a vGPU without limits, and in a vGPU with limits."""
import json
import time

import harness

CASES = ["buffer", "launch", "info", "passthrough"]
UNLIMITED = []
# A cap keeps the gate from standing open, so that every launch is checked. Empty kernels never reach the cap.
LIMITED = ["-m", "64M", "-c", "50:99"]


def drivers(bench):
    """Name and environment of each OpenCL driver to measure over. Over the no-op driver, only our own cost remains."""
    found = {"pocl": bench.own_daemon("pocl")}
    vendors = bench.build / "tests" / "fake" / "opencl" / "vendors"
    if vendors.exists():
        found["no-op"] = {**bench.own_daemon("no-op"), "OCL_ICD_VENDORS": str(vendors), "FACET_KEEP_ENV": "OCL_ICD_VENDORS"}
    return found


def measure_case(bench, environment, case, threads, options):
    command = [bench.program("bench_calls"), case, threads, options.milliseconds]

    def measure_once(limits):
        inside = command if limits is None else bench.inside(limits, command)
        return bench.last_json(inside, environment)["ns_per_call"]

    samples = harness.interleave(options.rounds, {"bare": lambda: measure_once(None),
                                                  "unlimited": lambda: measure_once(UNLIMITED),
                                                  "limited": lambda: measure_once(LIMITED)})
    return {"samples": samples, **harness.medians(samples)}


def measure_pair(bench, environment, case, options):
    """Two processes at once: bare, and sharing one vGPU."""
    command = [str(bench.program("bench_calls")), case, "1", str(options.milliseconds)]

    def measure_two_at_once(line):
        pair = [bench.start(line, environment) for _ in range(2)]
        values = [json.loads(bench.finish(process).splitlines()[-1])["ns_per_call"] for process in pair]
        return sum(values) / 2

    name = f"pair-{case}"
    bench.output([bench.facet, "vgpu", "create", "--name", name, *LIMITED], environment)
    try:
        samples = harness.interleave(options.rounds, {
            "bare": lambda: measure_two_at_once(command),
            "limited": lambda: measure_two_at_once([bench.facet, "run", "--vgpu", name, "--", *command])})
    finally:
        bench.output([bench.facet, "vgpu", "destroy", name], environment)
    return {"samples": samples, **harness.medians(samples)}


def row(driver, case, label, result):
    def added_cost(name):
        if name not in result:
            return "-"
        return f"{result[name] - result['bare']:+.1f} ({result[name] / result['bare']:.3f})"

    return [driver, case, label, f"{result['bare']:.1f}", added_cost("unlimited"), added_cost("limited")]


def run(bench, options):
    results, rows = [], []
    started = time.monotonic()
    for driver, environment in drivers(bench).items():
        for case in CASES:
            for label, measured in [
                    ("1 thread", lambda: measure_case(bench, environment, case, 1, options)),
                    ("2 threads", lambda: measure_case(bench, environment, case, 2, options)),
                    ("2 processes, one vGPU", lambda: measure_pair(bench, environment, case, options))]:
                result = measured()
                results.append({"driver": driver, "case": case, "label": label, **result})
                rows.append(row(driver, case, label, result))
    table = harness.markdown_table(["driver", "call", "callers", "bare ns", "no limits: +ns (ratio)",
                                    "limits: +ns (ratio)"], rows)
    note = (f"Medians of {options.rounds} interleaved rounds; \"buffer\" is create and release together. "
            f"Took {time.monotonic() - started:.0f} s.")
    harness.save("calls", results, [table, note])
