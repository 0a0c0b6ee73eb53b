#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`facet pci` on a real kernel: scans, verdicts, plans, binding, recovery after a kill, rules, hot-plug."""
from machine import Machine
from qmp import wait_until_gone, plug, unplug

Machine(devices=["virtio-gpu-pci,addr=03.0,iommu_platform=on,disable-legacy=on",
                 "edu,addr=04.0,dma_mask=0xffffffffffff",
                 "drive:if=none,id=disk,file=null-co://,format=raw,size=64M",
                 "nvme,serial=facet,drive=disk,addr=05.0,multifunction=on",
                 "pci-testdev,addr=05.1",
                 "pcie-root-port,id=port1,bus=pcie.0,chassis=1,slot=1,addr=06.0"],
        modules=["nvme"],
        script="command.sh",
        checks=89,
        actions={"plug": [plug("edu", "second", "port1")],
                 "unplug": [unplug("second"), wait_until_gone("second")]}).main()
