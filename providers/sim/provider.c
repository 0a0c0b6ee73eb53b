/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sim provider: machines that do not exist, described by profiles, for tests and for planning.
 *
 * Owns: the entry point and the list of tables.
 * Never: hides that it simulates: it has the trait FACET_PROVIDER_SIMULATED, and "simulated" in every name.
 *
 * The address of a device or a partition is its uuid; that of a worker's part of a device is "<device uuid>/<worker>".
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
