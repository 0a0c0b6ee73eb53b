/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: copies of bytes, and fills, in stream order (transfer.h). Never: reads more than their sizes. */
#include "transfer.h"

#define ONE  FACET_HIP_TRANSFER
#define BOTH FACET_HIP_TRANSFERS

BOTH(hipMemcpyAsync, (void *to, const void *from, size_t size, hipMemcpyKind kind, hipStream_t stream), size, to, from,
     size, kind, stream)
static hipError_t copy_hipMemcpyWithStream(void *to, const void *from, size_t size, hipMemcpyKind kind,
                                           hipStream_t stream)
{
    FACET_HIP_TRANSFER_BODY(hipMemcpyWithStream, false, size,
                            facet_hip_driver.hipMemcpyWithStream(to, from, size, kind, stream));
}
FACET_HIP_TO_HOST(hipMemcpyWithStream,
                  (void *to, const void *from, size_t size, hipMemcpyKind kind, hipStream_t stream), false,
                  facet_hip_transfer_leads(kind), to, from, size, kind, stream)
ONE(hipMemcpyHtoDAsync, (hipDeviceptr_t to, void *from, size_t size, hipStream_t stream), false, size, to, from, size,
    stream)
ONE(hipMemcpyDtoHAsync, (void *to, hipDeviceptr_t from, size_t size, hipStream_t stream), false, size, to, from, size,
    stream)
ONE(hipMemcpyDtoDAsync, (hipDeviceptr_t to, hipDeviceptr_t from, size_t size, hipStream_t stream), false, size, to,
    from, size, stream)
ONE(hipMemcpyPeerAsync, (void *to, int to_device, const void *from, int from_device, size_t size, hipStream_t stream),
    false, size, to, to_device, from, from_device, size, stream)
BOTH(hipMemsetAsync, (void *to, int value, size_t size, hipStream_t stream), size, to, value, size, stream)
BOTH(hipMemset2DAsync, (void *to, size_t pitch, int value, size_t width, size_t height, hipStream_t stream),
     facet_hip_transfer_times(width, height), to, pitch, value, width, height, stream)
BOTH(hipMemset3DAsync, (VENDOR_HIP_FILL_BOX, hipStream_t stream), facet_hip_transfer_box(extent, false), to, value,
     extent, stream)
ONE(hipMemsetD8Async, (hipDeviceptr_t to, unsigned char value, size_t count, hipStream_t stream), false, count, to,
    value, count, stream)
ONE(hipMemsetD16Async, (hipDeviceptr_t to, unsigned short value, size_t count, hipStream_t stream), false,
    facet_hip_transfer_times(2, count), to, value, count, stream)
ONE(hipMemsetD32Async, (hipDeviceptr_t to, int value, size_t count, hipStream_t stream), false,
    facet_hip_transfer_times(4, count), to, value, count, stream)
ONE(hipMemsetD2D8Async,
    (hipDeviceptr_t to, size_t pitch, unsigned char value, size_t width, size_t height, hipStream_t stream), false,
    facet_hip_transfer_times(width, height), to, pitch, value, width, height, stream)
ONE(hipMemsetD2D16Async,
    (hipDeviceptr_t to, size_t pitch, unsigned short value, size_t width, size_t height, hipStream_t stream), false,
    facet_hip_transfer_times(2, facet_hip_transfer_times(width, height)), to, pitch, value, width, height, stream)
ONE(hipMemsetD2D32Async,
    (hipDeviceptr_t to, size_t pitch, unsigned value, size_t width, size_t height, hipStream_t stream), false,
    facet_hip_transfer_times(4, facet_hip_transfer_times(width, height)), to, pitch, value, width, height, stream)
