/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: copies of bytes, and fills, in stream order (transfer.h). Never: reads more than their sizes. */
#include "transfer.h"

#define TRANSFERS FACET_CUDA_TRANSFERS

TRANSFERS(cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream), size, to, from, size, stream)
TRANSFERS(cuMemcpyPeerAsync,
          (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t size,
           CUstream stream),
          size, to, to_context, from, from_context, size, stream)
TRANSFERS(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t size, CUstream stream), size, to, from, size,
          stream)
TRANSFERS(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t size, CUstream stream), size, to, from, size,
          stream)
TRANSFERS(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream), size, to, from, size,
          stream)
TRANSFERS(cuMemsetD8Async, (CUdeviceptr to, unsigned char value, size_t count, CUstream stream), count, to, value,
          count, stream)
TRANSFERS(cuMemsetD16Async, (CUdeviceptr to, unsigned short value, size_t count, CUstream stream),
          facet_cuda_transfer_times(2, count), to, value, count, stream)
TRANSFERS(cuMemsetD32Async, (CUdeviceptr to, unsigned value, size_t count, CUstream stream),
          facet_cuda_transfer_times(4, count), to, value, count, stream)
TRANSFERS(cuMemsetD2D8Async,
          (CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height, CUstream stream),
          facet_cuda_transfer_times(width, height), to, pitch, value, width, height, stream)
TRANSFERS(cuMemsetD2D16Async,
          (CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height, CUstream stream),
          facet_cuda_transfer_times(2, facet_cuda_transfer_times(width, height)), to, pitch, value, width, height,
          stream)
TRANSFERS(cuMemsetD2D32Async,
          (CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height, CUstream stream),
          facet_cuda_transfer_times(4, facet_cuda_transfer_times(width, height)), to, pitch, value, width, height,
          stream)
