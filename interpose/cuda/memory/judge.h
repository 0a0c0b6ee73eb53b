/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program is told where the quota has no room for what it asks. The driver may refuse the call whatever it asks
 * for: CUDA is not initialised (in a child of fork(), which programs tell by it), there is no context, a pointer is
 * NULL, a flag is wrong. Its word goes first, as it does without a quota.
 *
 * Owns: asking the driver for the same and more than the device has, or for little of it, and counting as denied what
 * the quota alone refuses.
 * Never: keeps what the driver gives; asks it before the quota has refused.
 */
#ifndef FACET_CUDA_JUDGE_H
#define FACET_CUDA_JUDGE_H

#include "charge.h"

/* `judged`: what the driver said. Nothing, or memory, is what it lacks: then the quota refuses, and that counts. */
CUresult facet_cuda_refuse(uint32_t device, CUresult judged);

/* More bytes than a device has, in the driver's steps where `bytes` is. The driver's error when it cannot say. */
CUresult facet_cuda_too_much(uint32_t device, uint64_t bytes, size_t *ret_bytes);

#endif
