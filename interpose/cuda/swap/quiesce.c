/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the gate's state and the count of threads inside. Never: calls the driver. */
#include "quiesce.h"

#include <errno.h>
#include <time.h>

#include "base/clock.h"
#include "interpose/cuda/process.h"
#include "move.h"

#define RECHECK_NS           (20 * FACET_NS_PER_MS)  /* the longest wait before the gate is checked again */
#define CLOSING_TIMEOUT_NS   (500 * FACET_NS_PER_MS) /* longest wait at a closing gate; doubled when it was reached */
#define CLOSING_TIMEOUT_MOST (60 * FACET_NS_PER_S)   /* it is doubled until it reaches this */

static _Atomic uint32_t state, inside_count; /* futex words */
static _Atomic uint64_t closing_ns, closing_timeout_ns = CLOSING_TIMEOUT_NS;

/* The initial-exec model takes static TLS, of which a library opened with dlopen() gets only a few words. */
static _Thread_local bool is_inside __attribute__((tls_model("initial-exec")));
static _Thread_local bool must_reenter __attribute__((tls_model("initial-exec")));
static _Thread_local CUresult refusal __attribute__((tls_model("initial-exec")));

enum facet_cuda_quiesce facet_cuda_quiesce_state(void)
{
    return (enum facet_cuda_quiesce)atomic_load(&state);
}

bool facet_cuda_quiesce_change(enum facet_cuda_quiesce from, enum facet_cuda_quiesce to)
{
    uint32_t expected = from;
    bool changed = atomic_compare_exchange_strong(&state, &expected, (uint32_t)to);

    if (changed)
        facet_futex_wake(&state);
    return changed;
}

static void step_out(void)
{
    if (atomic_fetch_sub_explicit(&inside_count, 1, memory_order_seq_cst) == 1 &&
        atomic_load_explicit(&state, memory_order_seq_cst) == FACET_CUDA_QUIESCE_CLOSING)
        facet_futex_wake(&inside_count);
}

static void reopen_if_overdue(void)
{
    uint64_t timeout_ns = atomic_load(&closing_timeout_ns);

    if (facet_clock_now_ns() - atomic_load(&closing_ns) < timeout_ns)
        return;
    if (facet_cuda_quiesce_change(FACET_CUDA_QUIESCE_CLOSING, FACET_CUDA_QUIESCE_OPEN) &&
        timeout_ns < CLOSING_TIMEOUT_MOST)
        atomic_store(&closing_timeout_ns, 2 * timeout_ns);
}

/* True: the thread is inside. False with CUDA_SUCCESS: try again. */
static bool wait_at_gate(CUresult *ret_result)
{
    uint32_t current = atomic_load(&state);

    *ret_result = CUDA_SUCCESS;
    if (current == FACET_CUDA_QUIESCE_AWAY)
        return facet_cuda_move_in(ret_result);
    if (current != FACET_CUDA_QUIESCE_OPEN)
        facet_futex_wait(&state, current, RECHECK_NS);
    if (current == FACET_CUDA_QUIESCE_CLOSING)
        reopen_if_overdue();
    return false;
}

/*
 * A thread counts itself first and then reads the state. A thread that closes writes the state first and then reads the
 * count, so at least one of the two sees the other.
 */
CUresult facet_cuda_swap_enter(void)
{
    CUresult result = CUDA_SUCCESS;
    int saved = errno;

    for (;;) {
        atomic_fetch_add_explicit(&inside_count, 1, memory_order_seq_cst);
        is_inside = atomic_load_explicit(&state, memory_order_seq_cst) == FACET_CUDA_QUIESCE_OPEN;
        if (__builtin_expect(is_inside, 1))
            break;
        step_out();
        if (wait_at_gate(&result) || result != CUDA_SUCCESS)
            break;
    }
    refusal = result;
    errno = saved;
    return result;
}

/* The coarse clock is enough: the reader of this time compares tenths of a second. */
static void note_use(void)
{
    struct timespec current;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &current);
    for (uint32_t i = 0; i < facet_cuda_process.count; i++)
        atomic_store_explicit(&facet_cuda_process.tenants[i].slot->last_used_ns, facet_timespec_ns(&current),
                              memory_order_relaxed);
}

CUresult facet_cuda_swap_leave(CUresult result)
{
    if (!is_inside) /* the thread left the gate to wait for its turn, and could not enter again */
        return refusal;
    is_inside = false;
    note_use();
    step_out();
    return result;
}

void facet_cuda_quiesce_step_out(void)
{
    must_reenter = is_inside;
    is_inside = false;
    if (must_reenter)
        step_out();
}

bool facet_cuda_quiesce_enter_again(void)
{
    return !must_reenter || facet_cuda_swap_enter() == CUDA_SUCCESS;
}

/* Freeing makes room, so the thread does not wait for other vGPUs to make room: it opens a closing gate again. */
void facet_cuda_quiesce_hold(void)
{
    for (;;) {
        atomic_fetch_add_explicit(&inside_count, 1, memory_order_seq_cst);
        is_inside = atomic_load_explicit(&state, memory_order_seq_cst) == FACET_CUDA_QUIESCE_OPEN;
        if (is_inside)
            return;
        step_out();
        facet_cuda_quiesce_change(FACET_CUDA_QUIESCE_CLOSING, FACET_CUDA_QUIESCE_OPEN);
        if (facet_cuda_quiesce_change(FACET_CUDA_QUIESCE_AWAY, FACET_CUDA_QUIESCE_MOVING))
            return;
        uint32_t current = atomic_load(&state);
        if (current == FACET_CUDA_QUIESCE_MOVING)
            facet_futex_wait(&state, current, RECHECK_NS);
    }
}

void facet_cuda_quiesce_release(void)
{
    if (is_inside)
        step_out();
    else
        facet_cuda_quiesce_change(FACET_CUDA_QUIESCE_MOVING, FACET_CUDA_QUIESCE_AWAY);
    is_inside = false;
}

bool facet_cuda_quiesce_close(void)
{
    uint32_t current;

    atomic_store(&closing_ns, facet_clock_now_ns());
    if (!facet_cuda_quiesce_change(FACET_CUDA_QUIESCE_OPEN, FACET_CUDA_QUIESCE_CLOSING))
        return false;
    while ((current = atomic_load(&inside_count)) && atomic_load(&state) == FACET_CUDA_QUIESCE_CLOSING)
        facet_futex_wait(&inside_count, current, RECHECK_NS);
    return atomic_load(&state) == FACET_CUDA_QUIESCE_CLOSING;
}

void facet_cuda_quiesce_open_and_enter(void)
{
    atomic_fetch_add_explicit(&inside_count, 1, memory_order_seq_cst);
    is_inside = true;
    atomic_store(&closing_timeout_ns, CLOSING_TIMEOUT_NS);
    facet_cuda_quiesce_change(FACET_CUDA_QUIESCE_MOVING, FACET_CUDA_QUIESCE_OPEN);
}

/* The child has only the forking thread, which was not inside. */
void facet_cuda_quiesce_forked(void)
{
    atomic_store(&state, FACET_CUDA_QUIESCE_OPEN);
    atomic_store(&inside_count, 0);
    is_inside = false;
}
