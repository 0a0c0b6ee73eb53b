/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: copies of rows and boxes, and batches of copies, moves and decompressions, in stream order.
 * Never: sizes an operation whose form it does not know, or a batch that lacks an array. Both count as size 0 and go
 * straight to the driver, which refuses the invalid ones.
 */
#include "transfer.h"

#define BOTH FACET_CUDA_TRANSFERS

/* `all`: whether the other required arrays are present. */
static uint64_t sum_of_sizes(bool all, const size_t *sizes, size_t count)
{
    return all ? facet_flight_batch(sizes, count, facet_flight_size_at) : 0;
}

/* The operands do not tell the size of an element, so it counts as one byte. */
static uint64_t box_at(const void *list, size_t index)
{
    const CUextent3D *extent = &((const CUDA_MEMCPY3D_BATCH_OP *)list)[index].extent;

    return facet_cuda_transfer_times(facet_cuda_transfer_times(extent->width, extent->height), extent->depth);
}

static uint64_t bytes_of_boxes(const CUDA_MEMCPY3D_BATCH_OP *list, size_t count)
{
    return facet_flight_batch(list, count, box_at);
}

/* A caller may leave the output size 0; where it is set, it exceeds the input size. */
static uint64_t decompressed_at(const void *list, size_t index)
{
    const CUmemDecompressParams *one = &((const CUmemDecompressParams *)list)[index];

    return one->dstNumBytes > one->srcNumBytes ? one->dstNumBytes : one->srcNumBytes;
}

static uint64_t bytes_decompressed(const CUmemDecompressParams *list, size_t count)
{
    return facet_flight_batch(list, count, decompressed_at);
}

BOTH(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *copy, CUstream stream), facet_cuda_transfer_rows(copy), copy, stream)
BOTH(cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D *copy, CUstream stream), facet_cuda_transfer_box(copy), copy, stream)
BOTH(cuMemcpy3DPeerAsync, (const CUDA_MEMCPY3D_PEER *copy, CUstream stream), facet_cuda_transfer_box_of_peer(copy),
     copy, stream)
BOTH(cuMemcpyHtoAAsync_v2, (CUarray to, size_t offset, const void *from, size_t size, CUstream stream), size, to,
     offset, from, size, stream)
BOTH(cuMemcpyAtoHAsync_v2, (void *to, CUarray from, size_t offset, size_t size, CUstream stream), size, to, from,
     offset, size, stream)

/* ---- batches ---- */

BOTH(cuMemcpyBatchAsync,
     (CUdeviceptr * to, CUdeviceptr *from, size_t *sizes, size_t count, CUmemcpyAttributes *attributes, size_t *indices,
      size_t attribute_count, size_t *wrong, CUstream stream),
     sum_of_sizes(to &&from, sizes, count), to, from, sizes, count, attributes, indices, attribute_count, wrong, stream)
BOTH(cuMemcpyBatchAsync_v2,
     (CUdeviceptr * to, CUdeviceptr *from, size_t *sizes, size_t count, CUmemcpyAttributes *attributes, size_t *indices,
      size_t attribute_count, CUstream stream),
     sum_of_sizes(to &&from, sizes, count), to, from, sizes, count, attributes, indices, attribute_count, stream)
BOTH(cuMemcpy3DBatchAsync,
     (size_t count, CUDA_MEMCPY3D_BATCH_OP *list, size_t *wrong, unsigned long long flags, CUstream stream),
     bytes_of_boxes(list, count), count, list, wrong, flags, stream)
BOTH(cuMemcpy3DBatchAsync_v2, (size_t count, CUDA_MEMCPY3D_BATCH_OP *list, unsigned long long flags, CUstream stream),
     bytes_of_boxes(list, count), count, list, flags, stream)

BOTH(cuMemBatchDecompressAsync,
     (CUmemDecompressParams * list, size_t count, unsigned flags, size_t *wrong, CUstream stream),
     bytes_decompressed(list, count), list, count, flags, wrong, stream)

/* ---- managed memory: charged in full on each GPU, so moving it only takes time ---- */

BOTH(cuMemPrefetchAsync, (CUdeviceptr pointer, size_t size, CUdevice device, CUstream stream), size, pointer, size,
     device, stream)
BOTH(cuMemPrefetchAsync_v2, (CUdeviceptr pointer, size_t size, CUmemLocation location, unsigned flags, CUstream stream),
     size, pointer, size, location, flags, stream)
BOTH(cuMemPrefetchBatchAsync,
     (CUdeviceptr * pointers, size_t *sizes, size_t count, CUmemLocation *locations, size_t *indices,
      size_t location_count, unsigned long long flags, CUstream stream),
     sum_of_sizes(pointers &&locations &&indices, sizes, count), pointers, sizes, count, locations, indices,
     location_count, flags, stream)
BOTH(cuMemDiscardAndPrefetchBatchAsync,
     (CUdeviceptr * pointers, size_t *sizes, size_t count, CUmemLocation *locations, size_t *indices,
      size_t location_count, unsigned long long flags, CUstream stream),
     sum_of_sizes(pointers &&locations &&indices, sizes, count), pointers, sizes, count, locations, indices,
     location_count, flags, stream)
