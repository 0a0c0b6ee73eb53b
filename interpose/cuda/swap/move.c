/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the helper thread that sends memory out, and bringing memory in. Never: holds the gate while it waits for the
 * vGPU's turn, because the helper must be able to send memory out meanwhile.
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

#define RECHECK_NS       (20 * FACET_NS_PER_MS) /* the longest wait before the policy is read again */
#define DEVICE_RETRY_NS  FACET_NS_PER_MS        /* until the next attempt after the device refused */
#define REFUSAL_FINAL_NS FACET_NS_PER_S         /* after which a refusal is final, when no other vGPU can make room */
#define DRAIN_RETRY_NS   (50 * FACET_NS_PER_MS)
#define HOST_RETRY_NS    (5 * FACET_NS_PER_S) /* until the next attempt to get host memory */
#define PARK_TRIES       200                  /* at exit, 5 ms each */

static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static bool mover_exists, exit_handled;
static _Atomic uint32_t exiting, sending_out; /* sending_out: the helper moves memory to the host */

static struct facet_tenant *tenant_at(uint32_t index)
{
    return &facet_cuda_process.tenants[index];
}

static bool is_orphan(struct facet_tenant *tenant)
{
    facet_tenant_supervise(tenant, facet_clock_now_ns());
    return atomic_load_explicit(&tenant->orphan, memory_order_relaxed);
}

static uint64_t resident_most(const struct facet_tenant *tenant)
{
    return atomic_load(&tenant->policy->resident_most_bytes);
}

/* ---- in ---- */

/* One call of facet_cuda_move_in(), over all its attempts. */
struct arrival {
    struct facet_tenant *waits_for; /* a vGPU that may not come in yet; NULL: all of the process's vGPUs may */
    uint32_t residence;             /* the futex word of that vGPU, read before its policy */
    bool is_last;                   /* all may come in, and no other vGPU can make room */
    uint64_t refused_ns;            /* when the device first refused while is_last; 0: it did not */
};

/* Reads the futex word before the policy, so that the wait does not miss a change. */
static void find_blocking_vgpu(struct arrival *arrival)
{
    arrival->waits_for = NULL;
    arrival->is_last = false;
    for (uint32_t i = 0; i < facet_cuda_process.count && !arrival->waits_for; i++) {
        struct facet_tenant *tenant = tenant_at(i);

        arrival->residence = atomic_load(&tenant->policy->residence);
        if (is_orphan(tenant))
            continue;
        if (resident_most(tenant) < FACET_RESIDENT_LAST)
            arrival->waits_for = tenant;
        arrival->is_last |= resident_most(tenant) == FACET_RESIDENT_LAST;
    }
}

static bool vgpu_is_retired(void)
{
    for (uint32_t i = 0; i < facet_cuda_process.count; i++)
        if (atomic_load(&tenant_at(i)->policy->retired))
            return true;
    return false;
}

static void wake_scheduler(struct facet_tenant *tenant)
{
    facet_ring(tenant->rings, tenant->sleeping);
}

static void announce_arrival(void)
{
    for (uint32_t i = 0; i < facet_cuda_process.count; i++) {
        atomic_fetch_add(&tenant_at(i)->slot->waiting_resident, 1);
        wake_scheduler(tenant_at(i));
    }
}

static void withdraw_arrival(void)
{
    for (uint32_t i = 0; i < facet_cuda_process.count; i++) {
        struct facet_slot *slot = tenant_at(i)->slot;

        atomic_store(&slot->last_used_ns, facet_clock_now_ns());
        atomic_store(&slot->refused_bytes, 0);
        atomic_fetch_sub(&slot->waiting_resident, 1);
        wake_scheduler(tenant_at(i));
    }
}

static uint64_t missing_bytes(const struct facet_slot *slot)
{
    uint64_t all = atomic_load(&slot->swappable_bytes), resident = atomic_load(&slot->resident_bytes);

    return resident < all ? all - resident : 0;
}

static void publish_shortage(void)
{
    for (uint32_t i = 0; i < facet_cuda_process.count; i++) {
        uint64_t missing = missing_bytes(tenant_at(i)->slot);

        if (atomic_exchange(&tenant_at(i)->slot->refused_bytes, missing) != missing)
            wake_scheduler(tenant_at(i));
    }
}

/* Tries to bring all memory in. False: not all is in; if trying again is useless, `*ret_result` is the error. */
static bool bring_all_in(struct arrival *arrival, CUresult *ret_result)
{
    uint64_t missing, now_ns;
    CUresult result = facet_cuda_blocks_bring_in(&missing);

    if (!missing) {
        facet_cuda_quiesce_open_and_enter();
        return true;
    }
    facet_cuda_quiesce_change(FACET_CUDA_QUIESCE_MOVING, FACET_CUDA_QUIESCE_AWAY);
    publish_shortage();
    now_ns = facet_clock_now_ns();
    if (!arrival->is_last || !arrival->refused_ns)
        arrival->refused_ns = now_ns;
    if (result != CUDA_ERROR_OUT_OF_MEMORY || now_ns - arrival->refused_ns > REFUSAL_FINAL_NS)
        *ret_result = result;
    else
        facet_futex_wait(&tenant_at(0)->policy->residence, atomic_load(&tenant_at(0)->policy->residence),
                         DEVICE_RETRY_NS);
    return false;
}

/* One attempt. True: no further attempt is needed, or it would fail too. */
static bool attempt_move_in(struct arrival *arrival, bool *ret_inside, CUresult *ret_result)
{
    if (vgpu_is_retired())
        *ret_result = CUDA_ERROR_SYSTEM_NOT_READY;
    if (*ret_result != CUDA_SUCCESS || facet_cuda_quiesce_state() == FACET_CUDA_QUIESCE_OPEN)
        return true;
    find_blocking_vgpu(arrival);
    if (arrival->waits_for) {
        facet_futex_wait(&arrival->waits_for->policy->residence, arrival->residence, RECHECK_NS);
        return false;
    }
    if (!facet_cuda_quiesce_change(FACET_CUDA_QUIESCE_AWAY, FACET_CUDA_QUIESCE_MOVING))
        return true; /* another thread moves: the caller waits for it at the gate */
    *ret_inside = bring_all_in(arrival, ret_result);
    return *ret_inside;
}

bool facet_cuda_move_in(CUresult *ret_result)
{
    struct arrival arrival = {0};
    bool inside = false;

    *ret_result = CUDA_SUCCESS;
    announce_arrival();
    while (!attempt_move_in(&arrival, &inside, ret_result))
        ;
    withdraw_arrival();
    return inside;
}

/* ---- out ---- */

/* This process's part of one vGPU's excess, in bytes. */
static uint64_t excess_bytes(struct facet_tenant *tenant)
{
    uint64_t most = resident_most(tenant), own_bytes = atomic_load(&tenant->slot->resident_bytes);
    struct facet_usage_totals totals;

    if (most == FACET_RESIDENT_ALL || !own_bytes || is_orphan(tenant))
        return 0;
    facet_usage_sum(tenant->usage, &totals);
    if (totals.resident_bytes <= most)
        return 0;
    uint64_t excess = totals.resident_bytes - most;
    return excess < own_bytes ? excess : own_bytes;
}

static bool any_excess(void)
{
    uint64_t excess = 0;

    for (uint32_t i = 0; i < facet_cuda_process.count; i++)
        excess |= excess_bytes(tenant_at(i));
    return excess;
}

/*
 * True: no thread is inside, the device has drained, and the caller holds the gate. The query whether the device has
 * drained would end a capture, so during a capture the result is false.
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

/* In state AWAY the device is idle, because nothing was submitted since it drained. */
static bool take_gate(void)
{
    return facet_cuda_quiesce_change(FACET_CUDA_QUIESCE_AWAY, FACET_CUDA_QUIESCE_MOVING) || close_gate();
}

bool facet_cuda_move_away(void)
{
    return facet_cuda_quiesce_state() == FACET_CUDA_QUIESCE_AWAY ||
           (close_gate() && facet_cuda_quiesce_change(FACET_CUDA_QUIESCE_MOVING, FACET_CUDA_QUIESCE_AWAY));
}

static bool all_is_resident(void)
{
    uint64_t missing = 0;

    for (uint32_t i = 0; i < facet_cuda_process.count; i++)
        missing += missing_bytes(tenant_at(i)->slot);
    return !missing;
}

static void publish_cannot_swap(bool cannot_swap)
{
    for (uint32_t i = 0; i < facet_cuda_process.count; i++)
        if (atomic_exchange(&tenant_at(i)->slot->cannot_swap, cannot_swap) != cannot_swap)
            wake_scheduler(tenant_at(i));
}

/* Sends the excess to the host. Returns the time until the next attempt; 0: done. */
static uint64_t move_out(void)
{
    bool cannot_swap = false;

    if (!take_gate())
        return DRAIN_RETRY_NS;
    for (uint32_t i = 0; i < facet_cuda_process.count; i++) {
        uint64_t excess = excess_bytes(tenant_at(i));

        cannot_swap |= facet_cuda_blocks_send_out(i, excess) < excess;
        wake_scheduler(tenant_at(i));
    }
    facet_cuda_quiesce_change(FACET_CUDA_QUIESCE_MOVING,
                              all_is_resident() ? FACET_CUDA_QUIESCE_OPEN : FACET_CUDA_QUIESCE_AWAY);
    publish_cannot_swap(cannot_swap);
    return cannot_swap ? HOST_RETRY_NS : 0;
}

/* Waits on the first vGPU's word; with several vGPUs, polls the others at the same interval. */
static void rest_until_woken(uint32_t seen)
{
    facet_futex_wait(&tenant_at(0)->policy->residence, seen,
                     facet_cuda_process.count == 1 ? 5 * RECHECK_NS : RECHECK_NS);
}

static void *run_mover(void *unused)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

    prctl(PR_SET_NAME, "facet-swap");
    facet_cuda_unhooked.cuThreadExchangeStreamCaptureMode(&mode);
    while (!atomic_load(&exiting)) {
        uint32_t seen = atomic_load(&tenant_at(0)->policy->residence);

        atomic_store(&sending_out, 1);
        uint64_t retry_ns = !atomic_load(&exiting) && any_excess() ? move_out() : 0;
        atomic_store(&sending_out, 0);
        if (retry_ns)
            facet_futex_wait(&exiting, 0, retry_ns);
        else
            rest_until_woken(seen);
        publish_cannot_swap(false);
    }
    return unused;
}

/* Runs before the driver's own destructors: lets a move in progress finish and starts no other. */
static void on_exit_of_process(void)
{
    atomic_store(&exiting, 1);
    facet_futex_wake(&exiting);
    for (int i = 0; i < PARK_TRIES && atomic_load(&sending_out); i++)
        facet_futex_wait(&sending_out, 1, 5 * FACET_NS_PER_MS);
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
    if (!mover_exists)
        mover_exists = start_thread();
    bool started = mover_exists;
    pthread_mutex_unlock(&start_lock);
    return started;
}

void facet_cuda_move_forked(void)
{
    pthread_mutex_init(&start_lock, NULL);
    mover_exists = false;
    atomic_store(&sending_out, 0);
}
