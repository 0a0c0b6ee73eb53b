/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that graphs allocate: charged for what the library holds of a device for all graphs of this process.
 *
 * Owns: what that was charged, and what each executable may need at most.
 * Never: calls a graph's own functions but through what it is given.
 *
 * The library holds memory for graphs apart from pools, from their launch (upload, or making) until it is told to let
 * go. Before such a call what is needed beyond what is held unused is reserved; what does not fit is refused, and the
 * library is not called. Behind it the charge is brought to what is held. What is held unused is let go of before
 * anything is refused.
 */
#ifndef FACET_MEMORY_GRAPH_H
#define FACET_MEMORY_GRAPH_H

#include <stdatomic.h>

#include "charge.h"
#include "graph_needs.h"

extern _Atomic uint32_t facet_graph_count; /* living executables that allocate */
extern _Atomic bool facet_graphs_used;     /* there ever was one, or a node that allocates */

static inline bool facet_graphs_any(void)
{
    return __builtin_expect(atomic_load_explicit(&facet_graph_count, memory_order_relaxed) != 0, 0);
}

static inline bool facet_graphs_were(void)
{
    return __builtin_expect(atomic_load_explicit(&facet_graphs_used, memory_order_relaxed), 0);
}

/* An executable was made that may need so much. False when memory is out: the caller ends it. */
bool facet_graph_made(uint64_t executable, const struct facet_graph_needs *needs);

/* Ends one: taken out before the library is called, as another thread may get the same handle right after. */
int facet_graph_destroy(uint64_t executable, int (*destroy)(uint64_t executable));

/* Reserves what is needed, or what the launch of an executable may need, before the library's call. */
enum facet_memory_refusal facet_graph_hold(const struct facet_graph_needs *needs, struct facet_graph_needs *ret_hold);
enum facet_memory_refusal facet_graph_hold_launch(uint64_t executable, struct facet_graph_needs *ret_hold);

/* Behind it, whatever it answered: charges what is held by now, and gives the rest back. */
void facet_graph_held(const struct facet_graph_needs *hold);

/* Compares what is charged of a device with what is held; the same after the library let go of the unused. */
void facet_graphs_settle(uint32_t device);
void facet_graphs_let_go(uint32_t device);

/* Settles, but where somebody has the lock, who may wait for something. */
void facet_graphs_settle_if_free(uint32_t device);

void facet_graphs_before_fork(void);
void facet_graphs_after_fork(void);
void facet_graphs_forked(void);

#endif
