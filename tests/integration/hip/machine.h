/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fake machine with AMD GPUs and vGPUs on them, and roles: children that call HIP through Facet's library. The test
 * reads the state of the machine and of the vGPUs.
 *
 * Owns: the machine's file, the segments, and the functions that a role calls.
 * Never: calls HIP in the test's own process. A role is a fork of that process. It reads the segments and the machine's
 * state like the test, and a CHECK() that does not hold ends it.
 */
#ifndef FACET_TEST_HIP_MACHINE_H
#define FACET_TEST_HIP_MACHINE_H

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
#include "vendor/hip/copy.h"
#include "vendor/hip/graph_memory.h"

#define KIB UINT64_C(1024)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

#define MACHINE_DEVICES 2u
#define MACHINE_BEGIN   (300 * MIB) /* the memory that beginning a device costs when `begin` is "300M" */

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
    char state[96]; /* the path of the machine's file */
    int file;       /* a descriptor of that file */
    uint32_t count; /* of vGPUs; vGPU N is of device N */
    struct test_segment segments[MACHINE_DEVICES];
    struct facet_usage *usage[MACHINE_DEVICES];
};
extern struct machine machine;

/* A machine of `count` devices of 8 GiB, each with a vGPU of `limits[i]` bytes. Beginning a device takes `begin` bytes
 * ("300M") of the device's memory. */
void machine_make(uint32_t count, const uint64_t *limits, const char *begin);
void machine_remove(void);

/* The digits of a device's UUID, like those that tests/fake/hip/model.c makes. */
void machine_digits(uint32_t device, char digits[17]);

/* Sets the variables with which a program is started, inside all vGPUs or outside them. */
void machine_environment(bool in_vgpu);

/* Runs `role` in a child, inside all vGPUs or outside them, and does not wait for it. */
pid_t machine_start(void (*role)(void *argument), void *argument, bool in_vgpu);

/* Waits for a role's end. The test fails if the role failed. */
void machine_wait(pid_t pid);

/* Starts `role` and waits for it, in a new machine with one vGPU of `limit` bytes, on which beginning a device costs
 * MACHINE_BEGIN. */
void machine_run(void (*role)(void *argument), uint64_t limit);

/* The bytes charged to the vGPU of `device`, and those of them that are charged to the calling process. */
uint64_t machine_charged(uint32_t device);
uint64_t machine_charged_to_self(uint32_t device);

/* The runtime's functions, through Facet's library. Roles call hip.hipMalloc(...). */
#define MACHINE_FUNCTIONS(X)                                                                                           \
    X(hipInit)                                                                                                         \
    X(hipGetDeviceCount)                                                                                               \
    X(hipSetDevice)                                                                                                    \
    X(hipGetDevice)                                                                                                    \
    X(hipDeviceReset)                                                                                                  \
    X(hipDevicePrimaryCtxReset)                                                                                        \
    X(hipDeviceSynchronize)                                                                                            \
    X(hipCtxSynchronize)                                                                                               \
    X(hipDeviceTotalMem)                                                                                               \
    X(hipDeviceGetAttribute)                                                                                           \
    X(hipDeviceGetUuid)                                                                                                \
    X(hipGetDeviceProperties)                                                                                          \
    X(hipGetDevicePropertiesR0000)                                                                                     \
    X(hipGetDevicePropertiesR0600)                                                                                     \
    X(hipGetErrorName)                                                                                                 \
    X(hipGetProcAddress)                                                                                               \
    X(hipGetDriverEntryPoint)                                                                                          \
    X(hipGetDriverEntryPoint_spt)                                                                                      \
    X(hipMemGetInfo)                                                                                                   \
    X(hipMalloc)                                                                                                       \
    X(hipExtMallocWithFlags)                                                                                           \
    X(hipMallocManaged)                                                                                                \
    X(hipMemPrefetchAsync)                                                                                             \
    X(hipMemPrefetchAsync_v2)                                                                                          \
    X(hipMallocPitch)                                                                                                  \
    X(hipMemAllocPitch)                                                                                                \
    X(hipMalloc3D)                                                                                                     \
    X(hipFree)                                                                                                         \
    X(hipFreeAsync)                                                                                                    \
    X(hipHostMalloc)                                                                                                   \
    X(hipHostAlloc)                                                                                                    \
    X(hipMallocHost)                                                                                                   \
    X(hipMemAllocHost)                                                                                                 \
    X(hipHostRegister)                                                                                                 \
    X(hipEventCreate)                                                                                                  \
    X(hipEventCreateWithFlags)                                                                                         \
    X(hipHostFree)                                                                                                     \
    X(hipMemsetAsync)                                                                                                  \
    X(hipMallocAsync)                                                                                                  \
    X(hipMallocFromPoolAsync)                                                                                          \
    X(hipMemPoolCreate)                                                                                                \
    X(hipMemPoolDestroy)                                                                                               \
    X(hipMemPoolExportToShareableHandle)                                                                               \
    X(hipMemPoolImportFromShareableHandle)                                                                             \
    X(hipMemPoolExportPointer)                                                                                         \
    X(hipMemPoolImportPointer)                                                                                         \
    X(hipMemPoolTrimTo)                                                                                                \
    X(hipMemPoolSetAttribute)                                                                                          \
    X(hipDeviceGetDefaultMemPool)                                                                                      \
    X(hipMallocArray)                                                                                                  \
    X(hipMalloc3DArray)                                                                                                \
    X(hipArrayCreate)                                                                                                  \
    X(hipArray3DCreate)                                                                                                \
    X(hipFreeArray)                                                                                                    \
    X(hipArrayDestroy)                                                                                                 \
    X(hipMipmappedArrayCreate)                                                                                         \
    X(hipMallocMipmappedArray)                                                                                         \
    X(hipMipmappedArrayDestroy)                                                                                        \
    X(hipFreeMipmappedArray)                                                                                           \
    X(hipMemAddressReserve)                                                                                            \
    X(hipMemAddressFree)                                                                                               \
    X(hipMemCreate)                                                                                                    \
    X(hipMemRelease)                                                                                                   \
    X(hipMemMap)                                                                                                       \
    X(hipMemUnmap)                                                                                                     \
    X(hipMemSetAccess)                                                                                                 \
    X(hipMemRetainAllocationHandle)                                                                                    \
    X(hipMemExportToShareableHandle)                                                                                   \
    X(hipMemImportFromShareableHandle)                                                                                 \
    X(hipIpcGetMemHandle)                                                                                              \
    X(hipIpcOpenMemHandle)                                                                                             \
    X(hipIpcCloseMemHandle)                                                                                            \
    X(hipStreamCreate)                                                                                                 \
    X(hipStreamCreateWithPriority)                                                                                     \
    X(hipExtStreamCreateWithCUMask)                                                                                    \
    X(hipStreamDestroy)                                                                                                \
    X(hipStreamSynchronize)                                                                                            \
    X(hipStreamSynchronize_spt)                                                                                        \
    X(hipMemcpy)                                                                                                       \
    X(hipMemcpyBatchAsync)                                                                                             \
    X(hipMemcpy3DBatchAsync)                                                                                           \
    X(hipDrvMemcpy3D)                                                                                                  \
    X(hipDrvMemcpy3DAsync)                                                                                             \
    X(hipMemset)                                                                                                       \
    X(hipLaunchKernel)                                                                                                 \
    X(hipLaunchKernel_spt)                                                                                             \
    X(__hipRegisterFatBinary)                                                                                          \
    X(__hipRegisterFunction)                                                                                           \
    X(__hipRegisterVar)                                                                                                \
    X(hipStreamBeginCapture)                                                                                           \
    X(hipStreamEndCapture)                                                                                             \
    X(hipGraphCreate)                                                                                                  \
    X(hipGraphDestroy)                                                                                                 \
    X(hipGraphAddMemAllocNode)                                                                                         \
    X(hipGraphAddMemFreeNode)                                                                                          \
    X(hipGraphAddNode)                                                                                                 \
    X(hipGraphInstantiate)                                                                                             \
    X(hipGraphInstantiateWithFlags)                                                                                    \
    X(hipGraphExecDestroy)                                                                                             \
    X(hipGraphUpload)                                                                                                  \
    X(hipGraphInstantiateWithParams)                                                                                   \
    X(hipGraphLaunch)                                                                                                  \
    X(hipGraphLaunch_spt)                                                                                              \
    X(hipDeviceGraphMemTrim)                                                                                           \
    X(hipDeviceGetGraphMemAttribute)                                                                                   \
    X(hipModuleLoad)                                                                                                   \
    X(hipModuleLoadData)                                                                                               \
    X(hipModuleLoadDataEx)                                                                                             \
    X(hipModuleLoadFatBinary)                                                                                          \
    X(hipModuleUnload)                                                                                                 \
    X(hipModuleGetFunction)                                                                                            \
    X(hipLibraryLoadData)                                                                                              \
    X(hipLibraryLoadFromFile)                                                                                          \
    X(hipLibraryGetKernel)                                                                                             \
    X(hipLibraryGetKernelCount)                                                                                        \
    X(hipLibraryUnload)                                                                                                \
    X(hipGetFuncBySymbol)                                                                                              \
    X(hipFuncGetAttributes)                                                                                            \
    X(hipGetSymbolAddress)                                                                                             \
    X(hipGetSymbolSize)                                                                                                \
    X(hipOccupancyMaxActiveBlocksPerMultiprocessor)                                                                    \
    X(hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)                                                           \
    X(hipOccupancyMaxPotentialBlockSize)                                                                               \
    X(__hipRegisterManagedVar)                                                                                         \
    X(__hipUnregisterFatBinary)

struct hip {
#define MACHINE_FIELD(name) __typeof__(&name) name;
    MACHINE_FUNCTIONS(MACHINE_FIELD)
#undef MACHINE_FIELD
};
extern struct hip hip;

/* Opens Facet's library by its path; that library opens the fake runtime. */
void role_open(void);

#endif
