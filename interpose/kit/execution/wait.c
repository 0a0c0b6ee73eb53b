/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: positions of counters for waits, and the table of recorded events. Never: holds the track lock while the driver
 * is called.
 */
#include "wait.h"

#include "capture.h"
#include "track.h"

/*
 * Size of the table of events. With more events some are forgotten; the helper then reports the launches
 * before them.
 */
#define ENTRY_BITS 10
#define ENTRIES    (1u << ENTRY_BITS)
#define PROBES     8u /* entries where an event may be */

struct recorded_event {
    void *event;
    uint64_t generation;
    struct facet_flight_wait wait;
};

/* Protected by the track lock. Entries of a parent process are invalid, and count as free. */
static struct recorded_event recorded_events[ENTRIES];
static uint64_t generation;

/* ---- progress of counters ---- */

/* The target of a wait: a stream, with its context if it is a default stream, or a whole context. */
struct target {
    void *stream, *context;
};

static bool is_own_counter(const struct facet_flight_counter *counter)
{
    return !atomic_load(&counter->thread_ended) && pthread_equal(counter->thread, pthread_self());
}

static bool target_includes(const struct target *target, const struct facet_flight_counter *counter)
{
    void *stream = atomic_load(&counter->stream);

    if (target->context && target->context != counter->context)
        return false;
    if (!target->stream)
        return true;
    if (target->stream == FACET_FLIGHT_LEGACY && counter->joins_legacy)
        return true;
    return stream == target->stream && (stream != FACET_FLIGHT_PER_THREAD || is_own_counter(counter));
}

/* The legacy stream waits for other streams only when it has work itself, which is not known here. */
static bool completion_is_certain(const struct target *target, const struct facet_flight_counter *counter)
{
    return target->stream != FACET_FLIGHT_LEGACY || atomic_load(&counter->stream) == FACET_FLIGHT_LEGACY;
}

static struct facet_flight_waited_counter *wait_entry_of(struct facet_flight_wait *wait, uint64_t id)
{
    for (uint32_t i = 0; i < wait->count; i++)
        if (wait->counters[i].id == id)
            return &wait->counters[i];
    return wait->count < FACET_FLIGHT_WAIT_COUNTERS ? &wait->counters[wait->count++] : NULL;
}

static bool is_settled(const struct facet_flight_counter *counter)
{
    return atomic_load_explicit(&counter->submitted, memory_order_acquire) == atomic_load(&counter->reported) ||
           atomic_load(&counter->context_ended);
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

enum counter_set {
    TARGETED,     /* the counters that the wait is for */
    TARGETED_OWN, /* the part of TARGETED that belongs to the calling thread */
    UNTARGETED,   /* the stream may have waited for their events: they are queried */
};

static bool is_in_set(enum counter_set set, const struct target *target, const struct facet_flight_counter *counter)
{
    return target_includes(target, counter) ? set == TARGETED || (set == TARGETED_OWN && is_own_counter(counter))
                                            : set == UNTARGETED;
}

/* Called with the track lock. */
static void note_counters(struct facet_flight_wait *wait, const struct target *target, enum counter_set set)
{
    for (struct facet_flight_counter *counter = facet_flight_counters; counter; counter = counter->next) {
        if (is_settled(counter) || !is_in_set(set, target, counter))
            continue;
        struct facet_flight_waited_counter *entry = wait_entry_of(wait, counter->id);
        if (!entry)
            break;
        *entry = (struct facet_flight_waited_counter){counter->id, facet_flight_position_of(counter),
                                                      set != UNTARGETED && completion_is_certain(target, counter)};
    }
}

static void note_target(struct facet_flight_wait *wait, const struct target *target)
{
    pthread_mutex_lock(&facet_flight_track_lock);
    note_counters(wait, target, TARGETED);
    note_counters(wait, target, UNTARGETED);
    pthread_mutex_unlock(&facet_flight_track_lock);
}

static void note_own_counters(struct facet_flight_wait *wait, const struct target *target)
{
    pthread_mutex_lock(&facet_flight_track_lock);
    note_counters(wait, target, TARGETED_OWN);
    pthread_mutex_unlock(&facet_flight_track_lock);
}

/* False when there is nothing to note, or it cannot be noted: during a capture, or without a context. */
static bool find_target(void *stream, struct target *ret_target)
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
    if (find_target(stream, &target))
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

/* Returns whether the position is new. Called with the track lock. */
static bool raise_waited(const struct facet_flight_waited_counter *waited)
{
    struct facet_flight_counter *counter = facet_flight_counters;

    while (counter && counter->id != waited->id)
        counter = counter->next;
    if (!counter || waited->position.submitted <= atomic_load(&counter->reported))
        return false;
    if (!waited->certain)
        counter->must_query = true;
    else if (waited->position.submitted > counter->waited.submitted)
        counter->waited = waited->position;
    return true;
}

void facet_flight_waited(const struct facet_flight_wait *wait)
{
    bool is_new = false;

    if (!wait->count)
        return;
    pthread_mutex_lock(&facet_flight_track_lock);
    for (uint32_t i = 0; i < wait->count; i++)
        is_new = raise_waited(&wait->counters[i]) || is_new;
    pthread_mutex_unlock(&facet_flight_track_lock);
    if (is_new)
        facet_flight_report_waited();
}

/* ---- events ---- */

static bool is_free_entry(const struct recorded_event *at)
{
    return !at->event || at->generation != generation;
}

/* The entry of an event: its own, else a free one, else that of another event, which is then forgotten. */
static struct recorded_event *find_entry(const void *event, bool may_replace)
{
    uint64_t first = (uintptr_t)event * UINT64_C(0x9e3779b97f4a7c15) >> (64 - ENTRY_BITS);
    struct recorded_event *found = may_replace ? &recorded_events[first] : NULL;

    for (uint64_t i = 0; i < PROBES; i++) {
        struct recorded_event *at = &recorded_events[(first + i) % ENTRIES];

        if (at->event == event && !is_free_entry(at))
            return at;
        if (may_replace && is_free_entry(at) && !is_free_entry(found))
            found = at;
    }
    return found;
}

static void forget_event(const void *event)
{
    struct recorded_event *at = find_entry(event, false);

    if (at)
        at->event = NULL;
}

void facet_flight_event_recorded(void *event, const struct facet_flight_wait *wait)
{
    if (!event)
        return;
    pthread_mutex_lock(&facet_flight_track_lock);
    if (wait->count)
        *find_entry(event, true) = (struct recorded_event){event, generation, *wait};
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
    if (find_target(stream, &target))
        note_own_counters(&wait, &target);
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
    const struct recorded_event *at = event ? find_entry(event, false) : NULL;
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

void facet_flight_copy_begins(struct facet_flight_wait *ret_wait, void *stream, enum facet_flight_copy copy)
{
    ret_wait->count = 0;
    if (copy == FACET_FLIGHT_COPY_TO_HOST)
        facet_flight_wait_stream(ret_wait, stream);
}

/* The thread launched nothing else during the copy, so what its counters have now includes the copy and no more. */
void facet_flight_copy_ended(struct facet_flight_wait *wait, void *stream, enum facet_flight_copy copy, bool done)
{
    struct target target;

    if (done && copy == FACET_FLIGHT_COPY_TO_HOST && find_target(stream, &target)) {
        note_own_counters(wait, &target);
        facet_flight_waited(wait);
    } else if (done && copy == FACET_FLIGHT_COPY_UNKNOWN) {
        facet_flight_catch_up();
    }
}
