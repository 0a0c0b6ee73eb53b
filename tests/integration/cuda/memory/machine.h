/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fake machine with vGPUs on it, and roles: children that call CUDA through Facet's library. The test reads the state
 * of the machine and of the vGPUs.
 *
 * Owns: the machine's file, the segments, and the functions that a role calls.
 * Never: calls CUDA in the test's own process. A role is a fork of that process. It reads the segments and the
 * machine's state like the test, and a CHECK() that does not hold ends it. In the test's own process, state.h's
 * functions always read the first machine for which they were called.
 */
#ifndef FACET_TEST_CUDA_MACHINE_H
#define FACET_TEST_CUDA_MACHINE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

#include "limiter/segment.h"
#include "segment.h"
#include "tests/fake/cuda/state.h"
#include "vendor/cuda/copy.h"
#include "vendor/cuda/execution.h"
#include "vendor/cuda/graph_memory.h"
#include "vendor/cuda/graphics.h"
#include "vendor/cuda/green.h"
#include "vendor/cuda/memory.h"

#define KIB UINT64_C(1024)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

#define MACHINE_DEVICES 2u
#define MACHINE_CONTEXT (300 * MIB) /* what a context costs on a machine made with "300M" */

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);                             \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

#define CHECK_EQUAL(left, right)                                                                                       \
    do {                                                                                                               \
        unsigned long long is = (unsigned long long)(left), wanted = (unsigned long long)(right);                      \
        if (is != wanted) {                                                                                            \
            fprintf(stderr, "%s:%d: %s is %llu, expected %llu\n", __FILE__, __LINE__, #left, is, wanted);              \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

struct machine {
    char state[96];        /* the path of the machine's file */
    int file;              /* a descriptor of that file */
    uint32_t count;        /* of vGPUs; vGPU N is of device N */
    bool no_nvml;          /* set by a test: roles find no management library */
    bool is_old;           /* set by a test: the roles' driver is that of CUDA 12.0 */
    bool lists_other_pids; /* set by a test: the driver lists roles by other process ids, as for a container */
    struct test_segment segments[MACHINE_DEVICES];
    struct facet_usage *usage[MACHINE_DEVICES];
};
extern struct machine machine;

/* A machine of `count` devices of 8 GiB, each with a vGPU of `limits[i]` bytes; a context costs `context` ("300M"). */
void machine_make(uint32_t count, const uint64_t *limits, const char *context);
void machine_remove(void);

/* Runs `role` in a child, inside all vGPUs or outside them, and does not wait for it. */
pid_t machine_start(void (*role)(void *argument), void *argument, bool in_vgpu);

/* Waits for a role's end. The test fails if the role failed. */
void machine_wait(pid_t pid);

/* Starts `role` and waits for it, in a new machine with one vGPU of `limit` bytes and contexts of MACHINE_CONTEXT. */
void machine_run(void (*role)(void *argument), uint64_t limit);

/* The bytes charged to the vGPU of `device`, and those of them that are charged to the calling process. */
uint64_t machine_charged(uint32_t device);
uint64_t machine_charged_to_self(uint32_t device);

/* The driver's functions, through Facet's library. Roles call cuda.cuMemAlloc_v2(...). */
#define MACHINE_FUNCTIONS(X)                                                                                           \
    X(cuInit)                                                                                                          \
    X(cuGetProcAddress)                                                                                                \
    X(cuGetProcAddress_v2)                                                                                             \
    X(cuDeviceTotalMem_v2)                                                                                             \
    X(cuDeviceTotalMem)                                                                                                \
    X(cuCtxCreate_v2)                                                                                                  \
    X(cuCtxCreate)                                                                                                     \
    X(cuCtxCreate_v3)                                                                                                  \
    X(cuCtxCreate_v4)                                                                                                  \
    X(cuCtxDestroy_v2)                                                                                                 \
    X(cuCtxDestroy)                                                                                                    \
    X(cuCtxPopCurrent_v2)                                                                                              \
    X(cuCtxSetCurrent)                                                                                                 \
    X(cuDevicePrimaryCtxRetain)                                                                                        \
    X(cuDevicePrimaryCtxRelease_v2)                                                                                    \
    X(cuDevicePrimaryCtxReset_v2)                                                                                      \
    X(cuDevicePrimaryCtxRelease)                                                                                       \
    X(cuDevicePrimaryCtxReset)                                                                                         \
    X(cuCtxSynchronize)                                                                                                \
    X(cuGraphCreate)                                                                                                   \
    X(cuGraphDestroy)                                                                                                  \
    X(cuGraphAddMemAllocNode)                                                                                          \
    X(cuGraphAddMemFreeNode)                                                                                           \
    X(cuGraphAddEmptyNode)                                                                                             \
    X(cuGraphInstantiateWithFlags)                                                                                     \
    X(cuGraphInstantiate_v2)                                                                                           \
    X(cuGraphExecDestroy)                                                                                              \
    X(cuGraphLaunch)                                                                                                   \
    X(cuGraphLaunch_ptsz)                                                                                              \
    X(cuGraphUpload)                                                                                                   \
    X(cuGraphUpload_ptsz)                                                                                              \
    X(cuGraphInstantiateWithParams)                                                                                    \
    X(cuGraphInstantiateWithParams_ptsz)                                                                               \
    X(cuDeviceGraphMemTrim)                                                                                            \
    X(cuDeviceGetGraphMemAttribute)                                                                                    \
    X(cuCtxAttach)                                                                                                     \
    X(cuCtxDetach)                                                                                                     \
    X(cuGLCtxCreate_v2)                                                                                                \
    X(cuGLCtxCreate)                                                                                                   \
    X(cuVDPAUCtxCreate)                                                                                                \
    X(cuVDPAUCtxCreate_v2)                                                                                             \
    X(cuGreenCtxCreate)                                                                                                \
    X(cuGreenCtxDestroy)                                                                                               \
    X(cuCtxFromGreenCtx)                                                                                               \
    X(cuDeviceGetDevResource)                                                                                          \
    X(cuDevResourceGenerateDesc)                                                                                       \
    X(cuMemcpy2DAsync_v2)                                                                                              \
    X(cuMemcpy3DAsync_v2)                                                                                              \
    X(cuMemcpyBatchAsync_v2)                                                                                           \
    X(cuMemBatchDecompressAsync)                                                                                       \
    X(cuMemcpyBatchAsync)                                                                                              \
    X(cuMemcpy3DBatchAsync_v2)                                                                                         \
    X(cuMemPrefetchBatchAsync)                                                                                         \
    X(cuMemsetD8_v2_ptds)                                                                                              \
    X(cuMemPrefetchAsync)                                                                                              \
    X(cuMemPrefetchAsync_v2)                                                                                           \
    X(cuCtxSetLimit)                                                                                                   \
    X(cuModuleLoad)                                                                                                    \
    X(cuModuleLoadData)                                                                                                \
    X(cuModuleLoadDataEx)                                                                                              \
    X(cuModuleLoadFatBinary)                                                                                           \
    X(cuModuleUnload)                                                                                                  \
    X(cuModuleGetFunction)                                                                                             \
    X(cuModuleGetGlobal_v2)                                                                                            \
    X(cuModuleGetGlobal)                                                                                               \
    X(cuLibraryLoadData)                                                                                               \
    X(cuLibraryLoadFromFile)                                                                                           \
    X(cuLibraryUnload)                                                                                                 \
    X(cuLibraryGetKernel)                                                                                              \
    X(cuLibraryGetModule)                                                                                              \
    X(cuLibraryGetGlobal)                                                                                              \
    X(cuLibraryGetManaged)                                                                                             \
    X(cuLibraryGetUnifiedFunction)                                                                                     \
    X(cuKernelGetFunction)                                                                                             \
    X(cuFuncLoad)                                                                                                      \
    X(cuLaunchKernel)                                                                                                  \
    X(cuStreamCreate)                                                                                                  \
    X(cuStreamSynchronize)                                                                                             \
    X(cuStreamBeginCapture_v2)                                                                                         \
    X(cuStreamEndCapture)                                                                                              \
    X(cuStreamIsCapturing)                                                                                             \
    X(cuMemGetInfo_v2)                                                                                                 \
    X(cuMemGetInfo)                                                                                                    \
    X(cuMemAlloc)                                                                                                      \
    X(cuMemAllocPitch)                                                                                                 \
    X(cuMemFree)                                                                                                       \
    X(cuMemAlloc_v2)                                                                                                   \
    X(cuMemAllocPitch_v2)                                                                                              \
    X(cuMemAllocManaged)                                                                                               \
    X(cuMemFree_v2)                                                                                                    \
    X(cuMemHostAlloc)                                                                                                  \
    X(cuMemFreeHost)                                                                                                   \
    X(cuMemAllocAsync)                                                                                                 \
    X(cuMemAllocAsync_ptsz)                                                                                            \
    X(cuMemAllocFromPoolAsync)                                                                                         \
    X(cuMemAllocFromPoolAsync_ptsz)                                                                                    \
    X(cuMemFreeAsync)                                                                                                  \
    X(cuMemFreeAsync_ptsz)                                                                                             \
    X(cuMemPoolCreate)                                                                                                 \
    X(cuMemPoolDestroy)                                                                                                \
    X(cuMemPoolTrimTo)                                                                                                 \
    X(cuMemPoolExportToShareableHandle)                                                                                \
    X(cuMemPoolImportFromShareableHandle)                                                                              \
    X(cuMemPoolExportPointer)                                                                                          \
    X(cuMemPoolImportPointer)                                                                                          \
    X(cuMemPoolGetAttribute)                                                                                           \
    X(cuMemPoolSetAttribute)                                                                                           \
    X(cuDeviceGetDefaultMemPool)                                                                                       \
    X(cuDeviceSetMemPool)                                                                                              \
    X(cuMemGetDefaultMemPool)                                                                                          \
    X(cuMemGetMemPool)                                                                                                 \
    X(cuMemAddressReserve)                                                                                             \
    X(cuMemAddressFree)                                                                                                \
    X(cuMemCreate)                                                                                                     \
    X(cuMemRelease)                                                                                                    \
    X(cuMemMap)                                                                                                        \
    X(cuMemUnmap)                                                                                                      \
    X(cuMemSetAccess)                                                                                                  \
    X(cuMemMapArrayAsync)                                                                                              \
    X(cuMemMapArrayAsync_ptsz)                                                                                         \
    X(cuMulticastCreate)                                                                                               \
    X(cuMulticastAddDevice)                                                                                            \
    X(cuMulticastBindMem)                                                                                              \
    X(cuMulticastBindAddr)                                                                                             \
    X(cuMulticastUnbind)                                                                                               \
    X(cuMemRetainAllocationHandle)                                                                                     \
    X(cuMemExportToShareableHandle)                                                                                    \
    X(cuMemImportFromShareableHandle)                                                                                  \
    X(cuIpcGetMemHandle)                                                                                               \
    X(cuIpcOpenMemHandle_v2)                                                                                           \
    X(cuIpcCloseMemHandle)                                                                                             \
    X(cuArrayCreate_v2)                                                                                                \
    X(cuArrayCreate)                                                                                                   \
    X(cuArray3DCreate_v2)                                                                                              \
    X(cuArray3DCreate)                                                                                                 \
    X(cuArrayDestroy)                                                                                                  \
    X(cuMipmappedArrayCreate)                                                                                          \
    X(cuMipmappedArrayDestroy)                                                                                         \
    X(cuMemcpyHtoD_v2)                                                                                                 \
    X(cuMemcpyDtoH_v2)                                                                                                 \
    X(cuMemsetD8_v2)

struct cuda {
#define MACHINE_FIELD(name) __typeof__(&name) name;
    MACHINE_FUNCTIONS(MACHINE_FIELD)
#undef MACHINE_FIELD
};
extern struct cuda cuda;

/* Opens Facet's library and calls cuInit. */
void role_open(void);

/* Retains the primary context of a device and makes it current. */
CUcontext role_enter(CUdevice device);

#endif
