/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the accounting of complete launches.
 * Never: counts a moment twice, or a launch as more than it can have taken.
 *
 * A sample gives the exact duration of its own launch, and its time. For the launches between two samples there is an
 * upper bound (the time between), and an expectation (estimates, or the mean). If the two agree, the device was busy
 * throughout, and the time between counts. If there was more time, the stream was idle in between, and the expectation
 * counts.
 */
#include "settle.h"

#include "base/clock.h"
#include "capture.h"
#include "driver.h"
#include "interpose/kit/estimate.h"
#include "sample.h"
#include "track.h"

#define MEAN_SHIFT 3 /* a new sample counts an eighth */

/* Expected and possible time agree if they differ by less than a thirty-second part. */
#define AGREE_SHIFT 5

/* The next look comes slightly after the expected end, not just before it. */
#define MARGIN_NS (10 * FACET_NS_PER_US)

/*
 * A per-thread stream can be queried by its own thread only, and a destroyed one not at all: its tail counts as
 * complete after this time.
 */
#define OVERDUE_NS FACET_NS_PER_MS

struct batch {
    uint64_t count, charged, busy_ns;
};

/* Reports the time of completion, not of the look, so that the vGPU is not charged for the device's work in between. */
static void report(struct facet_flight_lane *lane, const struct batch *batch, uint64_t now_ns)
{
    uint64_t end_ns = facet_idle_since(lane->until_ns < now_ns ? lane->until_ns : now_ns, lane->until_late);

    if (batch->count)
        facet_tenant_complete_in(lane->tenant, lane->counted, (uint32_t)batch->count, batch->charged, batch->busy_ns,
                                 end_ns);
}

static struct facet_flight_mark up_to(const struct facet_flight_sample *sample)
{
    return (struct facet_flight_mark){sample->submitted, sample->charged, sample->expected, sample->unknown};
}

/* The expected time of the launches up to a mark. A launch without an estimate counts as the current mean. */
static uint64_t expected_ns(const struct facet_flight_lane *lane, struct facet_flight_mark mark)
{
    return mark.expected - lane->measured_expected +
           (mark.unknown - lane->measured_unknown) * atomic_load_explicit(&lane->mean_ns, memory_order_relaxed);
}

/* Adds the launches up to a mark to the batch. */
static void count(struct facet_flight_lane *lane, struct facet_flight_mark mark, struct batch *batch)
{
    batch->count += mark.submitted - atomic_load(&lane->reported);
    batch->charged += mark.charged - lane->reported_charge;
    lane->reported_charge = mark.charged;
    atomic_store(&lane->reported, mark.submitted);
}

/* Also marks their time as accounted. */
static void take(struct facet_flight_lane *lane, struct facet_flight_mark mark, struct batch *batch)
{
    count(lane, mark, batch);
    lane->measured_expected = mark.expected;
    lane->measured_unknown = mark.unknown;
}

/* Adds measured time to the batch, less the time that was reported ahead. */
static void pay(struct facet_flight_lane *lane, uint64_t measured_ns, struct batch *batch)
{
    uint64_t ahead_ns = lane->ahead_ns < measured_ns ? lane->ahead_ns : measured_ns;

    lane->ahead_ns -= ahead_ns;
    batch->busy_ns += measured_ns - ahead_ns;
}

static uint64_t use(struct facet_flight_lane *lane, uint64_t start_ns, uint64_t end_ns)
{
    return start_ns < end_ns ? facet_flight_timeline_use(lane->timeline, start_ns, end_ns) : 0;
}

/* The device time of launches between `from_ns` and `to_ns`: all of it if their expected time fills it. */
static uint64_t use_expected(struct facet_flight_lane *lane, uint64_t expected, uint64_t from_ns, uint64_t to_ns)
{
    uint64_t possible = to_ns > from_ns ? to_ns - from_ns : 0;

    if (expected + (expected >> AGREE_SHIFT) >= possible)
        expected = possible;
    return use(lane, to_ns - expected, to_ns);
}

static void learn(struct facet_flight_lane *lane, uint64_t key, uint64_t length_ns)
{
    uint64_t mean = atomic_load_explicit(&lane->mean_ns, memory_order_relaxed);

    mean = mean ? mean - (mean >> MEAN_SHIFT) + (length_ns >> MEAN_SHIFT) : length_ns;
    atomic_store_explicit(&lane->mean_ns, mean, memory_order_relaxed);
    facet_estimate_learn(key, length_ns);
}

/*
 * The first launch after other vGPUs' turn is queued behind the rest of their work, and its start event is before that
 * rest. It began when that work ended, which the scheduler publishes as clear_ns. Without it the usual duration counts.
 */
static uint64_t own_length(const struct facet_flight_lane *lane, const struct facet_flight_sample *sample,
                           uint64_t start_ns, uint64_t end_ns, bool *ret_known)
{
    uint64_t clear_ns = atomic_load_explicit(&lane->tenant->policy->clear_ns, memory_order_relaxed);
    bool told = sample->after_others && clear_ns && clear_ns < end_ns && !facet_idle_is_late(clear_ns);
    uint64_t length_ns = end_ns - (told && clear_ns > start_ns ? clear_ns : start_ns);
    uint64_t usual = sample->after_others && !told ? facet_estimate_get(sample->key) : 0;

    *ret_known = !usual || length_ns <= usual;
    return *ret_known ? length_ns : usual;
}

/* Accounts the sampled launch itself, when it has a start event. */
static void measure_own(struct facet_flight_lane *lane, const struct facet_flight_sample *sample, uint64_t start_ns,
                        uint64_t end_ns, struct batch *batch)
{
    bool known;
    uint64_t length_ns = own_length(lane, sample, start_ns, end_ns, &known);

    if (known)
        learn(lane, sample->key, length_ns);
    pay(lane, use(lane, end_ns - length_ns, end_ns), batch);
}

static void measure(struct facet_flight_lane *lane, const struct facet_flight_sample *sample, uint64_t now_ns,
                    struct batch *batch)
{
    struct facet_flight_mark before = up_to(sample);
    uint64_t start_ns, end_ns;
    void *start = sample->start ? sample->start : sample->end;

    if (!facet_flight_timeline_read(lane->timeline, start, sample->end, sample->begun_ns, now_ns, &start_ns, &end_ns))
        return;
    if (sample->start)
        measure_own(lane, sample, start_ns, end_ns, batch);
    if (sample->start) {
        before.expected -= sample->cost;
        before.unknown -= !sample->cost;
    }
    if (expected_ns(lane, before))
        pay(lane, use_expected(lane, expected_ns(lane, before), lane->until_ns, start_ns), batch);
    if (end_ns > lane->until_ns) {
        lane->until_ns = end_ns;
        lane->until_late = false;
    }
}

/* ---- samples ---- */

/* The event's state and its times are queried under one permission, so that its context stays meanwhile. */
static bool settle_first(struct facet_flight_lane *lane, struct facet_flight_sample *sample, bool (*ask)(void),
                         struct batch *batch)
{
    if (!ask())
        return false;
    enum facet_flight_state state =
        atomic_load(&lane->ended) ? FACET_FLIGHT_RUNNING : facet_flight_driver.event_state(sample->end);
    if (state == FACET_FLIGHT_DONE)
        measure(lane, sample, facet_clock_now_ns(), batch);
    facet_flight_asked();
    if (state == FACET_FLIGHT_RUNNING)
        return false;
    take(lane, up_to(sample), batch);
    facet_flight_sample_drop_first(lane);
    return true;
}

/* ---- the tail ---- */

static bool may_be_asked(const struct facet_flight_lane *lane)
{
    return !atomic_load(&facet_flight_captures) && !atomic_load(&lane->destroyed) && !atomic_load(&lane->ended);
}

static enum facet_flight_state ask_stream(struct facet_flight_lane *lane)
{
    enum facet_flight_state state = FACET_FLIGHT_RUNNING;
    void *stream = atomic_load(&lane->stream);

    if (stream == FACET_FLIGHT_NO_STREAM || !facet_flight_ask())
        return FACET_FLIGHT_RUNNING;
    if (may_be_asked(lane))
        state = facet_flight_driver.stream_state(stream, lane->context);
    facet_flight_asked();
    return state;
}

static bool is_overdue(const struct facet_flight_lane *lane, uint64_t expected, uint64_t now_ns)
{
    return now_ns > lane->until_ns + 2 * expected + OVERDUE_NS;
}

/* Accounts the launches after the last sample, up to a mark: they are complete. */
static void take_tail(struct facet_flight_lane *lane, struct facet_flight_mark mark, bool lost, struct batch *batch)
{
    uint64_t now_ns = facet_clock_now_ns();

    if (!lost)
        pay(lane, use_expected(lane, expected_ns(lane, mark), lane->until_ns, now_ns), batch);
    lane->until_ns = now_ns;
    lane->until_late = true;
    take(lane, mark, batch);
}

static void settle_tail(struct facet_flight_lane *lane, struct batch *batch)
{
    struct facet_flight_mark mark = facet_flight_mark_of(lane);
    uint64_t expected = expected_ns(lane, mark);
    enum facet_flight_state state;

    if (mark.submitted == atomic_load(&lane->reported))
        return;
    if (atomic_load(&lane->stream) == FACET_FLIGHT_PER_THREAD || atomic_load(&lane->destroyed))
        state = is_overdue(lane, expected, facet_clock_now_ns()) ? FACET_FLIGHT_DONE : FACET_FLIGHT_RUNNING;
    else
        state = ask_stream(lane);
    if (state != FACET_FLIGHT_RUNNING)
        take_tail(lane, mark, state == FACET_FLIGHT_LOST, batch);
}

static void settle_all(struct facet_flight_lane *lane, struct batch *batch)
{
    struct facet_flight_sample *sample;

    while ((sample = facet_flight_sample_first(lane)) && settle_first(lane, sample, facet_flight_ask, batch))
        ;
    if (!sample)
        settle_tail(lane, batch);
}

/*
 * For launches that are complete while later ones are in flight. Their end is unknown until the next sample. Until then
 * their expected time is reported, limited by the time that has passed.
 */
static void take_ahead(struct facet_flight_lane *lane, struct facet_flight_mark mark, struct batch *batch)
{
    uint64_t now_ns = facet_clock_now_ns(), ahead_ns = expected_ns(lane, mark);
    uint64_t possible_ns = now_ns > lane->until_ns ? now_ns - lane->until_ns : 0;

    possible_ns -= facet_flight_timeline_used(lane->timeline, now_ns - possible_ns, now_ns);
    if (ahead_ns > possible_ns)
        ahead_ns = possible_ns;
    if (ahead_ns > lane->ahead_ns) {
        batch->busy_ns += ahead_ns - lane->ahead_ns;
        lane->ahead_ns = ahead_ns;
    }
    count(lane, mark, batch);
}

/*
 * Accounts the launches that the program has waited for. Their events tell when; for launches without events the wait
 * itself does. If an event says that it is not complete, the event is believed.
 */
static void settle_waited(struct facet_flight_lane *lane, struct batch *batch)
{
    struct facet_flight_sample *sample;

    pthread_mutex_lock(&facet_flight_track_lock);
    struct facet_flight_mark mark = lane->waited;
    bool doubtful = lane->doubtful;
    lane->doubtful = false;
    pthread_mutex_unlock(&facet_flight_track_lock);
    if (doubtful)
        settle_all(lane, batch);
    while ((sample = facet_flight_sample_first(lane)) && sample->submitted <= mark.submitted)
        if (!settle_first(lane, sample, facet_flight_ask_patiently, batch))
            return;
    if (mark.submitted <= atomic_load(&lane->reported))
        return;
    if (sample || mark.submitted != atomic_load_explicit(&lane->submitted, memory_order_acquire))
        take_ahead(lane, mark, batch);
    else
        take_tail(lane, mark, false, batch);
}

/*
 * For a lane whose context has ended: its launches are over, or never will be. If their events could not be read in
 * time, they count for as long as they can have used the device.
 */
static void settle_ended(struct facet_flight_lane *lane, struct batch *batch)
{
    const struct facet_flight_sample *first = facet_flight_sample_first(lane);
    struct facet_flight_mark mark = facet_flight_mark_of(lane);

    if (first)
        pay(lane, use(lane, first->begun_ns > lane->until_ns ? first->begun_ns : lane->until_ns, lane->ended_ns),
            batch);
    else
        pay(lane, use_expected(lane, expected_ns(lane, mark), lane->until_ns, lane->ended_ns), batch);
    while (facet_flight_sample_first(lane))
        facet_flight_sample_drop_first(lane);
    lane->until_ns = lane->ended_ns;
    lane->until_late = true;
    take(lane, mark, batch);
}

/* ---- one look ---- */

bool facet_flight_settled(const struct facet_flight_lane *lane)
{
    return !lane->first && atomic_load_explicit(&lane->submitted, memory_order_acquire) == atomic_load(&lane->reported);
}

/* The earliest time at which the oldest launch in flight can have started. Called with the track lock. */
static uint64_t begins_ns(const struct facet_flight_lane *lane, struct facet_flight_mark mark, uint64_t now_ns)
{
    uint64_t all_ns = expected_ns(lane, mark), expected = all_ns > lane->ahead_ns ? all_ns - lane->ahead_ns : 0;
    uint64_t begun_ns = lane->first ? lane->first->begun_ns : expected && expected < now_ns ? now_ns - expected : 0;
    uint64_t until_ns = lane->until_ns + lane->ahead_ns;

    return begun_ns > until_ns ? begun_ns : until_ns;
}

/* Time that other lanes have used since then is reported already, so the unreported time begins later by as much. */
static void note_since(const struct facet_flight_lane *lane, uint64_t now_ns, struct facet_flight_look *look)
{
    struct facet_tenant *tenants;
    uint64_t since_ns = lane->since_ns + facet_flight_timeline_used(lane->timeline, lane->since_ns, now_ns);

    facet_flight_driver.tenants(&tenants);
    uint64_t *oldest_ns = &look->since_ns[lane->tenant - tenants];
    if (!*oldest_ns || since_ns < *oldest_ns)
        *oldest_ns = since_ns;
}

/* Work in flight began no earlier than until_ns. */
static void foresee(struct facet_flight_lane *lane, bool reported, uint64_t now_ns, struct facet_flight_look *look)
{
    pthread_mutex_lock(&facet_flight_track_lock);
    struct facet_flight_mark mark = lane->first ? up_to(lane->first) : facet_flight_mark_of(lane);
    bool settled = facet_flight_settled(lane);
    if (settled)
        lane->since_ns = 0;
    else if (reported || !lane->since_ns)
        lane->since_ns = begins_ns(lane, mark, now_ns);
    pthread_mutex_unlock(&facet_flight_track_lock);
    if (settled) {
        if (atomic_load(&lane->stream) == FACET_FLIGHT_NO_STREAM)
            atomic_store_explicit(&lane->settled, true, memory_order_release);
        return;
    }
    note_since(lane, now_ns, look);
    uint64_t end_ns = lane->until_ns + expected_ns(lane, mark) + MARGIN_NS;
    if (end_ns < look->next_ns)
        look->next_ns = end_ns > now_ns ? end_ns : now_ns;
}

static void finish(struct facet_flight_lane *lane, const struct batch *batch, uint64_t now_ns,
                   struct facet_flight_look *look)
{
    report(lane, batch, facet_clock_now_ns());
    look->reported = look->reported || batch->count;
    foresee(lane, batch->count != 0, now_ns, look);
}

void facet_flight_settle(struct facet_flight_lane *lane, uint64_t now_ns, struct facet_flight_look *look)
{
    struct batch batch = {0};

    if (atomic_load_explicit(&lane->settled, memory_order_acquire))
        return;
    if (atomic_load(&lane->ended))
        settle_ended(lane, &batch);
    else
        settle_all(lane, &batch);
    finish(lane, &batch, now_ns, look);
}

void facet_flight_settle_waited(struct facet_flight_lane *lane, uint64_t now_ns, struct facet_flight_look *look)
{
    struct batch batch = {0};

    if (atomic_load_explicit(&lane->settled, memory_order_acquire))
        return;
    if (!atomic_load(&lane->ended))
        settle_waited(lane, &batch);
    finish(lane, &batch, now_ns, look);
}
