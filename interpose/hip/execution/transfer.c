/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: copies of bytes, and fills, in stream order (transfer.h). Never: reads more than their sizes. */
#include "transfer.h"

#define TRANSFER  FACET_HIP_TRANSFER
#define TRANSFERS FACET_HIP_TRANSFERS

TRANSFERS(hipMemcpyAsync, (void *to, const void *from, size_t size, hipMemcpyKind kind, hipStream_t stream), size, to,
          from, size, kind, stream)
static hipError_t copy_hipMemcpyWithStream(void *to, const void *from, size_t size, hipMemcpyKind kind,
                                           hipStream_t stream)
{
    FACET_HIP_TRANSFER_BODY(hipMemcpyWithStream, false, size,
                            facet_hip_driver.hipMemcpyWithStream(to, from, size, kind, stream));
}
FACET_HIP_TO_HOST(hipMemcpyWithStream,
                  (void *to, const void *from, size_t size, hipMemcpyKind kind, hipStream_t stream), false,
                  facet_hip_transfer_direction(kind), to, from, size, kind, stream)
TRANSFER(hipMemcpyHtoDAsync, (hipDeviceptr_t to, void *from, size_t size, hipStream_t stream), false, size, to, from,
         size, stream)
TRANSFER(hipMemcpyDtoHAsync, (void *to, hipDeviceptr_t from, size_t size, hipStream_t stream), false, size, to, from,
         size, stream)
TRANSFER(hipMemcpyDtoDAsync, (hipDeviceptr_t to, hipDeviceptr_t from, size_t size, hipStream_t stream), false, size, to,
         from, size, stream)
TRANSFER(hipMemcpyPeerAsync,
         (void *to, int to_device, const void *from, int from_device, size_t size, hipStream_t stream), false, size, to,
         to_device, from, from_device, size, stream)
TRANSFERS(hipMemsetAsync, (void *to, int value, size_t size, hipStream_t stream), size, to, value, size, stream)
TRANSFERS(hipMemset2DAsync, (void *to, size_t pitch, int value, size_t width, size_t height, hipStream_t stream),
          facet_hip_transfer_times(width, height), to, pitch, value, width, height, stream)
TRANSFERS(hipMemset3DAsync, (VENDOR_HIP_FILL_BOX, hipStream_t stream), facet_hip_transfer_box(extent, false), to, value,
          extent, stream)
TRANSFER(hipMemsetD8Async, (hipDeviceptr_t to, unsigned char value, size_t count, hipStream_t stream), false, count, to,
         value, count, stream)
TRANSFER(hipMemsetD16Async, (hipDeviceptr_t to, unsigned short value, size_t count, hipStream_t stream), false,
         facet_hip_transfer_times(2, count), to, value, count, stream)
TRANSFER(hipMemsetD32Async, (hipDeviceptr_t to, int value, size_t count, hipStream_t stream), false,
         facet_hip_transfer_times(4, count), to, value, count, stream)
TRANSFER(hipMemsetD2D8Async,
         (hipDeviceptr_t to, size_t pitch, unsigned char value, size_t width, size_t height, hipStream_t stream), false,
         facet_hip_transfer_times(width, height), to, pitch, value, width, height, stream)
TRANSFER(hipMemsetD2D16Async,
         (hipDeviceptr_t to, size_t pitch, unsigned short value, size_t width, size_t height, hipStream_t stream),
         false, facet_hip_transfer_times(2, facet_hip_transfer_times(width, height)), to, pitch, value, width, height,
         stream)
TRANSFER(hipMemsetD2D32Async,
         (hipDeviceptr_t to, size_t pitch, unsigned value, size_t width, size_t height, hipStream_t stream), false,
         facet_hip_transfer_times(4, facet_hip_transfer_times(width, height)), to, pitch, value, width, height, stream)
