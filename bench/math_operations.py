# SPDX-License-Identifier: Apache-2.0
"""Operations of the table math on the provider cpu, through a session, beside oneDNN alone with its own threads.

The cases are gemm, two convolutions of ResNet-50, and attention with eight heads. Of the ways to call oneDNN, the
fastest counts.
"""
import os

import harness

SIZES = [256, 512, 1024, 2048, 4096]
CASES = [*(f"gemm-{kind}-{size}" for kind in ("f32", "bf16", "int8") for size in SIZES),
         "conv-3x3", "conv-1x1", "attention-512", "attention-2048"]
THREADS = [1, 2]
SAMPLE_MS = 100


def chosen_cases(options):
    cases = options.cases.split(",") if options.cases else CASES
    unknown = [case for case in cases if case not in CASES]
    if unknown:
        raise harness.Missing(f"there is no case '{unknown[0]}'; there are {', '.join(CASES)}")
    return cases


def row_of(result):
    bare = ["-", "-", "-"]
    if result["bare_ns"]:
        bare = [f"{result['bare_ns'] / 1e3:.1f}", f"{result['bare_gflops']:.0f}", f"{result['ratio']:.3f}"]
    return [result["case"], result["threads"], f"{result['facet_ns'] / 1e3:.1f}", bare[0],
            f"{result['gflops']:.0f}", bare[1], bare[2], result["kernel"]]


def run(bench, options):
    cases = chosen_cases(options)
    program = bench.program("bench_math")
    provider = bench.build / "facet-provider-cpu.so"
    environment = {"FACET_LIB_DIR": str(bench.build)}
    threads = [count for count in THREADS if count <= (os.cpu_count() or 1)]
    results = [bench.last_json([program, case, count, 3 * options.rounds, SAMPLE_MS, provider], environment)
               for count in threads for case in cases]
    rows = [row_of(result) for result in results]
    table = harness.markdown_table(["operation", "threads", "us", "oneDNN us", "GFLOP/s", "oneDNN", "ratio",
                                    "implementation"], rows)
    tables = [table, "ratio: the median over rounds of oneDNN's time divided by Facet's; above 1, Facet is faster. "
                     "Rounds of Facet and of oneDNN alternate. Inputs and outputs have the plain layout; oneDNN's "
                     "filter is reordered once. -: oneDNN has no such operation on this processor."]
    if cases == CASES:
        harness.save("math", {"results": results}, tables)
    else:
        print("\n\n".join(tables), flush=True)
