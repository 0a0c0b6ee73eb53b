/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver as a program finds it: the library and its functions are opened by name.
 *
 * Owns: the table of the driver's functions that tests and benches call.
 * Never: is linked against a driver, neither Facet's interposer nor a fake one.
 */
#ifndef FACET_TEST_CUDA_CLIENT_H
#define FACET_TEST_CUDA_CLIENT_H

#include <stdbool.h>

#include "vendor/cuda/copy.h"
#include "vendor/cuda/execution.h"
#include "vendor/cuda/memory.h"

#define CLIENT_FUNCTIONS(X)                                                                                            \
    X(cuInit)                                                                                                          \
    X(cuDeviceGet)                                                                                                     \
    X(cuDeviceGetCount)                                                                                                \
    X(cuDevicePrimaryCtxRetain)                                                                                        \
    X(cuDevicePrimaryCtxRelease_v2)                                                                                    \
    X(cuDevicePrimaryCtxReset_v2)                                                                                      \
    X(cuCtxCreate_v2)                                                                                                  \
    X(cuCtxDestroy_v2)                                                                                                 \
    X(cuCtxSetCurrent)                                                                                                 \
    X(cuCtxGetCurrent)                                                                                                 \
    X(cuCtxSynchronize)                                                                                                \
    X(cuStreamCreate)                                                                                                  \
    X(cuStreamDestroy_v2)                                                                                              \
    X(cuStreamDestroy)                                                                                                 \
    X(cuStreamQuery)                                                                                                   \
    X(cuStreamSynchronize)                                                                                             \
    X(cuStreamSynchronize_ptsz)                                                                                        \
    X(cuStreamWaitEvent)                                                                                               \
    X(cuStreamBeginCapture_v2)                                                                                         \
    X(cuStreamBeginCapture)                                                                                            \
    X(cuStreamBeginCapture_ptsz)                                                                                       \
    X(cuStreamBeginCapture_v2_ptsz)                                                                                    \
    X(cuStreamBeginCaptureToGraph)                                                                                     \
    X(cuStreamBeginCaptureToGraph_ptsz)                                                                                \
    X(cuStreamEndCapture)                                                                                              \
    X(cuStreamEndCapture_ptsz)                                                                                         \
    X(cuStreamIsCapturing)                                                                                             \
    X(cuLaunchHostFunc)                                                                                                \
    X(cuMemRetainAllocationHandle)                                                                                     \
    X(cuMemUnmap)                                                                                                      \
    X(cuEventCreate)                                                                                                   \
    X(cuEventDestroy_v2)                                                                                               \
    X(cuEventRecord)                                                                                                   \
    X(cuEventSynchronize)                                                                                              \
    X(cuEventElapsedTime)                                                                                              \
    X(cuEventQuery)                                                                                                    \
    X(cuModuleLoadData)                                                                                                \
    X(cuModuleGetFunction)                                                                                             \
    X(cuFuncSetBlockShape)                                                                                             \
    X(cuLaunchKernel)                                                                                                  \
    X(cuLaunchKernel_ptsz)                                                                                             \
    X(cuLaunchKernelEx)                                                                                                \
    X(cuLaunchKernelEx_ptsz)                                                                                           \
    X(cuLaunchCooperativeKernel)                                                                                       \
    X(cuLaunchCooperativeKernel_ptsz)                                                                                  \
    X(cuLaunchCooperativeKernelMultiDevice)                                                                            \
    X(cuLaunch)                                                                                                        \
    X(cuLaunchGrid)                                                                                                    \
    X(cuLaunchGridAsync)                                                                                               \
    X(cuGraphCreate)                                                                                                   \
    X(cuGraphAddKernelNode_v2)                                                                                         \
    X(cuGraphGetNodes)                                                                                                 \
    X(cuGraphInstantiateWithFlags)                                                                                     \
    X(cuGraphExecUpdate_v2)                                                                                            \
    X(cuGraphLaunch)                                                                                                   \
    X(cuGraphLaunch_ptsz)                                                                                              \
    X(cuGraphExecDestroy)                                                                                              \
    X(cuGraphDestroy)                                                                                                  \
    X(cuMemsetD8Async)                                                                                                 \
    X(cuMemAlloc_v2)                                                                                                   \
    X(cuMemcpy2DAsync_v2)                                                                                              \
    X(cuMemcpy2DAsync_v2_ptsz)                                                                                         \
    X(cuMemcpy3DAsync_v2)                                                                                              \
    X(cuMemcpyBatchAsync)                                                                                              \
    X(cuMemcpyBatchAsync_v2)                                                                                           \
    X(cuMemsetD8_v2)                                                                                                   \
    X(cuMemcpyDtoD_v2_ptds)                                                                                            \
    X(cuMemPrefetchAsync)                                                                                              \
    X(cuMemPrefetchAsync_v2)                                                                                           \
    X(cuMemAllocPitch_v2)                                                                                              \
    X(cuMemFree_v2)                                                                                                    \
    X(cuMemGetInfo_v2)                                                                                                 \
    X(cuMemGetAddressRange_v2)                                                                                         \
    X(cuPointerGetAttribute)                                                                                           \
    X(cuPointerGetAttributes)                                                                                          \
    X(cuIpcGetMemHandle)                                                                                               \
    X(cuMemcpy)                                                                                                        \
    X(cuMemcpyHtoD_v2)                                                                                                 \
    X(cuMemcpyDtoH_v2)                                                                                                 \
    X(cuGetProcAddress_v2)                                                                                             \
    X(cuMemcpyHtoDAsync_v2)                                                                                            \
    X(cuMemcpyDtoHAsync_v2)

struct client {
#define CLIENT_FIELD(name) __typeof__(&name) name;
    CLIENT_FUNCTIONS(CLIENT_FIELD)
#undef CLIENT_FIELD
    void *library;
    CUcontext context; /* the primary context of device 0 */
    CUmodule module;
};
extern struct client client;

/* The names that launch.c uses for every vendor's types. */
typedef CUfunction client_function_t;
typedef CUstream client_stream_t;

/* Makes the context current in the calling thread, and creates a stream that waits for no other stream. Returns 0 or
 * the driver's error. */
int client_enter(client_stream_t *ret_stream);

/* The magic number of a fatbin. The fake driver does not read such an image and finds every requested
 * function in it. */
#define CLIENT_IMAGE "\x50\xed\x55\xba"

/* Opens libcuda.so.1, initialises it, makes the primary context current and loads CLIENT_IMAGE. */
bool client_open(void);

/* The kernel `name`; the fake driver takes its duration from the name ("work_100us"). Prints the error and returns NULL
 * if there is none. */
CUfunction client_function(const char *name);

/* Launches `blocks` blocks of 128 threads into a stream. */
CUresult client_launch(CUfunction function, unsigned blocks, CUstream stream);

#endif
