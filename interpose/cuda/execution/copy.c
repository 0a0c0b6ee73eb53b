/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: copies of rows and boxes, batches of copies, and moving managed memory, in stream order.
 * Never: looks into what it cannot size: that is the driver's to refuse, as what is small.
 */
#include "transfer.h"

#define BOTH FACET_CUDA_TRANSFERS

static uint64_t sum(const size_t *sizes, size_t count)
{
    uint64_t bytes = 0;

    for (size_t i = 0; sizes && i < count; i++)
        bytes += sizes[i];
    return bytes;
}

/* Elements of one byte, as far as the operands tell. */
static uint64_t boxes(const CUDA_MEMCPY3D_BATCH_OP *list, size_t count)
{
    uint64_t bytes = 0;

    for (size_t i = 0; list && i < count; i++)
        bytes += facet_cuda_transfer_times(facet_cuda_transfer_times(list[i].extent.width, list[i].extent.height),
                                           list[i].extent.depth);
    return bytes;
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
     sum(sizes, count), to, from, sizes, count, attributes, indices, attribute_count, wrong, stream)
BOTH(cuMemcpyBatchAsync_v2,
     (CUdeviceptr * to, CUdeviceptr *from, size_t *sizes, size_t count, CUmemcpyAttributes *attributes, size_t *indices,
      size_t attribute_count, CUstream stream),
     sum(sizes, count), to, from, sizes, count, attributes, indices, attribute_count, stream)
BOTH(cuMemcpy3DBatchAsync,
     (size_t count, CUDA_MEMCPY3D_BATCH_OP *list, size_t *wrong, unsigned long long flags, CUstream stream),
     boxes(list, count), count, list, wrong, flags, stream)
BOTH(cuMemcpy3DBatchAsync_v2, (size_t count, CUDA_MEMCPY3D_BATCH_OP *list, unsigned long long flags, CUstream stream),
     boxes(list, count), count, list, flags, stream)

/* ---- managed memory: charged in full on each GPU, so moving it only takes time ---- */

BOTH(cuMemPrefetchAsync, (CUdeviceptr pointer, size_t size, CUdevice device, CUstream stream), size, pointer, size,
     device, stream)
BOTH(cuMemPrefetchAsync_v2, (CUdeviceptr pointer, size_t size, CUmemLocation location, unsigned flags, CUstream stream),
     size, pointer, size, location, flags, stream)
BOTH(cuMemPrefetchBatchAsync,
     (CUdeviceptr * pointers, size_t *sizes, size_t count, CUmemLocation *locations, size_t *indices,
      size_t location_count, unsigned long long flags, CUstream stream),
     sum(sizes, count), pointers, sizes, count, locations, indices, location_count, flags, stream)
BOTH(cuMemDiscardAndPrefetchBatchAsync,
     (CUdeviceptr * pointers, size_t *sizes, size_t count, CUmemLocation *locations, size_t *indices,
      size_t location_count, unsigned long long flags, CUstream stream),
     sum(sizes, count), pointers, sizes, count, locations, indices, location_count, flags, stream)
