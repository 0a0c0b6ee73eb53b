#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Make a folder with the files of the kernel's drivers amdgpu and amdkfd for the fake AMD GPUs.

Owns: the files of /sys that the provider rocm reads (FACET_ROCM_ROOT), for GPUs like those of tests/fake/hip.
Never: changes a file after the build. A mode that a test sets in the fake library does not appear in these files.

usage: kernel_files.py ROOT [DEVICES]
"""
import shutil
import sys
from pathlib import Path

DIES = 8
UNITS = 38  # of a die
MEMORY = 192 << 30


def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def make_function(root, index):
    """Makes the files of a PCI function whose driver is amdgpu."""
    address = f"0000:{0x05 + 0x20 * index:02x}:00.0"
    function = root / "sys/bus/pci/devices" / address
    (root / "sys/bus/pci/drivers/amdgpu" / address).mkdir(parents=True)
    (function / "drm" / f"renderD{128 + index * DIES}").mkdir(parents=True)
    files = {
        "available_compute_partition": "SPX, DPX, QPX, CPX",
        "available_memory_partition": "NPS1, NPS4",
        "current_compute_partition": "SPX",
        "current_memory_partition": "NPS1",
        "unique_id": f"fa{0xcade00 + index:014x}",
        "product_name": "Fake Instinct 304",
        "numa_node": "0",
        "max_link_speed": "32.0 GT/s PCIe",
        "max_link_width": "16",
        "mem_info_vram_total": str(MEMORY),
        "mem_info_vram_used": str(3 << 30),
        "ras/umc_err_count": "ue: 0\nce: 7",
        "hwmon/hwmon4/temp2_input": "41000",
        "hwmon/hwmon4/temp2_crit": "100000",
        "hwmon/hwmon4/power1_input": "141000000",
        "hwmon/hwmon4/power1_cap": "750000000",
        "hwmon/hwmon4/freq1_input": "132000000",
    }
    for name, text in files.items():
        put(function / name, text)


def make_nodes(root, devices):
    """Makes the compute driver's nodes: one for the processor, and one for each die of each GPU."""
    nodes = root / "sys/class/kfd/kfd/topology/nodes"
    put(nodes / "0/gpu_id", "0")
    put(nodes / "0/properties", "cpu_cores_count 96\nsimd_count 0")
    for device in range(devices):
        for die in range(DIES):
            number = 1 + device * DIES + die
            values = {
                "simd_count": UNITS * 4,
                "simd_per_cu": 4,
                "num_xcc": 1,
                "gfx_target_version": 90402,
                "location_id": (0x05 + 0x20 * device) << 8 | die << 28,
                "domain": 0,
                "drm_render_minor": 128 + device * DIES + die,
                "unique_id": int(f"fa{0xcade00 + device + (die << 32):014x}", 16),
            }
            put(nodes / str(number) / "gpu_id", str(1000 + number))
            put(nodes / str(number) / "properties", "\n".join(f"{name} {value}" for name, value in values.items()))


def main():
    root = Path(sys.argv[1])
    devices = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    shutil.rmtree(root, ignore_errors=True)
    for index in range(devices):
        make_function(root, index)
    make_nodes(root, devices)
    # Process 4242 has 2 GiB on the first die of GPU 0 (gpu_id 1001), and none on that of GPU 1 (gpu_id 1009).
    put(root / "sys/class/kfd/kfd/proc/4242/vram_1001", str(2 << 30))
    put(root / "sys/class/kfd/kfd/proc/4242/vram_1009", "0")
    put(root / "sys/module/amdgpu/version", "6.14.14")
    put(root.parent / f"{root.name}.made", "made")


if __name__ == "__main__":
    main()
