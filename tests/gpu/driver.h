/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA driver, which programs of the GPU suite open at run time, by name.
 *
 * Owns: the functions that the programs call, and the kernels that they run, as PTX text.
 * Never: is linked against a driver, or calls a function of Facet.
 */
#ifndef FACET_TEST_GPU_DRIVER_H
#define FACET_TEST_GPU_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "vendor/cuda/execution.h"
#include "vendor/cuda/memory.h"

#define GPU_FUNCTIONS(X)                                                                                               \
    X(cuInit)                                                                                                          \
    X(cuDriverGetVersion)                                                                                              \
    X(cuDeviceGet)                                                                                                     \
    X(cuDeviceGetCount)                                                                                                \
    X(cuDeviceGetName)                                                                                                 \
    X(cuDeviceGetUuid_v2)                                                                                              \
    X(cuDeviceGetAttribute)                                                                                            \
    X(cuDeviceTotalMem_v2)                                                                                             \
    X(cuDevicePrimaryCtxRetain)                                                                                        \
    X(cuDevicePrimaryCtxRelease_v2)                                                                                    \
    X(cuCtxSetCurrent)                                                                                                 \
    X(cuCtxSynchronize)                                                                                                \
    X(cuStreamCreate)                                                                                                  \
    X(cuStreamSynchronize)                                                                                             \
    X(cuEventCreate)                                                                                                   \
    X(cuEventRecord)                                                                                                   \
    X(cuEventSynchronize)                                                                                              \
    X(cuEventElapsedTime)                                                                                              \
    X(cuModuleLoadData)                                                                                                \
    X(cuModuleGetFunction)                                                                                             \
    X(cuLaunchKernel)                                                                                                  \
    X(cuMemGetInfo_v2)                                                                                                 \
    X(cuMemAlloc_v2)                                                                                                   \
    X(cuMemFree_v2)                                                                                                    \
    X(cuMemAllocManaged)                                                                                               \
    X(cuMemAllocAsync)                                                                                                 \
    X(cuMemCreate)                                                                                                     \
    X(cuArrayCreate_v2)                                                                                                \
    X(cuMemsetD8_v2)                                                                                                   \
    X(cuMemcpyDtoH_v2)                                                                                                 \
    X(cuMemcpyHtoD_v2)

struct gpu {
#define GPU_FIELD(name) __typeof__(&name) name;
    GPU_FUNCTIONS(GPU_FIELD)
#undef GPU_FIELD
    CUdevice device;
    CUcontext context; /* the primary context of device 0, current in the thread that called gpu_enter() */
    int units;         /* the device's multiprocessors */
};
extern struct gpu gpu;

/* Checks the result of a call. On failure it prints the call and its result, and ends the program with status 1. */
#define GPU(call)       gpu_check(call, #call)
#define GPU_BLOCK       128u /* threads */
#define GPU_BLOCKS_A_SM 8u
#define GPU_SPIN_FACTOR UINT64_C(6364136223846793005)
#define GPU_SPIN_ADDEND UINT64_C(1442695040888963407)
void gpu_check(CUresult result, const char *call);

/* Opens libcuda.so.1 and initialises it. Prints what is missing and returns false if that fails. */
bool gpu_open(void);

/* Makes the primary context of device 0 current. Ends the program when the driver refuses. */
void gpu_enter(void);

/*
 * The kernel spin(out, steps): every thread makes `steps` dependent steps, and stores the result at out[its number].
 * The name has the time that the kernel is to take ("spin_1000us"), which only a fake driver reads.
 */
CUfunction gpu_spin(uint32_t microseconds);

/* store_words(words, count, value): its threads together store `value` to `count` words of 64 bits. */
CUfunction gpu_store(void);

/* empty_0us(): returns at once. */
CUfunction gpu_empty(void);

/* The value that each thread of spin() stores. */
uint64_t gpu_spin_result(uint64_t steps);

/* Launches spin() once, with threads that fill the device; `out` has room for gpu_spin_words() words of 64 bits. */
void gpu_launch_spin(CUfunction spin, CUdeviceptr out, uint64_t steps, CUstream stream);
uint64_t gpu_spin_words(void);

uint64_t gpu_now_ns(void);

#endif
