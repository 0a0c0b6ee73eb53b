/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that HIP's graphs allocate, over interpose/kit/memory/graph.h.
 *
 * Owns: the reservation of a launch, and of a captured allocation, before the runtime is called.
 * Never: changes a graph, or the effect of a capture.
 *
 * Some runtimes allocate a node's memory when the node is made or an allocation is captured, others when the graph is
 * launched. So memory is reserved before each of these calls, and after each the memory that is then held is charged.
 */
#ifndef FACET_HIP_GRAPH_H
#define FACET_HIP_GRAPH_H

#include "charge.h"
#include "interpose/kit/memory/graph.h"

_Static_assert(FACET_HIP_TENANTS <= FACET_GRAPH_DEVICES, "each vGPU has an entry");

/* Whether a stream is being captured, or cannot be queried because another stream is being captured. */
bool facet_hip_is_capturing(hipStream_t stream);

/*
 * Called before and after a launch. `_hold` reserves memory; `_launched` settles that reservation and returns `result`,
 * the runtime's result of the launch.
 */
hipError_t facet_hip_graph_hold(hipGraphExec_t executable, hipStream_t stream, struct facet_graph_needs *ret_hold);
hipError_t facet_hip_graph_launched(const struct facet_graph_needs *hold, hipError_t result);

/* Called before a node is made that allocates `bytes`; facet_hip_graph_launched() follows. */
hipError_t facet_hip_graph_adds(uint32_t device, uint64_t bytes, struct facet_graph_needs *ret_hold);

#endif
