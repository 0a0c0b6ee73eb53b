/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: samples and a lane's queue of them. Never: holds the track lock while the driver is called. */
#include "sample.h"

#include <stdlib.h>

#include "base/clock.h"

struct facet_flight_sample *facet_flight_sample_new(struct facet_flight_lane *lane, bool with_start)
{
    struct facet_flight_sample *sample = calloc(1, sizeof *sample);

    if (!sample)
        return NULL;
    sample->end = facet_flight_event_take(lane->timeline);
    if (with_start)
        sample->start = facet_flight_event_take(lane->timeline);
    /* Read last: creating events takes time, and the sample's time counts from here. */
    sample->begun_ns = facet_clock_now_ns();
    if (sample->end && (sample->start || !with_start))
        return sample;
    facet_flight_sample_free(lane, sample);
    return NULL;
}

void facet_flight_sample_free(struct facet_flight_lane *lane, struct facet_flight_sample *sample)
{
    facet_flight_event_give(lane->timeline, sample->start);
    facet_flight_event_give(lane->timeline, sample->end);
    free(sample);
}

void facet_flight_sample_follow(struct facet_flight_lane *lane, struct facet_flight_sample *sample)
{
    pthread_mutex_lock(&facet_flight_track_lock);
    sample->submitted = atomic_load_explicit(&lane->submitted, memory_order_acquire);
    sample->charged = atomic_load_explicit(&lane->charged, memory_order_relaxed);
    sample->expected = atomic_load_explicit(&lane->expected, memory_order_relaxed);
    sample->unknown = atomic_load_explicit(&lane->unknown, memory_order_relaxed);
    lane->followed = sample->submitted;
    *lane->last = sample;
    lane->last = &sample->next;
    pthread_mutex_unlock(&facet_flight_track_lock);
}

struct facet_flight_sample *facet_flight_sample_first(struct facet_flight_lane *lane)
{
    pthread_mutex_lock(&facet_flight_track_lock);
    struct facet_flight_sample *first = lane->first;
    pthread_mutex_unlock(&facet_flight_track_lock);
    return first;
}

void facet_flight_sample_drop_first(struct facet_flight_lane *lane)
{
    pthread_mutex_lock(&facet_flight_track_lock);
    struct facet_flight_sample *sample = lane->first;
    lane->first = sample->next;
    if (!lane->first)
        lane->last = &lane->first;
    pthread_mutex_unlock(&facet_flight_track_lock);
    facet_flight_sample_free(lane, sample);
}
