#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`facet pci attach` and `facet pci detach` with a real function and a QEMU inside the virtual machine."""
from glob import glob

from machine import Machine

# A QEMU that was built in modules loads emulation as a module.
PARTS = glob("/usr/lib/*/qemu/accel-tcg-x86_64.so") + glob("/usr/lib*/qemu/accel-tcg-x86_64.so")
FIRMWARE = ["/usr/share/seabios/bios-256k.bin", "/usr/share/qemu/kvmvapic.bin"]

Machine(devices=["edu,addr=04.0"],
        programs=["qemu-system-x86_64"],
        files={path: path for path in FIRMWARE + PARTS},
        script="handover.sh",
        checks=12,
        memory_mib=768).main()
