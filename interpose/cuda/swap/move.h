/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moving this process's memory: out when the vGPU is told to give way, in when it is used and may come.
 *
 * Owns: one helper thread, which sends out; waiting for the vGPU's turn; and how long a device may refuse.
 * Never: moves while anything runs on the device, while a stream is captured, or without the door.
 *
 * How much of a vGPU may be on the device is in its segment (limiter/segment.h). Without an owner that lives nobody is
 * told to give way, and who is away comes in as soon as there is room.
 */
#ifndef FACET_CUDA_MOVE_H
#define FACET_CUDA_MOVE_H

#include <stdbool.h>

#include "vendor/cuda/driver.h"

/* Waits for the turn and brings everything in. True: done, and the thread is inside. False with CUDA_SUCCESS: somebody
 * else is at it. CUDA_ERROR_OUT_OF_MEMORY: in its turn the device refused it for too long. */
bool facet_cuda_move_in(CUresult *ret_result);

/* Waits until the device is quiet and says that a part of the memory is away. False: it does not fall quiet. */
bool facet_cuda_move_away(void);

/* Starts the helper when there is something to swap. False when there is no thread to be had. */
bool facet_cuda_move_start(void);

void facet_cuda_move_forked(void);

#endif
