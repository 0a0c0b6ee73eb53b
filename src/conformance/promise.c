/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the table of the operations that each capability promises. Never: calls an operation. */
#include <string.h>

#include "conformance/operation.h"

struct promise {
    uint64_t capability;
    enum facet_operation_id operation;
};

#define PROMISE(capability, table, op)                                                                                 \
    {                                                                                                                  \
        FACET_CAN_##capability, FACET_OPERATION_##table##_##op                                                         \
    }

static const struct promise promises[] = {
    PROMISE(PARTITION, partition, templates),
    PROMISE(PARTITION, partition, placements),
    PROMISE(PARTITION, partition, create),
    PROMISE(PARTITION, partition, list),
    PROMISE(PARTITION, partition, destroy),
    PROMISE(LIMIT_MEMORY, limit, set_memory),
    PROMISE(LIMIT_MEMORY, limit, get),
    PROMISE(LIMIT_MEMORY, limit, list),
    PROMISE(LIMIT_MEMORY, limit, clear),
    PROMISE(LIMIT_COMPUTE, limit, set_compute),
    PROMISE(LIMIT_COMPUTE, limit, get),
    PROMISE(LIMIT_COMPUTE, limit, list),
    PROMISE(LIMIT_COMPUTE, limit, clear),
    PROMISE(SNAPSHOT, snapshot, snapshot),
    PROMISE(SNAPSHOT, snapshot, resume),
    PROMISE(SNAPSHOT, snapshot, snapshot_processes),
    PROMISE(SNAPSHOT, snapshot, resume_processes),
    PROMISE(DEVICE_METRICS, metrics, device),
    PROMISE(PROCESS_METRICS, metrics, processes),
    PROMISE(LINK_METRICS, metrics, links),
    PROMISE(TOPOLOGY, device, nodes),
    PROMISE(TOPOLOGY, device, links),
    PROMISE(EVENTS, device, events),
    PROMISE(CONTAINER, container, items),
    PROMISE(MEMORY, memory, create_context),
    PROMISE(MEMORY, memory, destroy_context),
    PROMISE(MEMORY, memory, info),
    PROMISE(MEMORY, memory, alloc),
    PROMISE(MEMORY, memory, free),
    PROMISE(MEMORY, memory, write),
    PROMISE(MEMORY, memory, read),
    PROMISE(MEMORY, memory, copy),
    PROMISE(MEMORY, memory, fill),
    PROMISE(MAP_MEMORY, memory, reserve),
    PROMISE(MAP_MEMORY, memory, release),
    PROMISE(MAP_MEMORY, memory, create_pages),
    PROMISE(MAP_MEMORY, memory, destroy_pages),
    PROMISE(MAP_MEMORY, memory, map),
    PROMISE(MAP_MEMORY, memory, unmap),
    PROMISE(SHARE_PAGES, memory, share_pages),
    PROMISE(MOVE_PAGES, memory, move),
    PROMISE(EXECUTE, execution, load),
    PROMISE(EXECUTE, execution, unload),
    PROMISE(EXECUTE, execution, create_stream),
    PROMISE(EXECUTE, execution, destroy_stream),
    PROMISE(EXECUTE, execution, launch),
    PROMISE(EXECUTE, execution, synchronize),
    PROMISE(EXECUTE, execution, query),
    PROMISE(EXECUTE, execution, cancel),
    PROMISE(ENQUEUE, execution, write),
    PROMISE(ENQUEUE, execution, copy),
    PROMISE(ENQUEUE, execution, fill),
    PROMISE(SHARE, execution, set_share),
    PROMISE(SHARE, execution, set_priority),
    PROMISE(RECORD, execution, records),
    PROMISE(CONTROL, execution, set_bounds),
    PROMISE(CONTROL, execution, pause),
    PROMISE(CONTROL, execution, wait),
    PROMISE(CONTROL, execution, cancel_launch),
    PROMISE(SCHEDULE, execution, set_policy),
    PROMISE(MATH, math, support),
    PROMISE(MATH, math, run),
};

enum { PROMISES = sizeof promises / sizeof promises[0] };

const char *facet_check_capability_name(uint64_t capability)
{
    static const char *const names[] = {
        "FACET_CAN_PARTITION",    "FACET_CAN_LIMIT_MEMORY",   "FACET_CAN_LIMIT_COMPUTE",
        "FACET_CAN_SNAPSHOT",     "FACET_CAN_DEVICE_METRICS", "FACET_CAN_PROCESS_METRICS",
        "FACET_CAN_LINK_METRICS", "FACET_CAN_TOPOLOGY",       "FACET_CAN_EVENTS",
        "FACET_CAN_CONTAINER",    "FACET_CAN_MEMORY",         "FACET_CAN_MAP_MEMORY",
        "FACET_CAN_EXECUTE",      "FACET_CAN_REMOTE",         "FACET_CAN_ENQUEUE",
        "FACET_CAN_SHARE",        "FACET_CAN_RECORD",         "FACET_CAN_SHARE_PAGES",
        "FACET_CAN_MOVE_PAGES",   "FACET_CAN_CONTROL",        "FACET_CAN_SCHEDULE",
        "FACET_CAN_MATH",
    };
    unsigned bit = (unsigned)__builtin_ctzll(capability);

    return bit < sizeof names / sizeof names[0] ? names[bit] : "an unknown capability";
}

/* Each operation's offset in struct facet_check, and its name for people. */
#define OPERATION_OFFSET(table, op, ...) offsetof(struct facet_check, table##_ops.op),
#define OPERATION_NAME(table, op, ...)   #table "." #op,
static const size_t operation_offsets[] = {FACET_OPERATIONS(OPERATION_OFFSET)};
static const char *const operation_names[] = {FACET_OPERATIONS(OPERATION_NAME)};

const char *facet_check_operation_name(enum facet_operation_id operation)
{
    return operation_names[operation];
}

/* All pointers to functions have the same representation, so the bytes show whether one is NULL. */
bool facet_check_is_offered(const struct facet_check *check, enum facet_operation_id operation)
{
    static const unsigned char none[sizeof(void (*)(void))];

    return memcmp((const char *)check + operation_offsets[operation], none, sizeof none) != 0;
}

bool facet_check_is_promised(const struct facet_check *check, enum facet_operation_id operation)
{
    bool is_unconditional = true; /* no capability promises it: it exists for every device */

    for (int i = 0; i < PROMISES; i++) {
        if (promises[i].operation != operation)
            continue;
        if (facet_check_any_claims(check, promises[i].capability))
            return true;
        is_unconditional = false;
    }
    return is_unconditional && facet_check_is_offered(check, operation);
}

const char *facet_check_missing_operation(const struct facet_check *check, uint64_t capability)
{
    for (int i = 0; i < PROMISES; i++)
        if (promises[i].capability == capability && !facet_check_is_offered(check, promises[i].operation))
            return operation_names[promises[i].operation];
    return NULL;
}

void facet_check_drop_broken_promises(struct facet_check *check, uint32_t device)
{
    uint64_t *capabilities = &check->devices[device].capabilities;

    for (uint64_t rest = *capabilities; rest; rest &= rest - 1)
        if (facet_check_missing_operation(check, rest & -rest))
            *capabilities &= ~(rest & -rest);
}
