# SPDX-License-Identifier: Apache-2.0
"""`facet pci scan` beside `lspci -D`, over a made-up machine of 300 functions, and over this machine.

lspci reads 64 bytes of each function and prints a line of names. A scan reads all properties of a function, and judges
whether it can be passed through. With --all, both list the same functions.
"""
import shutil
import subprocess
import sys
import tempfile
import time

import harness

sys.path.insert(0, str(harness.ROOT / "tests" / "fixtures" / "pci"))
import pci_machine  # noqa: E402

PORTS = 75  # each with a GPU of two functions and a disk behind it: 300 functions in all
RUNS = 10  # runs of a program in one sample
IDS = "/usr/share/misc/pci.ids"


def made_up():
    """A machine of 75 ports, each with a GPU of two functions (graphics and sound) and a disk on a bus of its own."""
    lines = ["use host", "usr/share/misc/pci.ids absent"]
    for number in range(PORTS):
        port, bus, group = f"0000:{number // 32:02x}:{number % 32:02x}.0", number + 0x10, number * 3
        lines += [f"function {port}", "    like root-port", f"    group {group}", f"    numa {number % 2} 0-63"]
        for index, (model, kind, driver) in enumerate((("10de:2330 10de:16c1", "030200", "nvidia"),
                                                       ("10de:10f7 10de:16c1", "040300", "snd_hda_intel"),
                                                       ("144d:a824 144d:a801", "010802", "nvme"))):
            lines += [f"function {port}/0000:{bus:02x}:00.{index}", f"    id {model} {kind} a1",
                      f"    config express multi serial=48b02d00000000{number:02x}", "    bars 0=16M@d0000000",
                      "    link 32.0x16", "    reset flr bus", f"    driver {driver}", "    aer 0 0 0",
                      f"    group {group + 1 + index // 2}", f"    numa {number % 2} 0-63"]
    machine = pci_machine.Machine(str(harness.ROOT / "tests" / "fixtures" / "pci"))
    machine.read_text("\n".join(lines))
    with open(IDS, "rb") as file:
        machine.entries[IDS[1:]] = ("file", file.read())
    return machine


def milliseconds(command):
    begin = time.perf_counter()
    for _ in range(RUNS):
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, timeout=60)
    return (time.perf_counter() - begin) * 1e3 / RUNS


def measure(bench, options, name, root):
    facet = [str(bench.facet), "pci", "scan", "--root", root]
    lspci = ["lspci", "-D"]
    if root != "/":
        lspci += ["-A", "linux-sysfs", "-O", f"sysfs.path={root}/sys/bus/pci"]
    commands = {"lspci -D": lspci, "facet pci scan": facet,
                "facet pci scan --all": [*facet, "--all"], "facet version": [str(bench.facet), "version"]}
    count = len(subprocess.run(lspci, stdout=subprocess.PIPE, check=True, timeout=60).stdout.splitlines())
    samples = harness.interleave(options.rounds, {key: lambda key=key: milliseconds(commands[key]) for key in commands})
    return {"machine": name, "functions": count, "samples": samples, "medians": harness.medians(samples)}


def run(bench, options):
    if not shutil.which("lspci"):
        raise harness.Missing("lspci is not installed (pciutils)")
    with tempfile.TemporaryDirectory(prefix="facet-bench-pci-") as root:
        made_up().plant(root)
        results = [measure(bench, options, "made up", root), measure(bench, options, "this one", "/")]
    rows = []
    for result in results:
        base = result["medians"]["lspci -D"]
        rows += [[result["machine"], result["functions"], name, f"{value:.1f}", f"{value / base:.2f}"]
                 for name, value in result["medians"].items()]
    table = harness.markdown_table(["machine", "functions", "command", "ms", "times lspci -D"], rows)
    if not options.parts:
        harness.save("pci", results, [table])
    else:
        print(table)
