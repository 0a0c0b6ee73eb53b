# SPDX-License-Identifier: Apache-2.0
"""The cost of calling a provider: directly, through a session in this process, and through a session with a child.

Devices are simulated: the operations' own cost is the same each way, so that a difference is the cost of the way.
"""
import json
import os
import re
import shutil
import time
from pathlib import Path

import harness

WAYS = ["direct", "in-process", "child"]
CASES = ["device.health", "metrics.device", "partition.list-0", "partition.list-7", "partition.placements",
         "memory.write-4KiB", "memory.write-1MiB"]
COUNTED = ["device.health", "metrics.device", "partition.list-0", "memory.write-4KiB"]
LIMITER_CASES = ["limiter.memory", "limiter.compute", "limiter.compute-capped"]
THREADS = [1, 8]
FEW, MANY = 6400, 12800  # calls under callgrind; their difference leaves out the program's start
LISTINGS = 3  # listings of devices in one sample


def callers(threads):
    return "1 thread" if threads == 1 else f"{threads} threads"


def ratio(value, base):
    return f"{value:.1f} ({value / base:.2f})"


class Provider:
    """The program that measures, its provider, and the machine that is simulated."""

    def __init__(self, bench, options):
        self.bench, self.options = bench, options
        self.program = bench.program("bench_provider")
        self.file = bench.build / "facet-provider-sim.so"
        if not self.file.exists():
            raise harness.Missing(f"{self.file} was not built")
        self.environment = {"FACET_LIB_DIR": str(bench.build), "FACET_SIM_PROFILE": self.profile("h100")}

    def profile(self, name):
        return str(harness.ROOT / "providers" / "sim" / "profiles" / f"{name}.json")

    def sample(self, case, way, threads, where=None, environment=None):
        command = [self.program, case, way, where or self.file, threads, self.options.milliseconds]
        return self.bench.last_json(command, {**self.environment, **(environment or {})})["ns_per_call"]

    def compare(self, case, variants):
        """Runs the `variants` (name: function). Returns their samples and medians."""
        samples = harness.interleave(self.options.rounds, variants)
        return {"case": case, "samples": samples, **harness.medians(samples)}


def measure_operations(provider):
    results, rows = [], []
    for case in CASES:
        for threads in THREADS:
            result = provider.compare(case, {way: lambda way=way: provider.sample(case, way, threads)
                                             for way in WAYS})
            results.append({"threads": threads, **result})
            rows.append([case, callers(threads), f"{result['direct']:.1f}",
                         *[ratio(result[way], result["direct"]) for way in WAYS[1:]]])
    return results, harness.markdown_table(["operation", "callers", "direct ns", "in process ns (ratio)",
                                            "child ns (ratio)"], rows)


def measure_partitions(provider):
    """Partitions in memory, and in a folder as a driver keeps them: on disk, and visible to other processes."""
    folder = provider.bench.folder / "sim-state"
    folder.mkdir()
    results, rows = [], []
    for kept, environment in [("in memory", {}), ("in a folder", {"FACET_SIM_STATE": str(folder)})]:
        for case in ["partition.create-destroy", "partition.placements"]:
            result = provider.compare(case, {
                way: lambda way=way: provider.sample(case, way, 1, environment=environment) for way in WAYS})
            results.append({"kept": kept, **result})
            rows.append([case, kept, *[f"{1e9 / result[way]:,.0f} ({result[way] / result['direct']:.2f})"
                                       for way in WAYS]])
    return results, harness.markdown_table(["operation, 1 thread", "partitions kept", "direct a second (ratio of time)",
                                            "in process", "child"], rows)


def measure_opening(provider):
    result = provider.compare("open", {way: lambda way=way: provider.sample("open", way, 1) for way in WAYS})
    row = ["open and close", f"{result['direct'] / 1e3:.1f}",
           *[f"{result[way] / 1e3:.1f} ({result[way] / result['direct']:.2f})" for way in WAYS[1:]]]
    return result, harness.markdown_table(["", "direct us", "in process us (ratio)", "child us (ratio)"], [row])


def wall_ms(bench, command, environment):
    start = time.monotonic()
    for _ in range(LISTINGS):
        bench.output(command, environment)
    return (time.monotonic() - start) * 1e3 / LISTINGS


def measure_listing(provider):
    """How long a user waits for whole programs, when all files that they read are in memory already."""
    bench = provider.bench
    opencl = {"FACET_PROVIDER_PATH": str(bench.build / "facet-provider-opencl.so")}
    listings = {"facet devices, all providers": ([bench.facet, "devices"], provider.environment),
                "facet devices, opencl": ([bench.facet, "devices"], {**provider.environment, **opencl})}
    if shutil.which("clinfo"):
        listings["clinfo -l"] = (["clinfo", "-l"], {})
    else:
        print("bench/run: provider: clinfo is not installed: `facet devices` has no peer", flush=True)
    for command, environment in listings.values():
        bench.output(command, environment)
    result = provider.compare("listing", {name: lambda how=how: wall_ms(bench, *how)
                                          for name, how in listings.items()})
    peer = result.get("clinfo -l")
    rows = [[name, f"{result[name]:.1f}", f"{result[name] / peer:.2f}" if peer else "-"] for name in listings]
    return result, harness.markdown_table(["program", "wall ms", "ratio to clinfo"], rows)


def write_fleet(provider, path):
    """Describes 64 devices on two sockets, all linked with each other, which is the most links that are possible."""
    profile = json.loads(Path(provider.profile("h100")).read_text(encoding="utf-8"))
    profile["devices"] = [{"product": "h100-sxm", "numa_node": i % 2, "pci_address": f"0000:{i + 1:02x}:00.0"}
                          for i in range(64)]
    names = [f"device{i}" for i in range(64)]
    profile["nodes"] = []
    profile["links"] = [{"from": [name], "to": names[i + 1:], "type": "nvlink", "level": "single_switch",
                         "bandwidth_mbps": 450000, "latency_ns": 700} for i, name in enumerate(names[:-1])]
    path.write_text(json.dumps(profile), encoding="utf-8")
    return str(path)


def measure_bytes(provider):
    """How many bytes describe all devices and their links. The peer's structs have a fixed size."""
    profiles = {"1 device (h100)": provider.profile("h100"),
                "8 devices, NVLink (h200x8)": provider.profile("h200x8"),
                "64 devices, all linked": write_fleet(provider, provider.bench.folder / "fleet.json")}
    results, rows = {}, []
    for name, profile in profiles.items():
        environment = {**provider.environment, "FACET_SIM_PROFILE": profile}
        result = results[name] = provider.bench.last_json([provider.program, "bytes", provider.file], environment)
        rows.append([name,
                     f"{result['device_bytes'] / result['devices']:,.0f}",
                     f"{result['peer_device_bytes'] / result['devices']:,.0f}",
                     f"{result['peer_device_bytes'] / result['device_bytes']:.1f}",
                     f"{result['nodes']} + {result['links']}",
                     f"{result['topology_bytes']:,}", f"{result['peer_topology_bytes']:,}",
                     f"{result['peer_topology_bytes'] / result['topology_bytes']:.1f}"])
    return results, harness.markdown_table(["machine", "bytes a device", "TensorFusion ABI", "times leaner",
                                            "nodes + links", "topology bytes", "TensorFusion ABI", "times leaner"],
                                           rows)


def measure_limiter(provider):
    folder = provider.bench.folder / "limiter"
    results, rows = [], []
    for case in LIMITER_CASES:
        for threads in THREADS:
            result = provider.compare(case, {way: lambda way=way: provider.sample(case, way, threads, folder)
                                             for way in ["tenant", "library"]})
            results.append({"threads": threads, **result})
            rows.append([case, callers(threads), f"{result['tenant']:.1f}", ratio(result["library"], result["tenant"])])
    return results, harness.markdown_table(["check", "callers", "tenant inline ns", "facet/limiter.h ns (ratio)"],
                                           rows)


def count_instructions(provider, case, way, calls):
    log = provider.bench.folder / "callgrind.log"
    provider.bench.output(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", f"--log-file={log}",
                           provider.program, case, way, provider.file, 1, 1, calls], provider.environment)
    return int(re.search(r"Collected : (\d+)", log.read_text())[1])


def measure_instructions(provider):
    """Instructions per call, which are exact: a session in this process calls the plug-in's own functions."""
    if not shutil.which("valgrind"):
        print("bench/run: provider: valgrind is not installed: instructions are not counted", flush=True)
        return None, "Instructions were not counted: valgrind is not installed."
    results, rows = {}, []
    for case in COUNTED:
        result = results[case] = {
            way: (count_instructions(provider, case, way, MANY) - count_instructions(provider, case, way, FEW))
            / (MANY - FEW) for way in ["direct", "in-process"]}
        rows.append([case, f"{result['direct']:.1f}", f"{result['in-process']:.1f}",
                     f"{result['in-process'] - result['direct']:+.2f}"])
    return results, harness.markdown_table(["operation", "direct", "in process", "added"], rows)


PARTS = [("operations", "One operation, h100", measure_operations),
         ("instructions", "Instructions a call (callgrind)", measure_instructions),
         ("partitions", "Partitions: 1g.10gb", measure_partitions),
         ("opening", "Opening a session", measure_opening),
         ("listing", "Listing the devices of this machine", measure_listing),
         ("bytes", "Discovery and description", measure_bytes),
         ("limiter", "The limiter", measure_limiter)]


def run(bench, options):
    provider = Provider(bench, options)
    results, tables = {"load_at_start": os.getloadavg()[0]}, []
    started = time.monotonic()
    for name, title, measure in PARTS:
        results[name], table = measure(provider)
        tables += [f"## {title}", table]
    note = (f"Medians of {options.rounds} interleaved rounds of {options.milliseconds} ms; limiter.memory is taking "
            "and giving back together; the tenant's compute is launch and completion. 8 threads on fewer cores also "
            "wait for cores: compare ratios. Direct and in process call the same functions, so the distance of their "
            "ratio from 1 is the noise of this run. Load of the machine at the start: "
            f"{results['load_at_start']:.1f}. Took {time.monotonic() - started:.0f} s.")
    harness.save("provider", results, [*tables, note])
