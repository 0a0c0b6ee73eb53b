/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that graphs allocate: the charge is the memory that the library holds on a device for all graphs of this
 * process.
 *
 * Owns: this charge, and the most that each executable may need.
 * Never: calls a graph's own functions except through given functions.
 *
 * The library holds memory for graphs apart from pools, from their launch (upload, or instantiation) until a call makes
 * it release that memory. Before a launch, the need beyond held but unused memory is reserved. If the quota has no
 * room, unused memory is released first; then the graph is refused, and the library is not called. After the launch the
 * charge is adjusted to the held memory.
 */
#ifndef FACET_MEMORY_GRAPH_H
#define FACET_MEMORY_GRAPH_H

#include <stdatomic.h>

#include "charge.h"
#include "graph_needs.h"

extern _Atomic uint32_t facet_graph_count; /* live executables that allocate */
extern _Atomic bool facet_graphs_used;     /* whether there ever was an executable or a node that allocates */

static inline bool facet_graphs_any(void)
{
    return __builtin_expect(atomic_load_explicit(&facet_graph_count, memory_order_relaxed) != 0, 0);
}

static inline bool facet_graphs_ever_used(void)
{
    return __builtin_expect(atomic_load_explicit(&facet_graphs_used, memory_order_relaxed), 0);
}

/* Records a new executable and its needs. False when memory is out: the caller destroys it. */
bool facet_graph_made(uint64_t executable, const struct facet_graph_needs *needs);

/*
 * Destroys an executable. Its entry is taken out before the library is called, because another thread may get the same
 * handle right after.
 */
int facet_graph_destroy(uint64_t executable, int (*destroy)(uint64_t executable));

/* Reserves the given needs, or those of an executable, before the library is called. */
enum facet_memory_refusal facet_graph_hold(const struct facet_graph_needs *needs, struct facet_graph_needs *ret_hold);
enum facet_memory_refusal facet_graph_hold_launch(uint64_t executable, struct facet_graph_needs *ret_hold);

/* Called after the library, whatever its result: charges the memory held by now, and releases the rest. */
void facet_graph_settle_hold(const struct facet_graph_needs *hold);

/* Adjusts a device's charge to the held memory; `_trim` first makes the library release unused memory. */
void facet_graphs_settle(uint32_t device);
void facet_graphs_trim(uint32_t device);

/* Settles, unless another thread holds the lock: that thread may be waiting for the caller. */
void facet_graphs_settle_if_free(uint32_t device);

void facet_graphs_before_fork(void);
void facet_graphs_after_fork(void);
void facet_graphs_forked(void);

#endif
