/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: samples and a counter's queue of them. Never: holds the track lock while the driver is called. */
#include "sample.h"

#include <stdlib.h>

#include "base/clock.h"

struct facet_flight_sample *facet_flight_sample_new(struct facet_flight_counter *counter, bool with_start)
{
    struct facet_flight_sample *sample = calloc(1, sizeof *sample);

    if (!sample)
        return NULL;
    sample->end = facet_flight_event_take(counter->timeline);
    if (with_start)
        sample->start = facet_flight_event_take(counter->timeline);
    /* Read last: creating events takes time, and the sample's time counts from here. */
    sample->launched_ns = facet_clock_now_ns();
    if (sample->end && (sample->start || !with_start))
        return sample;
    facet_flight_sample_free(counter, sample);
    return NULL;
}

void facet_flight_sample_free(struct facet_flight_counter *counter, struct facet_flight_sample *sample)
{
    facet_flight_event_give(counter->timeline, sample->start);
    facet_flight_event_give(counter->timeline, sample->end);
    free(sample);
}

void facet_flight_sample_append(struct facet_flight_counter *counter, struct facet_flight_sample *sample)
{
    pthread_mutex_lock(&facet_flight_track_lock);
    sample->submitted = atomic_load_explicit(&counter->submitted, memory_order_acquire);
    sample->charged = atomic_load_explicit(&counter->charged, memory_order_relaxed);
    sample->expected = atomic_load_explicit(&counter->expected, memory_order_relaxed);
    sample->unknown = atomic_load_explicit(&counter->unknown, memory_order_relaxed);
    counter->sampled = sample->submitted;
    *counter->last_sample = sample;
    counter->last_sample = &sample->next;
    pthread_mutex_unlock(&facet_flight_track_lock);
}

struct facet_flight_sample *facet_flight_sample_first(struct facet_flight_counter *counter)
{
    pthread_mutex_lock(&facet_flight_track_lock);
    struct facet_flight_sample *first = counter->first_sample;
    pthread_mutex_unlock(&facet_flight_track_lock);
    return first;
}

void facet_flight_sample_drop_first(struct facet_flight_counter *counter)
{
    pthread_mutex_lock(&facet_flight_track_lock);
    struct facet_flight_sample *sample = counter->first_sample;
    counter->first_sample = sample->next;
    if (!counter->first_sample)
        counter->last_sample = &counter->first_sample;
    pthread_mutex_unlock(&facet_flight_track_lock);
    facet_flight_sample_free(counter, sample);
}
