/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runtime as a program finds it: the library and its functions are opened by name, and kernels are registered as
 * hipcc's output registers them.
 *
 * Owns: the table of the runtime's functions that tests and benches call.
 * Never: is linked against a runtime, neither Facet's interposer nor a fake one.
 */
#ifndef FACET_TEST_HIP_CLIENT_H
#define FACET_TEST_HIP_CLIENT_H

#include <stdbool.h>

#include "vendor/hip/copy.h"

#define CLIENT_EXT_LAUNCH                                                                                              \
    _Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j
#define CLIENT_HCC_LAUNCH _Z24hipHccModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_
#define CLIENT_GGL_LAUNCH _ZN8hip_impl22hipLaunchKernelGGLImplEmRK4dim3S2_jP12ihipStream_tPPv

#define CLIENT_FUNCTIONS(X)                                                                                            \
    X(hipInit)                                                                                                         \
    X(hipSetDevice)                                                                                                    \
    X(hipDeviceReset)                                                                                                  \
    X(hipGetLastError)                                                                                                 \
    X(hipExtGetLastError)                                                                                              \
    X(hipPeekAtLastError)                                                                                              \
    X(hipGetProcAddress)                                                                                               \
    X(__hipRegisterFatBinary)                                                                                          \
    X(__hipRegisterFunction)                                                                                           \
    X(hipModuleLoadData)                                                                                               \
    X(hipModuleGetFunction)                                                                                            \
    X(hipStreamCreate)                                                                                                 \
    X(hipStreamCreateWithFlags)                                                                                        \
    X(hipStreamDestroy)                                                                                                \
    X(hipStreamSynchronize)                                                                                            \
    X(hipStreamBeginCapture)                                                                                           \
    X(hipStreamBeginCapture_spt)                                                                                       \
    X(hipStreamBeginCaptureToGraph)                                                                                    \
    X(hipStreamEndCapture)                                                                                             \
    X(hipStreamEndCapture_spt)                                                                                         \
    X(hipLaunchHostFunc)                                                                                               \
    X(hipEventCreate)                                                                                                  \
    X(hipEventCreateWithFlags)                                                                                         \
    X(hipEventRecord)                                                                                                  \
    X(hipStreamWaitEvent)                                                                                              \
    X(hipEventSynchronize)                                                                                             \
    X(hipEventElapsedTime)                                                                                             \
    X(hipEventQuery)                                                                                                   \
    X(hipStreamQuery)                                                                                                  \
    X(hipLaunchKernel)                                                                                                 \
    X(hipLaunchKernel_spt)                                                                                             \
    X(hipLaunchCooperativeKernel)                                                                                      \
    X(hipLaunchCooperativeKernel_spt)                                                                                  \
    X(hipExtLaunchKernel)                                                                                              \
    X(hipLaunchKernelExC)                                                                                              \
    X(hipDrvLaunchKernelEx)                                                                                            \
    X(hipModuleLaunchKernel)                                                                                           \
    X(hipModuleLaunchCooperativeKernel)                                                                                \
    X(hipExtModuleLaunchKernel)                                                                                        \
    X(CLIENT_EXT_LAUNCH)                                                                                               \
    X(CLIENT_HCC_LAUNCH)                                                                                               \
    X(CLIENT_GGL_LAUNCH)                                                                                               \
    X(hipConfigureCall)                                                                                                \
    X(hipLaunchByPtr)                                                                                                  \
    X(hipLaunchCooperativeKernelMultiDevice)                                                                           \
    X(hipExtLaunchMultiKernelMultiDevice)                                                                              \
    X(hipModuleLaunchCooperativeKernelMultiDevice)                                                                     \
    X(hipGraphCreate)                                                                                                  \
    X(hipGraphAddKernelNode)                                                                                           \
    X(hipGraphInstantiate)                                                                                             \
    X(hipGraphLaunch)                                                                                                  \
    X(hipGraphLaunch_spt)                                                                                              \
    X(hipGraphDestroy)                                                                                                 \
    X(hipMalloc)                                                                                                       \
    X(hipMemsetAsync)                                                                                                  \
    X(hipMemset2DAsync_spt)                                                                                            \
    X(hipMemcpyAsync)                                                                                                  \
    X(hipMemcpyHtoDAsync)                                                                                              \
    X(hipMemcpyDtoHAsync)                                                                                              \
    X(hipMemcpy2DAsync)                                                                                                \
    X(hipMemcpy2DAsync_spt)                                                                                            \
    X(hipMemcpy2DToArrayAsync)                                                                                         \
    X(hipMemcpy2DFromArrayAsync)                                                                                       \
    X(hipMemcpy3DAsync)                                                                                                \
    X(hipMemcpyBatchAsync)                                                                                             \
    X(hipMemcpy3DBatchAsync)                                                                                           \
    X(hipMemPrefetchAsync)                                                                                             \
    X(hipMemPrefetchAsync_v2)                                                                                          \
    X(hipMallocArray)                                                                                                  \
    X(hipMemcpy)                                                                                                       \
    X(hipMemset)                                                                                                       \
    X(hipMemcpyDtoD)                                                                                                   \
    X(hipMemcpyDtoH)                                                                                                   \
    X(hipMemcpy2D)                                                                                                     \
    X(hipDeviceSynchronize)

struct client {
#define CLIENT_FIELD(name) __typeof__(&name) name;
    CLIENT_FUNCTIONS(CLIENT_FIELD)
#undef CLIENT_FIELD
    void *library;
    hipModule_t module;
};
extern struct client client;

/* The names that tests/integration/cuda/launch.c uses for every vendor's types. */
typedef hipFunction_t client_function_t;
typedef hipStream_t client_stream_t;

/* Creates a stream that waits for no other stream. Returns 0 or the runtime's error. */
int client_enter(client_stream_t *ret_stream);

/* The symbol in this program of a kernel of 20 us, which client_open() registers. */
extern const char client_symbol;

/* Opens libamdhip64.so.6, registers the symbol, and loads an image in which every function is found. */
bool client_open(void);

/* Loads the image; necessary again after a reset of the device. */
bool client_load(void);

/* The kernel `name`; the fake runtime takes its duration from the name ("work_100us"). NULL if there is none. */
hipFunction_t client_function(const char *name);

/* Launches `blocks` blocks of 128 threads into a stream. */
hipError_t client_launch(hipFunction_t function, unsigned blocks, hipStream_t stream);

#endif
