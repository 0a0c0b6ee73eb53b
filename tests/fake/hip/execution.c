/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: streams, capture, events, copies and fills in stream order, graphs. Never: changes the order of work. */
#include <pthread.h>
#include <string.h>

#include "fake.h"
#include "tests/fake/cuda/execution.h"
#include "vendor/cuda/graph_memory.h"
#include "vendor/hip/graph_memory.h"

#define MASK_WORDS 32u

#define STREAM(stream) ((CUstream)(stream))
#define EVENT(event)   ((CUevent)(event))
#define GRAPH(graph)   ((CUgraph)(graph))
#define EXEC(graph)    ((CUgraphExec)(graph))
#define NODE(node)     ((CUgraphNode *)(node))

/*
 * Defines both forms of a function of a stream. HIP's form for the per-thread default stream ends in _spt, CUDA's in
 * _ptsz.
 */
#define BOTH(hip, cuda, parameters, ...)                                                                               \
    FAKE_HIP(hip, parameters, cuda(__VA_ARGS__)) FAKE_HIP(hip##_spt, parameters, cuda##_ptsz(__VA_ARGS__))

/* Kernels with the same mask run one after the other, across streams. A mask is identified by its device and units. */
static struct mask {
    struct mask *next;
    uint32_t device, words[MASK_WORDS];
    struct fake_lane lane;
} * masks;
static pthread_mutex_t masks_lock = PTHREAD_MUTEX_INITIALIZER;

static struct fake_lane *lane_of(const struct mask *wanted)
{
    pthread_mutex_lock(&masks_lock);
    struct mask *mask = masks;
    while (mask && (mask->device != wanted->device || memcmp(mask->words, wanted->words, sizeof mask->words) != 0))
        mask = mask->next;
    if (!mask) {
        mask = fake_execution_allocate(sizeof *mask);
        *mask = *wanted;
        mask->next = masks;
        masks = mask;
    }
    pthread_mutex_unlock(&masks_lock);
    return &mask->lane;
}

/* Bits beyond the device's units are ignored; a mask without a bit is refused. */
static CUresult make_masked(CUstream *ret_stream, uint32_t words, const uint32_t *mask)
{
    struct mask wanted = {0};
    uint32_t units = 0;
    CUresult result = cuStreamCreate(ret_stream, CU_STREAM_DEFAULT);

    if (result != CUDA_SUCCESS)
        return result;
    wanted.device = (*ret_stream)->context->physical;
    for (uint32_t unit = 0; unit < fake_state()->devices[wanted.device].units && unit < MASK_WORDS * 32; unit++) {
        if (unit / 32 >= words || !(mask[unit / 32] >> unit % 32 & 1))
            continue;
        wanted.words[unit / 32] |= UINT32_C(1) << unit % 32;
        units++;
    }
    if (!units) {
        cuStreamDestroy_v2(*ret_stream);
        return CUDA_ERROR_INVALID_VALUE;
    }
    (*ret_stream)->lane = lane_of(&wanted);
    (*ret_stream)->masked_units = units;
    return CUDA_SUCCESS;
}

static hipError_t get_mask(CUstream stream, uint32_t words, uint32_t *ret_mask)
{
    if (!stream->masked_units || words < MASK_WORDS)
        return hipErrorInvalidValue;
    const struct mask *mask = (const struct mask *)((const char *)stream->lane - offsetof(struct mask, lane));
    memcpy(ret_mask, mask->words, sizeof mask->words);
    return hipSuccess;
}

static CUdeviceptr device_address(const void *pointer)
{
    return (uintptr_t)pointer;
}

FAKE_HIP(hipStreamCreate, (hipStream_t * stream), cuStreamCreate((CUstream *)stream, CU_STREAM_DEFAULT))
FAKE_HIP(hipStreamCreateWithFlags, (hipStream_t * stream, unsigned flags), cuStreamCreate((CUstream *)stream, flags))
FAKE_HIP(hipStreamCreateWithPriority, (hipStream_t * stream, unsigned flags, int priority),
         cuStreamCreateWithPriority((CUstream *)stream, flags, priority))
FAKE_HIP(hipExtStreamCreateWithCUMask, (hipStream_t * stream, uint32_t words, const uint32_t *mask),
         (words && mask) ? make_masked((CUstream *)stream, words, mask) : hipErrorInvalidValue)
FAKE_HIP(hipExtStreamGetCUMask, (hipStream_t stream, uint32_t words, uint32_t *mask),
         (stream && mask) ? get_mask(STREAM(stream), words, mask) : hipErrorInvalidValue)
FAKE_HIP(hipStreamDestroy, (hipStream_t stream), stream ? cuStreamDestroy_v2(STREAM(stream)) : hipErrorInvalidHandle)
FAKE_HIP_QUERY(hipDeviceGetStreamPriorityRange, (int *least, int *greatest),
               (least && greatest) ? (*least = 1, *greatest = -1, hipSuccess) : hipErrorInvalidValue)
BOTH(hipStreamQuery, cuStreamQuery, (hipStream_t stream), STREAM(stream))
BOTH(hipStreamSynchronize, cuStreamSynchronize, (hipStream_t stream), STREAM(stream))
BOTH(hipStreamWaitEvent, cuStreamWaitEvent, (hipStream_t stream, hipEvent_t event, unsigned flags), STREAM(stream),
     EVENT(event), flags)
BOTH(hipStreamAddCallback, cuStreamAddCallback,
     (hipStream_t stream, hipStreamCallback_t callback, void *data, unsigned flags), STREAM(stream),
     (CUstreamCallback)(void *)callback, data, flags)
BOTH(hipLaunchHostFunc, cuLaunchHostFunc, (hipStream_t stream, hipHostFn_t function, void *data), STREAM(stream),
     function, data)
BOTH(hipStreamGetFlags, cuStreamGetFlags, (hipStream_t stream, unsigned *flags), STREAM(stream), flags)
BOTH(hipStreamGetPriority, cuStreamGetPriority, (hipStream_t stream, int *priority), STREAM(stream), priority)
FAKE_HIP(hipStreamGetDevice, (hipStream_t stream, hipDevice_t *device), cuStreamGetDevice(STREAM(stream), device))

int hipGetStreamDeviceId(hipStream_t stream)
{
    int device;

    return hipStreamGetDevice(stream, &device) == hipSuccess ? device : -1;
}

BOTH(hipStreamBeginCapture, cuStreamBeginCapture_v2, (hipStream_t stream, hipStreamCaptureMode mode), STREAM(stream),
     mode)
BOTH(hipStreamEndCapture, cuStreamEndCapture, (hipStream_t stream, hipGraph_t *graph), STREAM(stream), (CUgraph *)graph)
BOTH(hipStreamIsCapturing, cuStreamIsCapturing, (hipStream_t stream, hipStreamCaptureStatus *status), STREAM(stream),
     status)
BOTH(hipStreamGetCaptureInfo, cuStreamGetCaptureInfo,
     (hipStream_t stream, hipStreamCaptureStatus *status, unsigned long long *id), STREAM(stream), status,
     (uint64_t *)id)
FAKE_HIP(hipStreamBeginCaptureToGraph,
         (hipStream_t stream, hipGraph_t graph, const hipGraphNode_t *dependencies, const hipGraphEdgeData *edges,
          size_t count, hipStreamCaptureMode mode),
         cuStreamBeginCaptureToGraph(STREAM(stream), GRAPH(graph), (const CUgraphNode *)dependencies,
                                     (const CUgraphEdgeData *)edges, count, mode))
FAKE_HIP_QUERY(hipThreadExchangeStreamCaptureMode, (hipStreamCaptureMode * mode),
               cuThreadExchangeStreamCaptureMode(mode))

FAKE_HIP(hipEventCreate, (hipEvent_t * event), cuEventCreate((CUevent *)event, CU_EVENT_DEFAULT))
FAKE_HIP(hipEventCreateWithFlags, (hipEvent_t * event, unsigned flags), cuEventCreate((CUevent *)event, flags & 7))
FAKE_HIP(hipEventDestroy, (hipEvent_t event), event ? cuEventDestroy_v2(EVENT(event)) : hipErrorInvalidHandle)
FAKE_HIP(hipEventQuery, (hipEvent_t event), cuEventQuery(EVENT(event)))
FAKE_HIP(hipEventSynchronize, (hipEvent_t event), cuEventSynchronize(EVENT(event)))
FAKE_HIP(hipEventElapsedTime, (float *milliseconds, hipEvent_t start, hipEvent_t end),
         cuEventElapsedTime(milliseconds, EVENT(start), EVENT(end)))
BOTH(hipEventRecord, cuEventRecord, (hipEvent_t event, hipStream_t stream), EVENT(event), STREAM(stream))
FAKE_HIP(hipEventRecordWithFlags, (hipEvent_t event, hipStream_t stream, unsigned flags),
         cuEventRecordWithFlags(EVENT(event), STREAM(stream), flags))

BOTH(hipMemcpyAsync, cuMemcpyAsync, (void *to, const void *from, size_t bytes, hipMemcpyKind kind, hipStream_t stream),
     ((void)kind, device_address(to)), device_address(from), bytes, STREAM(stream))
FAKE_HIP(hipMemcpyWithStream, (void *to, const void *from, size_t bytes, hipMemcpyKind kind, hipStream_t stream),
         (hipMemcpyAsync(to, from, bytes, kind, stream) == hipSuccess) ? cuStreamSynchronize(STREAM(stream))
                                                                       : hipPeekAtLastError())
FAKE_HIP(hipMemcpyHtoDAsync, (hipDeviceptr_t to, void *from, size_t bytes, hipStream_t stream),
         cuMemcpyHtoDAsync_v2(device_address(to), from, bytes, STREAM(stream)))
FAKE_HIP(hipMemcpyDtoHAsync, (void *to, hipDeviceptr_t from, size_t bytes, hipStream_t stream),
         cuMemcpyDtoHAsync_v2(to, device_address(from), bytes, STREAM(stream)))
FAKE_HIP(hipMemcpyDtoDAsync, (hipDeviceptr_t to, hipDeviceptr_t from, size_t bytes, hipStream_t stream),
         cuMemcpyDtoDAsync_v2(device_address(to), device_address(from), bytes, STREAM(stream)))
FAKE_HIP(hipMemcpyPeerAsync,
         (void *to, int to_device, const void *from, int from_device, size_t bytes, hipStream_t stream),
         to_device < 0 || from_device < 0
             ? hipErrorInvalidDevice
             : cuMemcpyAsync(device_address(to), device_address(from), bytes, STREAM(stream)))
BOTH(hipMemsetAsync, cuMemsetD8Async, (void *to, int value, size_t bytes, hipStream_t stream), device_address(to),
     (unsigned char)value, bytes, STREAM(stream))
BOTH(hipMemset2DAsync, cuMemsetD2D8Async,
     (void *to, size_t pitch, int value, size_t width, size_t height, hipStream_t stream), device_address(to), pitch,
     (unsigned char)value, width, height, STREAM(stream))
FAKE_HIP(hipMemsetD8Async, (hipDeviceptr_t to, unsigned char value, size_t count, hipStream_t stream),
         cuMemsetD8Async(device_address(to), value, count, STREAM(stream)))
FAKE_HIP(hipMemsetD16Async, (hipDeviceptr_t to, unsigned short value, size_t count, hipStream_t stream),
         cuMemsetD16Async(device_address(to), value, count, STREAM(stream)))
FAKE_HIP(hipMemsetD32Async, (hipDeviceptr_t to, int value, size_t count, hipStream_t stream),
         cuMemsetD32Async(device_address(to), (unsigned)value, count, STREAM(stream)))

static hipError_t add_kernel(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *dependencies, size_t count,
                             const hipKernelNodeParams *parameters)
{
    CUfunction function;

    if (!parameters)
        return hipErrorInvalidValue;
    hipError_t result = fake_hip_function(parameters->func, &function);
    if (result == hipErrorInvalidDeviceFunction) { /* `func` is no host symbol, but a function itself */
        function = parameters->func;
        result = hipSuccess;
    }
    if (result != hipSuccess)
        return result;
    CUDA_KERNEL_NODE_PARAMS_v1 cuda_parameters = {.func = function,
                                                  .gridDimX = parameters->gridDim.x,
                                                  .gridDimY = parameters->gridDim.y,
                                                  .gridDimZ = parameters->gridDim.z,
                                                  .blockDimX = parameters->blockDim.x,
                                                  .blockDimY = parameters->blockDim.y,
                                                  .blockDimZ = parameters->blockDim.z,
                                                  .sharedMemBytes = parameters->sharedMemBytes,
                                                  .kernelParams = parameters->kernelParams,
                                                  .extra = parameters->extra};
    return cuGraphAddKernelNode(NODE(node), GRAPH(graph), (const CUgraphNode *)dependencies, count, &cuda_parameters);
}

FAKE_HIP(hipGraphCreate, (hipGraph_t * graph, unsigned flags), cuGraphCreate((CUgraph *)graph, flags))
FAKE_HIP(hipGraphDestroy, (hipGraph_t graph), cuGraphDestroy(GRAPH(graph)))
FAKE_HIP(hipGraphAddKernelNode,
         (hipGraphNode_t * node, hipGraph_t graph, const hipGraphNode_t *dependencies, size_t count,
          const hipKernelNodeParams *parameters),
         add_kernel(node, graph, dependencies, count, parameters))
FAKE_HIP(hipGraphAddEmptyNode,
         (hipGraphNode_t * node, hipGraph_t graph, const hipGraphNode_t *dependencies, size_t count),
         cuGraphAddEmptyNode(NODE(node), GRAPH(graph), (const CUgraphNode *)dependencies, count))
static hipError_t instantiate_graph(CUgraphExec *executable, CUgraph graph, hipGraphInstantiateParams *parameters)
{
    if (!parameters)
        return hipErrorInvalidValue;
    CUDA_GRAPH_INSTANTIATE_PARAMS cuda_parameters = {.flags = parameters->flags,
                                                     .hUploadStream = STREAM(parameters->uploadStream)};
    return cuGraphInstantiateWithParams(executable, graph, &cuda_parameters);
}

FAKE_HIP(hipGraphInstantiate,
         (hipGraphExec_t * executable, hipGraph_t graph, hipGraphNode_t *error_node, char *log, size_t size),
         cuGraphInstantiate_v2((CUgraphExec *)executable, GRAPH(graph), NODE(error_node), log, size))
FAKE_HIP(hipGraphInstantiateWithFlags, (hipGraphExec_t * executable, hipGraph_t graph, unsigned long long flags),
         cuGraphInstantiateWithFlags((CUgraphExec *)executable, GRAPH(graph), flags))
FAKE_HIP(hipGraphExecDestroy, (hipGraphExec_t executable), cuGraphExecDestroy(EXEC(executable)))
FAKE_HIP(hipGraphUpload, (hipGraphExec_t executable, hipStream_t stream),
         cuGraphUpload(EXEC(executable), STREAM(stream)))
BOTH(hipGraphLaunch, cuGraphLaunch, (hipGraphExec_t executable, hipStream_t stream), EXEC(executable), STREAM(stream))

_Static_assert(sizeof(hipMemAllocNodeParams) == sizeof(CUDA_MEM_ALLOC_NODE_PARAMS_v1),
               "HIP's and CUDA's struct must have the same layout");

FAKE_HIP(hipGraphInstantiateWithParams,
         (hipGraphExec_t * executable, hipGraph_t graph, hipGraphInstantiateParams *parameters),
         instantiate_graph((CUgraphExec *)executable, GRAPH(graph), parameters))
FAKE_HIP(hipGraphAddMemAllocNode,
         (hipGraphNode_t * node, hipGraph_t graph, const hipGraphNode_t *dependencies, size_t count,
          hipMemAllocNodeParams *parameters),
         cuGraphAddMemAllocNode(NODE(node), GRAPH(graph), (const CUgraphNode *)dependencies, count,
                                (CUDA_MEM_ALLOC_NODE_PARAMS_v1 *)parameters))
FAKE_HIP(hipGraphAddMemFreeNode,
         (hipGraphNode_t * node, hipGraph_t graph, const hipGraphNode_t *dependencies, size_t count, void *pointer),
         cuGraphAddMemFreeNode(NODE(node), GRAPH(graph), (const CUgraphNode *)dependencies, count,
                               device_address(pointer)))
FAKE_HIP(hipGraphAddNode,
         (hipGraphNode_t * node, hipGraph_t graph, const hipGraphNode_t *dependencies, size_t count,
          hipGraphNodeParams *parameters),
         (parameters && parameters->type == hipGraphNodeTypeMemAlloc)
             ? cuGraphAddMemAllocNode(NODE(node), GRAPH(graph), (const CUgraphNode *)dependencies, count,
                                      (CUDA_MEM_ALLOC_NODE_PARAMS_v1 *)&parameters->alloc)
             : hipErrorNotSupported)
FAKE_HIP(hipGraphMemAllocNodeGetParams, (hipGraphNode_t node, hipMemAllocNodeParams *parameters),
         cuGraphMemAllocNodeGetParams((CUgraphNode)node, (CUDA_MEM_ALLOC_NODE_PARAMS_v1 *)parameters))
FAKE_HIP(hipGraphMemFreeNodeGetParams, (hipGraphNode_t node, void *pointer),
         cuGraphMemFreeNodeGetParams((CUgraphNode)node, pointer))
FAKE_HIP(hipGraphNodeGetType, (hipGraphNode_t node, hipGraphNodeType *type),
         cuGraphNodeGetType((CUgraphNode)node, type))
FAKE_HIP(hipGraphGetNodes, (hipGraph_t graph, hipGraphNode_t *nodes, size_t *count),
         cuGraphGetNodes(GRAPH(graph), NODE(nodes), count))
FAKE_HIP(hipGraphGetEdges, (hipGraph_t graph, hipGraphNode_t *from, hipGraphNode_t *to, size_t *count),
         cuGraphGetEdges(GRAPH(graph), NODE(from), NODE(to), count))
FAKE_HIP(hipDeviceGraphMemTrim, (int device), cuDeviceGraphMemTrim(device))
FAKE_HIP_QUERY(hipDeviceGetGraphMemAttribute, (int device, hipGraphMemAttributeType attribute, void *value),
               cuDeviceGetGraphMemAttribute(device, attribute, value))
FAKE_HIP_QUERY(hipDeviceSetGraphMemAttribute, (int device, hipGraphMemAttributeType attribute, void *value),
               cuDeviceSetGraphMemAttribute(device, attribute, value))
