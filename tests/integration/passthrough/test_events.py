#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Functions that are added, removed or fail while the machine runs, also while they are open."""
from machine import Machine
from qmp import wait_until_gone, plug, unplug

Machine(devices=["pcie-root-port,id=port1,bus=pcie.0,chassis=1,slot=1,addr=05.0",
                 "pcie-root-port,id=port2,bus=pcie.0,chassis=2,slot=2,addr=06.0",
                 "pcie-root-port,id=port3,bus=pcie.0,chassis=3,slot=3,addr=07.0",
                 "e1000e,bus=port3,romfile="],  # can report errors
        modules=["aer_inject"],
        script="events.sh",
        checks=15,
        actions={"plug": [plug("edu", "first", "port1")],
                 "unplug": [unplug("first")],
                 "gone": [wait_until_gone("first")],
                 "plug again": [plug("edu", "second", "port2")],
                 "unplug again": [unplug("second"), wait_until_gone("second")]}).main()
