/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer to an allocation for which the quota has no room. The driver might refuse the call for another reason:
 * CUDA is not initialised (programs detect a child of fork() by that), there is no context, a pointer is NULL, a flag
 * is wrong. That error takes precedence, as it does without a quota.
 *
 * Owns: calling the driver with the same arguments and a size beyond the device's memory, or a small size, and counting
 * a refusal by the quota alone as denied.
 * Never: keeps memory that the driver gives; calls it before the quota has refused.
 */
#ifndef FACET_CUDA_REFUSAL_H
#define FACET_CUDA_REFUSAL_H

#include "charge.h"

/* `driver_result`: the driver's result. If it is success or out of memory, the quota refuses, and the denial is
 * counted. */
CUresult facet_cuda_refuse(uint32_t device, CUresult driver_result);

/*
 * A size beyond the device's memory, with the same remainder as `bytes` when divided by 2 MiB. Returns the driver's
 * error when the driver does not tell how much memory the device has.
 */
CUresult facet_cuda_beyond_device(uint32_t device, uint64_t bytes, size_t *ret_bytes);

#endif
