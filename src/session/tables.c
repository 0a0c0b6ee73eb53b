/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the stubs, and laying a provider's operations over them. Never: names an operation; operations.h lists all. */
#include "session/tables.h"

#include <stdbool.h>
#include <string.h>

#include "session/operations.h"

#define STUB(table, name, ...)                                                                                         \
    static enum facet_status stub_##table##_##name FACET_PARAMETERS(__VA_ARGS__)                                       \
    {                                                                                                                  \
        return facet_error_set(error, FACET_UNSUPPORTED, "the provider offers no " #table "." #name);                  \
    }
FACET_OPERATIONS(STUB)

static enum facet_status stub_open(struct facet_provider_instance **ret_instance, struct facet_error *error)
{
    return facet_error_set(error, FACET_UNSUPPORTED, "the provider offers no device.open");
}

static void stub_close(struct facet_provider_instance *instance)
{
}

#define MEMBER(table, name, ...) .name = stub_##table##_##name,
static const struct facet_tables stubs = {
    .device = {sizeof stubs.device, stub_open, stub_close, FACET_DEVICE_OPERATIONS(MEMBER)},
    .partition = {sizeof stubs.partition, FACET_PARTITION_OPERATIONS(MEMBER)},
    .limit = {sizeof stubs.limit, FACET_LIMIT_OPERATIONS(MEMBER)},
    .metrics = {sizeof stubs.metrics, FACET_METRICS_OPERATIONS(MEMBER)},
    .container = {sizeof stubs.container, FACET_CONTAINER_OPERATIONS(MEMBER)},
    .snapshot = {sizeof stubs.snapshot, FACET_SNAPSHOT_OPERATIONS(MEMBER)},
    .memory = {sizeof stubs.memory, FACET_MEMORY_OPERATIONS(MEMBER)},
    .execution = {sizeof stubs.execution, FACET_EXECUTION_OPERATIONS(MEMBER)},
    .math = {sizeof stubs.math, FACET_MATH_OPERATIONS(MEMBER)},
};

/* A table is its size, then pointers to functions. */
typedef void (*operation_func)(void);

/* Lays the operations of `offered` over the stubs in `table`, as far as they lie in the first `max` bytes. */
static void overlay_table(void *table, const void *offered, size_t max)
{
    uint64_t size;

    if (!offered)
        return;
    memcpy(&size, offered, sizeof size);
    if (size > max)
        size = max;
    for (size_t at = sizeof size; at + sizeof(operation_func) <= size; at += sizeof(operation_func)) {
        operation_func operation;

        memcpy(&operation, (const char *)offered + at, sizeof operation);
        if (operation)
            memcpy((char *)table + at, &operation, sizeof operation);
    }
}

#define HAS(provider, member) ((provider)->size >= offsetof(struct facet_provider, member) + sizeof(provider)->member)
#define OVERLAY_UP_TO(member, max)                                                                                     \
    if (HAS(provider, member))                                                                                         \
    overlay_table(&tables->member, provider->member, max)
#define OVERLAY(member) OVERLAY_UP_TO(member, sizeof tables->member)

static void overlay_since_1_1(struct facet_tables *tables, const struct facet_provider *provider)
{
    uint16_t minor = tables->provider.abi_minor;

    OVERLAY(device);
    OVERLAY(partition);
    OVERLAY(limit);
    OVERLAY(metrics);
    OVERLAY(container);
    OVERLAY(snapshot);
    OVERLAY_UP_TO(memory, minor >= 3 ? sizeof tables->memory : offsetof(struct facet_memory_ops, share_pages));
    OVERLAY_UP_TO(execution, minor >= 4   ? sizeof tables->execution
                             : minor >= 2 ? offsetof(struct facet_execution_ops, set_bounds)
                                          : offsetof(struct facet_execution_ops, write));
    if (minor >= 4)
        OVERLAY(math);
}

void facet_tables_complete(struct facet_tables *tables, const struct facet_tables *operations,
                           const struct facet_provider *provider)
{
    *tables = *operations;
    tables->provider = (struct facet_provider){
        .size = sizeof tables->provider,
        .abi_major = provider->abi_major,
        .abi_minor = provider->abi_minor,
        .name = provider->name,
        .version = provider->version ? provider->version : "",
        .description = provider->description ? provider->description : "",
        .traits = provider->traits,
        .device = &tables->device,
        .partition = &tables->partition,
        .limit = &tables->limit,
        .metrics = &tables->metrics,
        .container = &tables->container,
        .snapshot = &tables->snapshot,
        .memory = &tables->memory,
        .execution = &tables->execution,
        .math = &tables->math,
    };
}

void facet_tables_fill(struct facet_tables *tables, const struct facet_provider *provider, uint16_t abi_minor)
{
    facet_tables_complete(tables, &stubs, provider);
    if (tables->provider.abi_minor > abi_minor)
        tables->provider.abi_minor = abi_minor;
    if (tables->provider.abi_minor >= 1)
        overlay_since_1_1(tables, provider);
    else
        overlay_table(&tables->device, provider->device, offsetof(struct facet_device_ops, properties));
}
