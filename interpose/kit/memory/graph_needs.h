/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that a graph may need on each device.
 *
 * Owns: examining its nodes. For a chain of nodes, as a stream's capture makes, the need is the most that is allocated
 * at a time. For any other shape it is the sum of all allocations, because a library reuses one node's memory for
 * another only where the first has certainly finished. Nodes of children count in addition to all of their parent's.
 * Never: changes a graph, or knows the charge.
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
    uint64_t pointer, bytes; /* of the allocation or the free */
    void *child;
};

/* The vendor's functions. Each list is read twice, first with NULL for its length. */
struct facet_graph_reader {
    bool (*nodes)(void *graph, void **nodes, size_t *count);
    bool (*edges)(void *graph, void **from, void **to, size_t *count);
    void (*describe)(struct facet_graph_node *node); /* fills in the fields of the node with this handle */
};

/* False when the graph allocates nothing. */
bool facet_graph_needs(const struct facet_graph_reader *reader, void *graph, struct facet_graph_needs *ret_needs);

#endif
