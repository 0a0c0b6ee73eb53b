/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the list of hooked entry points for launches and streams, and of the functions that these hooks call. hooks.h
 * explains these lists.
 */
#ifndef FACET_HIP_EXECUTION_HOOKS_H
#define FACET_HIP_EXECUTION_HOOKS_H

/* A function that has a form for the per-thread default stream. */
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

/* Copies and fills: transfer.c, copy.c, waited.c. */
#define FACET_HIP_TRANSFER_HOOKS(X)                                                                                    \
    FACET_HIP_BOTH_HOOKS(X, hipMemcpyAsync)                                                                            \
    FACET_HIP_BOTH_HOOKS(X, hipMemsetAsync)                                                                            \
    FACET_HIP_BOTH_HOOKS(X, hipMemset2DAsync)                                                                          \
    FACET_HIP_BOTH_HOOKS(X, hipMemset3DAsync)                                                                          \
    FACET_HIP_BOTH_HOOKS(X, hipMemcpy2DAsync)                                                                          \
    FACET_HIP_BOTH_HOOKS(X, hipMemcpy2DToArrayAsync)                                                                   \
    FACET_HIP_BOTH_HOOKS(X, hipMemcpy2DFromArrayAsync)                                                                 \
    FACET_HIP_BOTH_HOOKS(X, hipMemcpy3DAsync)                                                                          \
    FACET_HIP_BOTH_HOOKS(X, hipMemcpyToSymbolAsync)                                                                    \
    FACET_HIP_BOTH_HOOKS(X, hipMemcpyFromSymbolAsync)                                                                  \
    FACET_HIP_BOTH_HOOKS(X, hipMemcpyToSymbol)                                                                         \
    FACET_HIP_BOTH_HOOKS(X, hipMemcpyFromSymbol)                                                                       \
    FACET_HIP_BOTH_HOOKS(X, hipMemcpy)                                                                                 \
    FACET_HIP_BOTH_HOOKS(X, hipMemcpyFromArray)                                                                        \
    FACET_HIP_BOTH_HOOKS(X, hipMemcpy2D)                                                                               \
    FACET_HIP_BOTH_HOOKS(X, hipMemcpy2DToArray)                                                                        \
    FACET_HIP_BOTH_HOOKS(X, hipMemcpy2DFromArray)                                                                      \
    FACET_HIP_BOTH_HOOKS(X, hipMemcpy3D)                                                                               \
    FACET_HIP_BOTH_HOOKS(X, hipMemset)                                                                                 \
    FACET_HIP_BOTH_HOOKS(X, hipMemset2D)                                                                               \
    FACET_HIP_BOTH_HOOKS(X, hipMemset3D)                                                                               \
    X(hipMemcpyWithStream)                                                                                             \
    X(hipMemcpyHtoDAsync)                                                                                              \
    X(hipMemcpyDtoHAsync)                                                                                              \
    X(hipMemcpyDtoDAsync)                                                                                              \
    X(hipMemcpyPeerAsync)                                                                                              \
    X(hipMemsetD8Async)                                                                                                \
    X(hipMemsetD16Async)                                                                                               \
    X(hipMemsetD32Async)                                                                                               \
    X(hipMemsetD2D8Async)                                                                                              \
    X(hipMemsetD2D16Async)                                                                                             \
    X(hipMemsetD2D32Async)                                                                                             \
    X(hipMemcpy3DPeerAsync)                                                                                            \
    X(hipMemcpyParam2DAsync)                                                                                           \
    X(hipDrvMemcpy3DAsync)                                                                                             \
    X(hipMemcpyAtoHAsync)                                                                                              \
    X(hipMemcpyHtoAAsync)                                                                                              \
    X(hipMemcpyBatchAsync)                                                                                             \
    X(hipMemcpy3DBatchAsync)                                                                                           \
    X(hipMemPrefetchAsync)                                                                                             \
    X(hipMemPrefetchAsync_v2)                                                                                          \
    X(hipMemcpyHtoD)                                                                                                   \
    X(hipMemcpyDtoH)                                                                                                   \
    X(hipMemcpyDtoD)                                                                                                   \
    X(hipMemcpyPeer)                                                                                                   \
    X(hipMemcpyAtoA)                                                                                                   \
    X(hipMemcpyAtoD)                                                                                                   \
    X(hipMemcpyAtoH)                                                                                                   \
    X(hipMemcpyDtoA)                                                                                                   \
    X(hipMemcpyHtoA)                                                                                                   \
    X(hipMemcpyToArray)                                                                                                \
    X(hipMemcpy2DArrayToArray)                                                                                         \
    X(hipMemcpyParam2D)                                                                                                \
    X(hipDrvMemcpy2DUnaligned)                                                                                         \
    X(hipDrvMemcpy3D)                                                                                                  \
    X(hipMemcpy3DPeer)                                                                                                 \
    X(hipMemsetD8)                                                                                                     \
    X(hipMemsetD16)                                                                                                    \
    X(hipMemsetD32)                                                                                                    \
    X(hipMemsetD2D8)                                                                                                   \
    X(hipMemsetD2D16)                                                                                                  \
    X(hipMemsetD2D32)

#define FACET_HIP_STREAM_HOOKS(X)                                                                                      \
    X(hipStreamDestroy)                                                                                                \
    FACET_HIP_BOTH_HOOKS(X, hipStreamBeginCapture)                                                                     \
    X(hipStreamBeginCaptureToGraph)                                                                                    \
    FACET_HIP_BOTH_HOOKS(X, hipStreamEndCapture)

/*
 * Calls by which a program learns that launches are complete, and the events that they refer to: wait.c. The first four
 * may initialize a device.
 */
#define FACET_HIP_WAIT_HOOKS(X)                                                                                        \
    X(hipDeviceSynchronize)                                                                                            \
    X(hipCtxSynchronize)                                                                                               \
    FACET_HIP_BOTH_HOOKS(X, hipStreamSynchronize)                                                                      \
    FACET_HIP_BOTH_HOOKS(X, hipStreamQuery)                                                                            \
    FACET_HIP_BOTH_HOOKS(X, hipEventRecord)                                                                            \
    X(hipEventRecordWithFlags)                                                                                         \
    X(hipEventDestroy)                                                                                                 \
    X(hipEventSynchronize)                                                                                             \
    X(hipEventQuery)                                                                                                   \
    X(hipEventElapsedTime)

#define FACET_HIP_ERROR_HOOKS(X)                                                                                       \
    X(hipGetLastError)                                                                                                 \
    X(hipExtGetLastError)                                                                                              \
    X(hipPeekAtLastError)

#define FACET_HIP_EXECUTION_HOOKS(X)                                                                                   \
    FACET_HIP_KERNEL_HOOKS(X)                                                                                          \
    FACET_HIP_TRANSFER_HOOKS(X)                                                                                        \
    FACET_HIP_STREAM_HOOKS(X)                                                                                          \
    FACET_HIP_WAIT_HOOKS(X)                                                                                            \
    FACET_HIP_ERROR_HOOKS(X)

/* Older runtimes lack hipStreamGetDevice, hipGetStreamDeviceId, hipStreamIsCapturing and the mode of captures. */
#define FACET_HIP_EXECUTION_UNHOOKED(X)                                                                                \
    X(hipGetDevice)                                                                                                    \
    X(hipGetStreamDeviceId)                                                                                            \
    X(hipSetDevice)                                                                                                    \
    X(hipStreamGetDevice)                                                                                              \
    X(hipStreamGetFlags)                                                                                               \
    X(hipStreamIsCapturing)                                                                                            \
    X(hipThreadExchangeStreamCaptureMode)

#endif
