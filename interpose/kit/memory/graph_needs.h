/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory a graph may need of each device.
 *
 * Owns: looking through its nodes: of a row of nodes, as a stream's capture makes, the most that is alive at a time; of
 * any other shape the sum of what its nodes allocate, as a library gives one node's memory to another only where the
 * first is over for certain. Nodes of children count, beside all of their parent's.
 * Never: changes a graph, or knows what is charged.
 */
#ifndef FACET_MEMORY_GRAPH_NEEDS_H
#define FACET_MEMORY_GRAPH_NEEDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FACET_GRAPH_DEVICES 16u

struct facet_graph_needs {
    uint64_t bytes[FACET_GRAPH_DEVICES];
};

enum facet_graph_node_kind {
    FACET_GRAPH_OTHER,
    FACET_GRAPH_ALLOCATES, /* on a device of ours */
    FACET_GRAPH_FREES,
    FACET_GRAPH_CHILD,
};

struct facet_graph_node {
    void *handle;
    enum facet_graph_node_kind kind;
    uint32_t device;
    uint64_t pointer, bytes; /* of what is allocated or freed */
    void *child;
};

/* The vendor's functions. Each list is asked for twice, first with NULL for its length. */
struct facet_graph_reader {
    bool (*nodes)(void *graph, void **nodes, size_t *count);
    bool (*edges)(void *graph, void **from, void **to, size_t *count);
    void (*look)(struct facet_graph_node *node); /* fills in what belongs to its handle */
};

/* False when it allocates nothing. */
bool facet_graph_needs(const struct facet_graph_reader *reader, void *graph, struct facet_graph_needs *ret_needs);

#endif
