/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: copies and fills that are complete when they return, and filling of bytes. Never: reads or writes beyond an
 * allocation: it returns the driver's error. Memory outside of all allocations is the host's.
 */
#include <string.h>

#include "memory.h"

/* Waits for the work of the legacy stream, and then for the time of the copy. */
static CUresult spend_copy_time(CUcontext context, uint64_t cost_ns)
{
    fake_sleep_until(fake_run(context->physical, fake_stream_ready_ns(&fake_execution_of(context)->legacy), cost_ns));
    return CUDA_SUCCESS;
}

static CUresult copy_bytes(uint64_t to, bool to_device, uint64_t from, bool from_device, size_t bytes)
{
    CUcontext context;
    CUresult result = fake_enter(&context);

    if (result != CUDA_SUCCESS || !bytes)
        return result;
    if ((to_device && !fake_memory_usable(to, bytes)) || (from_device && !fake_memory_usable(from, bytes)))
        return CUDA_ERROR_INVALID_VALUE;
    memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    return spend_copy_time(context, fake_copy_ns(bytes, to_device && from_device));
}

static bool is_device(uint64_t address)
{
    fake_memory_lock();
    bool ours = fake_block_at(address);
    fake_memory_unlock();
    return ours;
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return copy_bytes(to, is_device(to), from, is_device(from), bytes);
}

CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes)
{
    CUresult result = fake_context_check(to_context);

    if (result == CUDA_SUCCESS)
        result = fake_context_check(from_context);
    return result == CUDA_SUCCESS ? copy_bytes(to, true, from, true, bytes) : result;
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
    return copy_bytes(to, true, (uintptr_t)from, false, bytes);
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
    return copy_bytes((uintptr_t)to, false, from, true, bytes);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return copy_bytes(to, true, from, true, bytes);
}

/* The address of an offset in an array; 0 if the bytes from there on are not all in the array. */
static uint64_t address_in_array(CUarray array, size_t offset, size_t bytes)
{
    fake_memory_lock();
    struct fake_block *block = fake_block_at((uintptr_t)array);
    bool inside = block && block->type == FAKE_BLOCK_ARRAY && block->address == (uintptr_t)array &&
                  offset <= block->bytes && bytes <= block->bytes - offset;
    fake_memory_unlock();
    return inside ? (uintptr_t)array + offset : 0;
}

CUresult cuMemcpyHtoA_v2(CUarray to, size_t offset, const void *from, size_t bytes)
{
    uint64_t address = address_in_array(to, offset, bytes);

    return address ? copy_bytes(address, false, (uintptr_t)from, false, bytes) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpyAtoH_v2(void *to, CUarray from, size_t offset, size_t bytes)
{
    uint64_t address = address_in_array(from, offset, bytes);

    return address ? copy_bytes((uintptr_t)to, false, address, false, bytes) : CUDA_ERROR_INVALID_VALUE;
}

struct row_side {
    uint64_t address;
    size_t pitch;
    bool on_device;
};

/* The source or the target of a copy of rows; false for an array, which this copy does not support. */
static bool row_side_of(CUmemorytype type, const void *host, CUdeviceptr device, size_t pitch, size_t x, size_t y,
                        struct row_side *ret_side)
{
    bool on_host = type == CU_MEMORYTYPE_HOST;

    if (type == CU_MEMORYTYPE_ARRAY)
        return false;
    *ret_side = (struct row_side){.address = (on_host ? (uintptr_t)host : device) + y * pitch + x,
                                  .pitch = pitch,
                                  .on_device = type == CU_MEMORYTYPE_DEVICE};
    return true;
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *rows)
{
    struct row_side to, from;
    CUresult result = CUDA_SUCCESS;

    if (!rows ||
        !row_side_of(rows->dstMemoryType, rows->dstHost, rows->dstDevice, rows->dstPitch, rows->dstXInBytes, rows->dstY,
                     &to) ||
        !row_side_of(rows->srcMemoryType, rows->srcHost, rows->srcDevice, rows->srcPitch, rows->srcXInBytes, rows->srcY,
                     &from))
        return rows ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < rows->Height && result == CUDA_SUCCESS; i++)
        result = copy_bytes(to.address + i * to.pitch, to.on_device, from.address + i * from.pitch, from.on_device,
                            rows->WidthInBytes);
    return result;
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *rows)
{
    return cuMemcpy2D_v2(rows);
}

void fake_fill(uint64_t to, const void *value, size_t size, size_t count)
{
    enum { PIECE = 64 << 10 }; /* the part that is copied again and again: it stays in a cache */
    char *bytes = (char *)(uintptr_t)to;
    size_t whole = size * count, done = whole ? size : 0;

    memcpy(bytes, value, done);
    while (done < whole) {
        size_t piece = done < PIECE ? done : PIECE / size * size;

        if (piece > whole - done)
            piece = whole - done;
        memcpy(bytes + done, bytes, piece);
        done += piece;
    }
}

/* Writes the `width` bytes of `value` `count` times. */
static CUresult fill_bytes(CUdeviceptr to, const void *value, size_t width, size_t count)
{
    CUcontext context;
    CUresult result = fake_enter(&context);

    if (result != CUDA_SUCCESS || !count)
        return result;
    if (to % width || !fake_memory_usable(to, count * width))
        return CUDA_ERROR_INVALID_VALUE;
    fake_fill(to, value, width, count);
    return spend_copy_time(context, fake_copy_ns(count * width, true));
}

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count)
{
    return fill_bytes(to, &value, sizeof value, count);
}

CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count)
{
    return fill_bytes(to, &value, sizeof value, count);
}

CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t count)
{
    return fill_bytes(to, &value, sizeof value, count);
}

CUresult cuMemsetD2D8_v2(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height)
{
    CUresult result = CUDA_SUCCESS;

    for (size_t i = 0; i < height && result == CUDA_SUCCESS; i++)
        result = fill_bytes(to + i * pitch, &value, 1, width);
    return result;
}

/* The form for the thread's own default stream: a call that completes before it returns does the same on any stream. */
#define DEFINE_PTDS_FORM(name, parameters, arguments)                                                                  \
    CUresult name##_ptds parameters                                                                                    \
    {                                                                                                                  \
        return name arguments;                                                                                         \
    }

DEFINE_PTDS_FORM(cuMemcpy, (CUdeviceptr to, CUdeviceptr from, size_t bytes), (to, from, bytes))
DEFINE_PTDS_FORM(cuMemcpyPeer,
                 (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes),
                 (to, to_context, from, from_context, bytes))
DEFINE_PTDS_FORM(cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t bytes), (to, from, bytes))
DEFINE_PTDS_FORM(cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t bytes), (to, from, bytes))
DEFINE_PTDS_FORM(cuMemcpyDtoD_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes), (to, from, bytes))
DEFINE_PTDS_FORM(cuMemcpyHtoA_v2, (CUarray to, size_t offset, const void *from, size_t bytes),
                 (to, offset, from, bytes))
DEFINE_PTDS_FORM(cuMemcpyAtoH_v2, (void *to, CUarray from, size_t offset, size_t bytes), (to, from, offset, bytes))
DEFINE_PTDS_FORM(cuMemcpy2D_v2, (const CUDA_MEMCPY2D *rows), (rows))
DEFINE_PTDS_FORM(cuMemcpy2DUnaligned_v2, (const CUDA_MEMCPY2D *rows), (rows))
DEFINE_PTDS_FORM(cuMemsetD8_v2, (CUdeviceptr to, unsigned char value, size_t count), (to, value, count))
DEFINE_PTDS_FORM(cuMemsetD16_v2, (CUdeviceptr to, unsigned short value, size_t count), (to, value, count))
DEFINE_PTDS_FORM(cuMemsetD32_v2, (CUdeviceptr to, unsigned value, size_t count), (to, value, count))
DEFINE_PTDS_FORM(cuMemsetD2D8_v2, (CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height),
                 (to, pitch, value, width, height))
