/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HIP runtime's graphs as far as memory goes: nodes that allocate and free, and queries of nodes.
 *
 * Owns: declarations, as vendor/hip/runtime.h says.
 */
#ifndef VENDOR_HIP_GRAPH_MEMORY_H
#define VENDOR_HIP_GRAPH_MEMORY_H

#include "vendor/hip/execution.h"

typedef int hipGraphNodeType;
enum {
    hipGraphNodeTypeKernel = 0,
    hipGraphNodeTypeGraph = 4,
    hipGraphNodeTypeEmpty = 5,
    hipGraphNodeTypeMemAlloc = 10,
    hipGraphNodeTypeMemFree = 11,
};

typedef int hipGraphMemAttributeType;
enum {
    hipGraphMemAttrUsedMemCurrent = 0,
    hipGraphMemAttrUsedMemHigh = 1,
    hipGraphMemAttrReservedMemCurrent = 2,
    hipGraphMemAttrReservedMemHigh = 3,
};

/* Instantiated so, a graph frees at its next launch the memory that it allocated and did not free. */
enum { hipGraphInstantiateFlagAutoFreeOnLaunch = 1, hipGraphInstantiateFlagUpload = 2 };
enum { hipGraphInstantiateSuccess = 0, hipGraphInstantiateError = 1 };

typedef struct hipMemAllocNodeParams {
    hipMemPoolProps poolProps;
    const hipMemAccessDesc *accessDescs;
    size_t accessDescCount;
    size_t bytesize;
    void *dptr; /* out */
} hipMemAllocNodeParams;

/* The parameters of any node, for hipGraphAddNode. Members that Facet does not read are not declared. */
typedef struct hipGraphNodeParams {
    hipGraphNodeType type;
    int reserved0[3];
    union {
        long long reserved1[29];
        hipMemAllocNodeParams alloc;
    };
    long long reserved2;
} hipGraphNodeParams;

typedef struct hipGraphInstantiateParams {
    hipGraphNode_t errNode_out;
    unsigned long long flags;
    int result_out;
    hipStream_t uploadStream;
} hipGraphInstantiateParams;

/* Some runtimes allocate when such a node is made, some when it is launched. */
hipError_t hipGraphAddMemAllocNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *dependencies,
                                   size_t count, hipMemAllocNodeParams *parameters);
hipError_t hipGraphAddMemFreeNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *dependencies,
                                  size_t count, void *pointer);
hipError_t hipGraphAddChildGraphNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *dependencies,
                                     size_t count, hipGraph_t child);
hipError_t hipGraphAddNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *dependencies, size_t count,
                           hipGraphNodeParams *parameters);
hipError_t hipGraphMemAllocNodeGetParams(hipGraphNode_t node, hipMemAllocNodeParams *parameters);
hipError_t hipGraphMemFreeNodeGetParams(hipGraphNode_t node, void *pointer); /* where the pointer is written */
hipError_t hipGraphNodeGetType(hipGraphNode_t node, hipGraphNodeType *type);
hipError_t hipGraphChildGraphNodeGetGraph(hipGraphNode_t node, hipGraph_t *graph);
hipError_t hipGraphGetNodes(hipGraph_t graph, hipGraphNode_t *nodes, size_t *count);
hipError_t hipGraphGetEdges(hipGraph_t graph, hipGraphNode_t *from, hipGraphNode_t *to, size_t *count);
hipError_t hipGraphInstantiateWithParams(hipGraphExec_t *executable, hipGraph_t graph,
                                         hipGraphInstantiateParams *parameters);
hipError_t hipDeviceGraphMemTrim(int device);
hipError_t hipDeviceGetGraphMemAttribute(int device, hipGraphMemAttributeType attribute, void *value);
hipError_t hipDeviceSetGraphMemAttribute(int device, hipGraphMemAttributeType attribute, void *value);

#endif
