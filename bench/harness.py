# SPDX-License-Identifier: Apache-2.0
"""The helpers that the benches share: a daemon for each run, the description of the machine, medians, and files of
results.

Owns: folders and environment of a run, bench/results/<date>-<name>.md, and the raw samples beside the build.
Never: asserts a time, or writes raw samples into the tree. Benches measure two things in one run and print their ratio.
"""
import datetime
import json
import os
import platform
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"  # the folder of tables
RAW = None  # the folder of raw samples, which are too large for the repository; None: they are not kept
LIMIT_S = 300  # no single program of a bench may take longer


class Missing(Exception):
    """A part that a bench needs is missing; the text names it."""


def first_line(command):
    try:
        result = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False,
                                timeout=LIMIT_S)
    except FileNotFoundError:
        return None
    return result.stdout.splitlines()[0].strip() if result.stdout else None


def package_version(package):
    return first_line(["dpkg-query", "--show", "--showformat", "${Version}", package])


def cpu_model():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(("model name", "Hardware")):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def machine():
    """The machine and the versions with which the numbers were measured."""
    memory_kib = int(Path("/proc/meminfo").read_text().split()[1])
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory_kib / 2**20, 1),
        "kernel": platform.release(),
        "compiler": first_line(["cc", "--version"]),
        "commit": first_line(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]),
        "changed": bool(first_line(["git", "-C", str(ROOT), "status", "--porcelain", "--untracked-files=no"])),
        "pocl": package_version("pocl-opencl-icd"),
        "ocl_icd": package_version("ocl-icd-libopencl1"),
        "load_before": os.getloadavg()[0],
    }


class Bench:
    """A build, with a daemon and folders of its own. Use as a context."""

    def __init__(self, build):
        self.build = Path(build).resolve()
        self.facet = self.build / "facet"
        self.burn = self.build / "examples" / "opencl_burn"
        self.temporary = tempfile.TemporaryDirectory(prefix="facet-bench-")
        self.folder = Path(self.temporary.name)
        self.environment = {**os.environ, **self.own_daemon("run"), "FACET_IDLE_EXIT_S": "5"}
        for name in ("FACET_VGPU_DIR", "OPENCL_LAYERS"):
            self.environment.pop(name, None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        deadline = time.monotonic() + 20
        while any(self.folder.glob("*/facetd.sock")) and time.monotonic() < deadline:
            time.sleep(0.1)
        self.temporary.cleanup()

    def own_daemon(self, name):
        """An environment in which `facet` uses, and starts if needed, a daemon with folders named `name`."""
        return {"FACET_RUNTIME_DIR": f"{self.folder}/{name}", "FACET_STATE_DIR": f"{self.folder}/{name}-state"}

    def program(self, name):
        path = self.build / "bench" / name
        if not path.exists():
            raise Missing(f"{path} was not built")
        return path

    def inside(self, limits, command):
        """The command line that runs `command` in a vGPU with these limits."""
        return [self.facet, "run", *limits, "--", *command]

    def start(self, command, environment=None, output=subprocess.PIPE):
        return subprocess.Popen([str(part) for part in command], env={**self.environment, **(environment or {})},
                                text=True, stdout=output, stderr=subprocess.PIPE)

    def finish(self, process):
        """Waits for a started program, and returns its standard output. If it fails, so does the bench."""
        try:
            output, errors = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise Missing(f"{process.args} took longer than {LIMIT_S} s") from None
        if process.returncode != 0:
            raise Missing(f"{' '.join(process.args)} ended with {process.returncode}: {errors.strip()}")
        return output

    def output(self, command, environment=None):
        return self.finish(self.start(command, environment))

    def last_json(self, command, environment=None):
        return json.loads(self.output(command, environment).splitlines()[-1])

    def steps(self, kernel_us):
        """How many steps of opencl_burn take `kernel_us` microseconds alone on the device."""
        return self.last_json([self.burn, "--seconds", "0.1", "--kernel-us", kernel_us])["steps"]


def interleave(rounds, variants):
    """Runs each variant (name: function) once per round, so that noise affects all alike. Returns samples by name."""
    samples = {name: [] for name in variants}
    for turn in range(rounds):
        order = list(variants) if turn % 2 == 0 else list(reversed(variants))
        for name in order:
            samples[name].append(variants[name]())
    return samples


def medians(samples):
    return {name: statistics.median(values) for name, values in samples.items()}


def markdown_table(header, rows):
    def line(cells):
        return "| " + " | ".join(str(cell) for cell in cells) + " |"

    return "\n".join([line(header), "|" + "---|" * len(header), *map(line, rows)])


def fact(key, value):
    """An entry of machine() as a reader of a table sees it."""
    if key == "changed":
        return "with uncommitted changes" if value else "without uncommitted changes"
    return f"{key} {value}"


def save(name, result, tables):
    """Writes the tables to RESULTS and the raw samples to RAW, and prints the tables."""
    date = datetime.date.today().isoformat()
    where = machine()
    RESULTS.mkdir(parents=True, exist_ok=True)
    if RAW:
        RAW.mkdir(parents=True, exist_ok=True)
        record = {"bench": name, "date": date, "machine": where, "result": result}
        (RAW / f"{date}-{name}.json").write_text(json.dumps(record, indent=1) + "\n")
    facts = ", ".join(fact(key, value) for key, value in where.items() if value is not None)
    body = "\n\n".join(tables)
    (RESULTS / f"{date}-{name}.md").write_text(f"# {name}, {date}\n\nMeasured on: {facts}.\n\n{body}\n")
    print(f"\n== {name} ==\n{body}", flush=True)
