# SPDX-License-Identifier: Apache-2.0
"""The devices of this machine, as the C library lists them.

Owns: the values of each device at the time of the call. Never: guesses: a value that a device does not report is None.
"""
from ctypes import byref, c_char_p, c_void_p
from dataclasses import dataclass

from .library import HAS_MEMORY, HAS_NUMA, HAS_PCI, HAS_UNITS, HEALTH, load

MODE_SOFT = 1 << 1


@dataclass(frozen=True)
class Device:
    facet_id: str   # "opencl:0", the daemon's name for it
    device_id: str  # the agent's name for it, from the uuid
    name: str
    vendor: str
    driver_version: str
    provider: str
    kind: str
    health: str
    address: str    # by which programs find it: "GPU-..." of NVIDIA's GPUs, "amd-..." of AMD's
    pci_address: str | None
    memory_bytes: int | None
    compute_units: int | None
    numa_node: int | None
    takes_programs: bool  # whether programs can run on it in vGPUs of the mode soft


def safe_id(text):
    """Replaces the characters that separate fields in Backend.AI's resource file; a uuid has none of them."""
    return text.translate(str.maketrans(":,= \n", "-----"))


def _device(library, pointer, index, taken):
    info = library.device_list_info(pointer, index).contents
    facet_id = library.device_list_id(pointer, index).decode()
    device_id = safe_id(info.uuid.decode(errors="replace") or facet_id)
    if device_id in taken:
        device_id = safe_id(facet_id)
    taken.add(device_id)
    valid = info.valid
    return Device(
        facet_id=facet_id, device_id=device_id, name=info.name.decode(errors="replace"),
        vendor=info.vendor.decode(errors="replace"), driver_version=info.driver_version.decode(errors="replace"),
        provider=facet_id.split(":")[0], kind=(library.device_kind_name(info.kind) or b"other").decode(),
        health=HEALTH[library.device_list_health(pointer, index)],
        address=info.address.decode(errors="replace"),
        pci_address=info.pci_address.decode() if valid & HAS_PCI else None,
        memory_bytes=info.memory_bytes if valid & HAS_MEMORY else None,
        compute_units=info.compute_units if valid & HAS_UNITS else None,
        numa_node=info.numa_node if valid & HAS_NUMA and info.numa_node >= 0 else None,
        takes_programs=bool(info.modes & MODE_SOFT))


def list_devices(providers=None):
    """(devices, refusals): a refusal is the path of a provider that could not be used, and the reason. Blocks for a
    while: providers answer from child processes."""
    library, pointer = load(), c_void_p()
    library.call("device_list_open", providers.encode() if providers else None, byref(pointer))
    try:
        taken, refusals, path = set(), [], c_char_p()
        devices = [_device(library, pointer, index, taken) for index in range(library.device_list_count(pointer))]
        while refusal := library.device_list_refusal(pointer, len(refusals), byref(path)):
            refusals.append((path.value.decode(errors="replace"), refusal.contents.message.decode(errors="replace")))
        return devices, refusals
    finally:
        library.device_list_close(pointer)
