/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the steps around the end of a stream or context. Never: holds the track lock while the driver is called. */
#include "stream.h"

#include "capture.h"
#include "driver.h"
#include "sample.h"
#include "track.h"

/* A lane of the stream with launches after its last event; soon its stream cannot be queried any more. */
static struct facet_flight_lane *unfollowed(void *stream)
{
    struct facet_flight_lane *lane;

    pthread_mutex_lock(&facet_flight_track_lock);
    for (lane = facet_flight_lanes; lane; lane = lane->next)
        if (atomic_load(&lane->stream) == stream && atomic_load(&lane->submitted) > lane->followed &&
            atomic_load(&lane->submitted) > atomic_load(&lane->reported))
            break;
    pthread_mutex_unlock(&facet_flight_track_lock);
    return lane;
}

/* Records one last event in the stream; the event outlives the stream. */
static bool follow_tail(struct facet_flight_lane *lane, void *stream)
{
    struct facet_flight_sample *sample = facet_flight_sample_new(lane, false);

    if (!sample)
        return false;
    if (!facet_flight_driver.event_record(sample->end, stream)) {
        facet_flight_sample_free(lane, sample);
        return false;
    }
    facet_flight_sample_follow(lane, sample);
    return true;
}

void facet_flight_stream_ends(void *stream)
{
    struct facet_flight_lane *lane;

    facet_flight_hold();
    while ((lane = unfollowed(stream)) && !facet_flight_driver.stream_captured(stream) && follow_tail(lane, stream))
        ;
    pthread_mutex_lock(&facet_flight_track_lock);
    facet_flight_lanes_destroy(stream);
    pthread_mutex_unlock(&facet_flight_track_lock);
    facet_flight_capture_stream_ends(stream);
}

void facet_flight_stream_ended(void)
{
    facet_flight_release();
}

/* The events end with the context, so complete ones are read before. */
void facet_flight_context_ends(void)
{
    facet_flight_catch_up();
    facet_flight_hold();
}

void facet_flight_context_ended(void *context)
{
    if (context) {
        pthread_mutex_lock(&facet_flight_track_lock);
        facet_flight_lanes_end(context);
        facet_flight_timeline_ended(context);
        pthread_mutex_unlock(&facet_flight_track_lock);
        facet_flight_capture_context_ends(context);
        facet_flight_lane_forget();
    }
    facet_flight_release();
}
