/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tracking of launches when a stream or a context ends.
 *
 * Owns: the steps around the driver's call.
 * Never: lets the helper query a destroyed stream, or lets its launches count as in flight forever.
 */
#ifndef FACET_FLIGHT_STREAM_H
#define FACET_FLIGHT_STREAM_H

/* Called before the driver, and after it with any result. Not for default streams, which do not end. */
void facet_flight_stream_ends(void *stream);
void facet_flight_stream_ended(void);

/*
 * Called before a call that may end a context. Complete launches are measured; the helper then makes no query until
 * facet_flight_context_ended().
 */
void facet_flight_context_ends(void);

/*
 * Called after that call. `context` has ended; NULL: none has. Launches still in flight there count as using the device
 * until now.
 */
void facet_flight_context_ended(void *context);

#endif
