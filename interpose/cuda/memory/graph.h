/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that graphs allocate: charged for what the driver holds of a device for all graphs of this process.
 *
 * Owns: what that was charged, and how much an executable may need at most.
 * Never: changes a graph, or what a capture does.
 *
 * The driver holds memory for graphs apart from pools, from their launch (or upload) until it is told to let go
 * (cuDeviceGraphMemTrim). Before a launch what the executable may need beyond what is held unused is reserved; a graph
 * that does not fit is refused, CUDA_ERROR_OUT_OF_MEMORY, and the driver is not called. Behind it the charge is brought
 * to what is held. What is held unused is let go of before anything is refused.
 *
 * What an executable may need is seen when it is instantiated: of a row of nodes, as a stream's capture makes, the most
 * that is alive at a time; of any other shape the sum of what its nodes allocate, as the driver gives one node's memory
 * to another only where the first is over for certain. Nodes of children count; bodies of conditions allocate nothing.
 */
#ifndef FACET_CUDA_GRAPH_H
#define FACET_CUDA_GRAPH_H

#include <stdatomic.h>
#include <stdbool.h>

#include "interpose/cuda/process.h"
#include "vendor/cuda/graph_memory.h"

struct facet_cuda_graph_needs {
    uint64_t bytes[FACET_CUDA_TENANTS];
};

/* How much a graph may need of each device. False when it allocates nothing. */
bool facet_cuda_graph_needs(CUgraph graph, struct facet_cuda_graph_needs *ret_needs);

extern _Atomic uint32_t facet_cuda_graph_count; /* living executables that allocate */
extern _Atomic bool facet_cuda_graphs_used;     /* there ever was one */

static inline bool facet_cuda_graphs_any(void)
{
    return __builtin_expect(atomic_load_explicit(&facet_cuda_graph_count, memory_order_relaxed) != 0, 0);
}

static inline bool facet_cuda_graphs_were(void)
{
    return __builtin_expect(atomic_load_explicit(&facet_cuda_graphs_used, memory_order_relaxed), 0);
}

/* Around a launch: what is reserved for it, and what becomes of that; `result` is the driver's, and is returned. */
CUresult facet_cuda_graph_hold(CUgraphExec executable, CUstream stream, bool per_thread,
                               struct facet_cuda_graph_needs *ret_hold);
CUresult facet_cuda_graph_launched(const struct facet_cuda_graph_needs *hold, CUresult result);

/* Compares what is charged of a device with what is held; the same after the driver was told to let go of the unused.
 */
void facet_cuda_graphs_settle(uint32_t device);
void facet_cuda_graphs_let_go(uint32_t device);

/* Settles, but where somebody has the lock, who may wait for something. */
void facet_cuda_graphs_settle_if_free(uint32_t device);

void facet_cuda_graphs_before_fork(void);
void facet_cuda_graphs_after_fork(void);
void facet_cuda_graphs_forked(void);

#endif
