#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`facet pci` where other users and tools act on the same functions, a disk is full, the host restarts, or a bound
function is removed."""
from machine import Machine

Machine(devices=["edu,addr=04.0,dma_mask=0xffffffffffff",
                 "drive:if=none,id=disk,file=null-co://,format=raw,size=64M",
                 "nvme,serial=facet,drive=disk,addr=05.0,multifunction=on",
                 "pci-testdev,addr=05.1"],
        modules=["nvme"],
        script="others.sh",
        checks=37).main()
