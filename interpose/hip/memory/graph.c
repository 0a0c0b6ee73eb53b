/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the hooks of graphs that allocate. Never: holds a lock while a graph is launched. */
#include "graph.h"

#include "interpose/hip/initialize.h"

/*
 * A stream that cannot be queried because another stream is captured counts as captured too. On an uninitialized device
 * no stream is captured, and a query would initialize the device.
 */
bool facet_hip_is_capturing(hipStream_t stream)
{
    hipStreamCaptureStatus status = hipStreamCaptureStatusNone;

    if (facet_hip_initialize_device(facet_hip_current_device()) != hipSuccess)
        return false;
    hipError_t result = facet_hip_unhooked.hipStreamIsCapturing
                            ? facet_hip_unhooked.hipStreamIsCapturing(stream, &status)
                            : hipErrorNotSupported;

    return (result == hipSuccess && status != hipStreamCaptureStatusNone) || result == hipErrorStreamCaptureImplicit;
}

/* ---- reading a graph ---- */

static bool nodes_of(void *graph, void **nodes, size_t *count)
{
    return facet_hip_unhooked.hipGraphGetNodes(graph, (hipGraphNode_t *)nodes, count) == hipSuccess;
}

static bool edges_of(void *graph, void **from, void **to, size_t *count)
{
    return facet_hip_unhooked.hipGraphGetEdges(graph, (hipGraphNode_t *)from, (hipGraphNode_t *)to, count) ==
           hipSuccess;
}

/* Memory of the host counts against no quota. */
static bool is_ours(const hipMemLocation *location)
{
    return location->type == hipMemLocationTypeDevice && location->id >= 0 &&
           (uint32_t)location->id < facet_hip_process.count;
}

static void describe_allocation(struct facet_graph_node *node)
{
    hipMemAllocNodeParams parameters = {.bytesize = 0};

    if (facet_hip_unhooked.hipGraphMemAllocNodeGetParams(node->handle, &parameters) != hipSuccess ||
        !is_ours(&parameters.poolProps.location))
        return;
    node->kind = FACET_GRAPH_ALLOCATES;
    node->device = (uint32_t)parameters.poolProps.location.id;
    node->bytes = parameters.bytesize;
    node->pointer = (uintptr_t)parameters.dptr;
}

static void describe_node(struct facet_graph_node *node)
{
    hipGraphNodeType type = hipGraphNodeTypeEmpty;
    hipGraph_t child = NULL;
    void *pointer = NULL;

    facet_hip_unhooked.hipGraphNodeGetType(node->handle, &type);
    if (type == hipGraphNodeTypeMemAlloc)
        describe_allocation(node);
    if (type == hipGraphNodeTypeMemFree &&
        facet_hip_unhooked.hipGraphMemFreeNodeGetParams(node->handle, &pointer) == hipSuccess) {
        node->kind = FACET_GRAPH_FREES;
        node->pointer = (uintptr_t)pointer;
    }
    if (type == hipGraphNodeTypeGraph &&
        facet_hip_unhooked.hipGraphChildGraphNodeGetGraph(node->handle, &child) == hipSuccess) {
        node->kind = FACET_GRAPH_CHILD;
        node->child = child;
    }
}

static const struct facet_graph_reader reader = {.nodes = nodes_of, .edges = edges_of, .describe = describe_node};

/* Runtimes before 5.5 have no nodes that allocate, nor functions to query them. */
static bool can_allocate(void)
{
    return facet_hip_unhooked.hipGraphMemAllocNodeGetParams && facet_hip_unhooked.hipDeviceGetGraphMemAttribute;
}

/* ---- executables ---- */

static int destroy_executable(uint64_t executable)
{
    /* NOLINTNEXTLINE(performance-no-int-to-ptr) */
    return facet_hip_driver.hipGraphExecDestroy((hipGraphExec_t)(uintptr_t)executable);
}

static hipError_t graph_instantiated(hipError_t result, const hipGraphExec_t *executable, hipGraph_t graph)
{
    struct facet_graph_needs needs;

    if (result != hipSuccess || !can_allocate() || !facet_graph_needs(&reader, graph, &needs) ||
        facet_graph_made((uintptr_t)*executable, &needs))
        return result;
    destroy_executable((uintptr_t)*executable);
    return hipErrorOutOfMemory;
}

#define INSTANTIATE(name, parameters, ...)                                                                             \
    hipError_t facet_##name parameters                                                                                 \
    {                                                                                                                  \
        return graph_instantiated(facet_hip_driver.name(__VA_ARGS__), executable, graph);                              \
    }

INSTANTIATE(hipGraphInstantiate,
            (hipGraphExec_t * executable, hipGraph_t graph, hipGraphNode_t *error_node, char *log, size_t size),
            executable, graph, error_node, log, size)
INSTANTIATE(hipGraphInstantiateWithFlags, (hipGraphExec_t * executable, hipGraph_t graph, unsigned long long flags),
            executable, graph, flags)
/* An upload at instantiation maps memory, so that memory is reserved before the call, as for a launch. */
hipError_t facet_hipGraphInstantiateWithParams(hipGraphExec_t *executable, hipGraph_t graph,
                                               hipGraphInstantiateParams *parameters)
{
    struct facet_graph_needs needs, hold = {.bytes = {0}};
    bool uploads = parameters && parameters->flags & hipGraphInstantiateFlagUpload && can_allocate() &&
                   facet_graph_needs(&reader, graph, &needs);

    if (uploads && facet_graph_hold(&needs, &hold) != FACET_MEMORY_CHARGED) {
        parameters->result_out = hipGraphInstantiateError;
        return hipErrorOutOfMemory;
    }
    hipError_t result = graph_instantiated(
        facet_hip_driver.hipGraphInstantiateWithParams(executable, graph, parameters), executable, graph);
    return uploads ? facet_hip_graph_launched(&hold, result) : result;
}

hipError_t facet_hipGraphExecDestroy(hipGraphExec_t executable)
{
    return facet_graph_destroy((uintptr_t)executable, destroy_executable);
}

/* ---- nodes, launches ---- */

hipError_t facet_hip_graph_adds(uint32_t device, uint64_t bytes, struct facet_graph_needs *ret_hold)
{
    struct facet_graph_needs needs = {.bytes = {0}};
    hipError_t result = facet_hip_initialize_device(device);

    *ret_hold = needs;
    if (result != hipSuccess || device >= FACET_GRAPH_DEVICES || !can_allocate())
        return result;
    needs.bytes[device] = bytes;
    return facet_hip_refusal(facet_graph_hold(&needs, ret_hold));
}

hipError_t facet_hipGraphAddMemAllocNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *dependencies,
                                         size_t count, hipMemAllocNodeParams *parameters)
{
    struct facet_graph_needs hold;

    if (!node || !graph || !parameters || (count && !dependencies) || !is_ours(&parameters->poolProps.location))
        return facet_hip_driver.hipGraphAddMemAllocNode(node, graph, dependencies, count, parameters);
    hipError_t result = facet_hip_graph_adds((uint32_t)parameters->poolProps.location.id, parameters->bytesize, &hold);
    if (result != hipSuccess)
        return result;
    result = facet_hip_driver.hipGraphAddMemAllocNode(node, graph, dependencies, count, parameters);
    return facet_hip_graph_launched(&hold, result);
}

hipError_t facet_hipGraphAddNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *dependencies,
                                 size_t count, hipGraphNodeParams *parameters)
{
    struct facet_graph_needs hold;

    if (!node || !graph || !parameters || (count && !dependencies) || parameters->type != hipGraphNodeTypeMemAlloc ||
        !is_ours(&parameters->alloc.poolProps.location))
        return facet_hip_driver.hipGraphAddNode(node, graph, dependencies, count, parameters);
    hipError_t result =
        facet_hip_graph_adds((uint32_t)parameters->alloc.poolProps.location.id, parameters->alloc.bytesize, &hold);
    if (result != hipSuccess)
        return result;
    result = facet_hip_driver.hipGraphAddNode(node, graph, dependencies, count, parameters);
    return facet_hip_graph_launched(&hold, result);
}

/*
 * A stream that cannot be queried counts as not running: the runtime reports the error. A launch into a capture becomes
 * part of the captured graph.
 */
static bool runs_at_once(hipStream_t stream)
{
    hipStreamCaptureStatus status = hipStreamCaptureStatusNone;

    return facet_hip_initialize_device(facet_hip_current_device()) != hipSuccess ||
           !facet_hip_unhooked.hipStreamIsCapturing ||
           (facet_hip_unhooked.hipStreamIsCapturing(stream, &status) == hipSuccess &&
            status == hipStreamCaptureStatusNone);
}

hipError_t facet_hip_graph_hold(hipGraphExec_t executable, hipStream_t stream, struct facet_graph_needs *ret_hold)
{
    *ret_hold = (struct facet_graph_needs){.bytes = {0}};
    if (!runs_at_once(stream))
        return hipSuccess;
    return facet_hip_refusal(facet_graph_hold_launch((uintptr_t)executable, ret_hold));
}

hipError_t facet_hip_graph_launched(const struct facet_graph_needs *hold, hipError_t result)
{
    facet_graph_settle_hold(hold);
    return result;
}

/* An upload maps the same memory as a launch. */
hipError_t facet_hipGraphUpload(hipGraphExec_t executable, hipStream_t stream)
{
    struct facet_graph_needs hold;

    if (!facet_graphs_any())
        return facet_hip_driver.hipGraphUpload(executable, stream);
    hipError_t result = facet_hip_graph_hold(executable, stream, &hold);
    return result == hipSuccess ? facet_hip_graph_launched(&hold, facet_hip_driver.hipGraphUpload(executable, stream))
                                : result;
}

hipError_t facet_hipDeviceGraphMemTrim(int device)
{
    hipError_t result = facet_hip_driver.hipDeviceGraphMemTrim(device);

    if (result == hipSuccess && facet_graphs_ever_used())
        facet_graphs_settle((uint32_t)device);
    return result;
}
