/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the helper thread and its schedule, and the lock between threads that look. settle.c interprets a counter. */
#include "track.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "capture.h"
#include "driver.h"
#include "interpose/kit/quiet_thread.h"
#include "interpose/kit/timed_lock.h"
#include "settle.h"
#include "wait.h"

#define LOOK_ALONE_NS (10 * FACET_NS_PER_MS) /* between looks while alone on the device */
#define NAP_LEAST_NS  (50 * FACET_NS_PER_US) /* between looks while others wait */
#define NAP_MOST_NS   (500 * FACET_NS_PER_US)
#define LINGER_NS     (100 * FACET_NS_PER_MS) /* how long the thread stays when nothing is in flight */
#define SUPERVISE_NS  (4 * FACET_NS_PER_MS)   /* between calls of facet_tenant_supervise() */
#define PARK_TRIES    20                      /* at exit, 5 ms each */
#define LOOK_TRIES    20                      /* waits for one look, 1 ms each */
#define LOOK_LOCK_NS  (100 * FACET_NS_PER_MS) /* a waiting program's limit for getting the look lock to report */
#define QUERY_TRIES   200                     /* attempts while queries are on hold */

_Atomic uint32_t facet_flight_helper_watches;

static _Atomic uint32_t wake_count; /* futex of the helper */
static bool helper_exists;          /* protected by the track lock */
static _Atomic uint32_t query_holds, query_runs;
static struct facet_timed_lock look_lock;
static _Atomic uint32_t
    look_count; /* futex word: counts the beginning and the end of each look, so it is odd during one */

/* Steps of the end of the process. */
enum {
    RUNNING,
    EXITING,   /* report complete launches, then park */
    TORN_DOWN, /* the driver may be gone: make no call */
};
static _Atomic uint32_t exit_step, helper_parked;
static bool exit_handled;

/* ---- permission to query ---- */

void facet_flight_queries_hold(void)
{
    atomic_fetch_add(&query_holds, 1);
    while (atomic_load(&query_runs))
        sched_yield();
}

void facet_flight_queries_release(void)
{
    atomic_fetch_sub(&query_holds, 1);
}

bool facet_flight_query_begin(void)
{
    atomic_store(&query_runs, 1);
    if (!atomic_load(&query_holds) && atomic_load(&exit_step) != TORN_DOWN)
        return true;
    atomic_store(&query_runs, 0);
    return false;
}

bool facet_flight_query_begin_with_retries(void)
{
    for (int i = 0; i < QUERY_TRIES && !atomic_load(&exit_step); i++) {
        if (facet_flight_query_begin())
            return true;
        sched_yield();
    }
    return false;
}

void facet_flight_query_end(void)
{
    atomic_store(&query_runs, 0);
}

/* ---- looking ---- */

static bool anything_in_flight(void)
{
    struct facet_tenant *tenants;
    uint32_t count = facet_flight_driver.tenants(&tenants);

    for (uint32_t i = 0; i < count; i++)
        if (facet_slot_inflight(tenants[i].slot))
            return true;
    return false;
}

/* Publishes the time since which work is unreported, so that it can be charged if this process is killed. */
static void publish_unreported(const struct facet_flight_look *look)
{
    struct facet_tenant *tenants;
    uint32_t count = facet_flight_driver.tenants(&tenants);

    for (uint32_t i = 0; i < count; i++)
        if (look->unreported_since_ns[i])
            facet_tenant_set_unsettled_since(&tenants[i], look->unreported_since_ns[i]);
}

static struct facet_flight_look settle_counters_with(void (*settle)(struct facet_flight_counter *counter,
                                                                    uint64_t now_ns, struct facet_flight_look *look),
                                                     uint64_t now_ns)
{
    struct facet_flight_look look = {.next_end_ns = UINT64_MAX};

    pthread_mutex_lock(&facet_flight_track_lock);
    struct facet_flight_counter *counter = facet_flight_counters;
    pthread_mutex_unlock(&facet_flight_track_lock);
    for (; counter; counter = counter->next)
        settle(counter, now_ns, &look);
    publish_unreported(&look);
    return look;
}

static void take_look_lock(void)
{
    while (!facet_timed_lock_take(&look_lock, FACET_NS_PER_S))
        ;
}

/* Frees counters that are settled and whose thread has ended. */
static void sweep_counters(void)
{
    take_look_lock();
    pthread_mutex_lock(&facet_flight_track_lock);
    for (struct facet_flight_counter **at = &facet_flight_counters; *at;) {
        struct facet_flight_counter *counter = *at;

        if (atomic_load(&counter->thread_ended) && facet_flight_settled(counter)) {
            *at = counter->next;
            free(counter);
        } else {
            at = &counter->next;
        }
    }
    pthread_mutex_unlock(&facet_flight_track_lock);
    facet_timed_lock_release(&look_lock);
}

static struct facet_flight_look settle_counters(uint64_t now_ns)
{
    take_look_lock();
    struct facet_flight_look look = settle_counters_with(facet_flight_settle, now_ns);
    facet_timed_lock_release(&look_lock);
    return look;
}

void facet_flight_report_waited(void)
{
    if (!facet_timed_lock_take(&look_lock, LOOK_LOCK_NS))
        return;
    settle_counters_with(facet_flight_settle_waited, facet_clock_now_ns());
    facet_timed_lock_release(&look_lock);
}

static void supervise_launches(uint64_t now_ns)
{
    static uint64_t last_ns;
    struct facet_tenant *tenants;

    if (now_ns - last_ns < SUPERVISE_NS)
        return;
    last_ns = now_ns;
    uint32_t count = facet_flight_driver.tenants(&tenants);
    for (uint32_t i = 0; i < count; i++)
        facet_tenant_supervise(&tenants[i], now_ns);
}

/* ---- resting ---- */

/* Whether, in any of the vGPUs, others wait or a limit applies. */
static bool is_prompt(void)
{
    struct facet_tenant *tenants;
    uint32_t count = facet_flight_driver.tenants(&tenants);

    for (uint32_t i = 0; i < count; i++)
        if (facet_tenant_reports_promptly(&tenants[i]))
            return true;
    return false;
}

static const _Atomic uint32_t *first_gate(void)
{
    struct facet_tenant *tenants;

    facet_flight_driver.tenants(&tenants);
    return &tenants[0].policy->gate;
}

/*
 * While this vGPU is alone on the device, no other waits for its reports. When another comes, the gate changes, which
 * wakes the helper.
 */
static void watch_gate(void)
{
    const _Atomic uint32_t *word = first_gate();
    uint32_t gate = atomic_load_explicit(word, memory_order_acquire);

    if (FACET_GATE_STATE(gate) == FACET_GATE_OPEN && !atomic_load(&exit_step))
        facet_futex_wait(word, gate, LOOK_ALONE_NS);
}

/* The time to sleep: until work is expected to end. If the work is overdue, naps are short at first, then longer. */
static uint64_t nap_ns(const struct facet_flight_look *look, uint32_t fruitless_looks)
{
    uint64_t now_ns = facet_clock_now_ns();
    uint64_t nap = look->next_end_ns > now_ns ? look->next_end_ns - now_ns
                                              : NAP_LEAST_NS << (fruitless_looks < 3 ? fruitless_looks : 3);

    return nap < NAP_MOST_NS ? nap : NAP_MOST_NS;
}

static void rest_until_due(const struct facet_flight_look *look, uint32_t seen_wakes, uint32_t fruitless_looks)
{
    if (is_prompt())
        facet_futex_wait(&wake_count, seen_wakes, nap_ns(look, fruitless_looks));
    else
        watch_gate();
}

static void interrupt_rest(void)
{
    atomic_fetch_add(&wake_count, 1);
    facet_futex_wake(&wake_count);
    facet_futex_wake(first_gate());
}

/* A look in progress may have missed launches that are complete by now, so the end of the next look is awaited. */
void facet_flight_catch_up(void)
{
    uint32_t seen_looks = atomic_load(&look_count), goal = seen_looks + 2 + (seen_looks & 1);
    int saved = errno;

    for (int i = 0; i < LOOK_TRIES && (int32_t)(goal - seen_looks) > 0; i++) {
        if (!atomic_load(&facet_flight_helper_watches) || atomic_load(&exit_step) || !anything_in_flight())
            break;
        interrupt_rest();
        facet_futex_wait(&look_count, seen_looks, FACET_NS_PER_MS);
        seen_looks = atomic_load(&look_count);
    }
    errno = saved;
}

/* Waits while nothing is in flight. False when the thread must end, because no launch came for LINGER_NS. */
static bool wait_for_launches(uint32_t seen_wakes)
{
    atomic_store(&facet_flight_helper_watches, 0);
    if (anything_in_flight() || atomic_load(&exit_step)) {
        atomic_store(&facet_flight_helper_watches, 1);
        return true;
    }
    if (facet_futex_wait(&wake_count, seen_wakes, LINGER_NS) || atomic_load(&wake_count) != seen_wakes)
        return true;
    pthread_mutex_lock(&facet_flight_track_lock);
    helper_exists = atomic_load(&facet_flight_helper_watches) != 0;
    bool stay = helper_exists;
    pthread_mutex_unlock(&facet_flight_track_lock);
    return stay;
}

/* The process is exiting, and the driver's destructors will run: this thread makes no more calls. */
static void park_helper(void)
{
    atomic_store(&helper_parked, 1);
    facet_futex_wake(&helper_parked);
    for (;;)
        facet_futex_wait(&helper_parked, 1, FACET_NS_PER_S);
}

static void *run_helper(void *unused)
{
    uint32_t fruitless_looks = 0;

    prctl(PR_SET_NAME, "facet-track");
    prctl(PR_SET_TIMERSLACK, 1UL); /* this thread's own timer slack, so that short sleeps stay short */
    facet_flight_driver.helper_begins();
    for (;;) {
        uint32_t seen_wakes = atomic_load(&wake_count);
        uint64_t now_ns = facet_clock_now_ns();

        supervise_launches(now_ns);
        bool last = atomic_load(&exit_step);
        atomic_fetch_add(&look_count, 1);
        struct facet_flight_look look = settle_counters(now_ns);
        atomic_fetch_add(&look_count, 1);
        facet_futex_wake(&look_count);
        if (last)
            park_helper();
        fruitless_looks = look.reported ? 0 : fruitless_looks + 1;
        if (anything_in_flight()) {
            rest_until_due(&look, seen_wakes, fruitless_looks);
            continue;
        }
        sweep_counters();
        if (!wait_for_launches(seen_wakes))
            return unused;
    }
}

/* ---- coming and going ---- */

/* Runs before the driver's own destructors. Work that is still running is left to the driver, as without Facet. */
static void on_exit_of_process(void)
{
    int saved = errno;

    pthread_mutex_lock(&facet_flight_track_lock);
    bool wait = helper_exists;
    atomic_store(&exit_step, EXITING);
    pthread_mutex_unlock(&facet_flight_track_lock);
    if (wait)
        interrupt_rest();
    for (int i = 0; wait && i < PARK_TRIES && !atomic_load(&helper_parked); i++)
        facet_futex_wait(&helper_parked, 0, 5 * FACET_NS_PER_MS);
    atomic_store(&exit_step, TORN_DOWN);
    errno = saved;
}

static bool start_thread(void)
{
    if (!exit_handled && atexit(on_exit_of_process) != 0)
        return false;
    exit_handled = true;
    return facet_quiet_thread(run_helper, NULL);
}

void facet_flight_wake(void)
{
    int saved = errno;

    if (atomic_load(&facet_flight_helper_watches) || atomic_exchange(&facet_flight_helper_watches, 1))
        return;
    atomic_fetch_add(&wake_count, 1);
    pthread_mutex_lock(&facet_flight_track_lock);
    if (!helper_exists && !atomic_load(&exit_step)) {
        helper_exists = start_thread();
        if (!helper_exists) /* the next launch tries again */
            atomic_store(&facet_flight_helper_watches, 0);
    }
    pthread_mutex_unlock(&facet_flight_track_lock);
    facet_futex_wake(&wake_count);
    errno = saved;
}

/* ---- fork ---- */

void facet_flight_before_fork(void)
{
    pthread_mutex_lock(&facet_flight_track_lock);
}

void facet_flight_after_fork(void)
{
    pthread_mutex_unlock(&facet_flight_track_lock);
}

void facet_flight_forked(void)
{
    facet_flight_counters_forked();
    facet_flight_timelines_forked();
    helper_exists = false;
    atomic_store(&facet_flight_helper_watches, 0);
    facet_flight_captures_forked();
    atomic_store(&query_holds, 0);
    atomic_store(&query_runs, 0);
    atomic_store(&look_count, 0);
    facet_timed_lock_forked(&look_lock);
    facet_flight_waits_forked();
    pthread_mutex_unlock(&facet_flight_track_lock);
}
