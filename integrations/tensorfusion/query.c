/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: fetching the lists of a provider: a call with too little room returns the count that is needed, and is repeated
 * with that room. Never: truncates a list.
 */
#include <stdlib.h>
#include <string.h>

#include "facade.h"

#define FIRST_CAPACITY 32u
#define MAX_ROUNDS     8 /* a list that grows faster than it is read is a provider's defect */

struct facade_query facade_query_of(const struct facade_device *device)
{
    return (struct facade_query){.provider = facet_session_provider(device->provider->session),
                                 .instance = facet_session_instance(device->provider->session),
                                 .device = device->info.index};
}

enum facet_status facade_ask_devices(const struct facade_query *query, void *items, uint32_t item_size,
                                     uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    return query->provider->device->list(query->instance, items, item_size, capacity, ret_count, error);
}

enum facet_status facade_ask_nodes(const struct facade_query *query, void *items, uint32_t item_size, uint32_t capacity,
                                   uint32_t *ret_count, struct facet_error *error)
{
    return query->provider->device->nodes(query->instance, items, item_size, capacity, ret_count, error);
}

enum facet_status facade_ask_links(const struct facade_query *query, void *items, uint32_t item_size, uint32_t capacity,
                                   uint32_t *ret_count, struct facet_error *error)
{
    return query->provider->device->links(query->instance, items, item_size, capacity, ret_count, error);
}

enum facet_status facade_ask_partitions(const struct facade_query *query, void *items, uint32_t item_size,
                                        uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    return query->provider->partition->list(query->instance, query->device, items, item_size, capacity, ret_count,
                                            error);
}

enum facet_status facade_ask_processes(const struct facade_query *query, void *items, uint32_t item_size,
                                       uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    return query->provider->metrics->processes(query->instance, query->device, items, item_size, capacity, ret_count,
                                               error);
}

enum facet_status facade_ask_link_metrics(const struct facade_query *query, void *items, uint32_t item_size,
                                          uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    return query->provider->metrics->links(query->instance, query->device, items, item_size, capacity, ret_count,
                                           error);
}

enum facet_status facade_ask_container(const struct facade_query *query, void *items, uint32_t item_size,
                                       uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    return query->provider->container->items(query->instance, query->device, query->text, items, item_size, capacity,
                                             ret_count, error);
}

enum facet_status facade_fetch(facade_lister lister, const struct facade_query *query, uint32_t item_size,
                               void **ret_items, uint32_t *ret_count, struct facet_error *error)
{
    uint32_t capacity = FIRST_CAPACITY, count = 0;

    for (int round = 0; round < MAX_ROUNDS; round++) {
        void *items = calloc(capacity, item_size);

        if (!items)
            return facet_error_set(error, FACET_NO_MEMORY, "no memory for %u items", capacity);
        enum facet_status status = lister(query, items, item_size, capacity, &count, error);
        if (status == FACET_OK) {
            *ret_items = items;
            *ret_count = count;
            return FACET_OK;
        }
        free(items);
        if (status != FACET_TOO_SMALL)
            return status;
        capacity = count > capacity ? count : capacity;
    }
    return facet_error_set(error, FACET_INTERNAL, "a provider asked for more room for a list %d times in a row",
                           MAX_ROUNDS);
}
