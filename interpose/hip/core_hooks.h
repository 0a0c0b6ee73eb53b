/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: which entry points of lookup and of devices' beginning are changed (hooks.h says how to read it). */
#ifndef FACET_HIP_CORE_HOOKS_H
#define FACET_HIP_CORE_HOOKS_H

#define FACET_HIP_CORE_HOOKS(X)                                                                                        \
    /* lookup.c */                                                                                                     \
    X(hipGetProcAddress)                                                                                               \
    X(hipGetDriverEntryPoint)                                                                                          \
    X(hipGetDriverEntryPoint_spt)                                                                                      \
    /* begin.c: what a program may begin a device with, and what ends one */                                           \
    X(hipHostMalloc)                                                                                                   \
    X(hipHostAlloc)                                                                                                    \
    X(hipMallocHost)                                                                                                   \
    X(hipMemAllocHost)                                                                                                 \
    X(hipHostRegister)                                                                                                 \
    X(hipEventCreate)                                                                                                  \
    X(hipEventCreateWithFlags)                                                                                         \
    X(hipDeviceGetDefaultMemPool)                                                                                      \
    X(hipStreamCreate)                                                                                                 \
    X(hipStreamCreateWithFlags)                                                                                        \
    X(hipStreamCreateWithPriority)                                                                                     \
    X(hipExtStreamCreateWithCUMask)                                                                                    \
    X(hipDeviceReset)                                                                                                  \
    X(hipDevicePrimaryCtxReset)

#endif
