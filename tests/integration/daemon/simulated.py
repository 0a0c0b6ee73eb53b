# SPDX-License-Identifier: Apache-2.0
"""A facetd on a simulated machine, whose partitions and limits outlive the daemon as they would in a driver.

Owns: the machine's folder and its script of faults. Never: tests anything.
"""
import contextlib
import json
import os
import select
import signal

from facetd import BUILD, SOURCE, Facetd
from place import provider_processes
from tap import Skip

PROVIDER = os.path.join(BUILD, "facet-provider-sim.so")
DEVICE = "sim:0"


class Simulated(Facetd):
    """`faults` is the script ({"at_ns", "device", "kind", "operation"}); it is read anew by each provider process."""

    def __init__(self, profile="h100", faults=None, **environment):
        if not os.path.exists(PROVIDER):
            raise Skip("the simulated provider is not built")
        super().__init__(start=False, **environment)
        self.machine = os.path.join(self.base, "machine")
        self.script = os.path.join(self.base, "faults.json")
        os.mkdir(self.machine)
        self.environment.update(FACET_PROVIDER_PATH=PROVIDER, FACET_SIM_STATE=self.machine)
        self.set_profile(profile)
        if faults:
            self.environment["FACET_SIM_FAULTS"] = self.script
            self.set_faults(faults)

    def __enter__(self):
        return self.start()

    def set_faults(self, faults):
        with open(self.script, "w", encoding="ascii") as file:
            json.dump({"faults": faults}, file)

    def set_profile(self, profile):
        self.environment["FACET_SIM_PROFILE"] = os.path.join(SOURCE, "providers", "sim", "profiles", profile + ".json")

    def forget(self):
        """Makes the machine lose its partitions and limits, as a reset of the device would."""
        for name in os.listdir(self.machine):
            os.unlink(os.path.join(self.machine, name))

    def corrupt(self):
        for name in os.listdir(self.machine):
            with open(os.path.join(self.machine, name), "w", encoding="ascii") as file:
                file.write("not a record of anything")

    def kill_provider(self):
        killed = 0
        for process in provider_processes(self.process.pid):
            with contextlib.suppress(ProcessLookupError):  # the process has just ended
                pidfd = os.pidfd_open(process)
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                select.select([pidfd], [], [], 20)  # go on when the process is dead, not while it is dying
                os.close(pidfd)
                killed += 1
        return killed

    def device(self, device=DEVICE):
        return self.get(f"/v1/devices/{device}").json

    def partitions(self, device=DEVICE):
        """{(template, start): vGPU or None}, as the provider lists them."""
        return {(part["template"], part["start"]): part.get("vgpu") for part in self.device(device)["partitions"]}

    def workers(self, device=DEVICE):
        return {worker["worker"]: worker.get("vgpu") for worker in self.device(device)["workers"]}
