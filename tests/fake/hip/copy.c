/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: copies of rows, boxes and batches, and moving managed memory, in stream order. Never: moves bytes of an array.
 */
#include "vendor/hip/copy.h"
#include "fake.h"
#include "vendor/cuda/copy.h"

#define STREAM(stream) ((CUstream)(stream))

static CUdeviceptr device_address(const void *pointer)
{
    return (uintptr_t)pointer;
}

static CUDA_MEMCPY2D rows_of(size_t width, size_t height)
{
    return (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .WidthInBytes = width,
                           .Height = height};
}

static CUDA_MEMCPY2D plain_rows(const void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                                size_t height)
{
    CUDA_MEMCPY2D rows = rows_of(width, height);

    rows.dstDevice = device_address(to);
    rows.dstPitch = to_pitch;
    rows.srcDevice = device_address(from);
    rows.srcPitch = from_pitch;
    return rows;
}

static CUDA_MEMCPY2D rows_to_array(hipArray_t to, const void *from, size_t from_pitch, size_t width, size_t height)
{
    CUDA_MEMCPY2D rows = rows_of(width, height);

    rows.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    rows.dstArray = (CUarray)to;
    rows.srcDevice = device_address(from);
    rows.srcPitch = from_pitch;
    return rows;
}

static CUDA_MEMCPY2D rows_from_array(const void *to, size_t to_pitch, hipArray_t from, size_t width, size_t height)
{
    CUDA_MEMCPY2D rows = rows_of(width, height);

    rows.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    rows.srcArray = (CUarray)from;
    rows.dstDevice = device_address(to);
    rows.dstPitch = to_pitch;
    return rows;
}

static hipError_t copy_box(const hipMemcpy3DParms *copy, hipStream_t stream, bool per_thread)
{
    if (!copy)
        return hipErrorInvalidValue;
    CUDA_MEMCPY3D box = {.srcMemoryType = copy->srcArray ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED,
                         .srcArray = (CUarray)copy->srcArray,
                         .srcDevice = device_address(copy->srcPtr.ptr),
                         .srcPitch = copy->srcPtr.pitch,
                         .srcHeight = copy->srcPtr.ysize,
                         .dstMemoryType = copy->dstArray ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED,
                         .dstArray = (CUarray)copy->dstArray,
                         .dstDevice = device_address(copy->dstPtr.ptr),
                         .dstPitch = copy->dstPtr.pitch,
                         .dstHeight = copy->dstPtr.ysize,
                         .WidthInBytes = copy->extent.width,
                         .Height = copy->extent.height,
                         .Depth = copy->extent.depth};
    return per_thread ? cuMemcpy3DAsync_v2_ptsz(&box, STREAM(stream)) : cuMemcpy3DAsync_v2(&box, STREAM(stream));
}

static hipError_t copy_boxes(size_t count, const hipMemcpy3DBatchOp *list, hipStream_t stream)
{
    hipError_t result = count && count <= 1u << 20 && list ? hipSuccess : hipErrorInvalidValue;

    for (size_t i = 0; result == hipSuccess && i < count; i++) {
        const hipMemcpy3DOperand *from = &list[i].src, *to = &list[i].dst;

        if (from->type != hipMemcpyOperandTypePointer || to->type != hipMemcpyOperandTypePointer)
            return hipErrorNotSupported;
        hipMemcpy3DParms box = {
            .srcPtr = {.ptr = from->op.ptr.ptr, .pitch = from->op.ptr.rowLength, .ysize = from->op.ptr.layerHeight},
            .dstPtr = {.ptr = to->op.ptr.ptr, .pitch = to->op.ptr.rowLength, .ysize = to->op.ptr.layerHeight},
            .extent = list[i].extent};
        result = copy_box(&box, stream, false);
    }
    return result;
}

static hipError_t submit_rows(CUDA_MEMCPY2D rows, hipStream_t stream)
{
    return cuMemcpy2DAsync_v2(&rows, STREAM(stream));
}

static hipError_t submit_rows_spt(CUDA_MEMCPY2D rows, hipStream_t stream)
{
    return cuMemcpy2DAsync_v2_ptsz(&rows, STREAM(stream));
}

FAKE_HIP(hipMemcpy2DAsync, (VENDOR_HIP_ROWS, hipStream_t stream),
         submit_rows(plain_rows(to, to_pitch, from, from_pitch, width, height), stream))
FAKE_HIP(hipMemcpy2DAsync_spt, (VENDOR_HIP_ROWS, hipStream_t stream),
         submit_rows_spt(plain_rows(to, to_pitch, from, from_pitch, width, height), stream))
FAKE_HIP(hipMemcpy2DToArrayAsync, (VENDOR_HIP_ROWS_TO_ARRAY, hipStream_t stream),
         submit_rows(rows_to_array(to, from, from_pitch, width, height), stream))
FAKE_HIP(hipMemcpy2DFromArrayAsync, (VENDOR_HIP_ROWS_FROM_ARRAY, hipStream_t stream),
         submit_rows(rows_from_array(to, to_pitch, from, width, height), stream))
FAKE_HIP(hipMemcpy3DAsync, (const hipMemcpy3DParms *copy, hipStream_t stream), copy_box(copy, stream, false))
FAKE_HIP(hipMemcpy3DAsync_spt, (const hipMemcpy3DParms *copy, hipStream_t stream), copy_box(copy, stream, true))
FAKE_HIP(hipMemcpyBatchAsync,
         (void **to, void **from, size_t *sizes, size_t count, hipMemcpyAttributes *attributes, size_t *indices,
          size_t attribute_count, size_t *wrong, hipStream_t stream),
         cuMemcpyBatchAsync_v2((CUdeviceptr *)(void *)to, (CUdeviceptr *)(void *)from, sizes, count, NULL, NULL, 0,
                               STREAM(stream)))
FAKE_HIP(hipMemcpy3DBatchAsync,
         (size_t count, hipMemcpy3DBatchOp *list, size_t *wrong, unsigned long long flags, hipStream_t stream),
         copy_boxes(count, list, stream))
/* HIP_MEMCPY3D of this release has the layout of CUDA_MEMCPY3D. */
FAKE_HIP(hipDrvMemcpy3D, (const HIP_MEMCPY3D *copy),
         cuMemcpy3DAsync_v2((const CUDA_MEMCPY3D *)(const void *)copy, NULL))
FAKE_HIP(hipDrvMemcpy3DAsync, (const HIP_MEMCPY3D *copy, hipStream_t stream),
         cuMemcpy3DAsync_v2((const CUDA_MEMCPY3D *)(const void *)copy, STREAM(stream)))
FAKE_HIP(hipMemPrefetchAsync, (const void *pointer, size_t size, int device, hipStream_t stream),
         cuMemPrefetchAsync(device_address(pointer), size, device, STREAM(stream)))
FAKE_HIP(hipMemPrefetchAsync_v2,
         (const void *pointer, size_t size, hipMemLocation location, unsigned flags, hipStream_t stream),
         cuMemPrefetchAsync_v2(device_address(pointer), size, (CUmemLocation){.type = location.type, .id = location.id},
                               flags, STREAM(stream)))
