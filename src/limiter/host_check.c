/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the checks for memory and for compute of registered processes. Never: waits: it tells the caller how long to
 * wait.
 */
#include "base/clock.h"
#include "limiter/host.h"
#include "limiter/memory.h"
#include "limiter/pace.h"

/*
 * The longest device time of one check. A longer time is refused as a mistake of the caller, for example in the unit:
 * such a debt would outlast the process.
 */
#define COST_MAX_NS (UINT64_C(3600) * FACET_NS_PER_S)

/* The objects of one check, and its time. */
struct check {
    struct facet_limiter *limiter;
    struct facet_host_worker *worker;
    struct facet_slot *slot;
    int32_t pid;
    uint64_t now_ns;
};

/* On success the handle is locked. The check counts as use, which ends an automatic freeze. */
static enum facet_status begin_check(struct facet_limiter *limiter, const char *id, int32_t pid, uint32_t resources,
                                     struct facet_limiter_verdict *verdict, struct check *ret_check,
                                     struct facet_error *error)
{
    struct facet_host_worker *worker;
    uint32_t index;

    if (!verdict)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "ret_verdict",
                                    "NULL: expected a place for a verdict");
    enum facet_status status = facet_host_check_size("ret_verdict", verdict->size, sizeof *verdict, error);
    if (status == FACET_OK)
        status = facet_host_lock_worker(limiter, id, &worker, error);
    if (status != FACET_OK)
        return status;
    status = facet_host_find_process(worker, pid, &index, error);
    if (status != FACET_OK) {
        facet_host_unlock(limiter);
        return status;
    }
    *ret_check = (struct check){limiter, worker, &worker->owner->usage->slots[index], pid, facet_clock_now_ns()};
    facet_owner_note_use(worker->owner, resources, ret_check->now_ns);
    return FACET_OK;
}

/* ---- memory ---- */

static enum facet_status give_back(const struct check *check, uint64_t bytes, struct facet_error *error)
{
    uint64_t held = atomic_load_explicit(&check->slot->memory_bytes, memory_order_relaxed);

    if (bytes > held)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "bytes",
                                    "process %d gives back %llu bytes, expected at most the %llu it holds", check->pid,
                                    (unsigned long long)bytes, (unsigned long long)held);
    facet_memory_give(check->slot, bytes);
    return FACET_OK;
}

/*
 * Dead processes are reclaimed before a refusal: their memory may be enough. The asking process may be among the dead.
 */
static enum facet_status take_from_dead(const struct check *check, uint64_t bytes, bool *ret_admitted,
                                        struct facet_error *error)
{
    const struct facet_owner *owner = check->worker->owner;
    uint32_t index;

    facet_host_reap_dead(check->worker);
    enum facet_status status = facet_host_find_process(check->worker, check->pid, &index, error);
    if (status == FACET_OK)
        *ret_admitted = facet_memory_take_again(owner->policy, owner->usage, check->slot, bytes);
    return status;
}

static enum facet_status take_memory(const struct check *check, uint64_t bytes, struct facet_limiter_verdict *verdict,
                                     struct facet_error *error)
{
    const struct facet_owner *owner = check->worker->owner;
    enum facet_status status = FACET_OK;
    bool admitted = false;

    if (facet_owner_frozen(owner) & FACET_RESOURCE_MEMORY) {
        verdict->wait_ns = UINT64_MAX;
    } else {
        admitted = facet_memory_take(owner->policy, owner->usage, check->slot, bytes);
        if (!admitted)
            status = take_from_dead(check, bytes, &admitted, error);
    }
    if (status == FACET_OK && !admitted)
        atomic_fetch_add_explicit(&check->slot->denied, 1, memory_order_relaxed);
    verdict->admitted = admitted;
    return status;
}

enum facet_status facet_limiter_memory_check(struct facet_limiter *limiter, const char *id, int32_t pid, int64_t bytes,
                                             struct facet_limiter_verdict *ret_verdict, struct facet_error *error)
{
    struct check check = {0};

    enum facet_status status = begin_check(limiter, id, pid, FACET_RESOURCE_MEMORY, ret_verdict, &check, error);
    if (status != FACET_OK)
        return status;

    struct facet_limiter_verdict verdict = {.size = ret_verdict->size, .admitted = 1};
    if (bytes > 0)
        status = take_memory(&check, (uint64_t)bytes, &verdict, error);
    else
        status = give_back(&check, -(uint64_t)bytes, error);
    if (status == FACET_OK) {
        verdict.available = facet_memory_left(check.worker->owner->policy, check.worker->owner->usage);
        *ret_verdict = verdict;
    }
    facet_host_unlock(limiter);
    return status;
}

/* ---- compute ---- */

static void record_busy(const struct check *check, uint64_t busy_ns)
{
    atomic_fetch_add_explicit(&check->slot->busy_ns, busy_ns, memory_order_relaxed);
    atomic_fetch_add_explicit(&check->slot->launches, 1, memory_order_relaxed);
    atomic_store_explicit(&check->slot->idle_since_ns, check->now_ns, memory_order_relaxed);
}

/* Takes `busy_ns` from the worker's budget and returns 0, or returns how long until the budget has that much. */
static uint64_t pace_launch(const struct check *check, uint64_t busy_ns, uint64_t *ret_available)
{
    struct facet_owner *owner = check->worker->owner;
    uint32_t milli = atomic_load_explicit(&owner->policy->compute_limit_milli, memory_order_relaxed);

    *ret_available = UINT64_MAX;
    if (milli >= FACET_MILLI_WHOLE)
        return 0;
    uint64_t wait_ns = facet_pace_take(&owner->usage->pace_ns, milli, busy_ns, check->now_ns);
    *ret_available = facet_pace_left_ns(&owner->usage->pace_ns, milli, check->now_ns);
    return wait_ns;
}

enum facet_status facet_limiter_compute_check(struct facet_limiter *limiter, const char *id, int32_t pid,
                                              uint64_t busy_ns, struct facet_limiter_verdict *ret_verdict,
                                              struct facet_error *error)
{
    struct check check = {0};

    if (busy_ns > COST_MAX_NS)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "busy_ns",
                                    "%llu ns of device time: expected at most an hour at once",
                                    (unsigned long long)busy_ns);
    enum facet_status status = begin_check(limiter, id, pid, FACET_FROZEN_RESOURCES, ret_verdict, &check, error);
    if (status != FACET_OK)
        return status;

    struct facet_limiter_verdict verdict = {.size = ret_verdict->size, .wait_ns = UINT64_MAX};
    if (!(facet_owner_frozen(check.worker->owner) & FACET_RESOURCE_COMPUTE)) {
        facet_host_set_gate(check.worker);
        verdict.wait_ns = pace_launch(&check, busy_ns, &verdict.available);
        verdict.admitted = verdict.wait_ns == 0;
        if (verdict.admitted)
            record_busy(&check, busy_ns);
    }
    *ret_verdict = verdict;
    facet_host_unlock(limiter);
    return FACET_OK;
}
