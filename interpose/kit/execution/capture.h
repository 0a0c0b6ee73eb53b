/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The captures that are going on, so that our code touches no stream that is being captured.
 *
 * Owns: counting them, each from before it begins until after it has ended.
 * Never: changes a capture.
 *
 * During a capture the helper queries no stream, because a query ends the capture of that stream; and each launch
 * checks whether its own stream is captured.
 */
#ifndef FACET_FLIGHT_CAPTURE_H
#define FACET_FLIGHT_CAPTURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The number of captures in this process. */
extern _Atomic uint32_t facet_flight_captures;

struct facet_flight_origin; /* the stream where a capture began */

/* Called before the driver: NULL when memory is out. Waits for a query of the helper that is in progress. */
struct facet_flight_origin *facet_flight_capture_begin(void);

/* Called after the driver. `capturing`: the capture did begin. */
void facet_flight_capture_begun(struct facet_flight_origin *origin, void *stream, bool capturing);

/* Called after the driver's end of a capture. If the end failed (wrong thread, wrong stream), the capture may go on. */
void facet_flight_capture_ended(void *stream);

/* The end of a stream or context also ends its captures. The caller has put the helper on hold. */
void facet_flight_capture_stream_ends(void *stream);
void facet_flight_capture_context_ends(void *context);

/* In the child of fork(). */
void facet_flight_captures_forked(void);

#endif
