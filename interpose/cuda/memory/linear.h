/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Charging linear memory that is not managed: below 1 MiB by the regions of 2 MiB out of which the driver gives it
 * (interpose/kit/memory/region.h), from there on for itself.
 *
 * Owns: which of the two, and what is paid before the driver is asked.
 * Never: calls the driver. It alone knows where a small block comes to lie: what turns out to need a region for which
 * the quota has no room is freed again by the caller. Where no region is charged that could have room, it is not asked.
 */
#ifndef FACET_CUDA_LINEAR_H
#define FACET_CUDA_LINEAR_H

#include "charge.h"

/* As facet_cuda_charge_begin(). */
CUresult facet_cuda_linear_begin(uint32_t device, uint64_t bytes, struct facet_cuda_charge *ret_charge);

/* Behind the driver's success: remembers it. On failure, which is one of memory, the caller frees it; the charge has
 * been dropped. `bytes`: as it turned out. */
CUresult facet_cuda_linear_keep(struct facet_cuda_charge *charge, uint64_t bytes, CUdeviceptr pointer);

#endif
