# SPDX-License-Identifier: Apache-2.0
"""The machine on which the GPU suite runs: its GPUs, programs on them without Facet and in vGPUs, and its nvidia-smi.

Owns: a daemon of its own (bench/harness.py), the choice of the GPU, and how much of its memory is used.
Never: changes a setting of a GPU (a mode, clock or limit), resets one, or touches the user's own Facet.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))

import harness  # noqa: E402
from suite import Failed, Skip  # noqa: E402

MIB, GIB = 1 << 20, 1 << 30
DEADLINE_S = 60  # the longest wait for an event
OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY
# The fake devices have little memory, because it is host memory.
FAKE = {"FAKE_CUDA_DEVICES": "2", "FAKE_CUDA_MEMORY": "512M", "FAKE_CUDA_CONTEXT": "16M"}


def wait_until(condition, what):
    """Waits for the condition to be true; returns its value."""
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.05)
    raise Failed(f"waited {DEADLINE_S} s in vain for {what}")


class Machine(harness.Bench):
    """`gpu` is the device (docs/api.md) that is used. If there is none, `missing` says why."""

    def __init__(self, build, options):
        super().__init__(build)
        self.options, self.is_fake = options, options.fake
        self.programs = self.build / "tests" / "gpu"
        for name in ("LD_PRELOAD", "CUDA_VISIBLE_DEVICES"):
            self.environment.pop(name, None)
        if self.is_fake:
            self.environment.update(FAKE, FACET_KEEP_ENV="FAKE_*,LD_LIBRARY_PATH",
                                    LD_LIBRARY_PATH=str(self.build / "tests" / "fake" / "cuda"),
                                    FAKE_CUDA_STATE=str(self.folder / "machine"))
        self.gpu, self.gpus = None, []
        self.missing = self._find()

    def _find(self):
        """Chooses the GPU; returns the reason if there is none, or an empty text."""
        if not (self.programs / "gpu-tenant").exists():
            return "this build has no provider cuda (-Dcuda)"
        done = self.try_facet("devices", "--json")
        listed = json.loads(done.stdout)["devices"] if done.returncode == 0 else []
        self.gpus = [device for device in listed if device["provider"] == "cuda"]
        if not self.gpus:
            return f"no NVIDIA GPU: {self._reason_of_absence(done)}"
        names = (self.options.device, self.gpus[0]["id"])
        chosen = [gpu for gpu in self.gpus if (names[0] or names[1]) in (gpu["id"], gpu["uuid"])]
        if not chosen:
            return f"no GPU '{self.options.device}' here"
        self.gpu = chosen[0]
        return ""

    def _reason_of_absence(self, done):
        if done.returncode:
            return done.stderr.strip()
        providers = json.loads(self.try_facet("provider", "list", "--json").stdout)["providers"]
        for provider in providers:
            if provider["name"] == "cuda" and provider["state"] == "refused":
                return provider["reason"]
        return "the provider finds none; nvidia-smi tells whether the driver does"

    # --- commands ---

    def try_run(self, command, environment=None):
        return subprocess.run([str(part) for part in command], env={**self.environment, **(environment or {})},
                              text=True, capture_output=True, timeout=harness.LIMIT_S, check=False)

    def try_facet(self, *arguments):
        return self.try_run([self.facet, *arguments])

    def facet_json(self, *arguments):
        done = self.try_facet(*arguments, "--json")
        if done.returncode:
            raise Failed(f"facet {' '.join(arguments)}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def tenant(self, *arguments):
        """The command line of the suite's own tenant, tenant.c."""
        return [self.programs / "gpu-tenant", *arguments]

    def in_vgpu(self, limits, command):
        """The command line that runs `command` in a vGPU of the chosen GPU."""
        return [self.facet, "run", "-d", self.gpu["id"], *limits, "--", *command]

    def outside_vgpu(self, command):
        """The command line that runs `command` without Facet, on the same GPU."""
        return ["env", f"CUDA_VISIBLE_DEVICES={self.gpu['uuid']}", *command]

    def run_json(self, command):
        """Runs the command; returns the last line of its output, which is JSON."""
        done = self.try_run(command)
        if done.returncode:
            raise Failed(f"{' '.join(map(str, command))} ended with status {done.returncode}: "
                         f"{done.stderr.strip()}{done.stdout}")
        return json.loads(done.stdout.splitlines()[-1])

    def json_of(self, process):
        """The last line of the output of a program that was started."""
        return json.loads(self.finish(process).splitlines()[-1])

    def run_json_together(self, commands):
        """The last lines of the output of programs that run at the same time."""
        return [self.json_of(process) for process in [self.start(command) for command in commands]]

    def start_and_read(self, command):
        """Starts a program that continues after its first line; returns it and the line. end() ends it."""
        process = self.start(command)
        line = process.stdout.readline()
        if not line:
            raise Failed(f"{' '.join(map(str, command))}: {process.communicate()[1]}")
        return process, json.loads(line)

    def end(self, process):
        """Ends `facet run`, which ends its program."""
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=DEADLINE_S)

    def program_of(self, process):
        """The pid of the program that a `facet run` has started."""
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="utf-8")
        return int(children.split()[0])

    def kill(self, process):
        """Kills the program itself with SIGKILL."""
        os.kill(self.program_of(process), signal.SIGKILL)
        process.communicate(timeout=DEADLINE_S)

    # --- devices ---

    def smi(self, fields, limits=None):
        """nvidia-smi's answer, a list of cells for each GPU. With `limits` it runs in a vGPU with these limits."""
        program = self.programs / "gpu-smi" if self.is_fake else shutil.which("nvidia-smi")
        if not program:
            raise Skip("this machine has no nvidia-smi")
        query = [program, f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
        done = self.try_run(query if limits is None else self.in_vgpu(limits, query))
        if done.returncode:
            raise Failed(f"{program}: {done.stderr.strip()}{done.stdout.strip()}")
        return [line.split(", ") for line in done.stdout.splitlines()]

    def smi_of_gpu(self, fields, limits=None):
        """The row of the chosen GPU."""
        return next(row[1:] for row in self.smi(f"uuid,{fields}", limits) if row[0] == self.gpu["uuid"])

    def start_daemon(self):
        """Starts a daemon, because only a daemon has readings. Without work it ends after a few seconds."""
        self.facet_json("vgpu", "create", "--name", "first", "-d", self.gpu["id"])
        self.try_facet("vgpu", "destroy", "first")

    def readings(self, metric):
        """{labels as text: value} of one metric of `facet metrics`, for the chosen GPU."""
        lines = self.try_facet("metrics").stdout.splitlines()
        return {line.split("{")[1].split("}")[0]: float(line.split()[-1]) for line in lines
                if line.startswith(f"{metric}{{") and f'device="{self.gpu["id"]}"' in line}

    def require_soft_limits(self):
        """Skips the check if programs cannot be limited on the GPU in its present mode."""
        if "soft" not in self.gpu["modes"]:
            raise Skip(f"{self.gpu['id']} is in MIG mode, which the suite does not change: only its listing is checked")

    def quota(self):
        """The memory in bytes of a vGPU that a test fills. The GPU's free memory is enough for two such vGPUs."""
        return min(4 * GIB, self.gpu["memory_bytes"] // 4 // MIB * MIB)

    def size(self, amount):
        return f"{amount // MIB}M"
