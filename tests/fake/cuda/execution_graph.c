/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: graphs and their executables. Never: looks at edges: this device does one thing at a time. */
#include <string.h>

#include "execution.h"

struct CUgraphNode_st {
    struct fake_work work;
    CUgraph graph;
    size_t index;
    CUgraphNode next;
};

struct CUgraph_st {
    bool dead;
    size_t count;
    CUgraphNode first, last;
};

struct CUgraphExec_st {
    bool dead;
    size_t count;
    struct fake_work *works;
};

CUgraph fake_graph_new(void)
{
    CUgraph graph = fake_execution_make(sizeof *graph);

    return graph;
}

static CUgraphNode add(CUgraph graph, struct fake_work work)
{
    CUgraphNode node = fake_execution_make(sizeof *node);

    node->work = work;
    node->graph = graph;
    node->index = graph->count++;
    if (graph->last)
        graph->last->next = node;
    else
        graph->first = node;
    graph->last = node;
    return node;
}

void fake_graph_add(CUgraph graph, struct fake_work work)
{
    add(graph, work);
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
    return CUDA_SUCCESS;
}

static CUresult add_node(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                         struct fake_work work)
{
    if (!node || !is_graph(graph) || (count && !dependencies))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake_execution_lock);
    *node = add(graph, work);
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
    *ret_work = (struct fake_work){fake_kernel_ns(function, context, blocks), true};
    return fake_code_load(function, context);
}

/* The newer structure begins with the older one. */
static CUDA_KERNEL_NODE_PARAMS_v2 newer(const CUDA_KERNEL_NODE_PARAMS_v1 *parameters)
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
    CUDA_KERNEL_NODE_PARAMS_v2 all = newer(parameters);
    return cuGraphAddKernelNode_v2(node, graph, dependencies, count, &all);
}

CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count)
{
    return add_node(node, graph, dependencies, count, (struct fake_work){0});
}

CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
    return is_graph(graph) && (!count || (from && to)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
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
    made = fake_execution_make(sizeof *made);
    made->count = graph->count;
    made->works = fake_execution_make((graph->count + 1) * sizeof *made->works);
    copy_works(made, graph);
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
    return result == CUDA_SUCCESS ? cuGraphInstantiateWithFlags(executable, graph, parameters->flags) : result;
}
FAKE_BOTH(cuGraphInstantiateWithParams,
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
    CUDA_KERNEL_NODE_PARAMS_v2 all = newer(parameters);
    return cuGraphExecKernelNodeSetParams_v2(executable, node, &all);
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

    return is_executable(executable) ? fake_stream(handle, per_thread, &stream) : CUDA_ERROR_INVALID_VALUE;
}
FAKE_BOTH(cuGraphUpload, (CUgraphExec executable, CUstream stream), executable, stream)

/* Into a stream that is captured, a graph goes as a child. */
static CUresult do_cuGraphLaunch(bool per_thread, CUgraphExec executable, CUstream handle)
{
    CUstream stream;
    CUresult result = is_executable(executable) ? fake_stream(handle, per_thread, &stream) : CUDA_ERROR_INVALID_VALUE;

    for (size_t i = 0; result == CUDA_SUCCESS && i < executable->count; i++)
        result = fake_submit(stream, executable->works[i]);
    return result;
}
FAKE_BOTH(cuGraphLaunch, (CUgraphExec executable, CUstream stream), executable, stream)
