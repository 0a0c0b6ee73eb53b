/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the list of hooked entry points for launches and streams, and of the functions that these hooks call. hooks.h
 * explains its columns.
 */
#ifndef FACET_CUDA_EXECUTION_HOOKS_H
#define FACET_CUDA_EXECUTION_HOOKS_H

/* A function that has a form for the per-thread default stream, since CUDA 7.0 or since the function exists. */
#define FACET_CUDA_BOTH_HOOKS(X, symbol, name, version)                                                                \
    X(symbol, name, version, LEGACY) X(symbol##_ptsz, name, (version) < 7000 ? 7000 : (version), PER_THREAD)

/* A function that takes no stream argument and has a form for the per-thread default stream, since CUDA 7.0. */
#define FACET_CUDA_WAITED(X, symbol, name, version)                                                                    \
    X(symbol, name, version, LEGACY) X(symbol##_ptds, name, 7000, PER_THREAD)

#define FACET_CUDA_KERNEL_HOOKS(X)                                                                                     \
    FACET_CUDA_BOTH_HOOKS(X, cuLaunchKernel, "cuLaunchKernel", 4000)                                                   \
    FACET_CUDA_BOTH_HOOKS(X, cuLaunchKernelEx, "cuLaunchKernelEx", 11060)                                              \
    FACET_CUDA_BOTH_HOOKS(X, cuLaunchCooperativeKernel, "cuLaunchCooperativeKernel", 9000)                             \
    X(cuLaunchCooperativeKernelMultiDevice, "cuLaunchCooperativeKernelMultiDevice", 9000, ANY)                         \
    X(cuLaunch, "cuLaunch", 2000, ANY)                                                                                 \
    X(cuLaunchGrid, "cuLaunchGrid", 2000, ANY)                                                                         \
    X(cuLaunchGridAsync, "cuLaunchGridAsync", 2000, ANY)                                                               \
    FACET_CUDA_BOTH_HOOKS(X, cuGraphLaunch, "cuGraphLaunch", 10000)

#define FACET_CUDA_TRANSFER_HOOKS(X)                                                                                   \
    FACET_CUDA_BOTH_HOOKS(X, cuMemcpyAsync, "cuMemcpyAsync", 4000)                                                     \
    FACET_CUDA_BOTH_HOOKS(X, cuMemcpyPeerAsync, "cuMemcpyPeerAsync", 4000)                                             \
    FACET_CUDA_BOTH_HOOKS(X, cuMemcpyHtoDAsync_v2, "cuMemcpyHtoDAsync", 3020)                                          \
    FACET_CUDA_BOTH_HOOKS(X, cuMemcpyDtoHAsync_v2, "cuMemcpyDtoHAsync", 3020)                                          \
    FACET_CUDA_BOTH_HOOKS(X, cuMemcpyDtoDAsync_v2, "cuMemcpyDtoDAsync", 3020)                                          \
    FACET_CUDA_BOTH_HOOKS(X, cuMemcpy2DAsync_v2, "cuMemcpy2DAsync", 3020)                                              \
    FACET_CUDA_BOTH_HOOKS(X, cuMemcpy3DAsync_v2, "cuMemcpy3DAsync", 3020)                                              \
    FACET_CUDA_BOTH_HOOKS(X, cuMemcpy3DPeerAsync, "cuMemcpy3DPeerAsync", 4000)                                         \
    FACET_CUDA_BOTH_HOOKS(X, cuMemcpyHtoAAsync_v2, "cuMemcpyHtoAAsync", 3020)                                          \
    FACET_CUDA_BOTH_HOOKS(X, cuMemcpyAtoHAsync_v2, "cuMemcpyAtoHAsync", 3020)                                          \
    FACET_CUDA_BOTH_HOOKS(X, cuMemcpyBatchAsync, "cuMemcpyBatchAsync", 12080)                                          \
    FACET_CUDA_BOTH_HOOKS(X, cuMemcpyBatchAsync_v2, "cuMemcpyBatchAsync", 13000)                                       \
    FACET_CUDA_BOTH_HOOKS(X, cuMemcpy3DBatchAsync, "cuMemcpy3DBatchAsync", 12080)                                      \
    FACET_CUDA_BOTH_HOOKS(X, cuMemcpy3DBatchAsync_v2, "cuMemcpy3DBatchAsync", 13000)                                   \
    FACET_CUDA_BOTH_HOOKS(X, cuMemBatchDecompressAsync, "cuMemBatchDecompressAsync", 12060)                            \
    FACET_CUDA_BOTH_HOOKS(X, cuMemPrefetchAsync, "cuMemPrefetchAsync", 8000)                                           \
    FACET_CUDA_BOTH_HOOKS(X, cuMemPrefetchAsync_v2, "cuMemPrefetchAsync", 12020)                                       \
    FACET_CUDA_BOTH_HOOKS(X, cuMemPrefetchBatchAsync, "cuMemPrefetchBatchAsync", 13000)                                \
    FACET_CUDA_BOTH_HOOKS(X, cuMemDiscardAndPrefetchBatchAsync, "cuMemDiscardAndPrefetchBatchAsync", 13000)            \
    FACET_CUDA_BOTH_HOOKS(X, cuMemsetD8Async, "cuMemsetD8Async", 3020)                                                 \
    FACET_CUDA_BOTH_HOOKS(X, cuMemsetD16Async, "cuMemsetD16Async", 3020)                                               \
    FACET_CUDA_BOTH_HOOKS(X, cuMemsetD32Async, "cuMemsetD32Async", 3020)                                               \
    FACET_CUDA_BOTH_HOOKS(X, cuMemsetD2D8Async, "cuMemsetD2D8Async", 3020)                                             \
    FACET_CUDA_BOTH_HOOKS(X, cuMemsetD2D16Async, "cuMemsetD2D16Async", 3020)                                           \
    FACET_CUDA_BOTH_HOOKS(X, cuMemsetD2D32Async, "cuMemsetD2D32Async", 3020)

#define FACET_CUDA_WAITED_HOOKS(X)                                                                                     \
    FACET_CUDA_WAITED(X, cuMemcpy, "cuMemcpy", 4000)                                                                   \
    FACET_CUDA_WAITED(X, cuMemcpyPeer, "cuMemcpyPeer", 4000)                                                           \
    FACET_CUDA_WAITED(X, cuMemcpyHtoD_v2, "cuMemcpyHtoD", 3020)                                                        \
    FACET_CUDA_WAITED(X, cuMemcpyDtoH_v2, "cuMemcpyDtoH", 3020)                                                        \
    FACET_CUDA_WAITED(X, cuMemcpyDtoD_v2, "cuMemcpyDtoD", 3020)                                                        \
    FACET_CUDA_WAITED(X, cuMemcpyDtoA_v2, "cuMemcpyDtoA", 3020)                                                        \
    FACET_CUDA_WAITED(X, cuMemcpyAtoD_v2, "cuMemcpyAtoD", 3020)                                                        \
    FACET_CUDA_WAITED(X, cuMemcpyHtoA_v2, "cuMemcpyHtoA", 3020)                                                        \
    FACET_CUDA_WAITED(X, cuMemcpyAtoH_v2, "cuMemcpyAtoH", 3020)                                                        \
    FACET_CUDA_WAITED(X, cuMemcpyAtoA_v2, "cuMemcpyAtoA", 3020)                                                        \
    FACET_CUDA_WAITED(X, cuMemcpy2D_v2, "cuMemcpy2D", 3020)                                                            \
    FACET_CUDA_WAITED(X, cuMemcpy2DUnaligned_v2, "cuMemcpy2DUnaligned", 3020)                                          \
    FACET_CUDA_WAITED(X, cuMemcpy3D_v2, "cuMemcpy3D", 3020)                                                            \
    FACET_CUDA_WAITED(X, cuMemcpy3DPeer, "cuMemcpy3DPeer", 4000)                                                       \
    FACET_CUDA_WAITED(X, cuMemsetD8_v2, "cuMemsetD8", 3020)                                                            \
    FACET_CUDA_WAITED(X, cuMemsetD16_v2, "cuMemsetD16", 3020)                                                          \
    FACET_CUDA_WAITED(X, cuMemsetD32_v2, "cuMemsetD32", 3020)                                                          \
    FACET_CUDA_WAITED(X, cuMemsetD2D8_v2, "cuMemsetD2D8", 3020)                                                        \
    FACET_CUDA_WAITED(X, cuMemsetD2D16_v2, "cuMemsetD2D16", 3020)                                                      \
    FACET_CUDA_WAITED(X, cuMemsetD2D32_v2, "cuMemsetD2D32", 3020)

#define FACET_CUDA_STREAM_HOOKS(X)                                                                                     \
    X(cuStreamDestroy, "cuStreamDestroy", 2000, ANY)                                                                   \
    X(cuStreamDestroy_v2, "cuStreamDestroy", 4000, ANY)                                                                \
    FACET_CUDA_BOTH_HOOKS(X, cuStreamBeginCapture, "cuStreamBeginCapture", 10000)                                      \
    FACET_CUDA_BOTH_HOOKS(X, cuStreamBeginCapture_v2, "cuStreamBeginCapture", 10010)                                   \
    FACET_CUDA_BOTH_HOOKS(X, cuStreamBeginCaptureToGraph, "cuStreamBeginCaptureToGraph", 12030)                        \
    FACET_CUDA_BOTH_HOOKS(X, cuStreamEndCapture, "cuStreamEndCapture", 10000)

/* Calls by which a program learns that launches are complete, and the events that they refer to: wait.c. */
#define FACET_CUDA_WAIT_HOOKS(X)                                                                                       \
    FACET_CUDA_BOTH_HOOKS(X, cuStreamSynchronize, "cuStreamSynchronize", 2000)                                         \
    FACET_CUDA_BOTH_HOOKS(X, cuStreamQuery, "cuStreamQuery", 2000)                                                     \
    X(cuCtxSynchronize, "cuCtxSynchronize", 2000, ANY)                                                                 \
    X(cuCtxSynchronize_v2, "cuCtxSynchronize", 13000, ANY)                                                             \
    FACET_CUDA_BOTH_HOOKS(X, cuEventRecord, "cuEventRecord", 2000)                                                     \
    FACET_CUDA_BOTH_HOOKS(X, cuEventRecordWithFlags, "cuEventRecordWithFlags", 11010)                                  \
    X(cuEventDestroy, "cuEventDestroy", 2000, ANY)                                                                     \
    X(cuEventDestroy_v2, "cuEventDestroy", 4000, ANY)                                                                  \
    X(cuEventSynchronize, "cuEventSynchronize", 2000, ANY)                                                             \
    X(cuEventQuery, "cuEventQuery", 2000, ANY)                                                                         \
    X(cuEventElapsedTime, "cuEventElapsedTime", 2000, ANY)                                                             \
    X(cuEventElapsedTime_v2, "cuEventElapsedTime", 12080, ANY)

#define FACET_CUDA_EXECUTION_HOOKS(X)                                                                                  \
    FACET_CUDA_KERNEL_HOOKS(X)                                                                                         \
    FACET_CUDA_TRANSFER_HOOKS(X)                                                                                       \
    FACET_CUDA_WAITED_HOOKS(X)                                                                                         \
    FACET_CUDA_STREAM_HOOKS(X)                                                                                         \
    FACET_CUDA_WAIT_HOOKS(X)

#define FACET_CUDA_EXECUTION_UNHOOKED(X)                                                                               \
    X(cuCtxSetCurrent)                                                                                                 \
    X(cuStreamGetFlags)                                                                                                \
    X(cuThreadExchangeStreamCaptureMode)                                                                               \
    X(cuEventCreate)

#endif
