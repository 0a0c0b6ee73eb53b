# SPDX-License-Identifier: Apache-2.0
"""A place with the real daemon, limiter and layer, on the first device of this machine.

Owns: finding and ending the daemon that a test started. Never: tests anything.
"""
import json
import os
import shutil
import signal

from place import BUILD, Place, wait_until
from tap import Skip

BURN = os.path.join(BUILD, "examples", "opencl_burn")


class Real(Place):
    """Finds the daemon that the test started by its name and its FACET_RUNTIME_DIR, and ends it."""

    def __init__(self):
        super().__init__(real=True)
        if not any(device["modes"] for device in json.loads(self.facet("devices", "--json").stdout)["devices"]):
            raise Skip("no device that programs can be run on")

    def daemon_pid(self):
        pids = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and self._is_ours(pid)]
        return pids[0] if pids else None

    def _is_ours(self, pid):
        try:
            with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
                name = file.read().split("\0")[0]
            with open(f"/proc/{pid}/environ", encoding="utf-8", errors="replace") as file:
                return os.path.basename(name) == "facetd" and f"FACET_RUNTIME_DIR={self.runtime}" in file.read().split("\0")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return False

    def kill_daemon(self):
        pid = self.daemon_pid()
        if pid:
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "the daemon ends")

    def names(self):
        return [vgpu["name"] for vgpu in self.json("vgpu", "list", "--json")["vgpus"]]


def needs(program):
    path = program if os.path.exists(program) else shutil.which(program)
    if not path:
        raise Skip(f"{program} is not installed")
    return path
