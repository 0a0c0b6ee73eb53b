/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every operation of the provider ABI, written down once for the preprocessor.
 *
 * Owns: the list from which stubs, the parent's side and the child's side of the wire, and their tests are made.
 * Never: says what an operation means; facet/provider.h does.
 *
 * An operation is X(table, name, (KIND, argument[, struct])...) in the order of the ABI. The instance before the
 * arguments and the error behind them are the same everywhere and not listed. The operations open and close are not
 * listed either: they make and end the instance that all other operations take.
 *
 * Kinds of arguments that go in:
 *     U8 U32 U64       a number
 *     BYTES            a uint64_t of bytes to be moved, which lengthens the call's deadline
 *     TIMEOUT          a uint64_t of nanoseconds that the operation may wait
 *     TEXT             a text that is required
 *     TEXT_OR_NULL     a text that may be NULL
 *     FD               an open file, or -1
 *     PIDS             an array of int32_t and their count
 *     DATA             a buffer and its bytes
 *     LAUNCH           a struct facet_launch and its argument bytes
 *     STRUCT           a struct whose `size` the caller set
 * Kinds of arguments that come out:
 *     RET_U64          a number
 *     RET_U32          an enum facet_health: the ABI has no other answer of that size
 *     RET_STRUCT       a struct whose `size` the caller set
 *     RET_ITEMS        a list: items, item_size, capacity, ret_count
 *     RET_TEXT         a text: text, capacity, ret_size
 *     RET_DATA         bytes and the buffer for them
 */
#ifndef FACET_SESSION_OPERATIONS_H
#define FACET_SESSION_OPERATIONS_H

#include <facet/provider.h>

#define FACET_DEVICE_OPERATIONS(X)                                                                                     \
    X(device, list, (RET_ITEMS, items, facet_device_info))                                                             \
    X(device, health, (U32, device), (RET_U32, ret_health))                                                            \
    X(device, properties, (U32, device), (RET_TEXT, text))                                                             \
    X(device, nodes, (RET_ITEMS, items, facet_topology_node))                                                          \
    X(device, links, (RET_ITEMS, items, facet_topology_link))                                                          \
    X(device, events, (U64, after), (RET_ITEMS, items, facet_event))

#define FACET_PARTITION_OPERATIONS(X)                                                                                  \
    X(partition, templates, (U32, device), (RET_ITEMS, items, facet_partition_template))                               \
    X(partition, placements, (U32, device), (TEXT, template_id), (RET_ITEMS, items, facet_partition_placement))        \
    X(partition, create, (U32, device), (TEXT, template_id), (U32, start),                                             \
      (RET_STRUCT, ret_info, facet_partition_info))                                                                    \
    X(partition, list, (U32, device), (RET_ITEMS, items, facet_partition_info))                                        \
    X(partition, destroy, (U32, device), (TEXT, uuid))

#define FACET_LIMIT_OPERATIONS(X)                                                                                      \
    X(limit, set_memory, (U32, device), (TEXT, worker), (U64, bytes))                                                  \
    X(limit, set_compute, (U32, device), (TEXT, worker), (U32, milli))                                                 \
    X(limit, get, (U32, device), (TEXT, worker), (RET_STRUCT, ret_limit, facet_worker_limit))                          \
    X(limit, list, (U32, device), (RET_ITEMS, items, facet_worker_limit))                                              \
    X(limit, clear, (U32, device), (TEXT, worker))

#define FACET_METRICS_OPERATIONS(X)                                                                                    \
    X(metrics, device, (U32, device), (RET_STRUCT, ret_metrics, facet_device_metrics))                                 \
    X(metrics, processes, (U32, device), (RET_ITEMS, items, facet_process_metrics))                                    \
    X(metrics, links, (U32, device), (RET_ITEMS, items, facet_link_metrics))

#define FACET_CONTAINER_OPERATIONS(X)                                                                                  \
    X(container, items, (U32, device), (TEXT_OR_NULL, partition_uuid), (RET_ITEMS, items, facet_container_item))

#define FACET_SNAPSHOT_OPERATIONS(X)                                                                                   \
    X(snapshot, snapshot, (U32, device), (TEXT_OR_NULL, worker), (FD, fd))                                             \
    X(snapshot, resume, (U32, device), (TEXT_OR_NULL, worker), (FD, fd))                                               \
    X(snapshot, snapshot_processes, (PIDS, pids))                                                                      \
    X(snapshot, resume_processes, (PIDS, pids))

#define FACET_MEMORY_OPERATIONS(X)                                                                                     \
    X(memory, create_context, (U32, device), (TEXT_OR_NULL, partition_uuid), (TEXT, worker), (RET_U64, ret_context))   \
    X(memory, destroy_context, (U64, context))                                                                         \
    X(memory, info, (U64, context), (RET_STRUCT, ret_info, facet_memory_info))                                         \
    X(memory, alloc, (U64, context), (U64, bytes), (RET_U64, ret_address))                                             \
    X(memory, free, (U64, context), (U64, address))                                                                    \
    X(memory, reserve, (U64, context), (U64, bytes), (U64, align), (RET_U64, ret_address))                             \
    X(memory, release, (U64, context), (U64, address))                                                                 \
    X(memory, create_pages, (U64, context), (U64, bytes), (RET_U64, ret_pages))                                        \
    X(memory, destroy_pages, (U64, context), (U64, pages))                                                             \
    X(memory, map, (U64, context), (U64, address), (U64, pages), (U64, offset), (U64, bytes))                          \
    X(memory, unmap, (U64, context), (U64, address), (U64, bytes))                                                     \
    X(memory, write, (U64, context), (U64, address), (DATA, data))                                                     \
    X(memory, read, (U64, context), (U64, address), (RET_DATA, ret_data))                                              \
    X(memory, copy, (U64, context), (U64, to), (U64, from), (BYTES, bytes))                                            \
    X(memory, fill, (U64, context), (U64, address), (U8, value), (BYTES, bytes))                                       \
    X(memory, share_pages, (U64, context), (U64, pages))                                                               \
    X(memory, move, (U64, context), (U64, address), (U64, pages), (U64, offset), (BYTES, bytes))

#define FACET_EXECUTION_OPERATIONS(X)                                                                                  \
    X(execution, load, (U64, context), (DATA, image), (RET_U64, ret_module))                                           \
    X(execution, unload, (U64, context), (U64, module))                                                                \
    X(execution, create_stream, (U64, context), (RET_U64, ret_stream))                                                 \
    X(execution, destroy_stream, (U64, context), (U64, stream))                                                        \
    X(execution, launch, (U64, context), (U64, stream), (LAUNCH, launch))                                              \
    X(execution, synchronize, (U64, context), (U64, stream), (TIMEOUT, timeout_ns))                                    \
    X(execution, query, (U64, context), (U64, stream), (RET_STRUCT, ret_state, facet_stream_state))                    \
    X(execution, cancel, (U64, context), (U64, stream))                                                                \
    X(execution, write, (U64, context), (U64, stream), (U64, address), (DATA, data))                                   \
    X(execution, copy, (U64, context), (U64, stream), (U64, to), (U64, from), (BYTES, bytes))                          \
    X(execution, fill, (U64, context), (U64, stream), (U64, address), (U8, value), (BYTES, bytes))                     \
    X(execution, set_share, (U64, context), (U32, request_milli), (U32, limit_milli), (U32, priority))                 \
    X(execution, set_priority, (U64, context), (U64, stream), (U32, priority))                                         \
    X(execution, records, (U64, context), (U64, stream), (U64, after), (RET_ITEMS, items, facet_launch_record))        \
    X(execution, set_bounds, (U64, context), (U32, units), (U32, launches))                                            \
    X(execution, pause, (U64, context), (U32, paused))                                                                 \
    X(execution, wait, (U64, context), (U64, stream), (U64, other))                                                    \
    X(execution, cancel_launch, (U64, context), (U64, stream), (U64, sequence))                                        \
    X(execution, set_policy, (U32, device), (U32, policy), (U32, preempt), (U64, slice_ns))

#define FACET_MATH_OPERATIONS(X)                                                                                       \
    X(math, support, (U32, device), (RET_STRUCT, ret_support, facet_math_support))                                     \
    X(math, run, (U64, context), (U64, stream), (STRUCT, operation, facet_math))

#define FACET_OPERATIONS(X)                                                                                            \
    FACET_DEVICE_OPERATIONS(X)                                                                                         \
    FACET_PARTITION_OPERATIONS(X)                                                                                      \
    FACET_LIMIT_OPERATIONS(X)                                                                                          \
    FACET_METRICS_OPERATIONS(X)                                                                                        \
    FACET_CONTAINER_OPERATIONS(X)                                                                                      \
    FACET_SNAPSHOT_OPERATIONS(X)                                                                                       \
    FACET_MEMORY_OPERATIONS(X)                                                                                         \
    FACET_EXECUTION_OPERATIONS(X)                                                                                      \
    FACET_MATH_OPERATIONS(X)

/* Every operation's number on the wire. */
enum facet_operation_id {
#define FACET_OPERATION_ID(table, name, ...) FACET_OPERATION_##table##_##name,
    FACET_OPERATIONS(FACET_OPERATION_ID)
#undef FACET_OPERATION_ID
        FACET_OPERATION_COUNT,
};

/* The most arguments that one operation has. */
#define FACET_ARGUMENTS_MAX 5

/* Applies the macro M to each tuple: FACET_EACH(M, (a, b), (c)) is M(a, b) M(c). */
#define FACET_EACH(M, ...)                                                                                             \
    FACET_EACH_COUNT(__VA_ARGS__, FACET_EACH_5, FACET_EACH_4, FACET_EACH_3, FACET_EACH_2, FACET_EACH_1, )              \
    (M, __VA_ARGS__)
#define FACET_EACH_COUNT(a, b, c, d, e, each, ...) each
#define FACET_EACH_1(M, a)                         M a
#define FACET_EACH_2(M, a, b)                      M a M b
#define FACET_EACH_3(M, a, b, c)                   M a M b M c
#define FACET_EACH_4(M, a, b, c, d)                M a M b M c M d
#define FACET_EACH_5(M, a, b, c, d, e)             M a M b M c M d M e

/* An argument as the ABI declares it, with the comma before it. */
#define FACET_PARAMETER(kind, ...)             FACET_PARAMETER_##kind(__VA_ARGS__)
#define FACET_PARAMETER_U8(name)               , uint8_t name
#define FACET_PARAMETER_U32(name)              , uint32_t name
#define FACET_PARAMETER_U64(name)              , uint64_t name
#define FACET_PARAMETER_BYTES(name)            , uint64_t name
#define FACET_PARAMETER_TIMEOUT(name)          , uint64_t name
#define FACET_PARAMETER_TEXT(name)             , const char *name
#define FACET_PARAMETER_TEXT_OR_NULL(name)     , const char *name
#define FACET_PARAMETER_FD(name)               , int name
#define FACET_PARAMETER_PIDS(name)             , const int32_t *name, uint32_t count
#define FACET_PARAMETER_DATA(name)             , const void *name, uint64_t bytes
#define FACET_PARAMETER_LAUNCH(name)           , const struct facet_launch *name, const void *arguments
#define FACET_PARAMETER_STRUCT(name, type)     , const struct type *name
#define FACET_PARAMETER_RET_U32(name)          , uint32_t *name
#define FACET_PARAMETER_RET_U64(name)          , uint64_t *name
#define FACET_PARAMETER_RET_STRUCT(name, type) , struct type *name
#define FACET_PARAMETER_RET_ITEMS(name, type)  , void *name, uint32_t item_size, uint32_t capacity, uint32_t *ret_count
#define FACET_PARAMETER_RET_TEXT(name)         , char *name, uint32_t capacity, uint32_t *ret_size
#define FACET_PARAMETER_RET_DATA(name)         , uint64_t bytes, void *name

/* The parameters of an operation. */
#define FACET_PARAMETERS(...)                                                                                          \
    (struct facet_provider_instance * instance FACET_EACH(FACET_PARAMETER, __VA_ARGS__), struct facet_error * error)

#endif
