/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layer as a whole: the dispatch table below it, and the list of entry points that it hooks.
 *
 * Owns: the list of hooked names. The dispatch table, prototypes and lookups of extensions are generated from it.
 * Never: hooks an entry point without need: calls without a hook cost nothing.
 */
#ifndef FACET_OPENCL_LAYER_H
#define FACET_OPENCL_LAYER_H

#include <CL/cl_icd.h>

#define FACET_CL_HOOKS(X)                                                                                              \
    /* device.c */                                                                                                     \
    X(clGetPlatformIDs)                                                                                                \
    X(clGetDeviceIDs)                                                                                                  \
    X(clRetainDevice)                                                                                                  \
    X(clReleaseDevice)                                                                                                 \
    X(clCreateContext)                                                                                                 \
    X(clCreateContextFromType)                                                                                         \
    /* info.c */                                                                                                       \
    X(clGetDeviceInfo)                                                                                                 \
    X(clGetContextInfo)                                                                                                \
    X(clGetProgramInfo)                                                                                                \
    /* memory.c, image.c, svm.c */                                                                                     \
    X(clCreateBuffer)                                                                                                  \
    X(clCreateBufferWithProperties)                                                                                    \
    X(clCreatePipe)                                                                                                    \
    X(clCreateImage)                                                                                                   \
    X(clCreateImageWithProperties)                                                                                     \
    X(clCreateImage2D)                                                                                                 \
    X(clCreateImage3D)                                                                                                 \
    X(clSVMAlloc)                                                                                                      \
    X(clSVMFree)                                                                                                       \
    X(clEnqueueSVMFree)                                                                                                \
    /* program.c */                                                                                                    \
    X(clBuildProgram)                                                                                                  \
    X(clCompileProgram)                                                                                                \
    X(clLinkProgram)                                                                                                   \
    X(clCreateKernel)                                                                                                  \
    X(clCreateKernelsInProgram)                                                                                        \
    X(clReleaseKernel)                                                                                                 \
    X(clReleaseProgram)                                                                                                \
    /* queue.c */                                                                                                      \
    X(clCreateCommandQueue)                                                                                            \
    X(clCreateCommandQueueWithProperties)                                                                              \
    X(clReleaseCommandQueue)                                                                                           \
    X(clGetCommandQueueInfo)                                                                                           \
    X(clSetCommandQueueProperty)                                                                                       \
    X(clGetEventProfilingInfo)                                                                                         \
    /* wait.c */                                                                                                       \
    X(clFinish)                                                                                                        \
    X(clWaitForEvents)                                                                                                 \
    X(clGetEventInfo)                                                                                                  \
    X(clSetEventCallback)                                                                                              \
    X(clEnqueueMapBuffer)                                                                                              \
    X(clEnqueueMapImage)                                                                                               \
    X(clEnqueueSVMMap)                                                                                                 \
    /* launch.c */                                                                                                     \
    X(clEnqueueNDRangeKernel)                                                                                          \
    X(clEnqueueTask)                                                                                                   \
    X(clEnqueueNativeKernel)                                                                                           \
    /* transfer.c */                                                                                                   \
    X(clEnqueueReadBuffer)                                                                                             \
    X(clEnqueueWriteBuffer)                                                                                            \
    X(clEnqueueCopyBuffer)                                                                                             \
    X(clEnqueueReadBufferRect)                                                                                         \
    X(clEnqueueWriteBufferRect)                                                                                        \
    X(clEnqueueCopyBufferRect)                                                                                         \
    X(clEnqueueFillBuffer)                                                                                             \
    X(clEnqueueReadImage)                                                                                              \
    X(clEnqueueWriteImage)                                                                                             \
    X(clEnqueueCopyImage)                                                                                              \
    X(clEnqueueCopyImageToBuffer)                                                                                      \
    X(clEnqueueCopyBufferToImage)                                                                                      \
    X(clEnqueueFillImage)                                                                                              \
    X(clEnqueueMigrateMemObjects)                                                                                      \
    X(clEnqueueSVMMemcpy)                                                                                              \
    X(clEnqueueSVMMemFill)                                                                                             \
    X(clEnqueueSVMMigrateMem)                                                                                          \
    /* extension.c */                                                                                                  \
    X(clGetExtensionFunctionAddress)                                                                                   \
    X(clGetExtensionFunctionAddressForPlatform)

#define FACET_CL_DECLARE(name) extern __typeof__(*((cl_icd_dispatch *)0)->name) facet_##name;
FACET_CL_HOOKS(FACET_CL_DECLARE)
#undef FACET_CL_DECLARE

/* The dispatch below us: the loader's own, or the next layer's. Set once, before any hook can be called. */
extern cl_icd_dispatch facet_cl_target;

/* Writes an OpenCL error code where the program asked for it. */
static inline void facet_cl_set_error(cl_int *errcode_ret, cl_int code)
{
    if (errcode_ret)
        *errcode_ret = code;
}

#endif
