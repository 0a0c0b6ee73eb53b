/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that HIP's graphs allocate, over interpose/kit/memory/graph.h.
 *
 * Owns: what a launch, and an allocation that is captured, ask before the runtime is called.
 * Never: changes a graph, or what a capture does.
 *
 * Some runtimes take a node's memory when the node is made, or an allocation captured, others when the graph is
 * launched: room is made before each of these, and what is held by then is charged behind it.
 */
#ifndef FACET_HIP_GRAPH_H
#define FACET_HIP_GRAPH_H

#include "charge.h"
#include "interpose/kit/memory/graph.h"

_Static_assert(FACET_HIP_TENANTS <= FACET_GRAPH_DEVICES, "each has a place");

/* Whether a stream is being captured, or cannot be asked because another is. */
bool facet_hip_is_capturing(hipStream_t stream);

/* Around a launch: what is reserved for it, and what becomes of that; `result` is the runtime's, and is returned. */
hipError_t facet_hip_graph_hold(hipGraphExec_t executable, hipStream_t stream, struct facet_graph_needs *ret_hold);
hipError_t facet_hip_graph_launched(const struct facet_graph_needs *hold, hipError_t result);

/* Before a node is made that allocates so much; behind it facet_hip_graph_launched(). */
hipError_t facet_hip_graph_adds(uint32_t device, uint64_t bytes, struct facet_graph_needs *ret_hold);

#endif
