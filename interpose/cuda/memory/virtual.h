/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: what others ask of virtual.c: what holds memory besides handles and mappings (held.h), and fork.
 * Never: is called but under its lock, where it is not the lock itself or fork's.
 */
#ifndef FACET_CUDA_VIRTUAL_H
#define FACET_CUDA_VIRTUAL_H

#include <stdint.h>

#include "vendor/cuda/memory.h"

struct facet_cuda_virtual;

/* Held over the driver's call, in transit (interpose/kit/transit.h). */
void facet_cuda_virtual_lock(void);
void facet_cuda_virtual_unlock(void);

/* Memory that is charged here, by handle or by any address where it is mapped; else NULL. */
struct facet_cuda_virtual *facet_cuda_virtual_find(CUmemGenericAllocationHandle handle);
struct facet_cuda_virtual *facet_cuda_virtual_at(CUdeviceptr pointer);
uint32_t facet_cuda_virtual_device(const struct facet_cuda_virtual *memory);

/* Each hold is let go once. */
void facet_cuda_virtual_hold(struct facet_cuda_virtual *memory);
void facet_cuda_virtual_let_go(struct facet_cuda_virtual *memory);

void facet_cuda_virtual_before_fork(void);
void facet_cuda_virtual_after_fork(void);
void facet_cuda_virtual_forked(void);

#endif
