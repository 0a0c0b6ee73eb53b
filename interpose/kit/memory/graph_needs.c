/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the traversal of a graph. Never: reads a node twice. */
#include "graph_needs.h"

#include <stdlib.h>

#include "base/cleanup.h"

#define STEP UINT64_C(512)

/* A graph's nodes, in execution order if they form a chain, else in any order. */
struct row {
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
static void *first_of(const struct row *row, const struct edge *edges)
{
    for (size_t i = 0; i < row->count; i++)
        if (!bsearch(&(struct edge){.to = row->nodes[i].handle}, edges, row->count - 1, sizeof *edges, by_end))
            return row->nodes[i].handle;
    return NULL;
}

/*
 * Sorts the nodes of a chain: every node but the last has one successor, and all are reached from the first. Others are
 * left as they are.
 */
static void put_in_order(struct row *row, struct edge *edges)
{
    size_t count = row->count - 1, met = 0;
    FACET_CLEANUP_FREE struct facet_graph_node *ordered = calloc(row->count, sizeof *ordered);

    qsort(edges, count, sizeof *edges, by_end);
    void *handle = first_of(row, edges);
    qsort(edges, count, sizeof *edges, by_start);
    qsort(row->nodes, row->count, sizeof *row->nodes, by_handle);
    while (ordered && handle && met < row->count) {
        const struct facet_graph_node *node =
            bsearch(&(struct facet_graph_node){.handle = handle}, row->nodes, row->count, sizeof *node, by_handle);
        const struct edge *next = bsearch(&(struct edge){.from = handle}, edges, count, sizeof *edges, by_start);

        if (!node)
            return;
        ordered[met++] = *node;
        handle = next ? next->to : NULL;
    }
    row->ordered = ordered && met == row->count && !handle;
    for (size_t i = 0; i < row->count && row->ordered; i++)
        row->nodes[i] = ordered[i];
}

/* If the library cannot describe an edge completely, its query fails, and the order is unknown. */
static void read_order(const struct facet_graph_reader *reader, struct row *row, void *graph)
{
    size_t count = 0;

    row->ordered = row->count == 1;
    if (row->ordered || !reader->edges(graph, NULL, NULL, &count) || count != row->count - 1)
        return;
    FACET_CLEANUP_FREE void **ends = calloc(2 * count, sizeof *ends);
    FACET_CLEANUP_FREE struct edge *edges = calloc(count, sizeof *edges);
    if (!ends || !edges || !reader->edges(graph, ends, ends + count, &count) || count != row->count - 1)
        return;
    for (size_t i = 0; i < count; i++)
        edges[i] = (struct edge){.from = ends[i], .to = ends[count + i]};
    put_in_order(row, edges);
}

/* The caller frees `nodes`. */
static bool read_nodes(const struct facet_graph_reader *reader, void *graph, struct row *ret_row)
{
    size_t count = 0;

    *ret_row = (struct row){.nodes = NULL};
    if (!reader->nodes(graph, NULL, &count) || !count)
        return false;
    FACET_CLEANUP_FREE void **handles = calloc(count, sizeof *handles);
    if (!handles || !reader->nodes(graph, handles, &count))
        return false;
    ret_row->nodes = calloc(count, sizeof *ret_row->nodes);
    if (!ret_row->nodes)
        return false;
    ret_row->count = count;
    for (size_t i = 0; i < count; i++) {
        ret_row->nodes[i].handle = handles[i];
        reader->look(&ret_row->nodes[i]);
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

/* The allocations of a row's nodes. */
struct allocations {
    const struct facet_graph_node **nodes; /* sorted with by_pointer() */
    size_t count;
};

static void list_allocations(const struct row *row, struct allocations *made)
{
    for (size_t i = 0; i < row->count; i++)
        if (row->nodes[i].kind == FACET_GRAPH_ALLOCATES)
            made->nodes[made->count++] = &row->nodes[i];
    qsort(made->nodes, made->count, sizeof *made->nodes, by_pointer);
}

/*
 * The allocation that a free node frees: the last one before it with that address, because addresses are reused.
 * Freeing another graph's allocation makes no room in this one.
 */
static const struct facet_graph_node *freed_by(const struct allocations *made, const struct facet_graph_node *node)
{
    size_t first = 0, end = made->count;

    while (first < end) {
        size_t middle = first + (end - first) / 2;

        if (by_pointer(&made->nodes[middle], &node) < 0)
            first = middle + 1;
        else
            end = middle;
    }
    return first && made->nodes[first - 1]->pointer == node->pointer ? made->nodes[first - 1] : NULL;
}

static uint64_t size_of(const struct facet_graph_node *node)
{
    return node->bytes > UINT64_MAX - STEP ? UINT64_MAX : (node->bytes + STEP - 1) / STEP * STEP;
}

static void add_capped(uint64_t *sum, uint64_t bytes)
{
    *sum = *sum > UINT64_MAX - bytes ? UINT64_MAX : *sum + bytes;
}

static void count_own(const struct row *row, struct facet_graph_needs *most)
{
    uint64_t alive[FACET_GRAPH_DEVICES] = {0};
    FACET_CLEANUP_FREE const struct facet_graph_node **nodes = calloc(row->count + 1, sizeof *nodes);
    struct allocations made = {.nodes = nodes};

    if (nodes && row->ordered) /* otherwise the list stays empty, and nothing counts as freed */
        list_allocations(row, &made);
    for (size_t i = 0; i < row->count; i++) {
        const struct facet_graph_node *node = &row->nodes[i], *freed = NULL;

        if (node->kind == FACET_GRAPH_FREES)
            freed = freed_by(&made, node);
        if (freed)
            alive[freed->device] -= size_of(freed);
        if (node->kind != FACET_GRAPH_ALLOCATES)
            continue;
        add_capped(&alive[node->device], size_of(node));
        if (alive[node->device] > most->bytes[node->device])
            most->bytes[node->device] = alive[node->device];
    }
}

/* The number of its nodes, and its children's, that allocate. */
static size_t count_all(const struct facet_graph_reader *reader, void *graph, struct facet_graph_needs *needs)
{
    struct row row;
    size_t any = 0;

    *needs = (struct facet_graph_needs){.bytes = {0}};
    if (!read_nodes(reader, graph, &row))
        return 0;
    FACET_CLEANUP_FREE struct facet_graph_node *nodes = row.nodes;
    for (size_t i = 0; i < row.count; i++)
        any += nodes[i].kind == FACET_GRAPH_ALLOCATES;
    if (any)
        read_order(reader, &row, graph);
    count_own(&row, needs);
    for (size_t i = 0; i < row.count; i++) {
        struct facet_graph_needs of_child = {.bytes = {0}};

        if (nodes[i].kind == FACET_GRAPH_CHILD)
            any += count_all(reader, nodes[i].child, &of_child);
        for (uint32_t device = 0; device < FACET_GRAPH_DEVICES; device++)
            add_capped(&needs->bytes[device], of_child.bytes[device]);
    }
    return any;
}

bool facet_graph_needs(const struct facet_graph_reader *reader, void *graph, struct facet_graph_needs *ret_needs)
{
    return count_all(reader, graph, ret_needs) > 0;
}
