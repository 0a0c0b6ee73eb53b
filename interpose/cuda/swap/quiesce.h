/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The quiesce gate between a program and its memory: a thread that touches memory is inside; memory moves when no
 * thread is.
 *
 * Owns: the state of this process's swappable memory, and the count of threads inside.
 * Never: moves memory; lets two threads move it at once; lets a thread in while a part of the memory is away.
 *
 *   - OPEN: all of the memory is on the device.
 *   - CLOSING: no other thread may enter, so that the threads inside finish and the device drains. A thread that has
 *     waited too long opens the gate again: the device may be waiting for this thread's next call.
 *   - MOVING: one thread holds the gate exclusively.
 *   - AWAY: a part of the memory is not on the device; the first thread that comes brings it in.
 */
#ifndef FACET_CUDA_QUIESCE_H
#define FACET_CUDA_QUIESCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "vendor/cuda/driver.h"

enum facet_cuda_quiesce {
    FACET_CUDA_QUIESCE_OPEN,
    FACET_CUDA_QUIESCE_CLOSING,
    FACET_CUDA_QUIESCE_MOVING,
    FACET_CUDA_QUIESCE_AWAY
};

/*
 * Called by the stubs (guard.S). `_enter` returns CUDA_SUCCESS, or the error that the stub returns without calling the
 * driver. `_leave` returns the result that the stub returns.
 */
CUresult facet_cuda_swap_enter(void);
CUresult facet_cuda_swap_leave(CUresult result);

/* Called before and after a launch waits for its turn (limiter/tenant.h): meanwhile the thread is outside the gate. */
void facet_cuda_quiesce_step_out(void);
bool facet_cuda_quiesce_enter_again(void);

/*
 * For a thread that frees memory: between these calls no memory moves, whether all of it is on the device or not. The
 * caller must not be inside.
 */
void facet_cuda_quiesce_hold(void);
void facet_cuda_quiesce_release(void);

enum facet_cuda_quiesce facet_cuda_quiesce_state(void);

/* Changes the state if it is `from`, and wakes the waiting threads. */
bool facet_cuda_quiesce_change(enum facet_cuda_quiesce from, enum facet_cuda_quiesce to);

/* Changes OPEN to CLOSING and waits until no thread is inside. False: the gate was not open, or was opened again. */
bool facet_cuda_quiesce_close(void);

/* Changes MOVING to OPEN with the calling thread inside, so that it can use the memory before it is sent out again. */
void facet_cuda_quiesce_open_and_enter(void);

void facet_cuda_quiesce_forked(void);

#endif
