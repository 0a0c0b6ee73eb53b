/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the helper thread that sends memory out, and bringing it in. Never: waits for its turn while it holds the gate:
 * the helper must be able to give way.
 */
#include "move.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "block.h"
#include "interpose/cuda/memory/context.h"
#include "interpose/kit/execution/capture.h"
#include "interpose/kit/quiet_thread.h"
#include "quiesce.h"

#define LOOK_AGAIN_NS (20 * FACET_NS_PER_MS)
#define ASK_AGAIN_NS  FACET_NS_PER_MS /* after the device refused */
#define REFUSED_NS    FACET_NS_PER_S  /* after which a refusal is final, when no other vGPU can make room */
#define NOT_QUIET_NS  (50 * FACET_NS_PER_MS)
#define STAYS_NS      (5 * FACET_NS_PER_S) /* until the next attempt to get host memory */
#define PARK_TRIES    200                  /* times 5 ms, at exit */

static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static bool running, exit_handled;
static _Atomic uint32_t ending, moving; /* moving: the helper is sending out */

static struct facet_tenant *tenant_at(uint32_t index)
{
    return &facet_cuda_process.tenants[index];
}

static bool is_orphan(struct facet_tenant *tenant)
{
    facet_tenant_supervise(tenant, facet_clock_now_ns());
    return atomic_load_explicit(&tenant->orphan, memory_order_relaxed);
}

static uint64_t most_of(const struct facet_tenant *tenant)
{
    return atomic_load(&tenant->policy->resident_most_bytes);
}

/* ---- in ---- */

struct arrival {
    struct facet_tenant *waits_for; /* a vGPU that may not come in yet; NULL: all of the process's vGPUs may */
    uint32_t residence;             /* the futex word of that vGPU, read before the look */
    bool last;                      /* all may come in, and no other vGPU can make room */
    uint64_t refused_ns;            /* when the device first refused in that state; 0: it did not */
};

/* Reads the futex word before the policy, so that the wait does not miss a change. */
static void look_at_missing(struct arrival *arrival)
{
    arrival->waits_for = NULL;
    arrival->last = false;
    for (uint32_t i = 0; i < facet_cuda_process.count && !arrival->waits_for; i++) {
        struct facet_tenant *tenant = tenant_at(i);

        arrival->residence = atomic_load(&tenant->policy->residence);
        if (is_orphan(tenant))
            continue;
        if (most_of(tenant) < FACET_RESIDENT_LAST)
            arrival->waits_for = tenant;
        arrival->last |= most_of(tenant) == FACET_RESIDENT_LAST;
    }
}

static bool is_lost(void)
{
    for (uint32_t i = 0; i < facet_cuda_process.count; i++)
        if (atomic_load(&tenant_at(i)->policy->retired))
            return true;
    return false;
}

static void ring_doorbell(struct facet_tenant *tenant)
{
    facet_bell_ring(tenant->bell);
}

static void announce_arrival(void)
{
    for (uint32_t i = 0; i < facet_cuda_process.count; i++) {
        atomic_fetch_add(&tenant_at(i)->slot->waiting_resident, 1);
        ring_doorbell(tenant_at(i));
    }
}

static void withdraw_arrival(void)
{
    for (uint32_t i = 0; i < facet_cuda_process.count; i++) {
        struct facet_slot *slot = tenant_at(i)->slot;

        atomic_store(&slot->last_used_ns, facet_clock_now_ns());
        atomic_store(&slot->refused_bytes, 0);
        atomic_fetch_sub(&slot->waiting_resident, 1);
        ring_doorbell(tenant_at(i));
    }
}

static uint64_t missing_of(const struct facet_slot *slot)
{
    uint64_t all = atomic_load(&slot->swappable_bytes), here = atomic_load(&slot->resident_bytes);

    return here < all ? all - here : 0;
}

static void tell_shortage(void)
{
    for (uint32_t i = 0; i < facet_cuda_process.count; i++) {
        uint64_t missing = missing_of(tenant_at(i)->slot);

        if (atomic_exchange(&tenant_at(i)->slot->refused_bytes, missing) != missing)
            ring_doorbell(tenant_at(i));
    }
}

/* Tries to bring all memory in from AWAY. False: not done; a final reason is in `*ret_result`. */
static bool try_in(struct arrival *arrival, CUresult *ret_result)
{
    uint64_t missing, now_ns;
    CUresult result = facet_cuda_blocks_bring_in(&missing);

    if (!missing) {
        facet_cuda_quiesce_open_and_enter();
        return true;
    }
    facet_cuda_quiesce_change(FACET_CUDA_QUIESCE_MOVING, FACET_CUDA_QUIESCE_AWAY);
    tell_shortage();
    now_ns = facet_clock_now_ns();
    if (!arrival->last || !arrival->refused_ns)
        arrival->refused_ns = now_ns;
    if (result != CUDA_ERROR_OUT_OF_MEMORY || now_ns - arrival->refused_ns > REFUSED_NS)
        *ret_result = result;
    else
        facet_futex_wait(&tenant_at(0)->policy->residence, atomic_load(&tenant_at(0)->policy->residence), ASK_AGAIN_NS);
    return false;
}

/* One attempt. True: there is nothing more to do here. */
static bool step_in(struct arrival *arrival, bool *ret_inside, CUresult *ret_result)
{
    if (is_lost())
        *ret_result = CUDA_ERROR_SYSTEM_NOT_READY;
    if (*ret_result != CUDA_SUCCESS || facet_cuda_quiesce_state() == FACET_CUDA_QUIESCE_OPEN)
        return true;
    look_at_missing(arrival);
    if (arrival->waits_for) {
        facet_futex_wait(&arrival->waits_for->policy->residence, arrival->residence, LOOK_AGAIN_NS);
        return false;
    }
    if (!facet_cuda_quiesce_change(FACET_CUDA_QUIESCE_AWAY, FACET_CUDA_QUIESCE_MOVING))
        return true; /* another thread moves: the caller waits for it at the gate */
    *ret_inside = try_in(arrival, ret_result);
    return *ret_inside;
}

bool facet_cuda_move_in(CUresult *ret_result)
{
    struct arrival arrival = {0};
    bool inside = false;

    *ret_result = CUDA_SUCCESS;
    announce_arrival();
    while (!step_in(&arrival, &inside, ret_result))
        ;
    withdraw_arrival();
    return inside;
}

/* ---- out ---- */

/* This process's part of one vGPU's excess, in bytes. */
static uint64_t excess_of(struct facet_tenant *tenant)
{
    uint64_t most = most_of(tenant), own = atomic_load(&tenant->slot->resident_bytes);
    struct facet_usage_totals totals;

    if (most == FACET_RESIDENT_ALL || !own || is_orphan(tenant))
        return 0;
    facet_usage_sum(tenant->usage, &totals);
    if (totals.resident_bytes <= most)
        return 0;
    uint64_t excess = totals.resident_bytes - most;
    return excess < own ? excess : own;
}

static bool any_excess(void)
{
    uint64_t excess = 0;

    for (uint32_t i = 0; i < facet_cuda_process.count; i++)
        excess |= excess_of(tenant_at(i));
    return excess;
}

/*
 * True: no thread is inside, the device has drained, and the caller holds the gate. The query that finds out would end
 * a capture, so it fails during one.
 */
static bool close_gate(void)
{
    if (atomic_load(&facet_flight_captures) || !facet_cuda_quiesce_close())
        return false;
    if (!atomic_load(&facet_flight_captures) && facet_cuda_contexts_wait() &&
        facet_cuda_quiesce_change(FACET_CUDA_QUIESCE_CLOSING, FACET_CUDA_QUIESCE_MOVING))
        return true;
    facet_cuda_quiesce_change(FACET_CUDA_QUIESCE_CLOSING, FACET_CUDA_QUIESCE_OPEN);
    return false;
}

/* In AWAY the device is idle: nothing has been submitted since. */
static bool take_gate(void)
{
    return facet_cuda_quiesce_change(FACET_CUDA_QUIESCE_AWAY, FACET_CUDA_QUIESCE_MOVING) || close_gate();
}

bool facet_cuda_move_away(void)
{
    return facet_cuda_quiesce_state() == FACET_CUDA_QUIESCE_AWAY ||
           (close_gate() && facet_cuda_quiesce_change(FACET_CUDA_QUIESCE_MOVING, FACET_CUDA_QUIESCE_AWAY));
}

static bool is_whole(void)
{
    uint64_t missing = 0;

    for (uint32_t i = 0; i < facet_cuda_process.count; i++)
        missing += missing_of(tenant_at(i)->slot);
    return !missing;
}

static void say_whether_it_stays(bool stays)
{
    for (uint32_t i = 0; i < facet_cuda_process.count; i++)
        if (atomic_exchange(&tenant_at(i)->slot->cannot_swap, stays) != stays)
            ring_doorbell(tenant_at(i));
}

/* The time until the next attempt; 0: done. */
static uint64_t move_out(void)
{
    bool stays = false;

    if (!take_gate())
        return NOT_QUIET_NS;
    for (uint32_t i = 0; i < facet_cuda_process.count; i++) {
        uint64_t excess = excess_of(tenant_at(i));

        stays |= facet_cuda_blocks_send_out(i, excess) < excess;
        ring_doorbell(tenant_at(i));
    }
    facet_cuda_quiesce_change(FACET_CUDA_QUIESCE_MOVING,
                              is_whole() ? FACET_CUDA_QUIESCE_OPEN : FACET_CUDA_QUIESCE_AWAY);
    say_whether_it_stays(stays);
    return stays ? STAYS_NS : 0;
}

/* Waits on the first vGPU's word; with several vGPUs, polls the others at the same interval. */
static void rest_until_woken(uint32_t seen)
{
    facet_futex_wait(&tenant_at(0)->policy->residence, seen,
                     facet_cuda_process.count == 1 ? 5 * LOOK_AGAIN_NS : LOOK_AGAIN_NS);
}

static void *run_mover(void *unused)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

    prctl(PR_SET_NAME, "facet-swap");
    facet_cuda_plain.cuThreadExchangeStreamCaptureMode(&mode);
    while (!atomic_load(&ending)) {
        uint32_t seen = atomic_load(&tenant_at(0)->policy->residence);

        atomic_store(&moving, 1);
        uint64_t again_ns = !atomic_load(&ending) && any_excess() ? move_out() : 0;
        atomic_store(&moving, 0);
        if (again_ns)
            facet_futex_wait(&ending, 0, again_ns);
        else
            rest_until_woken(seen);
        say_whether_it_stays(false);
    }
    return unused;
}

/* Runs before the driver's own destructors: lets a move in progress finish and starts no other. */
static void on_exit_of_process(void)
{
    atomic_store(&ending, 1);
    facet_futex_wake(&ending);
    for (int i = 0; i < PARK_TRIES && atomic_load(&moving); i++)
        facet_futex_wait(&moving, 1, 5 * FACET_NS_PER_MS);
}

static bool start_thread(void)
{
    if (!exit_handled && atexit(on_exit_of_process) != 0)
        return false;
    exit_handled = true;
    return facet_quiet_thread(run_mover, NULL);
}

bool facet_cuda_move_start(void)
{
    pthread_mutex_lock(&start_lock);
    if (!running)
        running = start_thread();
    bool there = running;
    pthread_mutex_unlock(&start_lock);
    return there;
}

void facet_cuda_move_forked(void)
{
    pthread_mutex_init(&start_lock, NULL);
    running = false;
    atomic_store(&moving, 0);
}
