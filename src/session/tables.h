/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A provider's tables without gaps: a caller may call every operation, and need not check for NULL.
 *
 * Owns: the tables, and the stubs for operations that a provider lacks.
 * Never: reads past the size that a provider states for a struct or table, or uses members beyond its version.
 */
#ifndef FACET_SESSION_TABLES_H
#define FACET_SESSION_TABLES_H

#include <facet/provider.h>

/* Must not be copied, because `provider` points to the other members. */
struct facet_tables {
    struct facet_provider provider;
    struct facet_device_ops device;
    struct facet_partition_ops partition;
    struct facet_limit_ops limit;
    struct facet_metrics_ops metrics;
    struct facet_container_ops container;
    struct facet_snapshot_ops snapshot;
    struct facet_memory_ops memory;
    struct facet_execution_ops execution;
    struct facet_math_ops math;
};

/* Combines the functions of `operations` with the description of `provider`, whose version is the negotiated one. */
void facet_tables_complete(struct facet_tables *tables, const struct facet_tables *operations,
                           const struct facet_provider *provider);

/*
 * Takes over the operations that `provider` has in the smaller of its version and `abi_minor`; its texts and functions
 * are borrowed. A stub answers FACET_UNSUPPORTED and names its operation.
 */
void facet_tables_fill(struct facet_tables *tables, const struct facet_provider *provider, uint16_t abi_minor);

#endif
