#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Single functions of an emulated machine, from binding to giving back."""
from machine import Machine

Machine(devices=["edu,addr=04.0,dma_mask=0xffffffffffff",
                 "drive:if=none,id=disk,file=null-co://,format=raw,size=64M",
                 "nvme,serial=facet,drive=disk,addr=05.0",
                 "pcie-root-port,id=port1,bus=pcie.0,chassis=1,slot=1,addr=06.0",
                 "edu,bus=port1"],
        modules=["nvme"],
        script="device.sh",
        checks=70).main()
