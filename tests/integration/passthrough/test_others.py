#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The command beside other users and tools, full disks, restarts, and functions that are removed while bound."""
from machine import Machine

Machine(devices=["edu,addr=04.0,dma_mask=0xffffffffffff",
                 "drive:if=none,id=disk,file=null-co://,format=raw,size=64M",
                 "nvme,serial=facet,drive=disk,addr=05.0,multifunction=on",
                 "pci-testdev,addr=05.1"],
        modules=["nvme"],
        script="others.sh",
        checks=37).main()
