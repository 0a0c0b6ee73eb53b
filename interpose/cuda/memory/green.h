/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Green contexts: parts of a device's primary context.
 *
 * Owns: the list of live green contexts, and the charge of each, apart from the primary context's.
 * Never: ends a green context, or keeps one alive.
 *
 * A green context retains the primary context, which is charged as usual, and has a charge of its own for the memory
 * that creating it took. Memory that is allocated while a green context is current belongs to the primary context, and
 * outlives the green context.
 */
#ifndef FACET_CUDA_GREEN_H
#define FACET_CUDA_GREEN_H

#include "vendor/cuda/green.h"

/* The context that owns memory allocated in `context`: the primary one of a green context, or itself. */
CUcontext facet_cuda_green_primary(CUcontext context);

void facet_cuda_greens_before_fork(void);
void facet_cuda_greens_after_fork(void);
void facet_cuda_greens_forked(void);

#endif
