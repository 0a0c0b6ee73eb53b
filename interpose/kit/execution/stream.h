/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must be done about launches where a stream or a context ends.
 *
 * Owns: the steps around the driver's call.
 * Never: lets the helper ask for what is gone, or what was in flight be counted for ever.
 */
#ifndef FACET_FLIGHT_STREAM_H
#define FACET_FLIGHT_STREAM_H

/* Before the driver's call, and behind it, whatever it said. Not for the default streams, which do not end. */
void facet_flight_stream_ends(void *stream);
void facet_flight_stream_ended(void);

/* Before the call that may end a context: what is complete is measured, and then the helper asks for nothing until the
 * second step. */
void facet_flight_context_ends(void);

/* Behind it: `context` is no more (NULL: it still is). What was still in flight there had the device until now. */
void facet_flight_context_ended(void *context);

#endif
