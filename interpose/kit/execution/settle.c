/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the accounting of complete launches.
 * Never: counts a moment twice, or charges a launch more time than it can have taken.
 *
 * A sample gives the exact beginning and end of its own launch. For the launches between two samples there is an upper
 * bound, the time between the samples, and an expected time, from estimates or the mean. If the two agree, the device
 * was busy throughout, and the time between the samples counts. If the time between the samples is longer than the
 * expected time, the stream was idle in between, and the expected time counts.
 */
#include "settle.h"

#include "base/clock.h"
#include "capture.h"
#include "driver.h"
#include "interpose/kit/estimate.h"
#include "sample.h"
#include "track.h"

#define MEAN_SHIFT 3 /* a new sample has the weight of an eighth */

/* Expected and possible time agree if they differ by less than a thirty-second part. */
#define AGREE_SHIFT 5

/* The next look comes slightly after the expected end, not just before it. */
#define MARGIN_NS (10 * FACET_NS_PER_US)

/*
 * A per-thread stream can be queried by its own thread only, and a destroyed stream not at all. The tail of such a
 * stream counts as complete after twice its expected time and OVERDUE_NS more.
 */
#define OVERDUE_NS FACET_NS_PER_MS

/* One report to the limiter: the number of launches, their charges, and the device time that they used. */
struct batch {
    uint64_t count, charged, busy_ns;
};

/* Reports the time of completion, not of the look, so that the vGPU is not charged for work of others in between. */
static void report_batch(struct facet_flight_counter *counter, const struct batch *batch, uint64_t now_ns)
{
    uint64_t end_ns =
        facet_idle_since(counter->until_ns < now_ns ? counter->until_ns : now_ns, counter->until_is_bound);

    if (batch->count)
        facet_tenant_complete_in(counter->tenant, counter->shard, (uint32_t)batch->count, batch->charged,
                                 batch->busy_ns, end_ns);
}

static struct facet_flight_position position_of_sample(const struct facet_flight_sample *sample)
{
    return (struct facet_flight_position){sample->submitted, sample->charged, sample->expected, sample->unknown};
}

/* The expected time of the launches up to a position. A launch without an estimate counts as the current mean. */
static uint64_t expected_ns(const struct facet_flight_counter *counter, struct facet_flight_position position)
{
    return position.expected - counter->measured_expected +
           (position.unknown - counter->measured_unknown) *
               atomic_load_explicit(&counter->mean_ns, memory_order_relaxed);
}

/* Adds the launches up to a position to the batch. */
static void count_launches(struct facet_flight_counter *counter, struct facet_flight_position position,
                           struct batch *batch)
{
    batch->count += position.submitted - atomic_load(&counter->reported);
    batch->charged += position.charged - counter->reported_charge;
    counter->reported_charge = position.charged;
    atomic_store(&counter->reported, position.submitted);
}

/* Adds the launches up to a position to the batch, and notes their time as accounted. */
static void account_launches(struct facet_flight_counter *counter, struct facet_flight_position position,
                             struct batch *batch)
{
    count_launches(counter, position, batch);
    counter->measured_expected = position.expected;
    counter->measured_unknown = position.unknown;
}

/* Adds measured time to the batch, less the time that was reported ahead. */
static void add_measured(struct facet_flight_counter *counter, uint64_t measured_ns, struct batch *batch)
{
    uint64_t ahead_ns = counter->reported_ahead_ns < measured_ns ? counter->reported_ahead_ns : measured_ns;

    counter->reported_ahead_ns -= ahead_ns;
    batch->busy_ns += measured_ns - ahead_ns;
}

static uint64_t use_timeline(struct facet_flight_counter *counter, uint64_t start_ns, uint64_t end_ns)
{
    return start_ns < end_ns ? facet_flight_timeline_use(counter->timeline, start_ns, end_ns) : 0;
}

/* The device time of launches between `from_ns` and `to_ns`: all of it if their expected time fills it. */
static uint64_t use_expected_time(struct facet_flight_counter *counter, uint64_t expected, uint64_t from_ns,
                                  uint64_t to_ns)
{
    uint64_t possible_ns = to_ns > from_ns ? to_ns - from_ns : 0;

    if (expected + (expected >> AGREE_SHIFT) >= possible_ns)
        expected = possible_ns;
    return use_timeline(counter, to_ns - expected, to_ns);
}

static void learn_length(struct facet_flight_counter *counter, uint64_t key, uint64_t length_ns)
{
    uint64_t mean = atomic_load_explicit(&counter->mean_ns, memory_order_relaxed);

    mean = mean ? mean - (mean >> MEAN_SHIFT) + (length_ns >> MEAN_SHIFT) : length_ns;
    atomic_store_explicit(&counter->mean_ns, mean, memory_order_relaxed);
    facet_estimate_learn(key, length_ns);
}

/*
 * The first launch after the turn of other vGPUs is queued behind their unfinished work, and its start event may come
 * before that work. The launch began when that work ended, which the scheduler publishes as others_ended_ns. If that is
 * not published, the launch counts as no longer than its estimate.
 */
static uint64_t sample_length(const struct facet_flight_counter *counter, const struct facet_flight_sample *sample,
                              uint64_t start_ns, uint64_t end_ns, bool *ret_known)
{
    uint64_t others_ended_ns = atomic_load_explicit(&counter->tenant->policy->others_ended_ns, memory_order_relaxed);
    bool end_is_published =
        sample->after_others && others_ended_ns && others_ended_ns < end_ns && !facet_idle_is_late(others_ended_ns);
    uint64_t length_ns = end_ns - (end_is_published && others_ended_ns > start_ns ? others_ended_ns : start_ns);
    uint64_t usual_ns = sample->after_others && !end_is_published ? facet_estimate_get(sample->key) : 0;

    *ret_known = !usual_ns || length_ns <= usual_ns;
    return *ret_known ? length_ns : usual_ns;
}

/* Accounts the sampled launch itself, when it has a start event. */
static void measure_sampled_launch(struct facet_flight_counter *counter, const struct facet_flight_sample *sample,
                                   uint64_t start_ns, uint64_t end_ns, struct batch *batch)
{
    bool known;
    uint64_t length_ns = sample_length(counter, sample, start_ns, end_ns, &known);

    if (known)
        learn_length(counter, sample->key, length_ns);
    add_measured(counter, use_timeline(counter, end_ns - length_ns, end_ns), batch);
}

static void measure_sample(struct facet_flight_counter *counter, const struct facet_flight_sample *sample,
                           uint64_t now_ns, struct batch *batch)
{
    struct facet_flight_position before = position_of_sample(sample);
    uint64_t start_ns, end_ns;
    void *start = sample->start ? sample->start : sample->end;

    if (!facet_flight_timeline_read(counter->timeline, start, sample->end, sample->launched_ns, now_ns, &start_ns,
                                    &end_ns))
        return;
    if (sample->start)
        measure_sampled_launch(counter, sample, start_ns, end_ns, batch);
    if (sample->start) {
        before.expected -= sample->expected_ns;
        before.unknown -= !sample->expected_ns;
    }
    if (expected_ns(counter, before))
        add_measured(counter, use_expected_time(counter, expected_ns(counter, before), counter->until_ns, start_ns),
                     batch);
    if (end_ns > counter->until_ns) {
        counter->until_ns = end_ns;
        counter->until_is_bound = false;
    }
}

/* ---- samples ---- */

/* The event's state and its times are queried under one permission, so that its context stays meanwhile. */
static bool settle_first_sample(struct facet_flight_counter *counter, struct facet_flight_sample *sample,
                                bool (*begin_query)(void), struct batch *batch)
{
    if (!begin_query())
        return false;
    enum facet_flight_state state =
        atomic_load(&counter->context_ended) ? FACET_FLIGHT_RUNNING : facet_flight_driver.event_state(sample->end);
    if (state == FACET_FLIGHT_DONE)
        measure_sample(counter, sample, facet_clock_now_ns(), batch);
    facet_flight_query_end();
    if (state == FACET_FLIGHT_RUNNING)
        return false;
    account_launches(counter, position_of_sample(sample), batch);
    facet_flight_sample_drop_first(counter);
    return true;
}

/* ---- the tail ---- */

static bool may_query_stream(const struct facet_flight_counter *counter)
{
    return !atomic_load(&facet_flight_captures) && !atomic_load(&counter->stream_destroyed) &&
           !atomic_load(&counter->context_ended);
}

static enum facet_flight_state query_stream(struct facet_flight_counter *counter)
{
    enum facet_flight_state state = FACET_FLIGHT_RUNNING;
    void *stream = atomic_load(&counter->stream);

    if (stream == FACET_FLIGHT_NO_STREAM || !facet_flight_query_begin())
        return FACET_FLIGHT_RUNNING;
    if (may_query_stream(counter))
        state = facet_flight_driver.stream_state(stream, counter->context);
    facet_flight_query_end();
    return state;
}

static bool is_overdue(const struct facet_flight_counter *counter, uint64_t expected, uint64_t now_ns)
{
    return now_ns > counter->until_ns + 2 * expected + OVERDUE_NS;
}

/* Accounts the launches after the last sample, up to a position, once they are complete. */
static void account_tail(struct facet_flight_counter *counter, struct facet_flight_position position, bool lost,
                         struct batch *batch)
{
    uint64_t now_ns = facet_clock_now_ns();

    if (!lost)
        add_measured(counter, use_expected_time(counter, expected_ns(counter, position), counter->until_ns, now_ns),
                     batch);
    counter->until_ns = now_ns;
    counter->until_is_bound = true;
    account_launches(counter, position, batch);
}

static void settle_tail(struct facet_flight_counter *counter, struct batch *batch)
{
    struct facet_flight_position position = facet_flight_position_of(counter);
    uint64_t expected = expected_ns(counter, position);
    enum facet_flight_state state;

    if (position.submitted == atomic_load(&counter->reported))
        return;
    if (atomic_load(&counter->stream) == FACET_FLIGHT_PER_THREAD || atomic_load(&counter->stream_destroyed))
        state = is_overdue(counter, expected, facet_clock_now_ns()) ? FACET_FLIGHT_DONE : FACET_FLIGHT_RUNNING;
    else
        state = query_stream(counter);
    if (state != FACET_FLIGHT_RUNNING)
        account_tail(counter, position, state == FACET_FLIGHT_LOST, batch);
}

static void settle_counter(struct facet_flight_counter *counter, struct batch *batch)
{
    struct facet_flight_sample *sample;

    while ((sample = facet_flight_sample_first(counter)) &&
           settle_first_sample(counter, sample, facet_flight_query_begin, batch))
        ;
    if (!sample)
        settle_tail(counter, batch);
}

/*
 * Accounts launches that are complete while later ones are in flight. Their end is unknown until the next sample. Until
 * then their expected time is reported, limited by the time that has passed.
 */
static void account_ahead(struct facet_flight_counter *counter, struct facet_flight_position position,
                          struct batch *batch)
{
    uint64_t now_ns = facet_clock_now_ns(), ahead_ns = expected_ns(counter, position);
    uint64_t possible_ns = now_ns > counter->until_ns ? now_ns - counter->until_ns : 0;

    possible_ns -= facet_flight_timeline_used(counter->timeline, now_ns - possible_ns, now_ns);
    if (ahead_ns > possible_ns)
        ahead_ns = possible_ns;
    if (ahead_ns > counter->reported_ahead_ns) {
        batch->busy_ns += ahead_ns - counter->reported_ahead_ns;
        counter->reported_ahead_ns = ahead_ns;
    }
    count_launches(counter, position, batch);
}

/*
 * Accounts the launches that the program has waited for. Their events tell when they ended. A launch without an event
 * counts as complete because of the wait; if an event is not complete, its launch is not either.
 */
static void settle_waited(struct facet_flight_counter *counter, struct batch *batch)
{
    struct facet_flight_sample *sample;

    pthread_mutex_lock(&facet_flight_track_lock);
    struct facet_flight_position position = counter->waited;
    bool must_query = counter->must_query;
    counter->must_query = false;
    pthread_mutex_unlock(&facet_flight_track_lock);
    if (must_query)
        settle_counter(counter, batch);
    while ((sample = facet_flight_sample_first(counter)) && sample->submitted <= position.submitted)
        if (!settle_first_sample(counter, sample, facet_flight_query_begin_with_retries, batch))
            return;
    if (position.submitted <= atomic_load(&counter->reported))
        return;
    if (sample || position.submitted != atomic_load_explicit(&counter->submitted, memory_order_acquire))
        account_ahead(counter, position, batch);
    else
        account_tail(counter, position, false, batch);
}

/*
 * Accounts a counter whose context has ended, and with it all its launches. If their events could not be read in time,
 * the launches count for as long as they can have used the device.
 */
static void settle_ended(struct facet_flight_counter *counter, struct batch *batch)
{
    const struct facet_flight_sample *first = facet_flight_sample_first(counter);
    struct facet_flight_position position = facet_flight_position_of(counter);

    if (first)
        add_measured(counter,
                     use_timeline(counter,
                                  first->launched_ns > counter->until_ns ? first->launched_ns : counter->until_ns,
                                  counter->context_ended_ns),
                     batch);
    else
        add_measured(
            counter,
            use_expected_time(counter, expected_ns(counter, position), counter->until_ns, counter->context_ended_ns),
            batch);
    while (facet_flight_sample_first(counter))
        facet_flight_sample_drop_first(counter);
    counter->until_ns = counter->context_ended_ns;
    counter->until_is_bound = true;
    account_launches(counter, position, batch);
}

/* ---- one look ---- */

bool facet_flight_settled(const struct facet_flight_counter *counter)
{
    return !counter->first_sample &&
           atomic_load_explicit(&counter->submitted, memory_order_acquire) == atomic_load(&counter->reported);
}

/* The earliest time at which the oldest launch in flight can have started. Called with the track lock. */
static uint64_t earliest_start_ns(const struct facet_flight_counter *counter, struct facet_flight_position position,
                                  uint64_t now_ns)
{
    uint64_t all_ns = expected_ns(counter, position),
             expected = all_ns > counter->reported_ahead_ns ? all_ns - counter->reported_ahead_ns : 0;
    uint64_t begun_ns = counter->first_sample           ? counter->first_sample->launched_ns
                        : expected && expected < now_ns ? now_ns - expected
                                                        : 0;
    uint64_t until_ns = counter->until_ns + counter->reported_ahead_ns;

    return begun_ns > until_ns ? begun_ns : until_ns;
}

/*
 * The time that other counters have used since unreported_since_ns is reported already, so the unreported time begins
 * that much later.
 */
static void note_unreported_time(const struct facet_flight_counter *counter, uint64_t now_ns,
                                 struct facet_flight_look *look)
{
    struct facet_tenant *tenants;
    uint64_t since_ns = counter->unreported_since_ns +
                        facet_flight_timeline_used(counter->timeline, counter->unreported_since_ns, now_ns);

    facet_flight_driver.tenants(&tenants);
    uint64_t *oldest_ns = &look->unreported_since_ns[counter->tenant - tenants];
    if (!*oldest_ns || since_ns < *oldest_ns)
        *oldest_ns = since_ns;
}

/* The expected end of the work in flight is counted from until_ns, before which the work did not begin. */
static void plan_next_look(struct facet_flight_counter *counter, bool reported, uint64_t now_ns,
                           struct facet_flight_look *look)
{
    pthread_mutex_lock(&facet_flight_track_lock);
    struct facet_flight_position position =
        counter->first_sample ? position_of_sample(counter->first_sample) : facet_flight_position_of(counter);
    bool settled = facet_flight_settled(counter);
    if (settled)
        counter->unreported_since_ns = 0;
    else if (reported || !counter->unreported_since_ns)
        counter->unreported_since_ns = earliest_start_ns(counter, position, now_ns);
    pthread_mutex_unlock(&facet_flight_track_lock);
    if (settled) {
        if (atomic_load(&counter->stream) == FACET_FLIGHT_NO_STREAM)
            atomic_store_explicit(&counter->settled, true, memory_order_release);
        return;
    }
    note_unreported_time(counter, now_ns, look);
    uint64_t end_ns = counter->until_ns + expected_ns(counter, position) + MARGIN_NS;
    if (end_ns < look->next_end_ns)
        look->next_end_ns = end_ns > now_ns ? end_ns : now_ns;
}

static void finish_batch(struct facet_flight_counter *counter, const struct batch *batch, uint64_t now_ns,
                         struct facet_flight_look *look)
{
    report_batch(counter, batch, facet_clock_now_ns());
    look->reported = look->reported || batch->count;
    plan_next_look(counter, batch->count != 0, now_ns, look);
}

void facet_flight_settle(struct facet_flight_counter *counter, uint64_t now_ns, struct facet_flight_look *look)
{
    struct batch batch = {0};

    if (atomic_load_explicit(&counter->settled, memory_order_acquire))
        return;
    if (atomic_load(&counter->context_ended))
        settle_ended(counter, &batch);
    else
        settle_counter(counter, &batch);
    finish_batch(counter, &batch, now_ns, look);
}

void facet_flight_settle_waited(struct facet_flight_counter *counter, uint64_t now_ns, struct facet_flight_look *look)
{
    struct batch batch = {0};

    if (atomic_load_explicit(&counter->settled, memory_order_acquire))
        return;
    if (!atomic_load(&counter->context_ended))
        settle_waited(counter, &batch);
    finish_batch(counter, &batch, now_ns, look);
}
