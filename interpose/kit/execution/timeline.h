/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The times of a device's work, from events, on one clock.
 *
 * Owns: for each context a pool of events and a base event against which others are measured; for each device the time
 * that this process has used, with overlaps counted once.
 * Never: queries an event's state; only the thread that holds the look lock does (track.h).
 *
 * The driver gives only the time between two events, in milliseconds as a float, which loses the microseconds over a
 * long time. So a newer event becomes the base event now and then.
 */
#ifndef FACET_FLIGHT_TIMELINE_H
#define FACET_FLIGHT_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

struct facet_flight_timeline; /* one context's */

/*
 * Finds or makes a context's timeline; NULL when memory is out. The timeline of an ended context is not found again.
 * Called with the track lock.
 */
struct facet_flight_timeline *facet_flight_timeline_of(void *context, uint32_t device);

/* The context has ended, and its events with it. Called with the track lock. */
void facet_flight_timeline_ended(void *context);

/* In the child of fork(): no context survives. */
void facet_flight_timelines_forked(void);

/* An event of the context, from the pool or new; NULL on failure. Any thread, with no lock held. */
void *facet_flight_event_take(struct facet_flight_timeline *timeline);
void facet_flight_event_give(struct facet_flight_timeline *timeline, void *event);

/*
 * The times of two complete events on this machine's clock: not before `launched_ns`, when the first was recorded, and
 * not after `now_ns`. False when the driver cannot tell. This function and those below need the look lock.
 */
bool facet_flight_timeline_read(struct facet_flight_timeline *timeline, void *start, void *end, uint64_t launched_ns,
                                uint64_t now_ns, uint64_t *ret_start_ns, uint64_t *ret_end_ns);

/* Adds used time, and returns the part of it that is new. */
uint64_t facet_flight_timeline_use(struct facet_flight_timeline *timeline, uint64_t start_ns, uint64_t end_ns);

/* The part of the interval that is used so far. */
uint64_t facet_flight_timeline_used(const struct facet_flight_timeline *timeline, uint64_t start_ns, uint64_t end_ns);

#endif
