# SPDX-License-Identifier: Apache-2.0
"""The loss of whole programs inside a vGPU without limits: clpeak, and a matrix product through CLBlast."""
import re
import shutil
import statistics

import harness

CLPEAK_TESTS = ["--kernel-latency", "--compute-sp", "--compute-integer", "--global-bandwidth"]
CLPEAK_LINE = re.compile(r"^\s*([\w ]+?)\s*:\s*([0-9.]+)\s*(us|ms)?\s*$")
CLPEAK_TITLE = re.compile(r"^\s{4}([A-Z].*)$")
NOT_METRICS = {"Compute units", "Clock frequency", "Driver version", "Platform", "Device"}


def clpeak_metrics(text):
    """The numbers of clpeak's output by name, such as "Single-precision compute (GFLOPS): float4"."""
    metrics, title = {}, ""
    for line in text.splitlines():
        match = CLPEAK_LINE.match(line)
        if match and match[1] not in NOT_METRICS:
            name = f"{title} {match[1]}".strip() if match[1] != "Kernel launch latency" else match[1]
            metrics[name] = float(match[2])
        elif CLPEAK_TITLE.match(line):
            title = line.strip()
    return metrics


def compare(bench, command, parse, options):
    """Runs the command bare and inside, interleaved. Returns the samples of each metric."""
    samples = harness.interleave(options.rounds, {
        "bare": lambda: parse(bench.output(command)),
        "inside": lambda: parse(bench.output(bench.inside([], command)))})
    names = samples["bare"][0].keys()
    return {name: {kind: [run[name] for run in runs] for kind, runs in samples.items()} for name in names}


def row(program, name, samples):
    bare, inside = (statistics.median(samples[kind]) for kind in ("bare", "inside"))
    spread = (max(samples["bare"]) - min(samples["bare"])) / bare
    lower_is_better = "latency" in name
    loss = (inside / bare if lower_is_better else bare / inside) - 1
    return [program, name, f"{bare:.4g}", f"{inside:.4g}", f"{100 * loss:+.2f} %", f"{100 * spread:.1f} %"]


def run(bench, options):
    programs = {}
    if shutil.which("clpeak"):
        for test in CLPEAK_TESTS:
            programs[f"clpeak {test}"] = (["clpeak", test], clpeak_metrics)
    sgemm = [bench.program("bench_sgemm"), "512", str(options.milliseconds / 1000)]
    programs["CLBlast sgemm 512"] = (sgemm, lambda text: {"GFLOPS": harness.json.loads(text)["gflops"]})

    results, rows = {}, []
    for program, (command, parse) in programs.items():
        results[program] = compare(bench, command, parse, options)
        rows += [row(program, name, samples) for name, samples in results[program].items()]
    table = harness.markdown_table(["program", "metric", "bare", "inside", "loss", "spread of bare"], rows)
    note = (f"Medians of {options.rounds} interleaved rounds, `facet run` without limits. Loss: by how much the median "
            "inside a vGPU is worse than the bare one; below 0, it is better. Spread of bare: the highest bare value "
            "less the lowest, as a part of the bare median. Launch latency is in us; other metrics name their unit.")
    harness.save("overhead", results, [table, note])
