/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the ring. Never: allocates after it was opened. */
#include "events.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct events {
    pthread_mutex_t lock; /* guards all below */
    uint64_t last;        /* the number of the newest event; 0: none yet */
    struct daemon_event ring[EVENTS_KEPT];
};

struct events *events_open(void)
{
    struct events *events = calloc(1, sizeof *events);

    if (events)
        pthread_mutex_init(&events->lock, NULL);
    return events;
}

void events_close(struct events *events)
{
    if (!events)
        return;
    pthread_mutex_destroy(&events->lock);
    free(events);
}

void events_add(struct events *events, const char *device_id, const struct facet_event *event)
{
    pthread_mutex_lock(&events->lock);
    struct daemon_event *place = &events->ring[++events->last % EVENTS_KEPT];
    *place = (struct daemon_event){.sequence = events->last, .event = *event};
    snprintf(place->device_id, sizeof place->device_id, "%s", device_id);
    pthread_mutex_unlock(&events->lock);
}

uint32_t events_read(struct events *events, uint64_t after, struct daemon_event *ret_events, uint64_t *ret_last)
{
    uint32_t count = 0;

    pthread_mutex_lock(&events->lock);
    uint64_t last = events->last;
    uint64_t first = last > EVENTS_KEPT ? last - EVENTS_KEPT + 1 : 1;
    if (after >= first)
        first = after < last ? after + 1 : last + 1;
    for (uint64_t sequence = first; sequence <= last; sequence++)
        ret_events[count++] = events->ring[sequence % EVENTS_KEPT];
    pthread_mutex_unlock(&events->lock);
    *ret_last = last;
    return count;
}

const char *event_kind_name(uint32_t kind)
{
    static const char *const names[] = {
        [FACET_EVENT_HEALTH] = "health",
        [FACET_EVENT_HOTPLUG] = "hotplug",
        [FACET_EVENT_PARTITION] = "partition",
        [FACET_EVENT_ECC] = "ecc",
        [FACET_EVENT_THROTTLE] = "throttle",
        [FACET_EVENT_LINK] = "link",
        [FACET_EVENT_VENDOR_ERROR] = "vendor_error",
    };

    return kind && kind < sizeof names / sizeof names[0] ? names[kind] : "other";
}
