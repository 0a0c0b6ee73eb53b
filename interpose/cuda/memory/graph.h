/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that CUDA's graphs allocate, over interpose/kit/memory/graph.h.
 *
 * Owns: the reservation of a launch before the driver is called, and the check whether a stream is captured.
 * Never: changes a graph, or the effect of a capture.
 *
 * The driver holds memory for graphs apart from pools, from their launch (or upload) until cuDeviceGraphMemTrim. A
 * graph for which the quota has no room is refused with CUDA_ERROR_OUT_OF_MEMORY, without a call to the driver. The
 * need of an executable is determined when it is instantiated; bodies of conditional nodes allocate nothing.
 */
#ifndef FACET_CUDA_GRAPH_H
#define FACET_CUDA_GRAPH_H

#include "charge.h"
#include "interpose/kit/memory/graph.h"
#include "vendor/cuda/graph_memory.h"

_Static_assert(FACET_CUDA_TENANTS <= FACET_GRAPH_DEVICES, "each vGPU has an entry");

/*
 * Whether a stream is being captured, or cannot be used because another stream is being captured. `per_thread`: NULL is
 * the per-thread default stream.
 */
bool facet_cuda_is_capturing(CUstream stream, bool per_thread);

/*
 * Called before and after a launch. `_hold` reserves memory; `_launched` settles that reservation and returns `result`,
 * the driver's result of the launch.
 */
CUresult facet_cuda_graph_hold(CUgraphExec executable, CUstream stream, bool per_thread,
                               struct facet_graph_needs *ret_hold);
CUresult facet_cuda_graph_launched(const struct facet_graph_needs *hold, CUresult result);

#endif
