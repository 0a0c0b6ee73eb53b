#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Hot-plug and unplug by the library, with a guest that uses added functions and releases removed ones."""
import subprocess

from machine import BUILD, Machine

PLUG = BUILD / "tests/integration/passthrough/passthrough-plug"


def run(word, expected=""):
    """An action that runs passthrough-plug and expects its output."""
    def act(_):
        done = subprocess.run([PLUG, vm.monitor, word], capture_output=True, text=True, timeout=150, check=False)
        if (done.returncode, done.stdout) != (0, expected):
            raise AssertionError(f"{word}: {done.returncode}, {done.stdout!r}, {done.stderr!r}")
    return act


USED = "".join(f"facet-0000-01-00.{number} behind port1 as function {number}, used: yes\n" for number in (0, 1))

vm = Machine(devices=["pcie-root-port,id=port1,bus=pcie.0,chassis=1,slot=1,addr=05.0",
                      "pcie-root-port,id=port2,bus=pcie.0,chassis=2,slot=2,addr=06.0"],
             script="attach.sh",
             checks=12,
             actions={"attach": [run("attach", USED)], "detach": [run("detach")],
                      "attach again": [run("attach", USED)], "detach again": [run("detach")]})
vm.main()
