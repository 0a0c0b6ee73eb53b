/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the list of hooked entry points for memory, and of the functions that these hooks call. hooks.h explains its
 * columns.
 */
#ifndef FACET_CUDA_MEMORY_HOOKS_H
#define FACET_CUDA_MEMORY_HOOKS_H

#define FACET_CUDA_MEMORY_HOOKS(X)                                                                                     \
    /* memory/report.c */                                                                                              \
    X(cuMemGetInfo, "cuMemGetInfo", 2000, ANY)                                                                         \
    X(cuMemGetInfo_v2, "cuMemGetInfo", 3020, ANY)                                                                      \
    X(cuDeviceTotalMem, "cuDeviceTotalMem", 2000, ANY)                                                                 \
    X(cuDeviceTotalMem_v2, "cuDeviceTotalMem", 3020, ANY)                                                              \
    /* memory/plain.c */                                                                                               \
    X(cuMemAlloc, "cuMemAlloc", 2000, ANY)                                                                             \
    X(cuMemAlloc_v2, "cuMemAlloc", 3020, ANY)                                                                          \
    X(cuMemAllocPitch, "cuMemAllocPitch", 2000, ANY)                                                                   \
    X(cuMemAllocPitch_v2, "cuMemAllocPitch", 3020, ANY)                                                                \
    X(cuMemFree, "cuMemFree", 2000, ANY)                                                                               \
    X(cuMemFree_v2, "cuMemFree", 3020, ANY)                                                                            \
    X(cuMemFreeAsync, "cuMemFreeAsync", 11020, LEGACY)                                                                 \
    X(cuMemFreeAsync_ptsz, "cuMemFreeAsync", 11020, PER_THREAD)                                                        \
    /* memory/managed.c */                                                                                             \
    X(cuMemAllocManaged, "cuMemAllocManaged", 6000, ANY)                                                               \
    /* memory/array.c */                                                                                               \
    X(cuArrayCreate, "cuArrayCreate", 2000, ANY)                                                                       \
    X(cuArrayCreate_v2, "cuArrayCreate", 3020, ANY)                                                                    \
    X(cuArray3DCreate, "cuArray3DCreate", 2000, ANY)                                                                   \
    X(cuArray3DCreate_v2, "cuArray3DCreate", 3020, ANY)                                                                \
    X(cuArrayDestroy, "cuArrayDestroy", 2000, ANY)                                                                     \
    X(cuMipmappedArrayCreate, "cuMipmappedArrayCreate", 5000, ANY)                                                     \
    X(cuMipmappedArrayDestroy, "cuMipmappedArrayDestroy", 5000, ANY)                                                   \
    /* memory/pool.c */                                                                                                \
    X(cuMemAllocAsync, "cuMemAllocAsync", 11020, LEGACY)                                                               \
    X(cuMemAllocAsync_ptsz, "cuMemAllocAsync", 11020, PER_THREAD)                                                      \
    X(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", 11020, LEGACY)                                               \
    X(cuMemAllocFromPoolAsync_ptsz, "cuMemAllocFromPoolAsync", 11020, PER_THREAD)                                      \
    X(cuMemPoolCreate, "cuMemPoolCreate", 11020, ANY)                                                                  \
    X(cuMemGetDefaultMemPool, "cuMemGetDefaultMemPool", 13000, ANY)                                                    \
    X(cuMemGetMemPool, "cuMemGetMemPool", 13000, ANY)                                                                  \
    X(cuMemPoolDestroy, "cuMemPoolDestroy", 11020, ANY)                                                                \
    X(cuMemPoolTrimTo, "cuMemPoolTrimTo", 11020, ANY)                                                                  \
    X(cuMemPoolExportToShareableHandle, "cuMemPoolExportToShareableHandle", 11020, ANY)                                \
    /* memory/virtual.c */                                                                                             \
    X(cuMemCreate, "cuMemCreate", 10020, ANY)                                                                          \
    X(cuMemRelease, "cuMemRelease", 10020, ANY)                                                                        \
    X(cuMemMap, "cuMemMap", 10020, ANY)                                                                                \
    X(cuMemUnmap, "cuMemUnmap", 10020, ANY)                                                                            \
    X(cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle", 11000, ANY)                                          \
    X(cuMemExportToShareableHandle, "cuMemExportToShareableHandle", 10020, ANY)                                        \
    X(cuMemImportFromShareableHandle, "cuMemImportFromShareableHandle", 10020, ANY)                                    \
    /* memory/reference.c */                                                                                           \
    X(cuMemMapArrayAsync, "cuMemMapArrayAsync", 11010, LEGACY)                                                         \
    X(cuMemMapArrayAsync_ptsz, "cuMemMapArrayAsync", 11010, PER_THREAD)                                                \
    X(cuMulticastBindMem, "cuMulticastBindMem", 12010, ANY)                                                            \
    X(cuMulticastBindAddr, "cuMulticastBindAddr", 12010, ANY)                                                          \
    X(cuMulticastUnbind, "cuMulticastUnbind", 12010, ANY)                                                              \
    /* memory/context.c */                                                                                             \
    X(cuCtxCreate, "cuCtxCreate", 2000, ANY)                                                                           \
    X(cuCtxCreate_v2, "cuCtxCreate", 3020, ANY)                                                                        \
    X(cuCtxCreate_v3, "cuCtxCreate", 11040, ANY)                                                                       \
    X(cuCtxCreate_v4, "cuCtxCreate", 12050, ANY)                                                                       \
    X(cuGLCtxCreate, "cuGLCtxCreate", 2000, ANY)                                                                       \
    X(cuGLCtxCreate_v2, "cuGLCtxCreate", 3020, ANY)                                                                    \
    X(cuVDPAUCtxCreate, "cuVDPAUCtxCreate", 3010, ANY)                                                                 \
    X(cuVDPAUCtxCreate_v2, "cuVDPAUCtxCreate", 3020, ANY)                                                              \
    X(cuCtxDetach, "cuCtxDetach", 2000, ANY)                                                                           \
    X(cuCtxDestroy, "cuCtxDestroy", 2000, ANY)                                                                         \
    X(cuCtxDestroy_v2, "cuCtxDestroy", 4000, ANY)                                                                      \
    X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000, ANY)                                                 \
    X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease", 7000, ANY)                                               \
    X(cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease", 11000, ANY)                                           \
    X(cuDevicePrimaryCtxReset, "cuDevicePrimaryCtxReset", 7000, ANY)                                                   \
    X(cuDevicePrimaryCtxReset_v2, "cuDevicePrimaryCtxReset", 11000, ANY)                                               \
    X(cuCtxSetLimit, "cuCtxSetLimit", 3010, ANY)                                                                       \
    /* memory/green.c */                                                                                               \
    X(cuGreenCtxCreate, "cuGreenCtxCreate", 12040, ANY)                                                                \
    X(cuGreenCtxDestroy, "cuGreenCtxDestroy", 12040, ANY)                                                              \
    /* memory/graph.c */                                                                                               \
    X(cuGraphInstantiate, "cuGraphInstantiate", 10000, ANY)                                                            \
    X(cuGraphInstantiate_v2, "cuGraphInstantiate", 11000, ANY)                                                         \
    X(cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags", 11040, ANY)                                          \
    X(cuGraphInstantiateWithParams, "cuGraphInstantiateWithParams", 12000, LEGACY)                                     \
    X(cuGraphInstantiateWithParams_ptsz, "cuGraphInstantiateWithParams", 12000, PER_THREAD)                            \
    X(cuGraphUpload, "cuGraphUpload", 11010, LEGACY)                                                                   \
    X(cuGraphUpload_ptsz, "cuGraphUpload", 11010, PER_THREAD)                                                          \
    X(cuGraphExecDestroy, "cuGraphExecDestroy", 10000, ANY)                                                            \
    X(cuDeviceGraphMemTrim, "cuDeviceGraphMemTrim", 11040, ANY)                                                        \
    /* memory/code.c */                                                                                                \
    X(cuModuleLoad, "cuModuleLoad", 2000, ANY)                                                                         \
    X(cuModuleLoadData, "cuModuleLoadData", 2000, ANY)                                                                 \
    X(cuModuleLoadDataEx, "cuModuleLoadDataEx", 2010, ANY)                                                             \
    X(cuModuleLoadFatBinary, "cuModuleLoadFatBinary", 2000, ANY)                                                       \
    X(cuModuleUnload, "cuModuleUnload", 2000, ANY)                                                                     \
    X(cuModuleGetFunction, "cuModuleGetFunction", 2000, ANY)                                                           \
    X(cuModuleGetGlobal, "cuModuleGetGlobal", 2000, ANY)                                                               \
    X(cuModuleGetGlobal_v2, "cuModuleGetGlobal", 3020, ANY)                                                            \
    X(cuLibraryLoadData, "cuLibraryLoadData", 12000, ANY)                                                              \
    X(cuLibraryLoadFromFile, "cuLibraryLoadFromFile", 12000, ANY)                                                      \
    X(cuLibraryUnload, "cuLibraryUnload", 12000, ANY)                                                                  \
    X(cuLibraryGetModule, "cuLibraryGetModule", 12000, ANY)                                                            \
    X(cuLibraryGetGlobal, "cuLibraryGetGlobal", 12000, ANY)                                                            \
    X(cuLibraryGetManaged, "cuLibraryGetManaged", 12000, ANY)                                                          \
    X(cuLibraryGetUnifiedFunction, "cuLibraryGetUnifiedFunction", 12000, ANY)                                          \
    X(cuKernelGetFunction, "cuKernelGetFunction", 12000, ANY)                                                          \
    X(cuFuncLoad, "cuFuncLoad", 12040, ANY)

#define FACET_CUDA_MEMORY_UNHOOKED(X)                                                                                  \
    X(cuCtxFromGreenCtx)                                                                                               \
    X(cuCtxGetApiVersion)                                                                                              \
    X(cuCtxGetLimit)                                                                                                   \
    X(cuCtxGetCurrent)                                                                                                 \
    X(cuDevicePrimaryCtxGetState)                                                                                      \
    X(cuDeviceGetMemPool)                                                                                              \
    X(cuDeviceGetDefaultMemPool)                                                                                       \
    X(cuModuleGetLoadingMode)                                                                                          \
    X(cuDeviceGetGraphMemAttribute)                                                                                    \
    X(cuGraphGetNodes)                                                                                                 \
    X(cuGraphGetEdges)                                                                                                 \
    X(cuGraphNodeGetType)                                                                                              \
    X(cuGraphMemAllocNodeGetParams)                                                                                    \
    X(cuGraphMemFreeNodeGetParams)                                                                                     \
    X(cuGraphChildGraphNodeGetGraph)                                                                                   \
    X(cuKernelGetLibrary)                                                                                              \
    X(cuMemPoolGetAttribute)                                                                                           \
    X(cuMemGetAddressRange_v2)                                                                                         \
    X(cuMemGetHandleForAddressRange)                                                                                   \
    X(cuPointerGetAttribute)                                                                                           \
    X(cuPointerGetAttributes)                                                                                          \
    X(cuMemAddressReserve)                                                                                             \
    X(cuMemAddressFree)                                                                                                \
    X(cuMemSetAccess)                                                                                                  \
    X(cuMemHostAlloc)                                                                                                  \
    X(cuMemFreeHost)                                                                                                   \
    X(cuMemcpyHtoD_v2)                                                                                                 \
    X(cuMemcpyDtoH_v2)                                                                                                 \
    X(cuStreamIsCapturing)                                                                                             \
    X(cuStreamIsCapturing_ptsz)

#endif
