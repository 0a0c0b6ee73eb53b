#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Functions that are opened by iommufd. Debian 12's kernels lack it; CONTRIBUTING.md says how to provide a kernel."""
from machine import Machine

Machine(devices=["edu,addr=04.0,dma_mask=0xffffffffffff",
                 "drive:if=none,id=disk,file=null-co://,format=raw,size=64M",
                 "nvme,serial=facet,drive=disk,addr=05.0,multifunction=on", "edu,addr=05.1",
                 "pcie-pci-bridge,id=bridge,addr=06.0",
                 "edu,bus=bridge,addr=01.0", "pci-testdev,bus=bridge,addr=02.0"],
        modules=["iommufd", "nvme"],
        script="iommufd.sh",
        checks=61).main()
