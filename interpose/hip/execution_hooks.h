/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: which entry points of launches and streams are changed (hooks.h says how to read it), and which the hooks call.
 */
#ifndef FACET_HIP_EXECUTION_HOOKS_H
#define FACET_HIP_EXECUTION_HOOKS_H

/* What has a form for the per-thread default stream. */
#define FACET_HIP_BOTH_HOOKS(X, symbol) X(symbol) X(symbol##_spt)

#define FACET_HIP_KERNEL_HOOKS(X)                                                                                      \
    FACET_HIP_BOTH_HOOKS(X, hipLaunchKernel)                                                                           \
    FACET_HIP_BOTH_HOOKS(X, hipLaunchCooperativeKernel)                                                                \
    X(hipExtLaunchKernel)                                                                                              \
    X(hipLaunchKernelExC)                                                                                              \
    X(hipDrvLaunchKernelEx)                                                                                            \
    X(hipModuleLaunchKernel)                                                                                           \
    X(hipModuleLaunchCooperativeKernel)                                                                                \
    X(hipExtModuleLaunchKernel)                                                                                        \
    X(_Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j)                 \
    X(_Z24hipHccModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_)                  \
    X(_ZN8hip_impl22hipLaunchKernelGGLImplEmRK4dim3S2_jP12ihipStream_tPPv)                                             \
    X(hipConfigureCall)                                                                                                \
    X(hipLaunchByPtr)                                                                                                  \
    X(hipLaunchCooperativeKernelMultiDevice)                                                                           \
    X(hipExtLaunchMultiKernelMultiDevice)                                                                              \
    X(hipModuleLaunchCooperativeKernelMultiDevice)                                                                     \
    FACET_HIP_BOTH_HOOKS(X, hipGraphLaunch)

#define FACET_HIP_TRANSFER_HOOKS(X)                                                                                    \
    FACET_HIP_BOTH_HOOKS(X, hipMemcpyAsync)                                                                            \
    X(hipMemcpyWithStream)                                                                                             \
    X(hipMemcpyHtoDAsync)                                                                                              \
    X(hipMemcpyDtoHAsync)                                                                                              \
    X(hipMemcpyDtoDAsync)                                                                                              \
    X(hipMemcpyPeerAsync)                                                                                              \
    FACET_HIP_BOTH_HOOKS(X, hipMemsetAsync)                                                                            \
    FACET_HIP_BOTH_HOOKS(X, hipMemset2DAsync)                                                                          \
    X(hipMemsetD8Async)                                                                                                \
    X(hipMemsetD16Async)                                                                                               \
    X(hipMemsetD32Async)

#define FACET_HIP_STREAM_HOOKS(X)                                                                                      \
    X(hipStreamDestroy)                                                                                                \
    FACET_HIP_BOTH_HOOKS(X, hipStreamBeginCapture)                                                                     \
    X(hipStreamBeginCaptureToGraph)                                                                                    \
    FACET_HIP_BOTH_HOOKS(X, hipStreamEndCapture)

#define FACET_HIP_ERROR_HOOKS(X)                                                                                       \
    X(hipGetLastError)                                                                                                 \
    X(hipExtGetLastError)                                                                                              \
    X(hipPeekAtLastError)

#define FACET_HIP_EXECUTION_HOOKS(X)                                                                                   \
    FACET_HIP_KERNEL_HOOKS(X)                                                                                          \
    FACET_HIP_TRANSFER_HOOKS(X)                                                                                        \
    FACET_HIP_STREAM_HOOKS(X)                                                                                          \
    FACET_HIP_ERROR_HOOKS(X)

/* Older runtimes lack hipStreamGetDevice, hipGetStreamDeviceId, hipStreamIsCapturing and the mode of captures. */
#define FACET_HIP_EXECUTION_PLAIN(X)                                                                                   \
    X(hipEventCreate)                                                                                                  \
    X(hipEventDestroy)                                                                                                 \
    X(hipEventElapsedTime)                                                                                             \
    X(hipEventQuery)                                                                                                   \
    X(hipEventRecord)                                                                                                  \
    X(hipGetDevice)                                                                                                    \
    X(hipGetStreamDeviceId)                                                                                            \
    X(hipSetDevice)                                                                                                    \
    X(hipStreamGetDevice)                                                                                              \
    X(hipStreamIsCapturing)                                                                                            \
    X(hipStreamQuery)                                                                                                  \
    X(hipThreadExchangeStreamCaptureMode)

#endif
