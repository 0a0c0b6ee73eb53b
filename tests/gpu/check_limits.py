# SPDX-License-Identifier: Apache-2.0
"""The memory limit holds for every kind of memory, for several processes and after a process died; results stay right.

Owns: the checks of quotas. Never: takes more of a GPU than twice Machine.quota().
"""
from machine import MIB, OUT_OF_MEMORY, wait_until
from suite import check, must

KINDS = ("plain", "managed", "pool", "virtual", "array")


def grab(machine, kind, quota, hold=0):
    """The command of a tenant that allocates memory of a kind until it is refused, or has twice the quota."""
    return machine.tenant("grab", kind, str(max(quota // MIB // 16, 4)), str(2 * quota // MIB), str(hold))


def context_bytes(machine, quota):
    """The memory that a context takes in a vGPU, as the program sees it."""
    device = machine.run_json(machine.in_vgpu(["-m", machine.size(quota)], machine.tenant("info")))["devices"][0]
    return device["total_bytes"] - device["free_bytes"]


@check("limits")
def a_program_sees_its_quota(machine, record):
    machine.require_soft_limits()
    quota = machine.quota()
    seen = machine.run_json(machine.in_vgpu(["-m", machine.size(quota)], machine.tenant("info")))
    device = seen["devices"][0]
    record.update(driver=seen["driver"], context_mib=(device["total_bytes"] - device["free_bytes"]) // MIB)
    must(len(seen["devices"]) == 1 and device["uuid"] == machine.gpu["uuid"],
         f"expected only {machine.gpu['uuid']}, the program sees {seen['devices']}")
    must(device["total_bytes"] == device["info_total_bytes"] == quota, f"{device}: the quota is {quota}")
    must(device["units"] == machine.gpu["compute_units"],
         f"the program sees {device['units']} multiprocessors, expected {machine.gpu['compute_units']}")


@check("limits")
def no_kind_of_memory_goes_beyond_the_quota(machine, record):
    machine.require_soft_limits()
    quota = machine.quota()
    context = context_bytes(machine, quota)
    for kind in KINDS:
        got = machine.run_json(machine.in_vgpu(["-m", machine.size(quota)], grab(machine, kind, quota)))
        record[kind] = f"{got['granted_bytes'] // MIB} of {quota // MIB} MiB"
        must(got["refusal"] == OUT_OF_MEMORY,
             f"{kind}: refused with CUDA error {got['refusal']}, expected {OUT_OF_MEMORY}, out of memory")
        must(got["granted_bytes"] <= quota, f"{kind}: {got['granted_bytes']} bytes granted, the quota is {quota}")
        # an eighth of the quota and 64 MiB may stay unused
        least = quota - context - quota // 8 - 64 * MIB
        must(got["granted_bytes"] >= least, f"{kind}: {got['granted_bytes']} bytes granted, expected {least} at least")


@check("limits")
def the_driver_counts_no_more_than_the_quota(machine, record):
    machine.require_soft_limits()
    quota = machine.quota()
    process, got = machine.start_and_read(machine.in_vgpu(["-m", machine.size(quota), "--name", "held"],
                                                grab(machine, "plain", quota, 60)))
    try:
        driver_counts = wait_until(lambda: machine.readings("facet_process_memory_used_bytes"), "the driver's count")
        ours = machine.facet_json("vgpu", "show", "held")["memory_used_bytes"]
        record.update(driver_mib=[int(value) // MIB for value in driver_counts.values()], limiter_mib=ours // MIB,
                      quota_mib=quota // MIB)
        theirs = max(driver_counts.values())
        must(theirs <= quota, f"the driver counts {theirs} bytes, the quota is {quota}")
        must(abs(theirs - ours) <= 64 * MIB, f"the limiter counts {ours} bytes, the driver {theirs}: over 64 MiB apart")
    finally:
        machine.end(process)
    must(got["granted_bytes"] <= quota, f"{got['granted_bytes']} bytes granted, the quota is {quota}")


@check("limits")
def processes_share_one_quota(machine, record):
    machine.require_soft_limits()
    quota = machine.quota()
    machine.facet_json("vgpu", "create", "--name", "shared", "-d", machine.gpu["id"], "-m", machine.size(quota))
    inside = [machine.facet, "run", "--vgpu", "shared", "--"]
    all_of_it = machine.tenant("grab", "plain", str(quota // MIB // 2), str(quota // MIB), "60")
    process, first = machine.start_and_read([*inside, *all_of_it])
    second = machine.try_run([*inside, *machine.tenant("store")])
    record["second"] = second.stderr.strip() or "fitted"
    must(second.returncode == 1 and f": {OUT_OF_MEMORY}" in second.stderr,
         f"a second process beside one of {first['granted_bytes']} bytes: expected a refusal, got status "
         f"{second.returncode}, {second.stderr}")
    machine.kill(process)
    wait_until(lambda: machine.facet_json("vgpu", "show", "shared")["memory_used_bytes"] == 0,
               "the memory of the killed program to be freed")
    again = machine.run_json([*inside, *machine.tenant("store")])
    machine.try_facet("vgpu", "destroy", "shared")
    must(again["wrong"] == 0, f"expected no wrong word, got {again}")


@check("limits")
def a_quota_below_a_context_is_refused(machine, record):
    machine.require_soft_limits()
    done = machine.try_run(machine.in_vgpu(["-m", "4M", "-v"], machine.tenant("store")))
    record["said"] = done.stderr.strip().splitlines()[-2:]
    must(done.returncode == 1 and f": {OUT_OF_MEMORY}" in done.stderr,
         f"expected a refusal, got status {done.returncode}: {done.stderr}")


@check("limits")
def kernels_in_a_vgpu_compute_the_right_results(machine, record):
    machine.require_soft_limits()
    quota = machine.size(machine.quota())
    stored = machine.run_json(machine.in_vgpu(["-m", quota, "-c", "50:50"], machine.tenant("store")))
    must(stored["wrong"] == 0, f"expected no wrong word, got {stored}")
    checked = machine.run_json(machine.in_vgpu(["-m", quota], machine.tenant("check", "32", "1", "3")))
    record["rounds"] = checked["rounds"]
