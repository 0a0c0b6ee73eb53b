# SPDX-License-Identifier: Apache-2.0
"""What Facet tells about the GPUs equals what nvidia-smi tells.

Owns: the comparison of names, sizes, readings and MIG instances. Never: checks a program's work.
"""
import shutil

from machine import MIB, wait_until
from suite import Skip, check, must, check_near


@check("devices")
def devices_are_listed_as_by_nvidia_smi(machine, record):
    rows = machine.smi("uuid,name,memory.total,memory.reserved,pci.bus_id,driver_version")
    record["gpus"] = [f"{row[1]}, {row[2]} MiB, {row[3]} of them reserved, driver {row[5]}" for row in rows]
    ours = {gpu["uuid"]: gpu for gpu in machine.gpus}
    must(set(ours) == {row[0] for row in rows},
         f"UUIDs by Facet: {sorted(ours)}, by nvidia-smi: {[row[0] for row in rows]}")
    for uuid, name, mebibytes, reserved, bus, driver in rows:
        gpu = ours[uuid]
        must((gpu["name"], gpu["driver_version"]) == (name, driver), f"{gpu}: by nvidia-smi {name}, driver {driver}")
        check_near(gpu["memory_bytes"] // MIB, int(mebibytes) - int(reserved), 1, f"MiB of {uuid}")
        must(bus.lower().endswith(gpu["pci_address"]), f"PCI address {gpu['pci_address']}, by nvidia-smi {bus}")


@check("devices")
def readings_are_near_those_of_nvidia_smi(machine, record):
    machine.require_soft_limits()
    machine.start_daemon()
    wait_until(lambda: machine.readings("facet_device_memory_used_bytes"), "the first readings")
    celsius, watts, used = machine.smi_of_gpu("temperature.gpu,power.draw,memory.used")
    for metric, theirs, most in (("facet_device_temperature_celsius", celsius, 5),
                                 ("facet_device_power_watts", watts, 100),
                                 ("facet_device_memory_used_bytes", used, 64)):
        ours = list(machine.readings(metric).values())
        if not theirs.replace(".", "").isdigit():
            must(not ours, f"{metric}: {ours}, and nvidia-smi has no such reading")
            continue
        must(ours, f"{metric} is absent, and nvidia-smi says {theirs}")
        value = ours[0] / MIB if metric.endswith("bytes") else max(ours)
        record[metric] = f"{value:.1f}, nvidia-smi {theirs}"
        check_near(value, float(theirs), most, metric)


@check("devices")
def mig_mode_and_instances_are_listed(machine, record):
    mode = machine.smi_of_gpu("mig.mode.current")[0]
    full = machine.facet_json("devices", machine.gpu["id"])
    record["mig"] = mode
    must(full["properties"]["mig"] == ("true" if mode == "Enabled" else "false"),
         f"Facet's property mig is {full['properties']['mig']}, MIG mode by nvidia-smi is {mode}")
    if mode != "Enabled":
        raise Skip(f"{machine.gpu['id']} is not in MIG mode, and the suite changes no mode")
    if machine.is_fake:
        raise Skip("the stand-in for nvidia-smi lists no instances")
    listing = machine.try_run([shutil.which("nvidia-smi"), "-L", "-i", machine.gpu["uuid"]]).stdout
    theirs = {word.rstrip(")") for word in listing.split() if word.startswith("MIG-")}
    ours = {part["uuid"] for part in full.get("partitions", [])}
    record["instances"] = len(theirs)
    must(theirs == ours, f"Facet lists the partitions {sorted(ours)}, nvidia-smi {sorted(theirs)}")


@check("devices")
def nvidia_smi_in_a_vgpu_shows_only_the_vgpu(machine, record):
    machine.require_soft_limits()
    quota = machine.quota()
    rows = machine.smi("uuid,memory.total", ["-m", machine.size(quota)])
    record["inside"] = rows
    must(rows == [[machine.gpu["uuid"], str(quota // MIB)]],
         f"nvidia-smi in the vGPU lists {rows}, expected one GPU of {quota // MIB} MiB")
