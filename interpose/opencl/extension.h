/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the list of extension functions that the layer hooks, and the driver's own address of each.
 * Never: offers a function that the driver lacks.
 */
#ifndef FACET_OPENCL_EXTENSION_H
#define FACET_OPENCL_EXTENSION_H

#include <CL/cl_ext.h>
#include <stdatomic.h>

#define FACET_CL_EXTENSIONS(X)                                                                                         \
    X(clCreateCommandQueueWithPropertiesKHR)                                                                           \
    X(clEnqueueCommandBufferKHR)                                                                                       \
    X(clHostMemAllocINTEL)                                                                                             \
    X(clDeviceMemAllocINTEL)                                                                                           \
    X(clSharedMemAllocINTEL)                                                                                           \
    X(clMemFreeINTEL)                                                                                                  \
    X(clMemBlockingFreeINTEL)                                                                                          \
    X(clEnqueueMemcpyINTEL)                                                                                            \
    X(clEnqueueMemFillINTEL)                                                                                           \
    X(clEnqueueMigrateMemINTEL)

/* The hook and the driver's function, which the lookup writes before it hands out the hook. */
#define FACET_CL_DECLARE_EXTENSION(name)                                                                               \
    extern __typeof__(*(name##_fn)0) facet_##name;                                                                     \
    extern _Atomic(name##_fn) facet_cl_real_##name;
FACET_CL_EXTENSIONS(FACET_CL_DECLARE_EXTENSION)
#undef FACET_CL_DECLARE_EXTENSION

#endif
