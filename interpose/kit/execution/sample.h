/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples: events around launches.
 *
 * Owns: making samples and appending them to a counter.
 * Never: records an event: the launch does that.
 */
#ifndef FACET_FLIGHT_SAMPLE_H
#define FACET_FLIGHT_SAMPLE_H

#include "counter.h"

/* Makes a sample with its events, the start event only `with_start`. NULL when memory or events are out. */
struct facet_flight_sample *facet_flight_sample_new(struct facet_flight_counter *counter, bool with_start);
void facet_flight_sample_free(struct facet_flight_counter *counter, struct facet_flight_sample *sample);

/* Appends a sample, whose events are recorded. It covers all that the counter has launched so far. */
void facet_flight_sample_append(struct facet_flight_counter *counter, struct facet_flight_sample *sample);

/* `_first` returns a counter's oldest sample, or NULL; `_drop_first` removes it. Both need the look lock (track.h). */
struct facet_flight_sample *facet_flight_sample_first(struct facet_flight_counter *counter);
void facet_flight_sample_drop_first(struct facet_flight_counter *counter);

#endif
