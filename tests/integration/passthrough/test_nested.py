#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A function that is passed through twice: to a QEMU inside the virtual machine, whose guest uses it."""
from glob import glob

from machine import BUILD, Machine

# A QEMU that was built in modules loads emulation as a module.
PARTS = glob("/usr/lib/*/qemu/accel-tcg-x86_64.so") + glob("/usr/lib*/qemu/accel-tcg-x86_64.so")
FIRMWARE = ["/usr/share/seabios/bios-256k.bin", "/usr/share/qemu/multiboot_dma.bin", "/usr/share/qemu/kvmvapic.bin"]

Machine(devices=["edu,addr=04.0,dma_mask=0xffffffffffff"],
        programs=["qemu-system-x86_64"],
        files={**{path: path for path in FIRMWARE + PARTS},
               "/inner": BUILD / "tests/integration/passthrough/passthrough-nested-guest"},
        script="nested.sh",
        checks=11,
        memory_mib=768).main()
