/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: pools of events, base events, and used device time. Never: holds a lock while the driver is called. */
#include "timeline.h"

#include <stdlib.h>

#include "base/clock.h"
#include "counter.h"
#include "driver.h"
#include "interpose/kit/busy.h"

#define POOL_SIZE 64u

/* The greatest distance from the base event: there a float resolves 60 ns. */
#define REACH_NS FACET_NS_PER_S

struct facet_flight_timeline {
    void *context;
    uint32_t device;
    bool context_ended;
    uint32_t count; /* number in the pool */
    void *pool[POOL_SIZE];
    void *base; /* NULL before the first measurement */
    uint64_t base_ns;
    struct facet_flight_timeline *next;
};

static struct facet_flight_timeline *timelines;
static struct facet_busy used_time[FACET_FLIGHT_DEVICES];

struct facet_flight_timeline *facet_flight_timeline_of(void *context, uint32_t device)
{
    struct facet_flight_timeline *timeline = timelines;

    while (timeline && (timeline->context != context || timeline->context_ended))
        timeline = timeline->next;
    if (timeline)
        return timeline;
    timeline = calloc(1, sizeof *timeline);
    if (!timeline)
        return NULL;
    timeline->context = context;
    timeline->device = device < FACET_FLIGHT_DEVICES ? device : 0;
    timeline->next = timelines;
    timelines = timeline;
    return timeline;
}

void facet_flight_timeline_ended(void *context)
{
    for (struct facet_flight_timeline *timeline = timelines; timeline; timeline = timeline->next)
        if (timeline->context == context)
            timeline->context_ended = true;
}

void facet_flight_timelines_forked(void)
{
    for (struct facet_flight_timeline *timeline = timelines; timeline; timeline = timeline->next)
        timeline->context_ended = true;
    for (uint32_t i = 0; i < FACET_FLIGHT_DEVICES; i++)
        used_time[i] = (struct facet_busy){0};
}

void *facet_flight_event_take(struct facet_flight_timeline *timeline)
{
    void *event = NULL;

    pthread_mutex_lock(&facet_flight_track_lock);
    if (timeline->count)
        event = timeline->pool[--timeline->count];
    pthread_mutex_unlock(&facet_flight_track_lock);
    return event ? event : facet_flight_driver.event_new(timeline->context);
}

void facet_flight_event_give(struct facet_flight_timeline *timeline, void *event)
{
    if (!event || event == timeline->base)
        return;
    pthread_mutex_lock(&facet_flight_track_lock);
    bool context_ended = timeline->context_ended, room = timeline->count < POOL_SIZE;
    if (room)
        timeline->pool[timeline->count++] = event;
    pthread_mutex_unlock(&facet_flight_track_lock);
    if (!room && !context_ended)
        facet_flight_driver.event_free(event);
}

static void move_base(struct facet_flight_timeline *timeline, void *event, uint64_t at_ns)
{
    void *old = timeline->base;

    timeline->base = event;
    timeline->base_ns = at_ns;
    facet_flight_event_give(timeline, old);
}

bool facet_flight_timeline_read(struct facet_flight_timeline *timeline, void *start, void *end, uint64_t launched_ns,
                                uint64_t now_ns, uint64_t *ret_start_ns, uint64_t *ret_end_ns)
{
    int64_t after_base, length;

    if (!timeline->base)
        move_base(timeline, start, launched_ns);
    if (!facet_flight_driver.event_distance(timeline->base, end, &after_base) ||
        !facet_flight_driver.event_distance(start, end, &length))
        return false;
    uint64_t end_ns = timeline->base_ns + (uint64_t)after_base;
    /* The clocks of device and machine drift apart; the bounds of these two times realign them. */
    if (end_ns > now_ns || end_ns < launched_ns) {
        end_ns = end_ns > now_ns ? now_ns : launched_ns;
        move_base(timeline, end, end_ns);
    } else if (end_ns - timeline->base_ns > REACH_NS) {
        move_base(timeline, end, end_ns);
    }
    *ret_end_ns = end_ns;
    *ret_start_ns = length > 0 ? end_ns - (uint64_t)length : end_ns;
    return true;
}

uint64_t facet_flight_timeline_use(struct facet_flight_timeline *timeline, uint64_t start_ns, uint64_t end_ns)
{
    return facet_busy_add(&used_time[timeline->device], start_ns, end_ns);
}

uint64_t facet_flight_timeline_used(const struct facet_flight_timeline *timeline, uint64_t start_ns, uint64_t end_ns)
{
    return facet_busy_covered(&used_time[timeline->device], start_ns, end_ns);
}
