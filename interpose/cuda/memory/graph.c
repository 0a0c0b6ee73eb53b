/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the hooks of graphs that allocate. Never: holds a lock while a graph is launched. */
#include "graph.h"

bool facet_cuda_is_capturing(CUstream stream, bool per_thread)
{
    CUresult (*ask)(CUstream, CUstreamCaptureStatus *) =
        per_thread ? facet_cuda_unhooked.cuStreamIsCapturing_ptsz : facet_cuda_unhooked.cuStreamIsCapturing;
    CUstreamCaptureStatus status = 0;
    CUresult result = ask ? ask(stream, &status) : CUDA_ERROR_NOT_SUPPORTED;

    return (result == CUDA_SUCCESS && status) || result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

/* ---- reading a graph ---- */

static bool nodes_of(void *graph, void **nodes, size_t *count)
{
    return facet_cuda_unhooked.cuGraphGetNodes(graph, (CUgraphNode *)nodes, count) == CUDA_SUCCESS;
}

static bool edges_of(void *graph, void **from, void **to, size_t *count)
{
    return facet_cuda_unhooked.cuGraphGetEdges(graph, (CUgraphNode *)from, (CUgraphNode *)to, count) == CUDA_SUCCESS;
}

/* Memory of the host counts against no quota. */
static void describe_allocation(struct facet_graph_node *node)
{
    CUDA_MEM_ALLOC_NODE_PARAMS_v1 parameters = {.bytesize = 0};
    const CUmemLocation *location = &parameters.poolProps.location;

    if (facet_cuda_unhooked.cuGraphMemAllocNodeGetParams(node->handle, &parameters) != CUDA_SUCCESS ||
        location->type != CU_MEM_LOCATION_TYPE_DEVICE || location->id < 0 ||
        (uint32_t)location->id >= facet_cuda_process.count)
        return;
    node->kind = FACET_GRAPH_ALLOCATES;
    node->device = (uint32_t)location->id;
    node->bytes = parameters.bytesize;
    node->pointer = parameters.dptr;
}

static void describe_node(struct facet_graph_node *node)
{
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    CUdeviceptr pointer = 0;
    CUgraph child = NULL;

    facet_cuda_unhooked.cuGraphNodeGetType(node->handle, &type);
    if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        describe_allocation(node);
    if (type == CU_GRAPH_NODE_TYPE_MEM_FREE &&
        facet_cuda_unhooked.cuGraphMemFreeNodeGetParams(node->handle, &pointer) == CUDA_SUCCESS) {
        node->kind = FACET_GRAPH_FREES;
        node->pointer = pointer;
    }
    if (type == CU_GRAPH_NODE_TYPE_GRAPH &&
        facet_cuda_unhooked.cuGraphChildGraphNodeGetGraph(node->handle, &child) == CUDA_SUCCESS) {
        node->kind = FACET_GRAPH_CHILD;
        node->child = child;
    }
}

static const struct facet_graph_reader reader = {.nodes = nodes_of, .edges = edges_of, .describe = describe_node};

/* ---- executables ---- */

static int destroy_executable(uint64_t executable)
{
    return facet_cuda_driver.cuGraphExecDestroy((CUgraphExec)(uintptr_t)executable);
}

/* Drivers before 11.4 have no nodes that allocate, nor functions to query them. */
static bool can_allocate(void)
{
    return facet_cuda_unhooked.cuGraphMemAllocNodeGetParams;
}

static CUresult graph_instantiated(CUresult result, const CUgraphExec *executable, CUgraph graph)
{
    struct facet_graph_needs needs;

    if (result != CUDA_SUCCESS || !can_allocate() || !facet_graph_needs(&reader, graph, &needs) ||
        facet_graph_made((uintptr_t)*executable, &needs))
        return result;
    destroy_executable((uintptr_t)*executable);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

#define INSTANTIATE(name, parameters, ...)                                                                             \
    CUresult facet_##name parameters                                                                                   \
    {                                                                                                                  \
        return graph_instantiated(facet_cuda_driver.name(__VA_ARGS__), executable, graph);                             \
    }

INSTANTIATE(cuGraphInstantiate,
            (CUgraphExec * executable, CUgraph graph, CUgraphNode *error_node, char *log, size_t size), executable,
            graph, error_node, log, size)
INSTANTIATE(cuGraphInstantiate_v2,
            (CUgraphExec * executable, CUgraph graph, CUgraphNode *error_node, char *log, size_t size), executable,
            graph, error_node, log, size)
INSTANTIATE(cuGraphInstantiateWithFlags, (CUgraphExec * executable, CUgraph graph, unsigned long long flags),
            executable, graph, flags)
/* An upload at instantiation maps memory, so that memory is reserved before the call, as for a launch. */
static CUresult with_parameters(CUgraphExec *executable, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *parameters,
                                CUresult (*driver)(CUgraphExec *, CUgraph, CUDA_GRAPH_INSTANTIATE_PARAMS *))
{
    struct facet_graph_needs needs, hold;

    if (!parameters || !(parameters->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) || !can_allocate() ||
        !facet_graph_needs(&reader, graph, &needs))
        return graph_instantiated(driver(executable, graph, parameters), executable, graph);
    if (facet_graph_hold(&needs, &hold) != FACET_MEMORY_CHARGED) {
        parameters->result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult result = graph_instantiated(driver(executable, graph, parameters), executable, graph);
    return facet_cuda_graph_launched(&hold, result);
}

CUresult facet_cuGraphInstantiateWithParams(CUgraphExec *executable, CUgraph graph,
                                            CUDA_GRAPH_INSTANTIATE_PARAMS *parameters)
{
    return with_parameters(executable, graph, parameters, facet_cuda_driver.cuGraphInstantiateWithParams);
}

CUresult facet_cuGraphInstantiateWithParams_ptsz(CUgraphExec *executable, CUgraph graph,
                                                 CUDA_GRAPH_INSTANTIATE_PARAMS *parameters)
{
    return with_parameters(executable, graph, parameters, facet_cuda_driver.cuGraphInstantiateWithParams_ptsz);
}

CUresult facet_cuGraphExecDestroy(CUgraphExec executable)
{
    return (CUresult)facet_graph_destroy((uintptr_t)executable, destroy_executable);
}

/* ---- launches ---- */

/*
 * A stream that cannot be queried counts as not running: the driver reports the error. A launch into a capture becomes
 * part of the captured graph.
 */
static bool runs_at_once(CUstream stream, bool per_thread)
{
    CUresult (*ask)(CUstream, CUstreamCaptureStatus *) =
        per_thread ? facet_cuda_unhooked.cuStreamIsCapturing_ptsz : facet_cuda_unhooked.cuStreamIsCapturing;
    CUstreamCaptureStatus status = 0;

    return !ask || (ask(stream, &status) == CUDA_SUCCESS && !status);
}

CUresult facet_cuda_graph_hold(CUgraphExec executable, CUstream stream, bool per_thread,
                               struct facet_graph_needs *ret_hold)
{
    *ret_hold = (struct facet_graph_needs){.bytes = {0}};
    if (!runs_at_once(stream, per_thread))
        return CUDA_SUCCESS;
    return facet_graph_hold_launch((uintptr_t)executable, ret_hold) == FACET_MEMORY_CHARGED ? CUDA_SUCCESS
                                                                                            : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult facet_cuda_graph_launched(const struct facet_graph_needs *hold, CUresult result)
{
    facet_graph_settle_hold(hold);
    return result;
}

/* An upload maps the same memory as a launch. */
static CUresult upload_graph(CUgraphExec executable, CUstream stream, bool per_thread,
                             CUresult (*driver)(CUgraphExec, CUstream))
{
    struct facet_graph_needs hold;

    if (!facet_graphs_any())
        return driver(executable, stream);
    CUresult result = facet_cuda_graph_hold(executable, stream, per_thread, &hold);
    return result == CUDA_SUCCESS ? facet_cuda_graph_launched(&hold, driver(executable, stream)) : result;
}

CUresult facet_cuGraphUpload(CUgraphExec executable, CUstream stream)
{
    return upload_graph(executable, stream, false, facet_cuda_driver.cuGraphUpload);
}

CUresult facet_cuGraphUpload_ptsz(CUgraphExec executable, CUstream stream)
{
    return upload_graph(executable, stream, true, facet_cuda_driver.cuGraphUpload_ptsz);
}

CUresult facet_cuDeviceGraphMemTrim(CUdevice device)
{
    CUresult result = facet_cuda_driver.cuDeviceGraphMemTrim(device);

    if (result == CUDA_SUCCESS && facet_graphs_ever_used())
        facet_graphs_settle((uint32_t)device);
    return result;
}
