/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: copies of bytes, and fills, in stream order (transfer.h). Never: reads more than their sizes. */
#include "transfer.h"

#define BOTH FACET_CUDA_TRANSFERS

BOTH(cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream), size, to, from, size, stream)
BOTH(cuMemcpyPeerAsync,
     (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t size, CUstream stream),
     size, to, to_context, from, from_context, size, stream)
BOTH(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t size, CUstream stream), size, to, from, size,
     stream)
BOTH(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t size, CUstream stream), size, to, from, size, stream)
BOTH(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream), size, to, from, size,
     stream)
BOTH(cuMemsetD8Async, (CUdeviceptr to, unsigned char value, size_t count, CUstream stream), count, to, value, count,
     stream)
BOTH(cuMemsetD16Async, (CUdeviceptr to, unsigned short value, size_t count, CUstream stream),
     facet_cuda_transfer_times(2, count), to, value, count, stream)
BOTH(cuMemsetD32Async, (CUdeviceptr to, unsigned value, size_t count, CUstream stream),
     facet_cuda_transfer_times(4, count), to, value, count, stream)
BOTH(cuMemsetD2D8Async,
     (CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height, CUstream stream),
     facet_cuda_transfer_times(width, height), to, pitch, value, width, height, stream)
BOTH(cuMemsetD2D16Async,
     (CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height, CUstream stream),
     facet_cuda_transfer_times(2, facet_cuda_transfer_times(width, height)), to, pitch, value, width, height, stream)
BOTH(cuMemsetD2D32Async, (CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height, CUstream stream),
     facet_cuda_transfer_times(4, facet_cuda_transfer_times(width, height)), to, pitch, value, width, height, stream)
