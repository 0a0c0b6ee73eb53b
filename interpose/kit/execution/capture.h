/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which captures are going on, so that nobody of ours touches a stream that is captured.
 *
 * Owns: counting them, from before one begins until after it ended.
 * Never: changes what a capture does.
 *
 * Meanwhile the helper asks for no stream, as a question to a capturing stream ends its capture; and launches look
 * whether theirs is captured.
 */
#ifndef FACET_FLIGHT_CAPTURE_H
#define FACET_FLIGHT_CAPTURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* How many there are in this process. */
extern _Atomic uint32_t facet_flight_captures;

struct facet_flight_origin; /* where a capture began */

/* Before the driver is asked: NULL when memory is out. The helper, when it is just asking for something, is waited for.
 */
struct facet_flight_origin *facet_flight_capture_begin(void);

/* Behind it. `capturing`: the driver did begin. */
void facet_flight_capture_begun(struct facet_flight_origin *origin, void *stream, bool capturing);

/* Behind the driver's end of one. It may go on after an end that failed (of another thread, of another stream). */
void facet_flight_capture_ended(void *stream);

/* What ends a capture without its end: its stream or context goes. Not while the helper may ask. */
void facet_flight_capture_stream_ends(void *stream);
void facet_flight_capture_context_ends(void *context);

/* In the child of fork(). */
void facet_flight_captures_forked(void);

#endif
