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

#define LAZY_NS      (10 * FACET_NS_PER_MS) /* between looks while alone on the device */
#define NAP_LEAST_NS (50 * FACET_NS_PER_US) /* between looks while others wait */
#define NAP_MOST_NS  (500 * FACET_NS_PER_US)
#define LINGER_NS    (100 * FACET_NS_PER_MS) /* with nothing in flight, before the thread ends */
#define SUPERVISE_NS (4 * FACET_NS_PER_MS)
#define PARK_TRIES   20                      /* times 5 ms, at exit */
#define LOOK_TRIES   20                      /* times 1 ms, for one look */
#define LOOK_LOCK_NS (100 * FACET_NS_PER_MS) /* a waiting program's limit for getting the look lock to report */
#define ASK_TRIES    200                     /* attempts while queries are on hold */

_Atomic uint32_t facet_flight_on_duty;

static _Atomic uint32_t wakes; /* futex of the helper */
static bool running;           /* the helper exists; protected by the track lock */
static _Atomic uint32_t holds, asking;
static struct facet_timed_lock look_lock;
static _Atomic uint32_t looks; /* futex word: counts the beginning and the end of each look, so it is odd during one */

/* Steps of the end of the process. */
enum {
    RUNNING,
    EXITING,   /* report complete launches, then park */
    TORN_DOWN, /* the driver may be gone: make no call */
};
static _Atomic uint32_t ending, parked;
static bool exit_handled;

/* ---- permission to query ---- */

void facet_flight_hold(void)
{
    atomic_fetch_add(&holds, 1);
    while (atomic_load(&asking))
        sched_yield();
}

void facet_flight_release(void)
{
    atomic_fetch_sub(&holds, 1);
}

bool facet_flight_ask(void)
{
    atomic_store(&asking, 1);
    if (!atomic_load(&holds) && atomic_load(&ending) != TORN_DOWN)
        return true;
    atomic_store(&asking, 0);
    return false;
}

bool facet_flight_ask_patiently(void)
{
    for (int i = 0; i < ASK_TRIES && !atomic_load(&ending); i++) {
        if (facet_flight_ask())
            return true;
        sched_yield();
    }
    return false;
}

void facet_flight_asked(void)
{
    atomic_store(&asking, 0);
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
static void tell_unsettled(const struct facet_flight_look *look)
{
    struct facet_tenant *tenants;
    uint32_t count = facet_flight_driver.tenants(&tenants);

    for (uint32_t i = 0; i < count; i++)
        if (look->since_ns[i])
            facet_tenant_set_unsettled_since(&tenants[i], look->since_ns[i]);
}

static struct facet_flight_look look_with(void (*settle)(struct facet_flight_counter *counter, uint64_t now_ns,
                                                         struct facet_flight_look *look),
                                          uint64_t now_ns)
{
    struct facet_flight_look look = {.next_ns = UINT64_MAX};

    pthread_mutex_lock(&facet_flight_track_lock);
    struct facet_flight_counter *counter = facet_flight_counters;
    pthread_mutex_unlock(&facet_flight_track_lock);
    for (; counter; counter = counter->next)
        settle(counter, now_ns, &look);
    tell_unsettled(&look);
    return look;
}

static void take_turn(void)
{
    while (!facet_timed_lock_take(&look_lock, FACET_NS_PER_S))
        ;
}

/* Frees counters that are settled and whose thread has ended. */
static void sweep_counters(void)
{
    take_turn();
    pthread_mutex_lock(&facet_flight_track_lock);
    for (struct facet_flight_counter **at = &facet_flight_counters; *at;) {
        struct facet_flight_counter *counter = *at;

        if (atomic_load(&counter->left) && facet_flight_settled(counter)) {
            *at = counter->next;
            free(counter);
        } else {
            at = &counter->next;
        }
    }
    pthread_mutex_unlock(&facet_flight_track_lock);
    facet_timed_lock_end(&look_lock);
}

static struct facet_flight_look look_over(uint64_t now_ns)
{
    take_turn();
    struct facet_flight_look look = look_with(facet_flight_settle, now_ns);
    facet_timed_lock_end(&look_lock);
    return look;
}

void facet_flight_report_waited(void)
{
    if (!facet_timed_lock_take(&look_lock, LOOK_LOCK_NS))
        return;
    look_with(facet_flight_settle_waited, facet_clock_now_ns());
    facet_timed_lock_end(&look_lock);
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
 * Alone on the device, no other vGPU waits for our reports. When one comes, the gate changes, which wakes the helper.
 */
static void watch_gate(void)
{
    const _Atomic uint32_t *word = first_gate();
    uint32_t gate = atomic_load_explicit(word, memory_order_acquire);

    if (FACET_GATE_STATE(gate) == FACET_GATE_OPEN && !atomic_load(&ending))
        facet_futex_wait(word, gate, LAZY_NS);
}

/* Sleeps until work is expected to end; if it is overdue, briefly at first, then longer. */
static uint64_t nap_ns(const struct facet_flight_look *look, uint32_t fruitless)
{
    uint64_t now_ns = facet_clock_now_ns();
    uint64_t nap = look->next_ns > now_ns ? look->next_ns - now_ns : NAP_LEAST_NS << (fruitless < 3 ? fruitless : 3);

    return nap < NAP_MOST_NS ? nap : NAP_MOST_NS;
}

static void rest_until_due(const struct facet_flight_look *look, uint32_t seen_wakes, uint32_t fruitless)
{
    if (is_prompt())
        facet_futex_wait(&wakes, seen_wakes, nap_ns(look, fruitless));
    else
        watch_gate();
}

static void interrupt_rest(void)
{
    atomic_fetch_add(&wakes, 1);
    facet_futex_wake(&wakes);
    facet_futex_wake(first_gate());
}

/* A look in progress may have missed launches that are complete by now, so the one after it counts. */
void facet_flight_catch_up(void)
{
    uint32_t seen = atomic_load(&looks), goal = seen + 2 + (seen & 1);
    int saved = errno;

    for (int i = 0; i < LOOK_TRIES && (int32_t)(goal - seen) > 0; i++) {
        if (!atomic_load(&facet_flight_on_duty) || atomic_load(&ending) || !anything_in_flight())
            break;
        interrupt_rest();
        facet_futex_wait(&looks, seen, FACET_NS_PER_MS);
        seen = atomic_load(&looks);
    }
    errno = saved;
}

/* Waits with nothing in flight. False when the thread must end because nothing came for a while. */
static bool stand_by(uint32_t seen_wakes)
{
    atomic_store(&facet_flight_on_duty, 0);
    if (anything_in_flight() || atomic_load(&ending)) {
        atomic_store(&facet_flight_on_duty, 1);
        return true;
    }
    if (facet_futex_wait(&wakes, seen_wakes, LINGER_NS) || atomic_load(&wakes) != seen_wakes)
        return true;
    pthread_mutex_lock(&facet_flight_track_lock);
    running = atomic_load(&facet_flight_on_duty) != 0;
    bool stay = running;
    pthread_mutex_unlock(&facet_flight_track_lock);
    return stay;
}

/* The process is exiting, and the driver's destructors will run: this thread makes no more calls. */
static void park_helper(void)
{
    atomic_store(&parked, 1);
    facet_futex_wake(&parked);
    for (;;)
        facet_futex_wait(&parked, 1, FACET_NS_PER_S);
}

static void *run_helper(void *unused)
{
    uint32_t fruitless = 0;

    prctl(PR_SET_NAME, "facet-track");
    prctl(PR_SET_TIMERSLACK, 1UL); /* this thread's own timer slack, so that short sleeps stay short */
    facet_flight_driver.helper_begins();
    for (;;) {
        uint32_t seen = atomic_load(&wakes);
        uint64_t now_ns = facet_clock_now_ns();

        supervise_launches(now_ns);
        bool last = atomic_load(&ending);
        atomic_fetch_add(&looks, 1);
        struct facet_flight_look look = look_over(now_ns);
        atomic_fetch_add(&looks, 1);
        facet_futex_wake(&looks);
        if (last)
            park_helper();
        fruitless = look.reported ? 0 : fruitless + 1;
        if (anything_in_flight()) {
            rest_until_due(&look, seen, fruitless);
            continue;
        }
        sweep_counters();
        if (!stand_by(seen))
            return unused;
    }
}

/* ---- coming and going ---- */

/* Runs before the driver's own destructors. Work still running then is left to the driver, as without us. */
static void on_exit_of_process(void)
{
    int saved = errno;

    pthread_mutex_lock(&facet_flight_track_lock);
    bool wait = running;
    atomic_store(&ending, EXITING);
    pthread_mutex_unlock(&facet_flight_track_lock);
    if (wait)
        interrupt_rest();
    for (int i = 0; wait && i < PARK_TRIES && !atomic_load(&parked); i++)
        facet_futex_wait(&parked, 0, 5 * FACET_NS_PER_MS);
    atomic_store(&ending, TORN_DOWN);
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

    if (atomic_load(&facet_flight_on_duty) || atomic_exchange(&facet_flight_on_duty, 1))
        return;
    atomic_fetch_add(&wakes, 1);
    pthread_mutex_lock(&facet_flight_track_lock);
    if (!running && !atomic_load(&ending)) {
        running = start_thread();
        if (!running) /* the next launch tries again */
            atomic_store(&facet_flight_on_duty, 0);
    }
    pthread_mutex_unlock(&facet_flight_track_lock);
    facet_futex_wake(&wakes);
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
    running = false;
    atomic_store(&facet_flight_on_duty, 0);
    facet_flight_captures_forked();
    atomic_store(&holds, 0);
    atomic_store(&asking, 0);
    atomic_store(&looks, 0);
    facet_timed_lock_forked(&look_lock);
    facet_flight_waits_forked();
    pthread_mutex_unlock(&facet_flight_track_lock);
}
