/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last events of a provider's instance.
 *
 * Owns: numbering events, keeping the last ones, and returning them.
 * Never: takes a lock: callers hold the lock of the instance's events. Has static functions only, like provider_kit.h.
 */
#ifndef FACET_EVENT_KIT_H
#define FACET_EVENT_KIT_H

#include "provider_kit.h"

#define FACET_KIT_EVENTS 256u /* the most events that are kept; older events are dropped */

struct facet_kit_events {
    struct facet_event ring[FACET_KIT_EVENTS]; /* a ring: number n is at n % FACET_KIT_EVENTS */
    uint64_t last;                             /* number of the newest event; 0: no event yet */
};

/* Returns the new event, so that the caller can set more fields until the next is added. */
FACET_KIT_UNUSED static struct facet_event *facet_kit_event_add(struct facet_kit_events *events, uint32_t device,
                                                                const char *uuid, uint32_t kind, uint64_t value,
                                                                const char *message)
{
    struct facet_event *event = &events->ring[++events->last % FACET_KIT_EVENTS];

    memset(event, 0, sizeof *event);
    event->size = sizeof *event;
    event->kind = kind;
    event->sequence = events->last;
    event->timestamp_ns = facet_kit_now_ns();
    event->value = value;
    event->device = device;
    FACET_KIT_TEXT(event->uuid, uuid);
    FACET_KIT_TEXT(event->message, message);
    return event;
}

/* Returns the kept events whose numbers are above `after`, by the two-call rule. */
FACET_KIT_UNUSED static enum facet_status facet_kit_events_give(const struct facet_kit_events *events, uint64_t after,
                                                                void *items, uint32_t item_size, uint32_t capacity,
                                                                uint32_t *ret_count, struct facet_error *error)
{
    struct facet_event found[FACET_KIT_EVENTS];
    uint64_t first = events->last > FACET_KIT_EVENTS ? events->last - FACET_KIT_EVENTS + 1 : 1;
    uint32_t count = 0;

    if (after >= first)
        first = after < events->last ? after + 1 : events->last + 1;
    for (uint64_t number = first; number <= events->last; number++)
        found[count++] = events->ring[number % FACET_KIT_EVENTS];
    return facet_kit_list_items(found, sizeof *found, count, items, item_size, capacity, ret_count, error);
}

#endif
