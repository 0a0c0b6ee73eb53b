#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Virtual functions are made, passed through one by one, and removed."""
from machine import Machine

Machine(devices=["drive:if=none,id=disk,file=null-co://,format=raw,size=64M",
                 "pcie-root-port,id=port1,bus=pcie.0,chassis=1,slot=1,addr=05.0",
                 "nvme-subsys,id=subsystem",
                 "nvme,bus=port1,serial=facet,subsys=subsystem,sriov_max_vfs=4,sriov_vq_flexible=8,sriov_vi_flexible=4,"
                 "max_ioqpairs=26,msix_qsize=15",
                 "nvme-ns,drive=disk"],
        modules=["nvme"],
        script="sriov.sh",
        checks=26).main()
