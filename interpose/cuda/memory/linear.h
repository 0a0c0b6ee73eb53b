/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Charging linear memory that is not managed. Blocks below 1 MiB are charged by the regions of 2 MiB from which the
 * driver allocates them (interpose/kit/memory/region.h), larger ones by their own size.
 *
 * Owns: the choice between the two, and the reservation before the driver is called.
 * Never: calls the driver. Only the driver decides where a small block lies. If it lies in a region for which the quota
 * has no room, the caller frees it. If no region is charged yet, one is reserved before the driver is called.
 */
#ifndef FACET_CUDA_LINEAR_H
#define FACET_CUDA_LINEAR_H

#include "charge.h"

/* Like facet_cuda_charge_begin(), for `bytes` of linear memory. */
CUresult facet_cuda_linear_begin(uint32_t device, uint64_t bytes, struct facet_cuda_charge *ret_charge);

/*
 * Records the allocation after the driver's success. On failure, which means out of memory, the charge has been dropped
 * and the caller frees the memory. `bytes`: the actual size.
 */
CUresult facet_cuda_linear_keep(struct facet_cuda_charge *charge, uint64_t bytes, CUdeviceptr pointer);

#endif
