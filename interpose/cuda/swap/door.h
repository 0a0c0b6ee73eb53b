/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The door between a program and its memory: who touches memory is inside; memory moves when nobody is.
 *
 * Owns: the state of this process's swappable memory, and who is inside.
 * Never: moves memory; lets two threads move it at once; lets somebody in while a part of it is away.
 *
 *     OPEN     all of it is on the device
 *     CLOSING  no one else comes in, so that those inside finish and the device falls quiet; who is kept waiting for
 * too long opens it again: what the device waits for may be what he is about to do MOVING   one thread has it to itself
 *     AWAY     a part is not on the device; who comes first brings it in
 */
#ifndef FACET_CUDA_DOOR_H
#define FACET_CUDA_DOOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "vendor/cuda/driver.h"

enum facet_cuda_door { FACET_CUDA_DOOR_OPEN, FACET_CUDA_DOOR_CLOSING, FACET_CUDA_DOOR_MOVING, FACET_CUDA_DOOR_AWAY };

/* Called by the stubs (guard.S). In: CUDA_SUCCESS, else why not, and nothing is to be called. Out: what the call is to
 * return. */
CUresult facet_cuda_swap_enter(void);
CUresult facet_cuda_swap_leave(CUresult result);

/* For a launch that waits for its turn (limiter/tenant.h): outside meanwhile. */
void facet_cuda_door_let_go(void);
bool facet_cuda_door_take_again(void);

/* Nothing is moved between the two, whether all of the memory is here or not: for who frees. Not inside the door. */
void facet_cuda_door_hold(void);
void facet_cuda_door_release(void);

enum facet_cuda_door facet_cuda_door_state(void);

/* From a state to another, if it is in that; wakes who waits. */
bool facet_cuda_door_change(enum facet_cuda_door from, enum facet_cuda_door to);

/* OPEN to CLOSING, and until nobody is inside. False: it was not open, or was opened again. */
bool facet_cuda_door_close(void);

/* MOVING to OPEN, with the calling thread inside: whoever brought memory in uses it before it has to go again. */
void facet_cuda_door_open_and_enter(void);

void facet_cuda_door_forked(void);

#endif
