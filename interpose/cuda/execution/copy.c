/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: copies of rows and boxes, and batches of copies, moves and decompressions, in stream order.
 * Never: sizes an operation whose form it does not know, or a batch that lacks an array. Both count as size 0 and go
 * straight to the driver, which refuses an invalid operation.
 */
#include "transfer.h"

#define TRANSFERS FACET_CUDA_TRANSFERS

/* `has_arrays`: whether the required arrays other than `sizes` are present. */
static uint64_t sum_of_sizes(bool has_arrays, const size_t *sizes, size_t count)
{
    return has_arrays ? facet_flight_batch(sizes, count, facet_flight_size_at) : 0;
}

/* The operands do not tell the size of an element, so it counts as one byte. */
static uint64_t box_bytes_at(const void *list, size_t index)
{
    const CUextent3D *extent = &((const CUDA_MEMCPY3D_BATCH_OP *)list)[index].extent;

    return facet_cuda_transfer_times(facet_cuda_transfer_times(extent->width, extent->height), extent->depth);
}

static uint64_t sum_boxes(const CUDA_MEMCPY3D_BATCH_OP *list, size_t count)
{
    return facet_flight_batch(list, count, box_bytes_at);
}

/* A caller may leave the output size 0; if it is set, it exceeds the input size. */
static uint64_t decompressed_bytes_at(const void *list, size_t index)
{
    const CUmemDecompressParams *operation = &((const CUmemDecompressParams *)list)[index];

    return operation->dstNumBytes > operation->srcNumBytes ? operation->dstNumBytes : operation->srcNumBytes;
}

static uint64_t sum_decompressed(const CUmemDecompressParams *list, size_t count)
{
    return facet_flight_batch(list, count, decompressed_bytes_at);
}

TRANSFERS(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *copy, CUstream stream), facet_cuda_transfer_rows(copy), copy,
          stream)
TRANSFERS(cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D *copy, CUstream stream), facet_cuda_transfer_box(copy), copy, stream)
TRANSFERS(cuMemcpy3DPeerAsync, (const CUDA_MEMCPY3D_PEER *copy, CUstream stream), facet_cuda_transfer_box_of_peer(copy),
          copy, stream)
TRANSFERS(cuMemcpyHtoAAsync_v2, (CUarray to, size_t offset, const void *from, size_t size, CUstream stream), size, to,
          offset, from, size, stream)
TRANSFERS(cuMemcpyAtoHAsync_v2, (void *to, CUarray from, size_t offset, size_t size, CUstream stream), size, to, from,
          offset, size, stream)

/* ---- batches ---- */

TRANSFERS(cuMemcpyBatchAsync,
          (CUdeviceptr * to, CUdeviceptr *from, size_t *sizes, size_t count, CUmemcpyAttributes *attributes,
           size_t *indices, size_t attribute_count, size_t *failed_index, CUstream stream),
          sum_of_sizes(to &&from, sizes, count), to, from, sizes, count, attributes, indices, attribute_count,
          failed_index, stream)
TRANSFERS(cuMemcpyBatchAsync_v2,
          (CUdeviceptr * to, CUdeviceptr *from, size_t *sizes, size_t count, CUmemcpyAttributes *attributes,
           size_t *indices, size_t attribute_count, CUstream stream),
          sum_of_sizes(to &&from, sizes, count), to, from, sizes, count, attributes, indices, attribute_count, stream)
TRANSFERS(cuMemcpy3DBatchAsync,
          (size_t count, CUDA_MEMCPY3D_BATCH_OP *list, size_t *failed_index, unsigned long long flags, CUstream stream),
          sum_boxes(list, count), count, list, failed_index, flags, stream)
TRANSFERS(cuMemcpy3DBatchAsync_v2,
          (size_t count, CUDA_MEMCPY3D_BATCH_OP *list, unsigned long long flags, CUstream stream),
          sum_boxes(list, count), count, list, flags, stream)

TRANSFERS(cuMemBatchDecompressAsync,
          (CUmemDecompressParams * list, size_t count, unsigned flags, size_t *failed_index, CUstream stream),
          sum_decompressed(list, count), list, count, flags, failed_index, stream)

/* ---- managed memory: charged in full on each GPU, so moving it only takes time ---- */

TRANSFERS(cuMemPrefetchAsync, (CUdeviceptr pointer, size_t size, CUdevice device, CUstream stream), size, pointer, size,
          device, stream)
TRANSFERS(cuMemPrefetchAsync_v2,
          (CUdeviceptr pointer, size_t size, CUmemLocation location, unsigned flags, CUstream stream), size, pointer,
          size, location, flags, stream)
TRANSFERS(cuMemPrefetchBatchAsync,
          (CUdeviceptr * pointers, size_t *sizes, size_t count, CUmemLocation *locations, size_t *indices,
           size_t location_count, unsigned long long flags, CUstream stream),
          sum_of_sizes(pointers &&locations &&indices, sizes, count), pointers, sizes, count, locations, indices,
          location_count, flags, stream)
TRANSFERS(cuMemDiscardAndPrefetchBatchAsync,
          (CUdeviceptr * pointers, size_t *sizes, size_t count, CUmemLocation *locations, size_t *indices,
           size_t location_count, unsigned long long flags, CUstream stream),
          sum_of_sizes(pointers &&locations &&indices, sizes, count), pointers, sizes, count, locations, indices,
          location_count, flags, stream)
