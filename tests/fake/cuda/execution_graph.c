/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: graphs, their edges as they were given, and their executables.
 * Never: orders nodes by their edges: this device does one thing at a time, in the order in which nodes were added.
 */
#include <string.h>

#include "execution.h"
#include "vendor/cuda/graph_memory.h"

struct CUgraphNode_st {
    struct fake_work work;
    CUgraph graph;
    size_t index;
    CUgraphNodeType type;
    CUgraphNode next;
};

struct edge {
    CUgraphNode from, to;
};

struct CUgraph_st {
    bool dead;
    size_t count;
    CUgraphNode first, last;
    struct edge *edges;
    size_t edge_count, edge_capacity;
};

struct CUgraphExec_st {
    bool dead, auto_free;
    size_t count;
    struct fake_work *works;
};

CUgraph fake_graph_new(void)
{
    CUgraph graph = fake_execution_allocate(sizeof *graph);

    return graph;
}

static CUgraphNodeType type_of(const struct fake_work *work)
{
    if (work->allocates || work->frees)
        return work->allocates ? CU_GRAPH_NODE_TYPE_MEM_ALLOC : CU_GRAPH_NODE_TYPE_MEM_FREE;
    return work->kernel ? CU_GRAPH_NODE_TYPE_KERNEL : CU_GRAPH_NODE_TYPE_EMPTY;
}

static void add_edge(CUgraph graph, CUgraphNode from, CUgraphNode to)
{
    if (graph->edge_count == graph->edge_capacity) {
        size_t capacity = graph->edge_capacity ? 2 * graph->edge_capacity : 16;
        struct edge *edges = fake_execution_allocate(capacity * sizeof *edges);

        if (graph->edge_count)
            memcpy(edges, graph->edges, graph->edge_count * sizeof *edges);
        graph->edges = edges;
        graph->edge_capacity = capacity;
    }
    graph->edges[graph->edge_count++] = (struct edge){from, to};
}

static void visit_allocations(const struct fake_work *work, void (*visit)(struct fake_allocation *))
{
    if (work->allocates)
        visit(work->allocates);
    if (work->frees)
        visit(work->frees);
}

static CUgraphNode append_node(CUgraph graph, struct fake_work work)
{
    CUgraphNode node = fake_execution_allocate(sizeof *node);

    visit_allocations(&work, fake_allocation_reference);
    node->work = work;
    node->type = type_of(&work);
    node->graph = graph;
    node->index = graph->count++;
    if (graph->last)
        graph->last->next = node;
    else
        graph->first = node;
    graph->last = node;
    return node;
}

/* Captured work forms a chain, with the work of streams that were joined to the capture. */
void fake_graph_add(CUgraph graph, struct fake_work work)
{
    CUgraphNode before = graph->last, node = append_node(graph, work);

    if (before)
        add_edge(graph, before, node);
}

static bool is_graph(CUgraph graph)
{
    return graph && !graph->dead;
}

CUresult cuGraphCreate(CUgraph *graph, unsigned flags)
{
    if (!graph || flags)
        return CUDA_ERROR_INVALID_VALUE;
    *graph = fake_graph_new();
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph)
{
    if (!is_graph(graph))
        return CUDA_ERROR_INVALID_VALUE;
    graph->dead = true;
    for (CUgraphNode node = graph->first; node; node = node->next)
        visit_allocations(&node->work, fake_allocation_unreference);
    return CUDA_SUCCESS;
}

static CUresult add_node(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                         struct fake_work work)
{
    if (!node || !is_graph(graph) || (count && !dependencies))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake_execution_lock);
    *node = append_node(graph, work);
    for (size_t i = 0; i < count; i++)
        add_edge(graph, dependencies[i], *node);
    pthread_mutex_unlock(&fake_execution_lock);
    return CUDA_SUCCESS;
}

static CUresult kernel_work(const CUDA_KERNEL_NODE_PARAMS_v2 *parameters, struct fake_work *ret_work)
{
    CUfunction function = parameters->func ? parameters->func : (CUfunction)parameters->kern;
    CUcontext context = parameters->ctx;
    uint64_t blocks = (uint64_t)parameters->gridDimX * parameters->gridDimY * parameters->gridDimZ;

    CUresult result = context ? fake_context_check(context) : fake_enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (!function || !blocks)
        return CUDA_ERROR_INVALID_VALUE;
    uint32_t units = fake_state()->devices[context->physical].units;
    *ret_work = (struct fake_work){.cost_ns = fake_kernel_ns(function, units, blocks), .kernel = true};
    return fake_code_load(function, context);
}

/* The newer structure begins with the older one. */
static CUDA_KERNEL_NODE_PARAMS_v2 parameters_v2_of(const CUDA_KERNEL_NODE_PARAMS_v1 *parameters)
{
    CUDA_KERNEL_NODE_PARAMS_v2 result = {0};

    memcpy(&result, parameters, sizeof *parameters);
    return result;
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                                 const CUDA_KERNEL_NODE_PARAMS_v2 *parameters)
{
    struct fake_work work;
    CUresult result = parameters ? kernel_work(parameters, &work) : CUDA_ERROR_INVALID_VALUE;

    return result == CUDA_SUCCESS ? add_node(node, graph, dependencies, count, work) : result;
}

CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                              const CUDA_KERNEL_NODE_PARAMS_v1 *parameters)
{
    if (!parameters)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_KERNEL_NODE_PARAMS_v2 parameters_v2 = parameters_v2_of(parameters);
    return cuGraphAddKernelNode_v2(node, graph, dependencies, count, &parameters_v2);
}

CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count)
{
    return add_node(node, graph, dependencies, count, (struct fake_work){0});
}

CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
    if (!is_graph(graph) || (count && (!from || !to)))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        add_edge(graph, from[i], to[i]);
    return CUDA_SUCCESS;
}

CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count)
{
    if (!is_graph(graph) || !count || !from != !to)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; from && i < *count && i < graph->edge_count; i++) {
        from[i] = graph->edges[i].from;
        to[i] = graph->edges[i].to;
    }
    if (!from || *count > graph->edge_count)
        *count = graph->edge_count;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
    if (!node || !type)
        return CUDA_ERROR_INVALID_VALUE;
    *type = node->type;
    return CUDA_SUCCESS;
}

/* ---- nodes of memory ---- */

CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                                CUDA_MEM_ALLOC_NODE_PARAMS_v1 *parameters)
{
    uint64_t address;
    uint32_t physical;

    if (!node || !is_graph(graph) || !parameters || !parameters->bytesize ||
        parameters->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        fake_physical(parameters->poolProps.location.id, &physical) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_VALUE;
    struct fake_allocation *allocation = fake_allocation_make(physical, parameters->bytesize, &address);
    if (!allocation)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = add_node(node, graph, dependencies, count, (struct fake_work){.allocates = allocation});
    fake_allocation_unreference(allocation);
    if (result == CUDA_SUCCESS)
        parameters->dptr = address;
    return result;
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                               CUdeviceptr pointer)
{
    struct fake_allocation *allocation = fake_allocation_at(pointer);

    return allocation ? add_node(node, graph, dependencies, count, (struct fake_work){.frees = allocation})
                      : CUDA_ERROR_INVALID_VALUE;
}

static CUdevice ordinal_of(uint32_t physical)
{
    uint32_t found;

    for (CUdevice device = 0; fake_physical(device, &found) == CUDA_SUCCESS; device++)
        if (found == physical)
            return device;
    return -1;
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS_v1 *parameters)
{
    if (!node || !node->work.allocates || !parameters)
        return CUDA_ERROR_INVALID_VALUE;
    *parameters = (CUDA_MEM_ALLOC_NODE_PARAMS_v1){
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE,
                                   .id = ordinal_of(fake_allocation_device(node->work.allocates))}},
        .bytesize = fake_allocation_bytes(node->work.allocates),
        .dptr = fake_allocation_address(node->work.allocates),
    };
    return CUDA_SUCCESS;
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *pointer)
{
    if (!node || !node->work.frees || !pointer)
        return CUDA_ERROR_INVALID_VALUE;
    *pointer = fake_allocation_address(node->work.frees);
    return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    size_t room = nodes && count ? *count : 0, at = 0;

    if (!is_graph(graph) || !count)
        return CUDA_ERROR_INVALID_VALUE;
    for (CUgraphNode node = graph->first; node && at < room; node = node->next)
        nodes[at++] = node;
    *count = nodes ? at : graph->count;
    return CUDA_SUCCESS;
}

/* ---- executables ---- */

static void copy_works(CUgraphExec executable, CUgraph graph)
{
    size_t at = 0;

    for (CUgraphNode node = graph->first; node; node = node->next)
        executable->works[at++] = node->work;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph, unsigned long long flags)
{
    CUgraphExec made;

    if (!executable || !is_graph(graph) || flags > 15)
        return CUDA_ERROR_INVALID_VALUE;
    made = fake_execution_allocate(sizeof *made);
    made->count = graph->count;
    made->works = fake_execution_allocate((graph->count + 1) * sizeof *made->works);
    copy_works(made, graph);
    made->auto_free = flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    for (size_t i = 0; i < made->count; i++)
        visit_allocations(&made->works[i], fake_allocation_reference);
    *executable = made;
    return CUDA_SUCCESS;
}

CUresult cuGraphInstantiate_v2(CUgraphExec *executable, CUgraph graph, CUgraphNode *error_node, char *log, size_t size)
{
    if (error_node)
        *error_node = NULL;
    if (log && size)
        *log = 0;
    return cuGraphInstantiateWithFlags(executable, graph, 0);
}

CUresult cuGraphInstantiate(CUgraphExec *executable, CUgraph graph, CUgraphNode *error_node, char *log, size_t size)
{
    return cuGraphInstantiate_v2(executable, graph, error_node, log, size);
}

static CUresult do_cuGraphInstantiateWithParams(bool per_thread, CUgraphExec *executable, CUgraph graph,
                                                CUDA_GRAPH_INSTANTIATE_PARAMS *parameters)
{
    CUstream stream;

    if (!parameters)
        return CUDA_ERROR_INVALID_VALUE;
    parameters->hErrNode_out = NULL;
    parameters->result_out = 0;
    CUresult result = fake_stream(parameters->hUploadStream, per_thread, &stream);
    if (result == CUDA_SUCCESS)
        result = cuGraphInstantiateWithFlags(executable, graph, parameters->flags);
    if (result != CUDA_SUCCESS || !(parameters->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD))
        return result;
    result = fake_allocations_upload((*executable)->works, (*executable)->count);
    if (result != CUDA_SUCCESS)
        cuGraphExecDestroy(*executable);
    return result;
}
FAKE_BOTH_FORMS(cuGraphInstantiateWithParams,
                (CUgraphExec * executable, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *parameters), executable, graph,
                parameters)

static bool is_executable(CUgraphExec executable)
{
    return executable && !executable->dead;
}

CUresult cuGraphExecDestroy(CUgraphExec executable)
{
    if (!is_executable(executable))
        return CUDA_ERROR_INVALID_VALUE;
    executable->dead = true;
    for (size_t i = 0; i < executable->count; i++)
        visit_allocations(&executable->works[i], fake_allocation_unreference);
    return CUDA_SUCCESS;
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec executable, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS_v2 *parameters)
{
    struct fake_work work;

    if (!is_executable(executable) || !node || node->index >= executable->count || !parameters)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = kernel_work(parameters, &work);
    if (result == CUDA_SUCCESS)
        executable->works[node->index] = work;
    return result;
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                        const CUDA_KERNEL_NODE_PARAMS_v1 *parameters)
{
    if (!parameters)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_KERNEL_NODE_PARAMS_v2 parameters_v2 = parameters_v2_of(parameters);
    return cuGraphExecKernelNodeSetParams_v2(executable, node, &parameters_v2);
}

/* An update does not change which memory a node allocates or frees. */
static bool has_same_memory(const struct fake_work *one, const struct fake_work *other)
{
    return one->allocates == other->allocates && one->frees == other->frees;
}

CUresult cuGraphExecUpdate_v2(CUgraphExec executable, CUgraph graph, CUgraphExecUpdateResultInfo *result)
{
    if (!is_executable(executable) || !is_graph(graph) || !result)
        return CUDA_ERROR_INVALID_VALUE;
    *result = (CUgraphExecUpdateResultInfo){0};
    if (executable->count != graph->count) {
        result->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    }
    for (CUgraphNode node = graph->first; node; node = node->next)
        if (!has_same_memory(&executable->works[node->index], &node->work))
            return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    copy_works(executable, graph);
    return CUDA_SUCCESS;
}

CUresult cuGraphExecUpdate(CUgraphExec executable, CUgraph graph, CUgraphNode *error_node,
                           CUgraphExecUpdateResult *result)
{
    CUgraphExecUpdateResultInfo info = {0};
    CUresult status = cuGraphExecUpdate_v2(executable, graph, &info);

    if (error_node)
        *error_node = info.errorNode;
    if (result)
        *result = info.result;
    return status;
}

static CUresult do_cuGraphUpload(bool per_thread, CUgraphExec executable, CUstream handle)
{
    CUstream stream;

    CUresult result = is_executable(executable) ? fake_stream(handle, per_thread, &stream) : CUDA_ERROR_INVALID_VALUE;

    return result == CUDA_SUCCESS ? fake_allocations_upload(executable->works, executable->count) : result;
}
FAKE_BOTH_FORMS(cuGraphUpload, (CUgraphExec executable, CUstream stream), executable, stream)

/* A launch into a captured stream adds the graph's nodes to the captured graph. */
static CUresult do_cuGraphLaunch(bool per_thread, CUgraphExec executable, CUstream handle)
{
    CUstream stream;
    CUresult result = is_executable(executable) ? fake_stream(handle, per_thread, &stream) : CUDA_ERROR_INVALID_VALUE;

    if (result == CUDA_SUCCESS && !atomic_load(&stream->captured))
        result = fake_allocations_run(executable->works, executable->count, executable->auto_free);
    for (size_t i = 0; result == CUDA_SUCCESS && i < executable->count; i++)
        result = fake_submit(stream, executable->works[i]);
    return result;
}
FAKE_BOTH_FORMS(cuGraphLaunch, (CUgraphExec executable, CUstream stream), executable, stream)
