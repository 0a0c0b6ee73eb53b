/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any list of a provider, read whole: the two-call rule in one place.
 *
 * Owns: asking for the room that is needed, asking again when the list grew meanwhile, and the bounds on room and
 * tries.
 * Never: reads the items.
 *
 * Thread rule: any thread, as the operations themselves.
 */
#ifndef FACET_DEVICE_LISTING_H
#define FACET_DEVICE_LISTING_H

#include <facet/provider.h>

enum facet_listing_kind {
    FACET_LISTING_DEVICES,      /* struct facet_device_info */
    FACET_LISTING_NODES,        /* struct facet_topology_node */
    FACET_LISTING_LINKS,        /* struct facet_topology_link */
    FACET_LISTING_EVENTS,       /* struct facet_event, above `after` */
    FACET_LISTING_TEMPLATES,    /* struct facet_partition_template, of `device` like all below */
    FACET_LISTING_PLACEMENTS,   /* struct facet_partition_placement, of the template `text` */
    FACET_LISTING_PARTITIONS,   /* struct facet_partition_info */
    FACET_LISTING_LIMITS,       /* struct facet_worker_limit */
    FACET_LISTING_PROCESSES,    /* struct facet_process_metrics */
    FACET_LISTING_LINK_METRICS, /* struct facet_link_metrics */
    FACET_LISTING_CONTAINER,    /* struct facet_container_item, of the partition `text` */
};

/* The list to read, and its subject. Members that a kind does not name are ignored. */
struct facet_listing_query {
    const struct facet_provider *provider; /* with complete tables, as facet_session_provider() returns it */
    struct facet_provider_instance *instance;
    enum facet_listing_kind kind;
    uint32_t device;
    const char *text;
    uint64_t after;
};

/*
 * Reads the list. *ret_items is an array of *ret_count structs of the host's size, which the caller frees; NULL when
 * empty. Errors: the operation's own; FACET_CORRUPT when the list is absurdly long or grows at every call;
 * FACET_NO_MEMORY.
 */
enum facet_status facet_listing_read(const struct facet_listing_query *query, void **ret_items, uint32_t *ret_count,
                                     struct facet_error *error);

#endif
