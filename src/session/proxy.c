/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: packing arguments, one line per kind. Never: names an operation; operations.h lists all. */
#include "session/proxy.h"

#include "session/client.h"
#include "session/operations.h"

#define PACK(kind, ...)            {PACK_##kind(__VA_ARGS__)},
#define PACK_U8(name)              .number = name
#define PACK_U32(name)             .number = name
#define PACK_U64(name)             .number = name
#define PACK_BYTES(name)           .number = name
#define PACK_TIMEOUT(name)         .number = name
#define PACK_TEXT(name)            .input = name
#define PACK_TEXT_OR_NULL(name)    .input = name
#define PACK_FD(name)              .fd = name
#define PACK_PIDS(name)            .input = name, .number = count
#define PACK_DATA(name)            .input = name, .number = bytes
#define PACK_LAUNCH(name)          .input = name, .input_bytes = arguments, .number = name ? name->argument_bytes : 0
#define PACK_STRUCT(name, ...)     .input = name, .size = name ? name->size : 0
#define PACK_RET_U32(name)         .output = name
#define PACK_RET_U64(name)         .output = name
#define PACK_RET_STRUCT(name, ...) .output = name, .size = name ? name->size : 0
#define PACK_RET_ITEMS(name, ...)  .output = name, .size = item_size, .number = capacity, .ret_count = ret_count
#define PACK_RET_TEXT(name)        .output = name, .number = capacity, .ret_count = ret_size
#define PACK_RET_DATA(name)        .output = name, .number = bytes

/* An instance is opaque to callers, so a pointer to the client serves as one. */
#define PROXY(table, operation_, ...)                                                                                  \
    static enum facet_status proxy_##table##_##operation_ FACET_PARAMETERS(__VA_ARGS__)                                \
    {                                                                                                                  \
        const struct facet_call call = {.operation = FACET_OPERATION_##table##_##operation_,                           \
                                        .arguments = {FACET_EACH(PACK, __VA_ARGS__)}};                                 \
                                                                                                                       \
        return facet_client_call((struct facet_client *)instance, &call, error);                                       \
    }
FACET_OPERATIONS(PROXY)

static enum facet_status proxy_open(struct facet_provider_instance **ret_instance, struct facet_error *error)
{
    return facet_error_set(error, FACET_UNSUPPORTED,
                           "a provider in a child is open already; another instance is another session");
}

/* Does nothing, because the session itself closes the provider. */
static void proxy_close(struct facet_provider_instance *instance)
{
}

#define MEMBER(table, name, ...) .name = proxy_##table##_##name,
static const struct facet_tables proxies = {
    .device = {sizeof proxies.device, proxy_open, proxy_close, FACET_DEVICE_OPERATIONS(MEMBER)},
    .partition = {sizeof proxies.partition, FACET_PARTITION_OPERATIONS(MEMBER)},
    .limit = {sizeof proxies.limit, FACET_LIMIT_OPERATIONS(MEMBER)},
    .metrics = {sizeof proxies.metrics, FACET_METRICS_OPERATIONS(MEMBER)},
    .container = {sizeof proxies.container, FACET_CONTAINER_OPERATIONS(MEMBER)},
    .snapshot = {sizeof proxies.snapshot, FACET_SNAPSHOT_OPERATIONS(MEMBER)},
    .memory = {sizeof proxies.memory, FACET_MEMORY_OPERATIONS(MEMBER)},
    .execution = {sizeof proxies.execution, FACET_EXECUTION_OPERATIONS(MEMBER)},
    .math = {sizeof proxies.math, FACET_MATH_OPERATIONS(MEMBER)},
};

void facet_proxy_fill(struct facet_tables *tables, const struct facet_provider *provider)
{
    facet_tables_complete(tables, &proxies, provider);
}
