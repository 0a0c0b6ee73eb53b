# SPDX-License-Identifier: Apache-2.0
"""A program's memory leaves the GPU and comes back while the program goes on: the provider's table `snapshot`.

Owns: one tenant that checks its own memory. Never: keeps a program off the GPU when a check fails.
"""
import subprocess
import time
from pathlib import Path

from machine import MIB, wait_until
from suite import Skip, check, must

MOVER = Path(__file__).resolve().parent / "mover.py"
TENANT_S, AWAY_S = 6, 1  # how long the tenant runs, and its memory is away
NOT_SUPPORTED = 3  # ACCEL_ERROR_NOT_SUPPORTED


def used_mib(machine):
    return int(machine.smi_of_gpu("memory.used")[0])


def start_mover(machine, pid):
    """Starts the process that moves `pid` off its devices; returns it and the result of AccelSnapshot()."""
    library = machine.build / "libfacet-tensorfusion.so"
    if not library.exists():
        raise Skip("this build has no libfacet-tensorfusion.so, through which a snapshot is requested")
    mover = subprocess.Popen(["python3", MOVER, library, str(pid)], env=machine.environment, text=True,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    return mover, int(mover.stdout.readline() or -1)


@check("snapshot")
def memory_leaves_the_gpu_and_comes_back(machine, record):
    machine.require_soft_limits()
    mebibytes, before = machine.quota() // MIB // 2, used_mib(machine)
    tenant = machine.start(machine.in_vgpu(["-m", machine.size(machine.quota())],
                                           machine.tenant("check", str(mebibytes), str(TENANT_S), "1")))
    wait_until(lambda: used_mib(machine) >= before + mebibytes, "the tenant's memory")
    here, began = used_mib(machine), time.monotonic()
    mover, left = start_mover(machine, machine.program_of(tenant))
    record["left_s"] = round(time.monotonic() - began, 2)
    away = used_mib(machine)
    time.sleep(AWAY_S)
    began = time.monotonic()
    back = mover.communicate(timeout=60)[0].strip()
    record.update(back_s=round(time.monotonic() - began, 2), used_mib=[before, here, away])
    rounds = machine.json_of(tenant)["rounds"]
    if left == NOT_SUPPORTED:
        raise Skip(f"driver {machine.gpu['driver_version']} has no checkpoint calls")
    must((left, back) == (0, "0"), f"AccelSnapshot() returned {left}, AccelResume() {back}, expected 0 of both")
    must(away <= here - mebibytes,
         f"{away} MiB in use while the tenant's memory was away, {here} MiB before, expected {mebibytes} less")
    record["rounds"] = rounds
