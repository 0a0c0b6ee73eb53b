# SPDX-License-Identifier: Apache-2.0
"""Virtual GPUs as a library: many of them, shares with recorded kernels, a high priority beside a backlog.

Owns: the lengths of kernels in the traces of REEF (kernel_latency, us) and Orion (Duration, ns), one model for each
tenant. Never: claims the recorded devices' times: only the mix of lengths matters.
"""
import csv
import json

import harness

REEF = ["bert", "resnet152", "vgg", "mobilenet"]
ORION = ["bert_2_fwd", "resnet101_4_fwd", "mobilenetv2_96_fb1", "resnet50_32_fb1"]
REQUESTS = [400, 300, 200, 100]
COUNT = 1000
LEAST_US = 5
# Kernels are longer than recorded by this factor: unlike on an accelerator, the host's part of a launch runs on the
# device's own two processors here.
LENGTH_FACTOR = 5


def reef_lengths(folder, model):
    profile = json.loads((folder / "reef" / f"{model}.profile.json").read_text())
    return [float(kernel["total_latency"]) for kernel in profile["kernel_latency"].values()]


def orion_lengths(folder, model):
    path = folder / "orion" / "model_kernels" / f"benchmarking_model_kernels_{model}"
    with path.open(newline="") as file:
        return [float(row["Duration"]) / 1000 for row in csv.DictReader(file)]


def lengths_file(bench, name, lines):
    path = bench.folder / f"{name}.lengths"
    path.write_text("".join(" ".join(str(int(max(us, LEAST_US) * LENGTH_FACTOR * 1000)) for us in line) + "\n"
                            for line in lines))
    return path


def run(bench, options):
    if not (options.traces / "reef").is_dir():
        raise harness.Missing(f"{options.traces} has no traces; name their folder by --traces")
    program = bench.program("bench_vgpu")
    environment = {"FACET_LIB_DIR": str(bench.build), "FACET_PROVIDER_PATH": str(bench.build / "facet-provider-cpu.so")}
    files = {"REEF": lengths_file(bench, "reef", [reef_lengths(options.traces, model) for model in REEF]),
             "Orion": lengths_file(bench, "orion", [orion_lengths(options.traces, model) for model in ORION])}
    many = [bench.last_json([program, "many", COUNT], environment) for _ in range(3)]
    shares = {name: [bench.last_json([program, "shares", options.seconds, path, *REQUESTS], environment)
                     for _ in range(options.repeats)] for name, path in files.items()}
    priority = bench.last_json([program, "priority", 4 * options.rounds, files["REEF"]], environment)

    tables = [
        harness.markdown_table(["vGPUs", "create us", "destroy us", "create and destroy a second", "all infos us",
                                "bytes here", "bytes in the provider"],
                               [[row["count"], row["create_us"], row["destroy_us"], row["per_second"], row["list_us"],
                                 row["resident_bytes"], row["device_bytes"]] for row in many]),
        harness.markdown_table(["kernels", "shares %", "error, 100 ms", "worst", "error, 1 s", "Jain"],
                               [[name, " / ".join(f"{part:.1f}" for part in row["share"]), row["error_100ms"],
                                 row["worst_100ms"], row["error_1s"], row["jain"]]
                                for name, rows in shares.items() for row in rows]),
        "Asked: 40 / 30 / 20 / 10 %. Errors in points: the mean distance from that, over windows and tenants.",
        harness.markdown_table(["high priority", "P50 us", "P99 us", "launches", "of these undisturbed", "their P50", "P99"],
                               [[name, row["p50_us"], row["p99_us"], priority["rounds"], row["own"], row["own_p50_us"],
                                 row["own_p99_us"]]
                                for name, row in (("alone", priority["alone"]), ("beside a backlog", priority["beside"]))]
                               + [["ratio of P99", "", priority["ratio_p99"], "", "", "", priority["own_ratio_p99"]]]),
        "Undisturbed: the device's threads were not ready to run, while others had their processors, for more than a fifth "
        "of the time that the kernel takes.",
    ]
    harness.save("vgpu", {"many": many, "shares": shares, "priority": priority}, tables)
