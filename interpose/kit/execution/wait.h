/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program waits for: it is reported before the program goes on, whose next step may be to end the process.
 *
 * Owns: how far the lanes are that a wait is for, and which events were recorded behind which launches.
 * Never: takes for complete what the driver did not call complete.
 *
 *     facet_flight_wait_stream() or _context()   how far it is, before the driver is asked
 *     the driver's call
 *     facet_flight_waited()                      when the driver said that it is complete
 *
 * An event says it of what was in its stream when it was recorded: that is noted there, and found again by the event.
 */
#ifndef FACET_FLIGHT_WAIT_H
#define FACET_FLIGHT_WAIT_H

#include "lane.h"

/* Lanes of one stream are of as many threads: of more than these, the helper comes to see the rest. */
#define FACET_FLIGHT_WAIT_LANES 6u

struct facet_flight_wait {
    uint32_t count;
    struct facet_flight_waited_lane {
        uint64_t id;
        struct facet_flight_mark mark;
        bool certain; /* else it may have been waited for, and is asked */
    } lanes[FACET_FLIGHT_WAIT_LANES];
};

/* `stream` is of facet_flight_stream_of(). Lanes of other streams are noted, too, as the stream may wait for their
 * events. */
void facet_flight_wait_stream(struct facet_flight_wait *ret_wait, void *stream);
void facet_flight_wait_context(struct facet_flight_wait *ret_wait, void *context);

void facet_flight_waited(const struct facet_flight_wait *wait);

/* An event was recorded behind what was noted before, or by this thread's last launch; it is destroyed; the driver said
 * that it is complete. */
void facet_flight_event_recorded(void *event, const struct facet_flight_wait *wait);
void facet_flight_event_launched(void *event, void *stream);
void facet_flight_event_gone(void *event);
void facet_flight_event_waited(void *event);

/* Where a copy without a stream leads: for one to the host the library waits. */
enum facet_flight_copy {
    FACET_FLIGHT_COPY_ELSEWHERE,
    FACET_FLIGHT_COPY_TO_HOST,
    FACET_FLIGHT_COPY_UNKNOWN, /* the library can tell, by the pointer */
};

/* Around such a copy, which may be a launch itself; `done`: it was a success. */
void facet_flight_copy_begins(struct facet_flight_wait *ret_wait, void *stream, enum facet_flight_copy where);
void facet_flight_copy_ended(struct facet_flight_wait *wait, void *stream, enum facet_flight_copy where, bool done);

/* In the child of fork(). Under the track lock. */
void facet_flight_waits_forked(void);

#endif
