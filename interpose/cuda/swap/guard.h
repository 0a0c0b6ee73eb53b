/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that are called through the door, whatever they take.
 *
 * Owns: a stub for each such function: in by the door (door.h), the call with the same arguments, and out again.
 * Never: is in the way of a process that does not swap.
 */
#ifndef FACET_CUDA_GUARD_H
#define FACET_CUDA_GUARD_H

#include <stdbool.h>

/* Whether a function of that name touches memory of a device, or hands work to one: by its name, as the driver's newer
 * functions of a kind are named as the older ones. */
bool facet_cuda_guard_is_for(const char *name);

/* The stub that leads to `target`; always the same. One that refuses when there are no more stubs. */
void *facet_cuda_guard(void *target);

#endif
