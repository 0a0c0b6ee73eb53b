/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When things happened on a device, as events tell it, on one line of time.
 *
 * Owns: for each context a pool of events and a moment that others are measured against; for each device the time that
 * this process has used, overlaps once.
 * Never: asks for an event's state; that is for who may (track.h).
 *
 * Events only know how long it is from one to another, in milliseconds as a float: a moment far away would be told
 * without its microseconds. So the moment that others are measured against moves along.
 */
#ifndef FACET_FLIGHT_TIMELINE_H
#define FACET_FLIGHT_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

struct facet_flight_timeline; /* of one context */

/* Found or made; NULL when memory is out. A context that ended is not found again. Under the track lock. */
struct facet_flight_timeline *facet_flight_timeline_of(void *context, uint32_t device);

/* The context is no more, and its events with it. Under the track lock. */
void facet_flight_timeline_ended(void *context);

/* In the child of fork(): no context is left. */
void facet_flight_timelines_forked(void);

/* An event of the context, out of the pool or new; NULL when there is none. Any thread, with no lock held. */
void *facet_flight_event_take(struct facet_flight_timeline *timeline);
void facet_flight_event_give(struct facet_flight_timeline *timeline, void *event);

/*
 * When two complete events were, on the clock of this machine: not before `begun_ns`, when the first was recorded, and
 * not after `now_ns`. False when the driver cannot tell. The helper's thread only, as all below.
 */
bool facet_flight_timeline_read(struct facet_flight_timeline *timeline, void *start, void *end, uint64_t begun_ns,
                                uint64_t now_ns, uint64_t *ret_start_ns, uint64_t *ret_end_ns);

/* Adds what was used, and returns how much of it was not known before. */
uint64_t facet_flight_timeline_use(struct facet_flight_timeline *timeline, uint64_t start_ns, uint64_t end_ns);

/* How much of it is known by now. */
uint64_t facet_flight_timeline_used(const struct facet_flight_timeline *timeline, uint64_t start_ns, uint64_t end_ns);

#endif
