/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HIP runtime, opened at run time.
 *
 * Owns: the table of its functions, and the translation of its results.
 * Never: links to it, or initialises it before the first context (rocm.c has the reason).
 *
 * An older runtime lacks the newer functions. Without those of ROCM_NEEDED, which ROCm 5.2 has, there is no memory.
 */
#ifndef FACET_ROCM_RUNTIME_H
#define FACET_ROCM_RUNTIME_H

#include <stdbool.h>

#include <facet/error.h>

#include "vendor/hip/execution.h"
#include "vendor/hip/memory.h"
#include "vendor/hip/runtime.h"

#define ROCM_NEEDED(X)                                                                                                 \
    X(hipInit)                                                                                                         \
    X(hipGetErrorString)                                                                                               \
    X(hipGetDevice)                                                                                                    \
    X(hipSetDevice)                                                                                                    \
    X(hipDeviceGetAttribute)                                                                                           \
    X(hipDeviceGetByPCIBusId)                                                                                          \
    X(hipDeviceSynchronize)                                                                                            \
    X(hipMalloc)                                                                                                       \
    X(hipFree)                                                                                                         \
    X(hipMemGetInfo)                                                                                                   \
    X(hipMemcpyHtoD)                                                                                                   \
    X(hipMemcpyDtoH)                                                                                                   \
    X(hipMemcpyDtoD)                                                                                                   \
    X(hipMemsetD8)

/* Physical memory that is mapped at reserved addresses. */
#define ROCM_MAPPING(X)                                                                                                \
    X(hipMemAddressReserve)                                                                                            \
    X(hipMemAddressFree)                                                                                               \
    X(hipMemCreate)                                                                                                    \
    X(hipMemRelease)                                                                                                   \
    X(hipMemMap)                                                                                                       \
    X(hipMemUnmap)                                                                                                     \
    X(hipMemSetAccess)                                                                                                 \
    X(hipMemGetAllocationGranularity)

/* Streams and kernels. */
#define ROCM_EXECUTING(X)                                                                                              \
    X(hipStreamCreateWithFlags)                                                                                        \
    X(hipStreamDestroy)                                                                                                \
    X(hipEventCreateWithFlags)                                                                                         \
    X(hipEventDestroy)                                                                                                 \
    X(hipEventRecord)                                                                                                  \
    X(hipEventQuery)                                                                                                   \
    X(hipEventElapsedTime)                                                                                             \
    X(hipModuleLoadData)                                                                                               \
    X(hipModuleUnload)                                                                                                 \
    X(hipModuleGetFunction)                                                                                            \
    X(hipModuleLaunchKernel)                                                                                           \
    X(hipMemcpyHtoDAsync)                                                                                              \
    X(hipMemcpyDtoDAsync)                                                                                              \
    X(hipMemsetD8Async)

/* Memory that is allocated and freed in the order of a stream. */
#define ROCM_SCRATCH(X)                                                                                                \
    X(hipMallocAsync)                                                                                                  \
    X(hipFreeAsync)

/* Streams on some of the compute units. */
#define ROCM_MASKING(X) X(hipExtStreamCreateWithCUMask)

struct rocm_runtime {
    void *library; /* NULL: there is none that can be used */
    bool started;  /* hipInit() was called, and returned `result` */
    hipError_t result;
    char error[256]; /* the reason why the library is not used; empty otherwise */
#define ROCM_MEMBER(name) __typeof__(&name) name;
    ROCM_NEEDED(ROCM_MEMBER)
    ROCM_MAPPING(ROCM_MEMBER)
    ROCM_EXECUTING(ROCM_MEMBER)
    ROCM_SCRATCH(ROCM_MEMBER)
    ROCM_MASKING(ROCM_MEMBER)
#undef ROCM_MEMBER
};

/* Opens libamdhip64.so of ROCm 7, 6 or 5, or the file that FACET_ROCM_HIP names. */
void rocm_runtime_open(struct rocm_runtime *ret_runtime);

/* Whether the runtime has all functions of ROCM_MAPPING; whether it has all functions of ROCM_EXECUTING. */
bool rocm_runtime_maps(const struct rocm_runtime *runtime);
bool rocm_runtime_executes(const struct rocm_runtime *runtime);

/* Refuses because `call` answered `result`. */
enum facet_status rocm_runtime_fail(const struct rocm_runtime *runtime, struct facet_error *error, const char *call,
                                    hipError_t result);

#endif
