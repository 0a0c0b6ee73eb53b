/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moving this process's memory: out when the vGPU must give way, in when it is used and may come.
 *
 * Owns: one helper thread, which sends memory out; waiting for the vGPU's turn; and how long a device may refuse.
 * Never: moves while work runs on the device or a stream is captured, or without holding the gate (quiesce.h).
 *
 * The segment says how much of a vGPU's memory may be on the device (limiter/segment.h). Without a live owner no vGPU
 * must give way, and memory that is away comes in as soon as there is room.
 */
#ifndef FACET_CUDA_MOVE_H
#define FACET_CUDA_MOVE_H

#include <stdbool.h>

#include "vendor/cuda/driver.h"

/*
 * Waits for the vGPU's turn and brings all memory in. True: all is in, and the thread is inside the gate. False with
 * CUDA_SUCCESS: another thread is moving memory. CUDA_ERROR_OUT_OF_MEMORY: in the vGPU's turn the device refused for
 * too long.
 */
bool facet_cuda_move_in(CUresult *ret_result);

/* Drains the device and changes the gate's state to AWAY. False: the device does not drain. */
bool facet_cuda_move_away(void);

/* Starts the helper when there is something to swap. False when no thread can be created. */
bool facet_cuda_move_start(void);

void facet_cuda_move_forked(void);

#endif
