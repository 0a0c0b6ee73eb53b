/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last events of all devices, in the order in which the daemon received them.
 *
 * Owns: EVENTS_KEPT events and their numbers: 1, 2, 3, ... for as long as the daemon lives.
 * Never: decides what an event means.
 *
 * Thread rule: every function from any thread, except open and close.
 */
#ifndef FACETD_EVENTS_H
#define FACETD_EVENTS_H

#include <facet/provider.h>

#define EVENTS_KEPT 256u

struct events; /* opaque */

struct daemon_event {
    uint64_t sequence;
    char device_id[64]; /* empty: the event is about no device that the daemon knows */
    struct facet_event event;
};

struct events *events_open(void); /* NULL when out of memory */
void events_close(struct events *events);

/* Copies the event into the ring, under the next number. */
void events_add(struct events *events, const char *device_id, const struct facet_event *event);

/*
 * Copies the events with numbers above `after`, oldest first. `ret_events` has room for EVENTS_KEPT. Returns the count.
 * *ret_last: the newest number.
 */
uint32_t events_read(struct events *events, uint64_t after, struct daemon_event *ret_events, uint64_t *ret_last);

const char *event_kind_name(uint32_t kind);

#endif
