/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA driver API's contexts that work with OpenGL and VDPAU (cudaGL.h, cudaVDPAU.h).
 *
 * Owns: declarations, as vendor/cuda/driver.h says.
 */
#ifndef VENDOR_CUDA_GRAPHICS_H
#define VENDOR_CUDA_GRAPHICS_H

#include "vendor/cuda/driver.h"

CUresult cuGLCtxCreate(CUcontext *context, unsigned flags, CUdevice device);
CUresult cuGLCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device);

/* VDPAU's device, and its function that finds others: not read by Facet. */
CUresult cuVDPAUCtxCreate(CUcontext *context, unsigned flags, CUdevice device, uint32_t vdpau, void *find);
CUresult cuVDPAUCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device, uint32_t vdpau, void *find);

#endif
