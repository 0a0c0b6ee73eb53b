#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A driver that does not release its device: each verb returns and reports it, and works again afterwards."""
from machine import Machine

Machine(devices=["virtio-gpu-pci,addr=03.0,iommu_platform=on,disable-legacy=on",
                 "edu,addr=04.0",
                 "drive:if=none,id=disk,file=null-co://,format=raw,size=64M",
                 "nvme,serial=facet,drive=disk,addr=05.0"],
        modules=["nvme"],
        script="hang.sh",
        checks=51).main()
