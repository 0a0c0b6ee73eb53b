/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the steps around the end of a stream or context. Never: holds the track lock while the driver is called. */
#include "stream.h"

#include "capture.h"
#include "driver.h"
#include "sample.h"
#include "track.h"

/*
 * A counter of the stream with launches after its last event. Once the stream is destroyed, only events tell
 * their end.
 */
static struct facet_flight_counter *find_unfollowed(void *stream)
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

/* Records one last event in the stream; the event outlives the stream. */
static bool follow_tail(struct facet_flight_counter *counter, void *stream)
{
    struct facet_flight_sample *sample = facet_flight_sample_new(counter, false);

    if (!sample)
        return false;
    if (!facet_flight_driver.event_record(sample->end, stream)) {
        facet_flight_sample_free(counter, sample);
        return false;
    }
    facet_flight_sample_follow(counter, sample);
    return true;
}

void facet_flight_stream_ends(void *stream)
{
    struct facet_flight_counter *counter;

    facet_flight_queries_hold();
    while ((counter = find_unfollowed(stream)) && !facet_flight_driver.stream_captured(stream) &&
           follow_tail(counter, stream))
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
        facet_flight_counter_forget();
    }
    facet_flight_queries_release();
}
