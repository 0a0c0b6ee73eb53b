/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a call of the driver takes of a device besides what it was asked for: contexts, code, limits.
 *
 * Owns: the two ways of asking how much is held, and which of them is used when.
 * Never: charges anything; believes a figure of NVML that may be another process's. All of it is called with the
 * contexts held (context.h), from before the driver's call until what it took is charged: lest two find the same.
 * Waits without end for nobody: what other threads have in transit when their time is up is reckoned with.
 *
 * By process: NVML's figure of this process, less what it was charged. Exact whatever other processes do. Used on a
 * device where this process was in NVML's list right after its first context was made, and was not before. In a
 * namespace of process ids it is not: NVML names processes by the machine's numbers.
 * By device: what NVML says is in use of the whole device, or else cuMemGetInfo, less what the vGPU was charged. The
 * latter can be asked in a context only: of a device's first one, what is in use afterwards and was charged to nobody
 * in the vGPU is taken for it. Processes of the device's vGPUs measure so one after another (facet_tenant_hold_device),
 * but what others allocate meanwhile is seen, so no call is taken to have cost more than FACET_CUDA_MEASURE_MOST. Used
 * where there is no NVML, or it does not list us.
 *
 * Both are differences. A thread of this process that allocates or frees at the same moment shifts them by what it is
 * about to be given, or has just lost: so each reading waits for a moment in which nothing is in transit, and new
 * allocations wait for the reading (interpose/kit/transit.h). Where there is no such moment, for a driver's call takes
 * long, what was in transit at the first reading and is no more is taken out of the growth: rather too little is
 * charged than a neighbour's gigabytes. Pools and graphs, which shrink unseen, are settled within it. Not seen in
 * transit: what graphs are about to take, what is being swapped, plain memory that cuMemFreeAsync frees later, and
 * other processes' allocations.
 */
#ifndef FACET_CUDA_MEASURE_H
#define FACET_CUDA_MEASURE_H

#include <stdbool.h>
#include <stdint.h>

#include "interpose/cuda/process.h"
#include "interpose/kit/transit.h"

#define FACET_CUDA_MEASURE_MOST (UINT64_C(512) << 20)

/* How long others are waited for that measure the same device as a whole: each takes as long as a context to make. */
#define FACET_CUDA_MEASURE_WAIT_NS UINT64_C(5000000000)

/* How long until nothing is in transit; a driver's call for GiBs takes milliseconds. */
#define FACET_CUDA_TRANSIT_WAIT_NS UINT64_C(50000000)

struct facet_cuda_measure {
    uint32_t device;
    bool first;                /* no context of ours was there to ask in */
    bool listed;               /* of a first one: NVML had our number before */
    int64_t managed;           /* of a first one: what is charged of managed memory, and held elsewhere; below 0 */
    int64_t before;            /* what was in use and charged to nobody; less than 0 where the driver has yet to give */
    struct facet_transit left; /* in transit all the same, as `before` was read */
};

/* Before the driver's call; `context` is one of the device's, NULL when this process has none there. */
void facet_cuda_measure_begin(struct facet_cuda_measure *measure, uint32_t device, CUcontext context);

/* Behind it: how many bytes it took. */
uint64_t facet_cuda_measure_growth(struct facet_cuda_measure *measure, CUcontext context);

/* What was measured is charged, or given up: called as the contexts are let go. */
void facet_cuda_measures_end(void);

void facet_cuda_measures_forked(void);

#endif
