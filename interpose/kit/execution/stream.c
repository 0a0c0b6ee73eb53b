/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the steps around the end of a stream or context. Never: holds the track lock while the driver is called. */
#include "stream.h"

#include "capture.h"
#include "driver.h"
#include "sample.h"
#include "track.h"

/*
 * Finds a counter of the stream that has unreported launches after its last recorded event: its tail. NULL: none. Once
 * the stream is destroyed, only a recorded event shows when the launches before it have ended.
 */
static struct facet_flight_counter *find_counter_with_tail(void *stream)
{
    struct facet_flight_counter *counter;

    pthread_mutex_lock(&facet_flight_track_lock);
    for (counter = facet_flight_counters; counter; counter = counter->next)
        if (atomic_load(&counter->stream) == stream && atomic_load(&counter->submitted) > counter->sampled &&
            atomic_load(&counter->submitted) > atomic_load(&counter->reported))
            break;
    pthread_mutex_unlock(&facet_flight_track_lock);
    return counter;
}

/* Records an event behind the tail; the event outlives the stream. */
static bool record_tail_event(struct facet_flight_counter *counter, void *stream)
{
    struct facet_flight_sample *sample = facet_flight_sample_new(counter, false);

    if (!sample)
        return false;
    if (!facet_flight_driver.event_record(sample->end, stream)) {
        facet_flight_sample_free(counter, sample);
        return false;
    }
    facet_flight_sample_append(counter, sample);
    return true;
}

void facet_flight_stream_ends(void *stream)
{
    struct facet_flight_counter *counter;

    facet_flight_queries_hold();
    while ((counter = find_counter_with_tail(stream)) && !facet_flight_driver.stream_captured(stream) &&
           record_tail_event(counter, stream))
        ;
    pthread_mutex_lock(&facet_flight_track_lock);
    facet_flight_counters_destroy(stream);
    pthread_mutex_unlock(&facet_flight_track_lock);
    facet_flight_capture_stream_ends(stream);
}

void facet_flight_stream_ended(void)
{
    facet_flight_queries_release();
}

/* The events end with the context, so complete events are read before. */
void facet_flight_context_ends(void)
{
    facet_flight_catch_up();
    facet_flight_queries_hold();
}

void facet_flight_context_ended(void *context)
{
    if (context) {
        pthread_mutex_lock(&facet_flight_track_lock);
        facet_flight_counters_end(context);
        facet_flight_timeline_ended(context);
        pthread_mutex_unlock(&facet_flight_track_lock);
        facet_flight_capture_context_ends(context);
        facet_flight_thread_forget_counters();
    }
    facet_flight_queries_release();
}
