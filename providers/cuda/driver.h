/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA driver, opened at run time.
 *
 * Owns: the table of its functions, and the translation of its results.
 * Never: links to it, or keeps more than one version of a function.
 *
 * An older driver lacks the newer functions. Without those of CUDA_NEEDED, which driver 11.0 has, there is no device.
 */
#ifndef FACET_CUDA_DRIVER_H
#define FACET_CUDA_DRIVER_H

#include <stdbool.h>

#include <facet/error.h>

#include "vendor/cuda/checkpoint.h"
#include "vendor/cuda/driver.h"
#include "vendor/cuda/execution.h"
#include "vendor/cuda/green.h"
#include "vendor/cuda/memory.h"

#define CUDA_NEEDED(X)                                                                                                 \
    X(cuInit)                                                                                                          \
    X(cuGetErrorString)                                                                                                \
    X(cuDeviceGetAttribute)                                                                                            \
    X(cuDeviceGetByPCIBusId)                                                                                           \
    X(cuDevicePrimaryCtxRetain)                                                                                        \
    X(cuDevicePrimaryCtxRelease_v2)                                                                                    \
    X(cuCtxPushCurrent_v2)                                                                                             \
    X(cuCtxPopCurrent_v2)                                                                                              \
    X(cuCtxSynchronize)                                                                                                \
    X(cuMemAlloc_v2)                                                                                                   \
    X(cuMemFree_v2)                                                                                                    \
    X(cuMemGetInfo_v2)                                                                                                 \
    X(cuMemcpyHtoD_v2)                                                                                                 \
    X(cuMemcpyDtoH_v2)                                                                                                 \
    X(cuMemcpyDtoD_v2)                                                                                                 \
    X(cuMemsetD8_v2)

/* Physical memory that is mapped at reserved addresses. */
#define CUDA_MAPPING(X)                                                                                                \
    X(cuMemAddressReserve)                                                                                             \
    X(cuMemAddressFree)                                                                                                \
    X(cuMemCreate)                                                                                                     \
    X(cuMemRelease)                                                                                                    \
    X(cuMemMap)                                                                                                        \
    X(cuMemUnmap)                                                                                                      \
    X(cuMemSetAccess)                                                                                                  \
    X(cuMemGetAllocationGranularity)

/* Streams and kernels. */
#define CUDA_EXECUTING(X)                                                                                              \
    X(cuStreamCreate)                                                                                                  \
    X(cuStreamDestroy_v2)                                                                                              \
    X(cuEventCreate)                                                                                                   \
    X(cuEventDestroy_v2)                                                                                               \
    X(cuEventRecord)                                                                                                   \
    X(cuEventQuery)                                                                                                    \
    X(cuEventElapsedTime)                                                                                              \
    X(cuModuleLoadDataEx)                                                                                              \
    X(cuModuleUnload)                                                                                                  \
    X(cuModuleGetFunction)                                                                                             \
    X(cuLaunchKernel)                                                                                                  \
    X(cuMemcpyHtoDAsync_v2)                                                                                            \
    X(cuMemcpyDtoDAsync_v2)                                                                                            \
    X(cuMemsetD8Async)                                                                                                 \
    X(cuMemsetD32Async)

/* Contexts on parts of the multiprocessors, without MPS (driver 12.5). Kernels of a library, unlike those of a module,
 * run in any part. */
#define CUDA_PARTITIONING(X)                                                                                           \
    X(cuDeviceGetDevResource)                                                                                          \
    X(cuDevSmResourceSplitByCount)                                                                                     \
    X(cuDevResourceGenerateDesc)                                                                                       \
    X(cuGreenCtxCreate)                                                                                                \
    X(cuGreenCtxDestroy)                                                                                               \
    X(cuGreenCtxStreamCreate)                                                                                          \
    X(cuLibraryLoadData)                                                                                               \
    X(cuLibraryGetModule)                                                                                              \
    X(cuLibraryUnload)                                                                                                 \
    X(cuLibraryGetKernel)

/* Contexts on parts of the multiprocessors, for a client of MPS (driver 11.4). */
#define CUDA_AFFINITY(X)                                                                                               \
    X(cuDeviceGetExecAffinitySupport)                                                                                  \
    X(cuCtxGetExecAffinity)                                                                                            \
    X(cuCtxCreate_v3)                                                                                                  \
    X(cuCtxDestroy_v2)

/* Memory that is allocated and freed in the order of a stream (driver 11.2). */
#define CUDA_SCRATCH(X)                                                                                                \
    X(cuMemAllocAsync)                                                                                                 \
    X(cuMemFreeAsync)

/* Moving processes off the device and back (driver 570, CUDA 12.8). */
#define CUDA_CHECKPOINTING(X)                                                                                          \
    X(cuCheckpointProcessGetState)                                                                                     \
    X(cuCheckpointProcessLock)                                                                                         \
    X(cuCheckpointProcessCheckpoint)                                                                                   \
    X(cuCheckpointProcessRestore)                                                                                      \
    X(cuCheckpointProcessUnlock)

struct cuda_driver {
    void *library; /* NULL: there is none */
#define CUDA_MEMBER(name) __typeof__(&name) name;
    CUDA_NEEDED(CUDA_MEMBER)
    CUDA_MAPPING(CUDA_MEMBER)
    CUDA_EXECUTING(CUDA_MEMBER)
    CUDA_PARTITIONING(CUDA_MEMBER)
    CUDA_AFFINITY(CUDA_MEMBER)
    CUDA_SCRATCH(CUDA_MEMBER)
    CUDA_CHECKPOINTING(CUDA_MEMBER)
#undef CUDA_MEMBER
};

/*
 * Opens libcuda.so.1, or the file that FACET_CUDA_DRIVER names, and initialises it. FACET_OK with `library` NULL: there
 * is no driver, or it reports no device. FACET_IO: it is installed and cannot be used; the error has the reason.
 */
enum facet_status cuda_driver_open(struct cuda_driver *ret_driver, struct facet_error *error);

/* Whether the driver has all functions of CUDA_MAPPING; of CUDA_EXECUTING, and so on. */
bool cuda_driver_maps(const struct cuda_driver *driver);
bool cuda_driver_executes(const struct cuda_driver *driver);
bool cuda_driver_can_partition(const struct cuda_driver *driver);
bool cuda_driver_has_affinity(const struct cuda_driver *driver);
bool cuda_driver_checkpoints(const struct cuda_driver *driver);

/* Refuses because `call` answered `result`. */
enum facet_status cuda_driver_fail(const struct cuda_driver *driver, struct facet_error *error, const char *call,
                                   CUresult result);

#endif
