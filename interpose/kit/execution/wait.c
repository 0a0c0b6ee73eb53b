/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: marks of counters for waits, and the table of recorded events. Never: holds the track lock while the driver is
 * called.
 */
#include "wait.h"

#include "capture.h"
#include "track.h"

/* Size of the table of events. With more events some are forgotten; the helper reports the launches before those. */
#define RECORDED_BITS 10
#define RECORDED      (1u << RECORDED_BITS)
#define TRIES         8u /* places where an event may be */

struct recorded {
    void *event;
    uint64_t generation;
    struct facet_flight_wait wait;
};

/* Protected by the track lock. Entries of a parent process are invalid, and their places are free. */
static struct recorded recorded[RECORDED];
static uint64_t generation;

/* ---- progress of counters ---- */

/* The target of a wait: a stream, with its context if it is a default one, or a whole context. */
struct target {
    void *stream, *context;
};

static bool is_own(const struct facet_flight_counter *counter)
{
    return !atomic_load(&counter->left) && pthread_equal(counter->thread, pthread_self());
}

static bool is_for(const struct target *target, const struct facet_flight_counter *counter)
{
    void *stream = atomic_load(&counter->stream);

    if (target->context && target->context != counter->context)
        return false;
    if (!target->stream)
        return true;
    if (target->stream == FACET_FLIGHT_LEGACY && counter->joins_legacy)
        return true;
    return stream == target->stream && (stream != FACET_FLIGHT_PER_THREAD || is_own(counter));
}

/* The legacy stream waits for other streams only when it has work itself, which is not known here. */
static bool is_certain(const struct target *target, const struct facet_flight_counter *counter)
{
    return target->stream != FACET_FLIGHT_LEGACY || atomic_load(&counter->stream) == FACET_FLIGHT_LEGACY;
}

static struct facet_flight_waited_counter *place_of(struct facet_flight_wait *wait, uint64_t id)
{
    for (uint32_t i = 0; i < wait->count; i++)
        if (wait->counters[i].id == id)
            return &wait->counters[i];
    return wait->count < FACET_FLIGHT_WAIT_COUNTERS ? &wait->counters[wait->count++] : NULL;
}

static bool is_settled(const struct facet_flight_counter *counter)
{
    return atomic_load_explicit(&counter->submitted, memory_order_acquire) == atomic_load(&counter->reported) ||
           atomic_load(&counter->ended);
}

static bool is_anything_in_flight(void)
{
    pthread_mutex_lock(&facet_flight_track_lock);
    const struct facet_flight_counter *counter = facet_flight_counters;
    while (counter && is_settled(counter))
        counter = counter->next;
    pthread_mutex_unlock(&facet_flight_track_lock);
    return counter;
}

enum which {
    MEANT,  /* the counters that the wait is for */
    OWN,    /* of these, this thread's */
    OTHERS, /* the stream may have waited for their events: they are queried */
};

static bool is_which(enum which which, const struct target *target, const struct facet_flight_counter *counter)
{
    return is_for(target, counter) ? which == MEANT || (which == OWN && is_own(counter)) : which == OTHERS;
}

/* Called with the track lock. */
static void note_counters(struct facet_flight_wait *wait, const struct target *target, enum which which)
{
    for (struct facet_flight_counter *counter = facet_flight_counters; counter; counter = counter->next) {
        if (is_settled(counter) || !is_which(which, target, counter))
            continue;
        struct facet_flight_waited_counter *place = place_of(wait, counter->id);
        if (!place)
            break;
        *place = (struct facet_flight_waited_counter){counter->id, facet_flight_mark_of(counter),
                                                      which != OTHERS && is_certain(target, counter)};
    }
}

static void note_target(struct facet_flight_wait *wait, const struct target *target)
{
    pthread_mutex_lock(&facet_flight_track_lock);
    note_counters(wait, target, MEANT);
    note_counters(wait, target, OTHERS);
    pthread_mutex_unlock(&facet_flight_track_lock);
}

static void note_own(struct facet_flight_wait *wait, const struct target *target)
{
    pthread_mutex_lock(&facet_flight_track_lock);
    note_counters(wait, target, OWN);
    pthread_mutex_unlock(&facet_flight_track_lock);
}

/* False when there is nothing to note, or it cannot be noted: during a capture, or without a context. */
static bool target_of(void *stream, struct target *ret_target)
{
    if (!is_anything_in_flight())
        return false;
    *ret_target = (struct target){.stream = stream};
    if (atomic_load(&facet_flight_captures) && facet_flight_driver.stream_captured(stream))
        return false;
    return !facet_flight_stream_is_default(stream) || facet_flight_driver.stream_context(stream, &ret_target->context);
}

void facet_flight_wait_stream(struct facet_flight_wait *ret_wait, void *stream)
{
    struct target target;

    ret_wait->count = 0;
    if (target_of(stream, &target))
        note_target(ret_wait, &target);
}

void facet_flight_wait_context(struct facet_flight_wait *ret_wait, void *context)
{
    struct target target = {.context = context};

    ret_wait->count = 0;
    if (is_anything_in_flight() &&
        (context || facet_flight_driver.stream_context(FACET_FLIGHT_LEGACY, &target.context)))
        note_target(ret_wait, &target);
}

/* Returns whether the mark is new. Called with the track lock. */
static bool raise_waited(const struct facet_flight_waited_counter *waited)
{
    struct facet_flight_counter *counter = facet_flight_counters;

    while (counter && counter->id != waited->id)
        counter = counter->next;
    if (!counter || waited->mark.submitted <= atomic_load(&counter->reported))
        return false;
    if (!waited->certain)
        counter->doubtful = true;
    else if (waited->mark.submitted > counter->waited.submitted)
        counter->waited = waited->mark;
    return true;
}

void facet_flight_waited(const struct facet_flight_wait *wait)
{
    bool news = false;

    if (!wait->count)
        return;
    pthread_mutex_lock(&facet_flight_track_lock);
    for (uint32_t i = 0; i < wait->count; i++)
        news = raise_waited(&wait->counters[i]) || news;
    pthread_mutex_unlock(&facet_flight_track_lock);
    if (news)
        facet_flight_report_waited();
}

/* ---- events ---- */

static bool is_free(const struct recorded *at)
{
    return !at->event || at->generation != generation;
}

/* The place of an event: its own, else a free one, else another event's, which is then forgotten. */
static struct recorded *recorded_at(const void *event, bool or_any)
{
    uint64_t first = (uintptr_t)event * UINT64_C(0x9e3779b97f4a7c15) >> (64 - RECORDED_BITS);
    struct recorded *found = or_any ? &recorded[first] : NULL;

    for (uint64_t i = 0; i < TRIES; i++) {
        struct recorded *at = &recorded[(first + i) % RECORDED];

        if (at->event == event && !is_free(at))
            return at;
        if (or_any && is_free(at) && !is_free(found))
            found = at;
    }
    return found;
}

static void forget_event(const void *event)
{
    struct recorded *at = recorded_at(event, false);

    if (at)
        at->event = NULL;
}

void facet_flight_event_recorded(void *event, const struct facet_flight_wait *wait)
{
    if (!event)
        return;
    pthread_mutex_lock(&facet_flight_track_lock);
    if (wait->count)
        *recorded_at(event, true) = (struct recorded){event, generation, *wait};
    else
        forget_event(event);
    pthread_mutex_unlock(&facet_flight_track_lock);
}

void facet_flight_event_launched(void *event, void *stream)
{
    struct facet_flight_wait wait = {.count = 0};
    struct target target;

    if (!event)
        return;
    if (target_of(stream, &target))
        note_own(&wait, &target);
    facet_flight_event_recorded(event, &wait);
}

void facet_flight_event_gone(void *event)
{
    if (!event)
        return;
    pthread_mutex_lock(&facet_flight_track_lock);
    forget_event(event);
    pthread_mutex_unlock(&facet_flight_track_lock);
}

void facet_flight_event_waited(void *event)
{
    struct facet_flight_wait wait = {.count = 0};

    pthread_mutex_lock(&facet_flight_track_lock);
    const struct recorded *at = event ? recorded_at(event, false) : NULL;
    if (at)
        wait = at->wait;
    pthread_mutex_unlock(&facet_flight_track_lock);
    facet_flight_waited(&wait);
}

void facet_flight_waits_forked(void)
{
    generation++;
}

/* ---- copies to the host ---- */

void facet_flight_copy_begins(struct facet_flight_wait *ret_wait, void *stream, enum facet_flight_copy where)
{
    ret_wait->count = 0;
    if (where == FACET_FLIGHT_COPY_TO_HOST)
        facet_flight_wait_stream(ret_wait, stream);
}

/* During the copy this thread has launched nothing else. */
void facet_flight_copy_ended(struct facet_flight_wait *wait, void *stream, enum facet_flight_copy where, bool done)
{
    struct target target;

    if (done && where == FACET_FLIGHT_COPY_TO_HOST && target_of(stream, &target)) {
        note_own(wait, &target);
        facet_flight_waited(wait);
    } else if (done && where == FACET_FLIGHT_COPY_UNKNOWN) {
        facet_flight_catch_up();
    }
}
