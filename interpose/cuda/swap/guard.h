/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that are called inside the quiesce gate, whatever their arguments.
 *
 * Owns: a stub for each such function. The stub enters the gate (quiesce.h), calls the function with the same
 * arguments, and leaves the gate.
 * Never: slows a process that does not swap.
 */
#ifndef FACET_CUDA_GUARD_H
#define FACET_CUDA_GUARD_H

#include <stdbool.h>

/*
 * Whether a function of that name touches device memory or submits work. The prefix decides, so that a newer driver's
 * functions of a known kind are guarded too.
 */
bool facet_cuda_guard_is_for(const char *name);

/* The stub of `target`: the same at every call. When all stubs are in use, a function that refuses every call. */
void *facet_cuda_guard(void *target);

#endif
