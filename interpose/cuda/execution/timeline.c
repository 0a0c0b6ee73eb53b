/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: what timeline.h says. Never: holds a lock while the driver is called. */
#include "timeline.h"

#include <stdlib.h>

#include "base/clock.h"
#include "interpose/cuda/hooks.h"
#include "interpose/cuda/process.h"
#include "interpose/kit/busy.h"
#include "lane.h"

#define POOL 64u

/* How far away a moment may be that others are measured against: a float tells it to 60 ns there. */
#define REACH_NS FACET_NS_PER_S

struct facet_cuda_timeline {
    CUcontext context;
    uint32_t device;
    bool ended;
    uint32_t count; /* of the pool */
    CUevent pool[POOL];
    CUevent base; /* NULL before anything was measured */
    uint64_t base_ns;
    struct facet_cuda_timeline *next;
};

static struct facet_cuda_timeline *timelines;
static struct facet_busy used[FACET_CUDA_TENANTS];

struct facet_cuda_timeline *facet_cuda_timeline_of(CUcontext context, uint32_t device)
{
    struct facet_cuda_timeline *timeline = timelines;

    while (timeline && (timeline->context != context || timeline->ended))
        timeline = timeline->next;
    if (timeline)
        return timeline;
    timeline = calloc(1, sizeof *timeline);
    if (!timeline)
        return NULL;
    timeline->context = context;
    timeline->device = device < FACET_CUDA_TENANTS ? device : 0;
    timeline->next = timelines;
    timelines = timeline;
    return timeline;
}

void facet_cuda_timeline_ended(CUcontext context)
{
    for (struct facet_cuda_timeline *timeline = timelines; timeline; timeline = timeline->next)
        if (timeline->context == context)
            timeline->ended = true;
}

void facet_cuda_timelines_forked(void)
{
    for (struct facet_cuda_timeline *timeline = timelines; timeline; timeline = timeline->next)
        timeline->ended = true;
    for (uint32_t i = 0; i < FACET_CUDA_TENANTS; i++)
        used[i] = (struct facet_busy){0};
}

/* An event is made in the current context, which need not be the stream's. */
static CUevent event_new(CUcontext context)
{
    CUcontext current = NULL, popped;
    CUevent event = NULL;

    bool foreign = facet_cuda_plain.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current != context;
    if (foreign && facet_cuda_plain.cuCtxPushCurrent_v2(context) != CUDA_SUCCESS)
        return NULL;
    if (facet_cuda_plain.cuEventCreate(&event, CU_EVENT_DEFAULT) != CUDA_SUCCESS)
        event = NULL;
    if (foreign)
        facet_cuda_plain.cuCtxPopCurrent_v2(&popped);
    return event;
}

CUevent facet_cuda_event_take(struct facet_cuda_timeline *timeline)
{
    CUevent event = NULL;

    pthread_mutex_lock(&facet_cuda_track_lock);
    if (timeline->count)
        event = timeline->pool[--timeline->count];
    pthread_mutex_unlock(&facet_cuda_track_lock);
    return event ? event : event_new(timeline->context);
}

void facet_cuda_event_give(struct facet_cuda_timeline *timeline, CUevent event)
{
    if (!event || event == timeline->base)
        return;
    pthread_mutex_lock(&facet_cuda_track_lock);
    bool ended = timeline->ended, room = timeline->count < POOL;
    if (room)
        timeline->pool[timeline->count++] = event;
    pthread_mutex_unlock(&facet_cuda_track_lock);
    if (!room && !ended)
        facet_cuda_plain.cuEventDestroy_v2(event);
}

static bool distance(CUevent from, CUevent to, int64_t *ret_ns)
{
    float milliseconds;

    if (facet_cuda_plain.cuEventElapsedTime(&milliseconds, from, to) != CUDA_SUCCESS)
        return false;
    *ret_ns = (int64_t)((double)milliseconds * (double)FACET_NS_PER_MS);
    return true;
}

static void move_base(struct facet_cuda_timeline *timeline, CUevent event, uint64_t at_ns)
{
    CUevent old = timeline->base;

    timeline->base = event;
    timeline->base_ns = at_ns;
    facet_cuda_event_give(timeline, old);
}

bool facet_cuda_timeline_read(struct facet_cuda_timeline *timeline, CUevent start, CUevent end, uint64_t begun_ns,
                              uint64_t now_ns, uint64_t *ret_start_ns, uint64_t *ret_end_ns)
{
    int64_t after_base, length;

    if (!timeline->base)
        move_base(timeline, start, begun_ns);
    if (!distance(timeline->base, end, &after_base) || !distance(start, end, &length))
        return false;
    uint64_t end_ns = timeline->base_ns + (uint64_t)after_base;
    /* The device's clock and the machine's drift apart; what is known of the moment brings them together again. */
    if (end_ns > now_ns || end_ns < begun_ns) {
        end_ns = end_ns > now_ns ? now_ns : begun_ns;
        move_base(timeline, end, end_ns);
    } else if (end_ns - timeline->base_ns > REACH_NS) {
        move_base(timeline, end, end_ns);
    }
    *ret_end_ns = end_ns;
    *ret_start_ns = length > 0 ? end_ns - (uint64_t)length : end_ns;
    return true;
}

uint64_t facet_cuda_timeline_use(struct facet_cuda_timeline *timeline, uint64_t start_ns, uint64_t end_ns)
{
    return facet_busy_add(&used[timeline->device], start_ns, end_ns);
}
