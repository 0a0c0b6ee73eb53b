/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches that a program waits for are reported before the program goes on, because it may exit next.
 *
 * Owns: the progress of the counters that a wait is for, and the launches before each recorded event.
 * Never: takes a launch for complete that the driver did not call complete.
 *
 *   - facet_flight_wait_stream() or _context() notes the progress, before the driver is called;
 *   - the driver's call;
 *   - facet_flight_waited() reports the launches up to that progress, if the driver says that they are complete.
 *
 * An event stands for the work that its stream had when the event was recorded. That progress is noted then, under the
 * event's handle.
 */
#ifndef FACET_FLIGHT_WAIT_H
#define FACET_FLIGHT_WAIT_H

#include "counter.h"

/* Several threads may use one stream, with a counter each. The helper reports the counters beyond this number. */
#define FACET_FLIGHT_WAIT_COUNTERS 6u

struct facet_flight_wait {
    uint32_t count;
    struct facet_flight_waited_counter {
        uint64_t id;
        struct facet_flight_position position;
        bool certain; /* false: the wait may have included this counter's launches, so the driver is queried */
    } counters[FACET_FLIGHT_WAIT_COUNTERS];
};

/*
 * `stream` comes from facet_flight_stream_of(). Counters of other streams are noted, too, because the stream may wait
 * for their events.
 */
void facet_flight_wait_stream(struct facet_flight_wait *ret_wait, void *stream);
void facet_flight_wait_context(struct facet_flight_wait *ret_wait, void *context);

void facet_flight_waited(const struct facet_flight_wait *wait);

/*
 * `_recorded`: the event was recorded after the launches in `wait`. `_launched`: this thread's last launch recorded the
 * event. `_gone`: the event was destroyed. `_waited`: the driver said that the event is complete.
 */
void facet_flight_event_recorded(void *event, const struct facet_flight_wait *wait);
void facet_flight_event_launched(void *event, void *stream);
void facet_flight_event_gone(void *event);
void facet_flight_event_waited(void *event);

/* The target of a copy without a stream argument: the library waits for a copy to the host. */
enum facet_flight_copy {
    FACET_FLIGHT_COPY_NOT_TO_HOST,
    FACET_FLIGHT_COPY_TO_HOST,
    FACET_FLIGHT_COPY_UNKNOWN, /* only the library can tell, from the pointer */
};

/* Called before and after such a copy, which may itself be a launch; `done`: the copy succeeded. */
void facet_flight_copy_begins(struct facet_flight_wait *ret_wait, void *stream, enum facet_flight_copy copy);
void facet_flight_copy_ended(struct facet_flight_wait *wait, void *stream, enum facet_flight_copy copy, bool done);

/* In the child of fork(), with the track lock. */
void facet_flight_waits_forked(void);

#endif
