/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: calling an operation for the length of its list, and again for the items. Never: truncates a list. */
#include "device/listing.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/cleanup.h"

/* Longer lists are taken for garbage. */
#define ITEMS_MAX 65536u

/* A list that grew between two calls is asked for again, but not forever. */
#define ATTEMPTS_MAX 8

static const uint32_t item_sizes[] = {
    [FACET_LISTING_DEVICES] = sizeof(struct facet_device_info),
    [FACET_LISTING_NODES] = sizeof(struct facet_topology_node),
    [FACET_LISTING_LINKS] = sizeof(struct facet_topology_link),
    [FACET_LISTING_EVENTS] = sizeof(struct facet_event),
    [FACET_LISTING_TEMPLATES] = sizeof(struct facet_partition_template),
    [FACET_LISTING_PLACEMENTS] = sizeof(struct facet_partition_placement),
    [FACET_LISTING_PARTITIONS] = sizeof(struct facet_partition_info),
    [FACET_LISTING_LIMITS] = sizeof(struct facet_worker_limit),
    [FACET_LISTING_PROCESSES] = sizeof(struct facet_process_metrics),
    [FACET_LISTING_LINK_METRICS] = sizeof(struct facet_link_metrics),
    [FACET_LISTING_CONTAINER] = sizeof(struct facet_container_item),
};

static enum facet_status call_list(const struct facet_listing_query *q, void *items, uint32_t capacity,
                                   uint32_t *ret_count, struct facet_error *error)
{
    const struct facet_provider *p = q->provider;
    uint32_t size = item_sizes[q->kind];

    switch (q->kind) {
    case FACET_LISTING_DEVICES:
        return p->device->list(q->instance, items, size, capacity, ret_count, error);
    case FACET_LISTING_NODES:
        return p->device->nodes(q->instance, items, size, capacity, ret_count, error);
    case FACET_LISTING_LINKS:
        return p->device->links(q->instance, items, size, capacity, ret_count, error);
    case FACET_LISTING_EVENTS:
        return p->device->events(q->instance, q->after, items, size, capacity, ret_count, error);
    case FACET_LISTING_TEMPLATES:
        return p->partition->templates(q->instance, q->device, items, size, capacity, ret_count, error);
    case FACET_LISTING_PLACEMENTS:
        return p->partition->placements(q->instance, q->device, q->text, items, size, capacity, ret_count, error);
    case FACET_LISTING_PARTITIONS:
        return p->partition->list(q->instance, q->device, items, size, capacity, ret_count, error);
    case FACET_LISTING_LIMITS:
        return p->limit->list(q->instance, q->device, items, size, capacity, ret_count, error);
    case FACET_LISTING_PROCESSES:
        return p->metrics->processes(q->instance, q->device, items, size, capacity, ret_count, error);
    case FACET_LISTING_LINK_METRICS:
        return p->metrics->links(q->instance, q->device, items, size, capacity, ret_count, error);
    case FACET_LISTING_CONTAINER:
        return p->container->items(q->instance, q->device, q->text, items, size, capacity, ret_count, error);
    }
    return facet_error_set(error, FACET_INVALID_ARGUMENT, "list %d: unknown", (int)q->kind);
}

/* Every struct begins with the size of the caller's room. */
static void *make_room(enum facet_listing_kind kind, uint32_t capacity)
{
    uint32_t size = item_sizes[kind];
    char *items = calloc(capacity, size);

    for (uint32_t i = 0; items && i < capacity; i++)
        *(uint32_t *)(void *)(items + (size_t)i * size) = size;
    return items;
}

enum facet_status facet_listing_read(const struct facet_listing_query *query, void **ret_items, uint32_t *ret_count,
                                     struct facet_error *error)
{
    FACET_CLEANUP_FREE void *items = NULL;
    uint32_t capacity = 0, count = 0;

    for (int attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
        enum facet_status status = call_list(query, items, capacity, &count, error);
        if (status == FACET_OK && count <= capacity) {
            *ret_items = FACET_TAKE_PTR(items);
            *ret_count = count;
            return FACET_OK;
        }
        if (status != FACET_TOO_SMALL && status != FACET_OK)
            return status;
        if (count <= capacity || count > ITEMS_MAX)
            break;
        free(items);
        capacity = count;
        items = make_room(query->kind, capacity);
        if (!items)
            return facet_error_set(error, FACET_NO_MEMORY, "no memory for a list of %" PRIu32, count);
    }
    return facet_error_set(error, FACET_CORRUPT,
                           "provider %s: a list reports %" PRIu32 " items in room for %" PRIu32
                           ": it grows at every call, or is too long",
                           query->provider->name, count, capacity);
}
