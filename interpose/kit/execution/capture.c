/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the list of captures that are going on. Never: holds the track lock while the driver is called. */
#include "capture.h"

#include <pthread.h>
#include <stdlib.h>

#include "counter.h"
#include "driver.h"
#include "track.h"

/* A capture ends in the stream where it began. A per-thread default stream is identified by its thread. */
struct facet_flight_origin {
    void *stream, *context;
    pthread_t thread;
    struct facet_flight_origin *next;
};

_Atomic uint32_t facet_flight_captures;

static struct facet_flight_origin *origins; /* protected by the track lock */

static bool is_origin(const struct facet_flight_origin *origin, void *stream, void *context)
{
    if (origin->stream != stream || (context && origin->context != context))
        return false;
    return stream != FACET_FLIGHT_PER_THREAD || pthread_equal(origin->thread, pthread_self());
}

/* Removes the captures that began in a stream, or in any stream of a context. */
static void forget_origin(void *stream, void *context)
{
    pthread_mutex_lock(&facet_flight_track_lock);
    for (struct facet_flight_origin **at = &origins; *at;) {
        struct facet_flight_origin *origin = *at;

        if (stream ? !is_origin(origin, stream, context) : origin->context != context) {
            at = &origin->next;
            continue;
        }
        *at = origin->next;
        free(origin);
        atomic_fetch_sub(&facet_flight_captures, 1);
    }
    pthread_mutex_unlock(&facet_flight_track_lock);
}

void facet_flight_capture_stream_ends(void *stream)
{
    if (atomic_load(&facet_flight_captures))
        forget_origin(stream, NULL);
}

void facet_flight_capture_context_ends(void *context)
{
    if (atomic_load(&facet_flight_captures))
        forget_origin(NULL, context);
}

void facet_flight_captures_forked(void)
{
    origins = NULL;
    atomic_store(&facet_flight_captures, 0);
}

static void remember_origin(struct facet_flight_origin *origin, void *stream)
{
    *origin = (struct facet_flight_origin){.stream = stream, .thread = pthread_self()};
    if (!facet_flight_driver.stream_context(stream, &origin->context))
        origin->context = NULL;
    pthread_mutex_lock(&facet_flight_track_lock);
    origin->next = origins;
    origins = origin;
    pthread_mutex_unlock(&facet_flight_track_lock);
}

struct facet_flight_origin *facet_flight_capture_begin(void)
{
    struct facet_flight_origin *origin = malloc(sizeof *origin);

    if (!origin)
        return NULL;
    atomic_fetch_add(&facet_flight_captures, 1);
    facet_flight_queries_hold();
    return origin;
}

void facet_flight_capture_begun(struct facet_flight_origin *origin, void *stream, bool capturing)
{
    if (capturing) {
        remember_origin(origin, stream);
    } else {
        atomic_fetch_sub(&facet_flight_captures, 1);
        free(origin);
    }
    facet_flight_queries_release();
}

void facet_flight_capture_ended(void *stream)
{
    if (!facet_flight_driver.stream_captured(stream))
        forget_origin(stream, NULL);
}
