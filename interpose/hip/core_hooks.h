/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the list of hooked entry points that look up functions or initialize devices; hooks.h explains the list. */
#ifndef FACET_HIP_CORE_HOOKS_H
#define FACET_HIP_CORE_HOOKS_H

#define FACET_HIP_CORE_HOOKS(X)                                                                                        \
    /* lookup.c */                                                                                                     \
    X(hipGetProcAddress)                                                                                               \
    X(hipGetDriverEntryPoint)                                                                                          \
    X(hipGetDriverEntryPoint_spt)                                                                                      \
    /* initialize.c: calls that may initialize a device, and calls that reset one */                                   \
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
