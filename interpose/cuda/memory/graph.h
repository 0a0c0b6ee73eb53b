/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that CUDA's graphs allocate, over interpose/kit/memory/graph.h.
 *
 * Owns: what a launch asks before the driver is called, and whether a stream is captured.
 * Never: changes a graph, or what a capture does.
 *
 * The driver holds memory for graphs apart from pools, from their launch (or upload) until it is told to let go
 * (cuDeviceGraphMemTrim). A graph that does not fit is refused, CUDA_ERROR_OUT_OF_MEMORY, and the driver is not called.
 * What an executable may need is seen when it is instantiated; bodies of conditions allocate nothing.
 */
#ifndef FACET_CUDA_GRAPH_H
#define FACET_CUDA_GRAPH_H

#include "charge.h"
#include "interpose/kit/memory/graph.h"
#include "vendor/cuda/graph_memory.h"

_Static_assert(FACET_CUDA_TENANTS <= FACET_GRAPH_DEVICES, "each has a place");

/* Whether a stream is being captured, or cannot be used because another is. `per_thread`: what NULL means. */
bool facet_cuda_is_capturing(CUstream stream, bool per_thread);

/* Around a launch: what is reserved for it, and what becomes of that; `result` is the driver's, and is returned. */
CUresult facet_cuda_graph_hold(CUgraphExec executable, CUstream stream, bool per_thread,
                               struct facet_graph_needs *ret_hold);
CUresult facet_cuda_graph_launched(const struct facet_graph_needs *hold, CUresult result);

#endif
