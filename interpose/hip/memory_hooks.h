/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the list of hooked entry points for memory, and of the functions that these hooks call; hooks.h explains it. */
#ifndef FACET_HIP_MEMORY_HOOKS_H
#define FACET_HIP_MEMORY_HOOKS_H

#define FACET_HIP_MEMORY_HOOKS(X)                                                                                      \
    /* memory/report.c */                                                                                              \
    X(hipMemGetInfo)                                                                                                   \
    X(hipDeviceTotalMem)                                                                                               \
    X(hipDeviceGetAttribute)                                                                                           \
    X(hipGetDeviceProperties)                                                                                          \
    X(hipGetDevicePropertiesR0000)                                                                                     \
    X(hipGetDevicePropertiesR0600)                                                                                     \
    /* memory/plain.c */                                                                                               \
    X(hipMalloc)                                                                                                       \
    X(hipExtMallocWithFlags)                                                                                           \
    X(hipMallocManaged)                                                                                                \
    X(hipMallocPitch)                                                                                                  \
    X(hipMemAllocPitch)                                                                                                \
    X(hipMalloc3D)                                                                                                     \
    X(hipFree)                                                                                                         \
    X(hipFreeAsync)                                                                                                    \
    /* memory/array.c */                                                                                               \
    X(hipMallocArray)                                                                                                  \
    X(hipMalloc3DArray)                                                                                                \
    X(hipArrayCreate)                                                                                                  \
    X(hipArray3DCreate)                                                                                                \
    X(hipFreeArray)                                                                                                    \
    X(hipArrayDestroy)                                                                                                 \
    X(hipMallocMipmappedArray)                                                                                         \
    X(hipMipmappedArrayCreate)                                                                                         \
    X(hipFreeMipmappedArray)                                                                                           \
    X(hipMipmappedArrayDestroy)                                                                                        \
    /* memory/pool.c */                                                                                                \
    X(hipMallocAsync)                                                                                                  \
    X(hipMallocFromPoolAsync)                                                                                          \
    X(hipMemPoolCreate)                                                                                                \
    X(hipMemPoolDestroy)                                                                                               \
    X(hipMemPoolTrimTo)                                                                                                \
    X(hipMemPoolExportToShareableHandle)                                                                               \
    /* memory/virtual.c */                                                                                             \
    X(hipMemCreate)                                                                                                    \
    X(hipMemRelease)                                                                                                   \
    X(hipMemMap)                                                                                                       \
    X(hipMemUnmap)                                                                                                     \
    X(hipMemRetainAllocationHandle)                                                                                    \
    X(hipMemExportToShareableHandle)                                                                                   \
    X(hipMemImportFromShareableHandle)                                                                                 \
    /* memory/graph.c */                                                                                               \
    X(hipGraphAddMemAllocNode)                                                                                         \
    X(hipGraphAddNode)                                                                                                 \
    X(hipGraphInstantiate)                                                                                             \
    X(hipGraphInstantiateWithFlags)                                                                                    \
    X(hipGraphInstantiateWithParams)                                                                                   \
    X(hipGraphExecDestroy)                                                                                             \
    X(hipGraphUpload)                                                                                                  \
    X(hipDeviceGraphMemTrim)                                                                                           \
    /* memory/code.c */                                                                                                \
    X(hipModuleLoad)                                                                                                   \
    X(hipModuleLoadData)                                                                                               \
    X(hipModuleLoadDataEx)                                                                                             \
    X(hipModuleLoadFatBinary)                                                                                          \
    X(hipModuleUnload)                                                                                                 \
    X(hipLibraryLoadData)                                                                                              \
    X(hipLibraryLoadFromFile)                                                                                          \
    X(hipLibraryUnload)                                                                                                \
    X(hipLibraryGetKernel)                                                                                             \
    X(hipLibraryGetKernelCount)                                                                                        \
    X(hipGetFuncBySymbol)                                                                                              \
    X(hipFuncGetAttributes)                                                                                            \
    X(hipGetSymbolAddress)                                                                                             \
    X(hipGetSymbolSize)                                                                                                \
    X(hipOccupancyMaxActiveBlocksPerMultiprocessor)                                                                    \
    X(hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)                                                           \
    X(hipOccupancyMaxPotentialBlockSize)                                                                               \
    X(hipGraphAddKernelNode)                                                                                           \
    /* memory/registered.c */                                                                                          \
    X(__hipRegisterManagedVar)                                                                                         \
    X(__hipUnregisterFatBinary)

#define FACET_HIP_MEMORY_UNHOOKED(X)                                                                                   \
    X(hipDeviceGetMemPool)                                                                                             \
    X(hipMemPoolGetAttribute)                                                                                          \
    X(hipDeviceGetGraphMemAttribute)                                                                                   \
    X(hipGraphGetNodes)                                                                                                \
    X(hipGraphGetEdges)                                                                                                \
    X(hipGraphNodeGetType)                                                                                             \
    X(hipGraphMemAllocNodeGetParams)                                                                                   \
    X(hipGraphMemFreeNodeGetParams)                                                                                    \
    X(hipGraphChildGraphNodeGetGraph)

#endif
