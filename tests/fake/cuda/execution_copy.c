/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: copies of rows and boxes, batches of them, decompressing, and moving managed memory, in stream order.
 * Never: reads arrays, except as bytes; moves a part of a managed block: the whole block moves.
 */
#include <string.h>

#include "execution.h"
#include "memory.h"
#include "vendor/cuda/copy.h"

#define COPY_BYTES_NS 50u               /* bytes that are copied in 1 ns: 50 GB/s */
#define BATCH_MOST    ((size_t)1 << 20) /* entries of a batch; a real driver refuses an impossible count, too */

/* One side of a copy of boxes. */
struct side {
    CUmemorytype type;
    uint64_t host, device;
    size_t x, y, z, pitch, height;
};

struct box {
    struct side to, from;
    size_t width, height, depth;
};

static bool is_linear(const struct side *side)
{
    return side->type == CU_MEMORYTYPE_HOST || side->type == CU_MEMORYTYPE_DEVICE ||
           side->type == CU_MEMORYTYPE_UNIFIED;
}

static uint64_t row_of(const struct side *side, size_t y, size_t z)
{
    uint64_t base = side->type == CU_MEMORYTYPE_HOST ? side->host : side->device;

    return base + ((side->z + z) * side->height + side->y + y) * side->pitch + side->x;
}

static bool is_usable(const struct side *side, const struct box *box)
{
    bool usable = side->pitch >= box->width || (box->height == 1 && box->depth == 1);

    for (size_t z = 0; usable && z < box->depth; z++)
        for (size_t y = 0; usable && y < box->height; y++)
            usable = side->type != CU_MEMORYTYPE_DEVICE || fake_memory_usable(row_of(side, y, z), box->width);
    return usable;
}

static CUresult submit_copy(CUstream handle, bool per_thread, uint64_t bytes, bool *ret_moves_now)
{
    CUstream stream;
    CUresult result = fake_stream(handle, per_thread, &stream);

    if (result != CUDA_SUCCESS)
        return result;
    *ret_moves_now = !atomic_load(&stream->captured);
    return fake_submit(stream, (struct fake_work){.cost_ns = bytes / COPY_BYTES_NS});
}

/* A copy from or to an array takes its time, and moves nothing. */
static CUresult copy_box(CUstream stream, bool per_thread, const struct box *box)
{
    bool linear = is_linear(&box->to) && is_linear(&box->from), moves_now = false;

    if (linear && (!is_usable(&box->to, box) || !is_usable(&box->from, box)))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = submit_copy(stream, per_thread, box->width * box->height * box->depth, &moves_now);
    for (size_t z = 0; result == CUDA_SUCCESS && linear && moves_now && z < box->depth; z++)
        for (size_t y = 0; y < box->height; y++)
            memmove((void *)(uintptr_t)row_of(&box->to, y, z), (const void *)(uintptr_t)row_of(&box->from, y, z),
                    box->width);
    return result;
}

#define SIDE(copy, which, ...)                                                                                         \
    {                                                                                                                  \
        (copy)->which##MemoryType, (uintptr_t)(copy)->which##Host, (copy)->which##Device, (copy)->which##XInBytes,     \
            (copy)->which##Y, __VA_ARGS__                                                                              \
    }

static CUresult do_cuMemcpy2DAsync_v2(bool per_thread, const CUDA_MEMCPY2D *copy, CUstream stream)
{
    if (!copy)
        return CUDA_ERROR_INVALID_VALUE;
    return copy_box(stream, per_thread,
                    &(struct box){SIDE(copy, dst, 0, copy->dstPitch, 0), SIDE(copy, src, 0, copy->srcPitch, 0),
                                  copy->WidthInBytes, copy->Height, 1});
}
FAKE_BOTH_FORMS(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *copy, CUstream stream), copy, stream)

#define BOX(copy)                                                                                                      \
    {                                                                                                                  \
        SIDE(copy, dst, (copy)->dstZ, (copy)->dstPitch, (copy)->dstHeight),                                            \
            SIDE(copy, src, (copy)->srcZ, (copy)->srcPitch, (copy)->srcHeight), (copy)->WidthInBytes, (copy)->Height,  \
            (copy)->Depth                                                                                              \
    }

static CUresult do_cuMemcpy3DAsync_v2(bool per_thread, const CUDA_MEMCPY3D *copy, CUstream stream)
{
    return copy ? copy_box(stream, per_thread, &(struct box)BOX(copy)) : CUDA_ERROR_INVALID_VALUE;
}
FAKE_BOTH_FORMS(cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D *copy, CUstream stream), copy, stream)

static CUresult do_cuMemcpy3DPeerAsync(bool per_thread, const CUDA_MEMCPY3D_PEER *copy, CUstream stream)
{
    if (!copy || !copy->srcContext || !copy->dstContext)
        return CUDA_ERROR_INVALID_VALUE;
    return copy_box(stream, per_thread, &(struct box)BOX(copy));
}
FAKE_BOTH_FORMS(cuMemcpy3DPeerAsync, (const CUDA_MEMCPY3D_PEER *copy, CUstream stream), copy, stream)

static CUresult copy_batch(bool per_thread, const CUdeviceptr *to, const CUdeviceptr *from, const size_t *sizes,
                           size_t count, CUstream stream)
{
    CUresult result = to && from && sizes && count && count <= BATCH_MOST ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    bool moves_now = false;

    for (size_t i = 0; result == CUDA_SUCCESS && i < count; i++) {
        result = submit_copy(stream, per_thread, sizes[i], &moves_now);
        if (result == CUDA_SUCCESS && moves_now)
            memmove((void *)(uintptr_t)to[i], (const void *)(uintptr_t)from[i], sizes[i]);
    }
    return result;
}

static CUresult do_cuMemcpyBatchAsync_v2(bool per_thread, CUdeviceptr *to, CUdeviceptr *from, size_t *sizes,
                                         size_t count, CUstream stream)
{
    return copy_batch(per_thread, to, from, sizes, count, stream);
}
FAKE_BOTH_FORMS(cuMemcpyBatchAsync_v2,
                (CUdeviceptr * to, CUdeviceptr *from, size_t *sizes, size_t count, CUmemcpyAttributes *attributes,
                 size_t *indices, size_t attribute_count, CUstream stream),
                to, from, sizes, count, stream)

static CUresult do_cuMemcpyBatchAsync(bool per_thread, CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count,
                                      CUstream stream)
{
    return copy_batch(per_thread, to, from, sizes, count, stream);
}
FAKE_BOTH_FORMS(cuMemcpyBatchAsync,
                (CUdeviceptr * to, CUdeviceptr *from, size_t *sizes, size_t count, CUmemcpyAttributes *attributes,
                 size_t *indices, size_t attribute_count, size_t *wrong, CUstream stream),
                to, from, sizes, count, stream)

/* Takes as long as a copy of the compressed bytes. */
static CUresult do_cuMemBatchDecompressAsync(bool per_thread, const CUmemDecompressParams *list, size_t count,
                                             CUstream stream)
{
    CUresult result = list && count && count <= BATCH_MOST ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    bool moves_now;

    for (size_t i = 0; result == CUDA_SUCCESS && i < count; i++)
        result = submit_copy(stream, per_thread, list[i].srcNumBytes, &moves_now);
    return result;
}
FAKE_BOTH_FORMS(cuMemBatchDecompressAsync,
                (CUmemDecompressParams * list, size_t count, unsigned flags, size_t *wrong, CUstream stream), list,
                count, stream)

static CUresult move_managed(bool per_thread, CUdeviceptr pointer, size_t bytes, CUdevice device, CUstream stream)
{
    bool moves_now;
    CUresult result = fake_memory_usable(pointer, bytes) ? submit_copy(stream, per_thread, bytes, &moves_now)
                                                         : CUDA_ERROR_INVALID_VALUE;

    if (result == CUDA_SUCCESS)
        fake_managed_move(pointer, device);
    return result;
}

static CUresult do_cuMemPrefetchAsync(bool per_thread, CUdeviceptr pointer, size_t bytes, CUdevice device,
                                      CUstream stream)
{
    return move_managed(per_thread, pointer, bytes, device, stream);
}
FAKE_BOTH_FORMS(cuMemPrefetchAsync, (CUdeviceptr pointer, size_t bytes, CUdevice device, CUstream stream), pointer,
                bytes, device, stream)

static CUresult do_cuMemPrefetchAsync_v2(bool per_thread, CUdeviceptr pointer, size_t bytes, CUmemLocation location,
                                         CUstream stream)
{
    return move_managed(per_thread, pointer, bytes, location.type == CU_MEM_LOCATION_TYPE_DEVICE ? location.id : -1,
                        stream);
}
FAKE_BOTH_FORMS(cuMemPrefetchAsync_v2,
                (CUdeviceptr pointer, size_t bytes, CUmemLocation location, unsigned flags, CUstream stream), pointer,
                bytes, location, stream)
