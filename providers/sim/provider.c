/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sim provider: machines that do not exist, described by profiles, for tests and for planning.
 *
 * Owns: the entry point and the list of tables.
 * Never: hides that it simulates: the trait FACET_PROVIDER_SIMULATED, and every name it returns, say so.
 *
 * facet_device_info.address of its devices is the device's uuid; of a partition, the partition's; of a worker's part,
 * "<device uuid>/<worker>".
 */
#include "provider_kit.h"
#include "sim.h"

static const struct facet_provider provider = {
    .size = sizeof provider,
    .abi_major = FACET_PROVIDER_ABI_MAJOR,
    .abi_minor = FACET_PROVIDER_ABI_MINOR,
    .name = "sim",
    .version = FACET_VERSION,
    .description = "Simulated devices from a profile (FACET_SIM_PROFILE); no hardware behind them",
    .traits = FACET_PROVIDER_SIMULATED,
    .device = &sim_device_ops,
    .partition = &sim_partition_ops,
    .limit = &sim_limit_ops,
    .metrics = &sim_metrics_ops,
    .container = &sim_container_ops,
    .snapshot = &sim_snapshot_ops,
    .memory = &sim_memory_ops,
    .execution = &sim_execution_ops,
};

enum facet_status facet_provider_entry(const struct facet_provider_host *host,
                                       const struct facet_provider **ret_provider)
{
    enum facet_status status = facet_kit_check_host(host);

    if (status == FACET_OK)
        *ret_provider = &provider;
    return status;
}
