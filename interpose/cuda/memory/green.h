/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Green contexts: parts of a device's primary context.
 *
 * Owns: the list of the living ones, and what each of them was charged beside the primary one.
 * Never: ends one, or keeps one alive.
 *
 * A green context holds the primary one, which is charged as always, and pays itself for what its making took besides.
 * Memory that is allocated while it is current is the primary context's, and lives on when it is destroyed.
 */
#ifndef FACET_CUDA_GREEN_H
#define FACET_CUDA_GREEN_H

#include "vendor/cuda/green.h"

/* The context that owns what is allocated in `context`: that of which it is a part, or itself. */
CUcontext facet_cuda_green_whole(CUcontext context);

void facet_cuda_greens_before_fork(void);
void facet_cuda_greens_after_fork(void);
void facet_cuda_greens_forked(void);

#endif
