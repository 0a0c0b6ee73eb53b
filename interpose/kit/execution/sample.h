/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events that follow launches.
 *
 * Owns: making samples and putting them behind a lane.
 * Never: records anything: that is where the launch is.
 */
#ifndef FACET_FLIGHT_SAMPLE_H
#define FACET_FLIGHT_SAMPLE_H

#include "lane.h"

/* With its events, but for the start where none is wanted; NULL when memory or the driver's events are out. */
struct facet_flight_sample *facet_flight_sample_new(struct facet_flight_lane *lane, bool with_start);
void facet_flight_sample_free(struct facet_flight_lane *lane, struct facet_flight_sample *sample);

/* What it follows is all that the lane has launched until now. Its events are recorded. */
void facet_flight_sample_follow(struct facet_flight_lane *lane, struct facet_flight_sample *sample);

/* The first one of a lane, or NULL; and taking it out. The helper's. */
struct facet_flight_sample *facet_flight_sample_first(struct facet_flight_lane *lane);
void facet_flight_sample_drop_first(struct facet_flight_lane *lane);

#endif
