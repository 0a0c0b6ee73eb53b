# SPDX-License-Identifier: Apache-2.0
"""An interposer's cost of a launch: over a vendor's fake library, bare and in a vGPU, in the same run."""
import dataclasses
import json
from pathlib import Path

import harness

# The number of threads, of processes, and of kernels that each thread launches in turn.
CALLERS = {"1 thread": (1, 1, 1), "1 thread, 4 kernels in turn": (1, 1, 4), "2 threads": (2, 1, 1),
           "2 processes, one vGPU": (1, 2, 1)}
WAYS = {"bare": "bare", "no limit": "0:1000", "limit 50 %": "500:500"}  # REQUEST:LIMIT in milli; bare: no vGPU


@dataclasses.dataclass(frozen=True)
class Vendor:
    """The places, in a build, of a vendor's fake library and interposer, and of the programs that call them."""
    name: str  # as in tests/fake/NAME, interpose/NAME, and in the programs' names
    library: str
    programs: Path

    def environment(self, bench):
        """Environment variables that name the two libraries."""
        folders = {"OURS": bench.build / "interpose" / self.name, "FAKE": bench.build / "tests" / "fake" / self.name}
        for folder in folders.values():
            if not (folder / self.library).exists():
                raise harness.Missing(f"{folder / self.library} was not built")
        return {f"FACET_TEST_{self.name.upper()}_{which}": str(folder) for which, folder in folders.items()}

    def program(self, bench, name):
        """The path of a program from the tests of launches."""
        path = bench.build / self.programs / name
        if not path.exists():
            raise harness.Missing(f"{path} was not built")
        return path

    def host(self, bench, seconds, vgpus, command):
        """The command line that runs `command` in each of the vGPUs."""
        return [self.program(bench, f"{self.name}-host"), seconds, ",".join(vgpus), *command]


def measure(bench, vendor, callers, options):
    threads, processes, kernels = callers
    command = [vendor.program(bench, f"{vendor.name}-launch"), options.milliseconds, threads, kernels]

    def measure_once(way):
        vgpus = [way] + [way if way == "bare" else "+"] * (processes - 1)
        lines = bench.output(vendor.host(bench, 0, vgpus, command), vendor.environment(bench)).splitlines()
        values = [json.loads(line)["ns_per_call"] for line in lines]
        return sum(values) / len(values)

    samples = harness.interleave(options.rounds,
                                 {name: lambda way=way: measure_once(way) for name, way in WAYS.items()})
    return {"samples": samples, **harness.medians(samples)}


def row(label, result, recorded):
    def added_cost(name):
        own = result[name] - result["bare"]
        if label not in recorded:
            return f"{own:+.1f}"
        bare, hooked = recorded[label][name]
        return f"{own:+.1f} (recorded peer: {hooked - bare:+.1f})"

    return [label, f"{result['bare']:.1f}", added_cost("no limit"), added_cost("limit 50 %")]


def run(bench, vendor, options, recorded=None, note=""):
    """Measures all callers. `recorded` has a peer's (bare, hooked) by label and way; `note` names the peer."""
    results = [{"label": label, **measure(bench, vendor, callers, options)} for label, callers in CALLERS.items()]
    table = harness.markdown_table(["callers", "bare ns", "no limit: +ns", "limit 50 %: +ns"],
                                   [row(result["label"], result, recorded or {}) for result in results])
    whole = f"Medians of {options.rounds} interleaved rounds, kernels of no device time.{note}"
    harness.save(f"{vendor.name}-launch", results, [table, whole])
