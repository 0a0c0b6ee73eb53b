#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Functions that share an IOMMU group, because they are one device or lie behind an old bridge."""
from machine import Machine

Machine(devices=["drive:if=none,id=disk,file=null-co://,format=raw,size=64M",
                 "edu,addr=05.0,multifunction=on",
                 "nvme,serial=facet,drive=disk,addr=05.1",
                 "pcie-pci-bridge,id=bridge,addr=06.0",
                 "edu,bus=bridge,addr=01.0", "pci-testdev,bus=bridge,addr=02.0"],
        modules=["nvme"],
        script="group.sh",
        checks=19).main()
