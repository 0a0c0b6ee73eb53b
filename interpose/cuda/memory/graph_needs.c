/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: looking at a graph for what it may need (graph.h). Never: changes it, or knows what is charged. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "graph.h"
#include "interpose/cuda/hooks.h"

#define STEP UINT64_C(512)

/* A graph's nodes, in the order in which they run where that is one row, else in any. */
struct row {
    CUgraphNode *nodes;
    size_t count;
    bool ordered;
};

struct edge {
    CUgraphNode from, to;
};

static int by_start(const void *one, const void *other)
{
    uintptr_t left = (uintptr_t)((const struct edge *)one)->from, right = (uintptr_t)((const struct edge *)other)->from;

    return (left > right) - (left < right);
}

static CUgraphNode after(const struct edge *edges, size_t count, CUgraphNode node)
{
    struct edge wanted = {.from = node};
    const struct edge *found = bsearch(&wanted, edges, count, sizeof *edges, by_start);

    return found ? found->to : NULL;
}

static bool has_before(const struct edge *edges, size_t count, CUgraphNode node)
{
    for (size_t i = 0; i < count; i++)
        if (edges[i].to == node)
            return true;
    return false;
}

/* Every node but the last leads to one other, and from one end all are met: else they are left as they are. */
static void put_in_order(struct row *row, const struct edge *edges)
{
    size_t count = row->count - 1, met = 0;
    CUgraphNode node = NULL;
    FACET_CLEANUP_FREE CUgraphNode *ordered = calloc(row->count, sizeof *ordered);

    for (size_t i = 0; i < row->count && !node; i++)
        if (!has_before(edges, count, row->nodes[i]))
            node = row->nodes[i];
    for (; ordered && node && met < row->count; node = after(edges, count, node))
        ordered[met++] = node;
    row->ordered = met == row->count && !node;
    for (size_t i = 0; i < row->count && row->ordered; i++)
        row->nodes[i] = ordered[i];
}

/* A driver that cannot tell all there is to know of an edge says nothing. */
static void read_order(struct row *row, CUgraph graph)
{
    size_t count = 0;

    row->ordered = row->count == 1;
    if (row->ordered || facet_cuda_plain.cuGraphGetEdges(graph, NULL, NULL, &count) != CUDA_SUCCESS ||
        count != row->count - 1)
        return;
    FACET_CLEANUP_FREE CUgraphNode *ends = calloc(2 * count, sizeof *ends);
    FACET_CLEANUP_FREE struct edge *edges = calloc(count, sizeof *edges);
    if (!ends || !edges || facet_cuda_plain.cuGraphGetEdges(graph, ends, ends + count, &count) != CUDA_SUCCESS ||
        count != row->count - 1)
        return;
    for (size_t i = 0; i < count; i++)
        edges[i] = (struct edge){.from = ends[i], .to = ends[count + i]};
    qsort(edges, count, sizeof *edges, by_start);
    put_in_order(row, edges);
}

/* `nodes` is the caller's to free. */
static bool read_nodes(CUgraph graph, struct row *ret_row)
{
    size_t count = 0;

    *ret_row = (struct row){.nodes = NULL};
    if (facet_cuda_plain.cuGraphGetNodes(graph, NULL, &count) != CUDA_SUCCESS || !count)
        return false;
    ret_row->nodes = calloc(count, sizeof *ret_row->nodes);
    if (!ret_row->nodes || facet_cuda_plain.cuGraphGetNodes(graph, ret_row->nodes, &count) != CUDA_SUCCESS) {
        free(ret_row->nodes);
        return false;
    }
    ret_row->count = count;
    return true;
}

static CUgraphNodeType type_of(CUgraphNode node)
{
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;

    facet_cuda_plain.cuGraphNodeGetType(node, &type);
    return type;
}

/* Host memory is nobody's quota. False for what is not ours to count. */
static bool read_allocation(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS_v1 *ret_parameters)
{
    return facet_cuda_plain.cuGraphMemAllocNodeGetParams(node, ret_parameters) == CUDA_SUCCESS &&
           ret_parameters->poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
           ret_parameters->poolProps.location.id >= 0 &&
           (uint32_t)ret_parameters->poolProps.location.id < facet_cuda_process.count;
}

/* What a free node frees of the same row; what another graph allocated makes no room in this one. */
static bool find_freed(const struct row *row, CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS_v1 *ret_parameters)
{
    CUdeviceptr pointer = 0;

    if (facet_cuda_plain.cuGraphMemFreeNodeGetParams(node, &pointer) != CUDA_SUCCESS)
        return false;
    for (size_t i = 0; i < row->count; i++)
        if (type_of(row->nodes[i]) == CU_GRAPH_NODE_TYPE_MEM_ALLOC && read_allocation(row->nodes[i], ret_parameters) &&
            ret_parameters->dptr == pointer)
            return true;
    return false;
}

static uint64_t size_of(const CUDA_MEM_ALLOC_NODE_PARAMS_v1 *parameters)
{
    return parameters->bytesize > UINT64_MAX - STEP ? UINT64_MAX : (parameters->bytesize + STEP - 1) / STEP * STEP;
}

static void add(uint64_t *sum, uint64_t bytes)
{
    *sum = *sum > UINT64_MAX - bytes ? UINT64_MAX : *sum + bytes;
}

struct count {
    uint64_t alive[FACET_CUDA_TENANTS];
    struct facet_cuda_graph_needs *most;
    bool any;
};

static void count_node(const struct row *row, CUgraphNode node, struct count *count)
{
    CUDA_MEM_ALLOC_NODE_PARAMS_v1 parameters = {.bytesize = 0};
    CUgraphNodeType type = type_of(node);

    if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && read_allocation(node, &parameters)) {
        uint32_t device = (uint32_t)parameters.poolProps.location.id;

        count->any = true;
        add(&count->alive[device], size_of(&parameters));
        if (count->alive[device] > count->most->bytes[device])
            count->most->bytes[device] = count->alive[device];
    } else if (type == CU_GRAPH_NODE_TYPE_MEM_FREE && row->ordered && find_freed(row, node, &parameters)) {
        count->alive[parameters.poolProps.location.id] -= size_of(&parameters);
    }
}

/* A child's needs are taken to be there beside all of its parent's. */
static void add_child(CUgraphNode node, struct facet_cuda_graph_needs *children, bool *any)
{
    struct facet_cuda_graph_needs needs;
    CUgraph child = NULL;

    if (type_of(node) != CU_GRAPH_NODE_TYPE_GRAPH ||
        facet_cuda_plain.cuGraphChildGraphNodeGetGraph(node, &child) != CUDA_SUCCESS ||
        !facet_cuda_graph_needs(child, &needs))
        return;
    *any = true;
    for (uint32_t i = 0; i < FACET_CUDA_TENANTS; i++)
        add(&children->bytes[i], needs.bytes[i]);
}

static bool allocates(const struct row *row)
{
    for (size_t i = 0; i < row->count; i++) {
        CUgraphNodeType type = type_of(row->nodes[i]);

        if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_GRAPH)
            return true;
    }
    return false;
}

/* Drivers before 11.4 have no such nodes, nor the functions to ask for them. */
bool facet_cuda_graph_needs(CUgraph graph, struct facet_cuda_graph_needs *ret_needs)
{
    struct facet_cuda_graph_needs children = {.bytes = {0}};
    struct count count = {.most = ret_needs};
    struct row row;

    *ret_needs = (struct facet_cuda_graph_needs){.bytes = {0}};
    if (!facet_cuda_plain.cuGraphMemAllocNodeGetParams || !read_nodes(graph, &row))
        return false;
    FACET_CLEANUP_FREE CUgraphNode *nodes = row.nodes;
    if (!allocates(&row))
        return false;
    read_order(&row, graph);
    for (size_t i = 0; i < row.count; i++) {
        count_node(&row, nodes[i], &count);
        add_child(nodes[i], &children, &count.any);
    }
    for (uint32_t i = 0; i < FACET_CUDA_TENANTS; i++)
        add(&ret_needs->bytes[i], children.bytes[i]);
    return count.any;
}
