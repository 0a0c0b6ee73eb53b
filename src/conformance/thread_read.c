/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the round of reading: every list and every reading that changes nothing. Never: creates anything. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "conformance/thread.h"

enum { ATTEMPTS = 16, SPARE_ITEMS = 4 };

/* The allowed difference between two answers of a list while other threads are at work. */
enum steadiness {
    CHANGES,
    SAME_COUNT,
    SAME, /* the items are equal, to the last byte */
};

struct list {
    enum facet_operation_id operation;
    uint32_t item_size;
    enum steadiness steadiness;
    enum facet_status (*call)(struct facet_check_thread *thread, void *items, uint32_t capacity, uint32_t *ret_count);
};

/* LIST(table, op, struct, steadiness, arguments before the items, each with a comma behind it) */
#define LIST(table, op, type, steadiness, ...)                                                                         \
    static enum facet_status call_##table##_##op(struct facet_check_thread *thread, void *items, uint32_t capacity,    \
                                                 uint32_t *ret_count)                                                  \
    {                                                                                                                  \
        return FACET_THREAD_CALL(thread, table, op, __VA_ARGS__ items, sizeof(struct type), capacity, ret_count);      \
    }                                                                                                                  \
    static const struct list table##_##op = {FACET_OPERATION_##table##_##op, sizeof(struct type), steadiness,          \
                                             call_##table##_##op};
#define DEVICE thread->check.device
LIST(device, list, facet_device_info, SAME, )
LIST(device, nodes, facet_topology_node, SAME, )
LIST(device, links, facet_topology_link, SAME, )
LIST(device, events, facet_event, CHANGES, 0, )
LIST(partition, templates, facet_partition_template, SAME, DEVICE, )
LIST(partition, placements, facet_partition_placement, SAME_COUNT, DEVICE, thread->team->smallest, )
LIST(partition, list, facet_partition_info, CHANGES, DEVICE, )
LIST(limit, list, facet_worker_limit, CHANGES, DEVICE, )
LIST(metrics, processes, facet_process_metrics, CHANGES, DEVICE, )
LIST(metrics, links, facet_link_metrics, SAME_COUNT, DEVICE, )
LIST(container, items, facet_container_item, SAME, DEVICE, NULL, )

/* A checksum that is never 0, because 0 in `first_sum` means no answer yet. */
static uint64_t checksum_of(const unsigned char *bytes, size_t size, uint32_t count)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325) + count;

    for (size_t i = 0; i < size; i++)
        sum = (sum ^ bytes[i]) * UINT64_C(0x100000001b3);
    return sum | 1;
}

/* Every thread must get the same list as the first thread that asked. */
static void compare_to_first(struct facet_check_thread *thread, const struct list *list, const void *items,
                             uint32_t count)
{
    size_t bytes = list->steadiness == SAME ? (size_t)count * list->item_size : 0;
    uint64_t sum = checksum_of(items, bytes, count), first = 0;

    if (list->steadiness == CHANGES)
        return;
    if (!atomic_compare_exchange_strong(&thread->team->first_sum[list->operation], &first, sum) && first != sum)
        facet_thread_complain(thread, "%s: another answer than before", facet_check_operation_name(list->operation));
}

static void check_sizes(struct facet_check_thread *thread, const struct list *list, const char *items, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t size;

        memcpy(&size, items + (size_t)i * list->item_size, sizeof size);
        if (size != list->item_size)
            facet_thread_complain(thread, "%s: item %" PRIu32 " of size %" PRIu32 " instead of %" PRIu32,
                                  facet_check_operation_name(list->operation), i, size, list->item_size);
    }
}

/* All items, to free(); NULL after a complaint. Retries, because other threads may add items between two calls. */
static void *fetch_list(struct facet_check_thread *thread, const struct list *list, uint32_t *ret_count)
{
    enum facet_status status = FACET_TOO_SMALL;
    uint32_t capacity = 0;

    for (int i = 0; status == FACET_TOO_SMALL && i < ATTEMPTS; i++) {
        FACET_CLEANUP_FREE char *items = calloc((size_t)capacity + 1, list->item_size);
        uint32_t count = 0;

        if (!items)
            _exit(EXIT_FAILURE);
        status = list->call(thread, capacity ? items : NULL, capacity, &count);
        if (status == FACET_OK && count <= capacity) {
            check_sizes(thread, list, items, count);
            compare_to_first(thread, list, items, count);
            *ret_count = count;
            return FACET_TAKE_PTR(items);
        }
        if (status == FACET_OK || count > FACET_CHECK_ITEMS)
            status = FACET_CORRUPT;
        capacity = count + SPARE_ITEMS;
    }
    facet_thread_expect(thread, list->operation, FACET_OK, status);
    return NULL;
}

static void read_list(struct facet_check_thread *thread, const struct list *list)
{
    uint32_t count = 0;

    free(fetch_list(thread, list, &count));
}

static void read_properties(struct facet_check_thread *thread)
{
    char text[16 << 10];
    uint32_t size = 0;
    enum facet_status status = FACET_THREAD_CALL(thread, device, properties, DEVICE, text, sizeof text, &size);

    if (thread->check.device_count == 0)
        facet_thread_expect(thread, FACET_OPERATION_device_properties, FACET_NOT_FOUND, status);
    else if (status != FACET_UNSUPPORTED && status != FACET_TOO_SMALL &&
             facet_thread_expect(thread, FACET_OPERATION_device_properties, FACET_OK, status) &&
             strnlen(text, sizeof text) + 1 != size)
        facet_thread_complain(thread, "device.properties: the text's size differs from the returned size");
}

static void read_devices(struct facet_check_thread *thread)
{
    const enum facet_status expected = thread->check.device_count > 0 ? FACET_OK : FACET_NOT_FOUND;
    uint32_t health = FACET_HEALTH_UNKNOWN;

    read_list(thread, &device_list);
    if (thread->check.device_ops.health) {
        FACET_THREAD_EXPECT(thread, expected, device, health, DEVICE, &health);
        if (health > FACET_HEALTH_FAILED)
            facet_thread_complain(thread, "device.health: %" PRIu32 ", which is no health", health);
    }
    if (thread->check.device_ops.properties)
        read_properties(thread);
}

static void read_events(struct facet_check_thread *thread)
{
    uint32_t count = 0;
    FACET_CLEANUP_FREE struct facet_event *events = fetch_list(thread, &device_events, &count);

    for (uint32_t i = 1; i < count; i++)
        if (events[i].sequence <= events[i - 1].sequence)
            facet_thread_complain(thread, "device.events: sequence %" PRIu64 " behind %" PRIu64, events[i].sequence,
                                  events[i - 1].sequence);
}

static void read_metrics(struct facet_check_thread *thread)
{
    struct facet_device_metrics metrics = {.size = sizeof metrics};

    FACET_THREAD_EXPECT(thread, FACET_OK, metrics, device, DEVICE, &metrics);
    if (metrics.compute_active_milli > FACET_MILLI_WHOLE)
        facet_thread_complain(thread, "metrics.device: an active share above 1000 thousandths");
}

static void read_partitions(struct facet_check_thread *thread)
{
    uint32_t count = 0;

    read_list(thread, &partition_templates);
    if (thread->team->smallest)
        read_list(thread, &partition_placements);
    else
        FACET_THREAD_EXPECT(thread, FACET_NOT_FOUND, partition, placements, DEVICE, "no such template", NULL,
                            sizeof(struct facet_partition_placement), 0, &count);
    read_list(thread, &partition_list);
}

void facet_thread_read(struct facet_check_thread *thread)
{
    const struct facet_check *check = &thread->check;

    read_devices(thread);
    if (check->device_count == 0)
        return;
    if (facet_check_claims(check, FACET_CAN_TOPOLOGY)) {
        read_list(thread, &device_nodes);
        read_list(thread, &device_links);
    }
    if (facet_check_claims(check, FACET_CAN_EVENTS))
        read_events(thread);
    if (facet_check_claims(check, FACET_CAN_DEVICE_METRICS))
        read_metrics(thread);
    if (facet_check_claims(check, FACET_CAN_PROCESS_METRICS))
        read_list(thread, &metrics_processes);
    if (facet_check_claims(check, FACET_CAN_LINK_METRICS))
        read_list(thread, &metrics_links);
    if (facet_check_claims(check, FACET_CAN_CONTAINER))
        read_list(thread, &container_items);
    if (facet_check_claims(check, FACET_CAN_PARTITION))
        read_partitions(thread);
    if (facet_check_claims(check, FACET_CAN_LIMIT_MEMORY) || facet_check_claims(check, FACET_CAN_LIMIT_COMPUTE))
        read_list(thread, &limit_list);
}
