/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measuring the device memory that a driver call takes as a side effect: contexts, code, limits.
 *
 * Owns: the two ways of reading how much is held, and the choice between them.
 * Never: charges anything; trusts a figure of NVML that may be another process's. Every function is called with the
 * contexts locked (context.h), from before the driver's call until the growth is charged, so that two threads do not
 * count the same growth. Every wait for other threads is bounded; their allocations still pending are taken into
 * account.
 *
 * By process: NVML's figure for this process, less its charges. It is exact whatever other processes do. It is used on
 * a device where NVML listed this process right after its first context was made, and not before. In a pid namespace of
 * its own a process is not listed under its pid: NVML uses the machine's pids.
 * By device: NVML's figure for the whole device, or else cuMemGetInfo's, less the vGPU's charges. cuMemGetInfo needs a
 * context, so with it the cost of a device's first context is all uncharged memory in use afterwards. Processes of the
 * device's vGPUs measure one after another (facet_tenant_lock_device). Allocations of other processes still disturb a
 * reading, so a call counts as at most FACET_CUDA_MEASURE_MOST. This way is used without NVML, and where NVML does not
 * list this process.
 *
 * Both are differences. A thread that allocates or frees at the same moment shifts them, so each reading waits until
 * nothing is pending, and new allocations wait for the reading (interpose/kit/pending.h). That wait is bounded. If a
 * driver call takes longer, memory that was pending at the first reading and is not at the second is subtracted from
 * the growth: charging too little is better than charging another thread's gigabytes. Pools and graphs, which shrink
 * without a call, are settled within a reading. Pending bytes do not cover memory that graphs are about to take,
 * swapping, plain memory that cuMemFreeAsync frees later, and other processes' allocations.
 */
#ifndef FACET_CUDA_MEASURE_H
#define FACET_CUDA_MEASURE_H

#include <stdbool.h>
#include <stdint.h>

#include "interpose/cuda/process.h"
#include "interpose/kit/pending.h"

#define FACET_CUDA_MEASURE_MOST (UINT64_C(512) << 20)

/* The longest wait for other processes that measure the same device; each takes as long as creating a context. */
#define FACET_CUDA_MEASURE_WAIT_NS UINT64_C(5000000000)

/* The longest wait until nothing is pending; a driver call for GiBs takes milliseconds. */
#define FACET_CUDA_PENDING_WAIT_NS UINT64_C(50000000)

struct facet_cuda_measure {
    uint32_t device;
    bool is_first;            /* the process had no context on the device */
    bool was_listed;          /* if is_first: NVML listed our pid before the call */
    int64_t minus_managed;    /* if is_first: minus the managed memory, which is charged here but may be elsewhere */
    int64_t uncharged_before; /* uncharged memory in use; negative if the driver has not yet allocated charged memory */
    struct facet_pending pending; /* still pending when `uncharged_before` was read */
};

/* Called before the driver; `context` is one of the device's, NULL when this process has none there. */
void facet_cuda_measure_begin(struct facet_cuda_measure *measure, uint32_t device, CUcontext context);

/* Called after the driver: the bytes that the call took. */
uint64_t facet_cuda_measure_growth(struct facet_cuda_measure *measure, CUcontext context);

/* Called when the contexts are released: the measurement has been charged or abandoned. */
void facet_cuda_measures_end(void);

void facet_cuda_measures_forked(void);

#endif
