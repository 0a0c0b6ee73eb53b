/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the traversal of a graph. Never: reads a node twice. */
#include "graph_needs.h"

#include <stdlib.h>

#include "base/cleanup.h"

#define ALLOCATION_STEP UINT64_C(512)

/* A graph's nodes, in execution order if they form a chain, else in any order. */
struct chain {
    struct facet_graph_node *nodes;
    size_t count;
    bool ordered;
};

struct edge {
    void *from, *to;
};

static int by_start(const void *one, const void *other)
{
    uintptr_t left = (uintptr_t)((const struct edge *)one)->from, right = (uintptr_t)((const struct edge *)other)->from;

    return (left > right) - (left < right);
}

static int by_end(const void *one, const void *other)
{
    uintptr_t left = (uintptr_t)((const struct edge *)one)->to, right = (uintptr_t)((const struct edge *)other)->to;

    return (left > right) - (left < right);
}

static int by_handle(const void *one, const void *other)
{
    uintptr_t left = (uintptr_t)((const struct facet_graph_node *)one)->handle;
    uintptr_t right = (uintptr_t)((const struct facet_graph_node *)other)->handle;

    return (left > right) - (left < right);
}

/* The only node without an incoming edge; NULL if there is none. `edges` are sorted by their ends. */
static void *first_in_chain(const struct chain *chain, const struct edge *edges)
{
    for (size_t i = 0; i < chain->count; i++)
        if (!bsearch(&(struct edge){.to = chain->nodes[i].handle}, edges, chain->count - 1, sizeof *edges, by_end))
            return chain->nodes[i].handle;
    return NULL;
}

/*
 * Sorts the nodes of a chain: every node but the last has one successor, and all are reached from the first. Nodes that
 * form no chain are left as they are.
 */
static void sort_chain(struct chain *chain, struct edge *edges)
{
    size_t count = chain->count - 1, found = 0;
    FACET_CLEANUP_FREE struct facet_graph_node *ordered = calloc(chain->count, sizeof *ordered);

    qsort(edges, count, sizeof *edges, by_end);
    void *handle = first_in_chain(chain, edges);
    qsort(edges, count, sizeof *edges, by_start);
    qsort(chain->nodes, chain->count, sizeof *chain->nodes, by_handle);
    while (ordered && handle && found < chain->count) {
        const struct facet_graph_node *node =
            bsearch(&(struct facet_graph_node){.handle = handle}, chain->nodes, chain->count, sizeof *node, by_handle);
        const struct edge *next = bsearch(&(struct edge){.from = handle}, edges, count, sizeof *edges, by_start);

        if (!node)
            return;
        ordered[found++] = *node;
        handle = next ? next->to : NULL;
    }
    chain->ordered = ordered && found == chain->count && !handle;
    for (size_t i = 0; i < chain->count && chain->ordered; i++)
        chain->nodes[i] = ordered[i];
}

/* If the library cannot describe an edge completely, its query fails, and the order is unknown. */
static void read_chain_order(const struct facet_graph_reader *reader, struct chain *chain, void *graph)
{
    size_t count = 0;

    chain->ordered = chain->count == 1;
    if (chain->ordered || !reader->edges(graph, NULL, NULL, &count) || count != chain->count - 1)
        return;
    FACET_CLEANUP_FREE void **ends = calloc(2 * count, sizeof *ends);
    FACET_CLEANUP_FREE struct edge *edges = calloc(count, sizeof *edges);
    if (!ends || !edges || !reader->edges(graph, ends, ends + count, &count) || count != chain->count - 1)
        return;
    for (size_t i = 0; i < count; i++)
        edges[i] = (struct edge){.from = ends[i], .to = ends[count + i]};
    sort_chain(chain, edges);
}

/* The caller frees `nodes`. */
static bool read_nodes(const struct facet_graph_reader *reader, void *graph, struct chain *ret_chain)
{
    size_t count = 0;

    *ret_chain = (struct chain){.nodes = NULL};
    if (!reader->nodes(graph, NULL, &count) || !count)
        return false;
    FACET_CLEANUP_FREE void **handles = calloc(count, sizeof *handles);
    if (!handles || !reader->nodes(graph, handles, &count))
        return false;
    ret_chain->nodes = calloc(count, sizeof *ret_chain->nodes);
    if (!ret_chain->nodes)
        return false;
    ret_chain->count = count;
    for (size_t i = 0; i < count; i++) {
        ret_chain->nodes[i].handle = handles[i];
        reader->describe(&ret_chain->nodes[i]);
    }
    return true;
}

/* Sorts by the allocated address, and for one address by the order in the chain. */
static int by_pointer(const void *one, const void *other)
{
    const struct facet_graph_node *left = *(const struct facet_graph_node *const *)one;
    const struct facet_graph_node *right = *(const struct facet_graph_node *const *)other;

    if (left->pointer != right->pointer)
        return left->pointer > right->pointer ? 1 : -1;
    return (left > right) - (left < right);
}

/* The allocations of a chain's nodes. */
struct allocations {
    const struct facet_graph_node **nodes; /* sorted with by_pointer() */
    size_t count;
};

static void list_allocations(const struct chain *chain, struct allocations *allocations)
{
    for (size_t i = 0; i < chain->count; i++)
        if (chain->nodes[i].kind == FACET_GRAPH_ALLOCATES)
            allocations->nodes[allocations->count++] = &chain->nodes[i];
    qsort(allocations->nodes, allocations->count, sizeof *allocations->nodes, by_pointer);
}

/*
 * The allocation that a free node frees: the last one before it with that address, because addresses are reused.
 * Freeing another graph's allocation makes no room in this one.
 */
static const struct facet_graph_node *allocation_freed_by(const struct allocations *allocations,
                                                          const struct facet_graph_node *node)
{
    size_t first = 0, end = allocations->count;

    while (first < end) {
        size_t middle = first + (end - first) / 2;

        if (by_pointer(&allocations->nodes[middle], &node) < 0)
            first = middle + 1;
        else
            end = middle;
    }
    return first && allocations->nodes[first - 1]->pointer == node->pointer ? allocations->nodes[first - 1] : NULL;
}

static uint64_t rounded_bytes(const struct facet_graph_node *node)
{
    return node->bytes > UINT64_MAX - ALLOCATION_STEP
               ? UINT64_MAX
               : (node->bytes + ALLOCATION_STEP - 1) / ALLOCATION_STEP * ALLOCATION_STEP;
}

static void add_capped(uint64_t *sum, uint64_t bytes)
{
    *sum = *sum > UINT64_MAX - bytes ? UINT64_MAX : *sum + bytes;
}

static void count_own_needs(const struct chain *chain, struct facet_graph_needs *most)
{
    uint64_t alive[FACET_GRAPH_DEVICES] = {0};
    FACET_CLEANUP_FREE const struct facet_graph_node **nodes = calloc(chain->count + 1, sizeof *nodes);
    struct allocations allocations = {.nodes = nodes};

    if (nodes && chain->ordered) /* otherwise the list stays empty, and nothing counts as freed */
        list_allocations(chain, &allocations);
    for (size_t i = 0; i < chain->count; i++) {
        const struct facet_graph_node *node = &chain->nodes[i], *freed = NULL;

        if (node->kind == FACET_GRAPH_FREES)
            freed = allocation_freed_by(&allocations, node);
        if (freed)
            alive[freed->device] -= rounded_bytes(freed);
        if (node->kind != FACET_GRAPH_ALLOCATES)
            continue;
        add_capped(&alive[node->device], rounded_bytes(node));
        if (alive[node->device] > most->bytes[node->device])
            most->bytes[node->device] = alive[node->device];
    }
}

/* The number of nodes of a graph and its children that allocate. */
static size_t count_needs(const struct facet_graph_reader *reader, void *graph, struct facet_graph_needs *needs)
{
    struct chain chain;
    size_t allocating = 0;

    *needs = (struct facet_graph_needs){.bytes = {0}};
    if (!read_nodes(reader, graph, &chain))
        return 0;
    FACET_CLEANUP_FREE struct facet_graph_node *nodes = chain.nodes;
    for (size_t i = 0; i < chain.count; i++)
        allocating += nodes[i].kind == FACET_GRAPH_ALLOCATES;
    if (allocating)
        read_chain_order(reader, &chain, graph);
    count_own_needs(&chain, needs);
    for (size_t i = 0; i < chain.count; i++) {
        struct facet_graph_needs of_child = {.bytes = {0}};

        if (nodes[i].kind == FACET_GRAPH_CHILD)
            allocating += count_needs(reader, nodes[i].child, &of_child);
        for (uint32_t device = 0; device < FACET_GRAPH_DEVICES; device++)
            add_capped(&needs->bytes[device], of_child.bytes[device]);
    }
    return allocating;
}

bool facet_graph_needs(const struct facet_graph_reader *reader, void *graph, struct facet_graph_needs *ret_needs)
{
    return count_needs(reader, graph, ret_needs) > 0;
}
