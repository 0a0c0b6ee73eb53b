# SPDX-License-Identifier: Apache-2.0
"""Virtual GPUs that have more memory together than the GPU: no tenant loses a byte.

Owns: two tenants, each with three quarters of the GPU's memory. Never: runs while another user's program is on the GPU.
"""
from machine import GIB, MIB
from suite import Skip, check, must

OPTION = "--oversubscribe"


@check("swap")
def two_tenants_of_three_quarters_each_keep_every_word(machine, record):
    machine.require_soft_limits()
    if OPTION not in machine.try_facet("run", "--help").stdout:
        raise Skip(f"this Facet has no {OPTION}")
    used = int(machine.smi_of_gpu("memory.used")[0])
    if used > 1024:
        raise Skip(f"{used} MiB of the GPU are in use by others")
    quota = machine.gpu["memory_bytes"] * 3 // 4 // MIB * MIB
    context = min(quota // 4, 2 * GIB)  # left for the context, and more
    blocks, seconds = str((quota - context) // MIB), str(max(round(machine.options.seconds), 2))
    limits = ["-m", machine.size(quota), OPTION]
    ends = machine.run_json_together([machine.in_vgpu(limits, machine.tenant("check", blocks, seconds, str(seed)))
                                  for seed in (1, 2)])
    record.update(blocks_mib=int(blocks), rounds=[end["rounds"] for end in ends])
    must(all(end["rounds"] > 0 for end in ends), f"expected at least a round of each tenant, got {ends}")
