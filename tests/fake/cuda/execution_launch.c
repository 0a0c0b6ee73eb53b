/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: launches of kernels, and copies and fills in stream order.
 * Never: runs a kernel, which only takes time, except kernels whose names begin with "store_words" (docs/providers.md)
 * or "add_words". Their three arguments are an address, a count and a value. They take effect when they are submitted,
 * because submitted work is never withdrawn, and use the memory until they are complete.
 */
#include <string.h>

#include "execution.h"
#include "memory.h"

#ifndef FAKE_LAUNCH_END /* the fake HIP runtime is compiled with HIP's value */
#define FAKE_LAUNCH_END CU_LAUNCH_PARAM_END
#endif
#define MAX_BLOCK       1024u  /* threads */
#define DEVICE_BYTES_NS 50u    /* bytes that are copied in 1 ns within a device */
#define MAX_GRID_OTHER  65535u /* blocks in the second, and in the third dimension */

uint64_t fake_copy_ns(uint64_t bytes, bool on_device)
{
    double bytes_s = (double)fake_state()->copy_bytes_s;

    return on_device ? bytes / DEVICE_BYTES_NS : (uint64_t)((double)bytes * 1e9 / bytes_s);
}

CUresult fake_submit(CUstream stream, struct fake_work work)
{
    CUgraph graph;
    CUresult result = fake_capture_work(stream, &graph);

    if (result != CUDA_SUCCESS)
        return result;
    if (graph) {
        pthread_mutex_lock(&fake_execution_lock);
        fake_graph_add(graph, work);
        pthread_mutex_unlock(&fake_execution_lock);
        return CUDA_SUCCESS;
    }
    uint32_t device = stream->context->physical;
    if (work.cost_ns)
        fake_stream_raise_end(
            stream, fake_run_in(device, fake_stream_lane(stream), fake_stream_ready_ns(stream), work.cost_ns));
    if (work.kernel != (work.cost_ns != 0)) /* the engine counted it as a launch, or missed it */
        fake_count_launches(device, work.kernel ? 1 : UINT64_MAX);
    return CUDA_SUCCESS;
}

struct shape {
    unsigned x, y, z;
};

static bool is_grid(struct shape grid)
{
    return grid.x && grid.y && grid.z && grid.x <= INT32_MAX && grid.y <= MAX_GRID_OTHER && grid.z <= MAX_GRID_OTHER;
}

static bool is_block(struct shape block)
{
    return block.x && block.y && block.z && (uint64_t)block.x * block.y * block.z <= MAX_BLOCK;
}

static CUresult launch_kernel(CUfunction function, struct shape grid, struct shape block, CUstream handle,
                              bool per_thread)
{
    CUstream stream;
    CUresult result = fake_stream(handle, per_thread, &stream);

    if (result != CUDA_SUCCESS)
        return result;
    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!is_grid(grid) || !is_block(block))
        return CUDA_ERROR_INVALID_VALUE;
    if (__builtin_expect(atomic_load_explicit(&function->loaded_in, memory_order_relaxed) != stream->context->id, 0)) {
        result = fake_code_load(function, stream->context);
        if (result != CUDA_SUCCESS)
            return result;
    }
    uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z;
    return fake_submit(
        stream,
        (struct fake_work){.cost_ns = fake_kernel_ns(function, fake_stream_units(stream), blocks), .kernel = true});
}

#define LAUNCH_PARAMETERS                                                                                              \
    CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,        \
        unsigned block_z, unsigned shared, CUstream stream, void **parameters
#define LAUNCH_SHAPES                                                                                                  \
    (struct shape){grid_x, grid_y, grid_z}, (struct shape)                                                             \
    {                                                                                                                  \
        block_x, block_y, block_z                                                                                      \
    }

struct word_arguments {
    uint64_t address, count, value;
};

/* Reads three arguments from `parameters` or `extra`; false if `extra` does not have exactly three. */
static bool take_arguments(void **parameters, void **extra, struct word_arguments *ret_arguments)
{
    const void *buffer = NULL;
    size_t bytes = 0;

    if (parameters) {
        memcpy(&ret_arguments->address, parameters[0], 8);
        memcpy(&ret_arguments->count, parameters[1], 8);
        memcpy(&ret_arguments->value, parameters[2], 8);
        return true;
    }
    for (; extra && *extra != FAKE_LAUNCH_END; extra += 2) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else
            bytes = *(size_t *)extra[1];
    }
    if (!buffer || bytes != sizeof *ret_arguments)
        return false;
    memcpy(ret_arguments, buffer, sizeof *ret_arguments);
    return true;
}

static CUresult store_words(CUstream stream, bool adds, void **parameters, void **extra)
{
    struct word_arguments arguments;

    if (!take_arguments(parameters, extra, &arguments))
        return CUDA_ERROR_INVALID_VALUE;
    if (!fake_memory_usable(arguments.address, arguments.count * sizeof(uint64_t)))
        fake_fault();
    CUresult result = fake_device_check(stream->context->physical);
    uint64_t *words = (uint64_t *)(uintptr_t)arguments.address; /* NOLINT: an address is a number */
    for (uint64_t i = 0; result == CUDA_SUCCESS && i < arguments.count; i++)
        words[i] = arguments.value + (adds ? words[i] : 0);
    fake_virtual_set_used_until(arguments.address, arguments.count * sizeof *words, atomic_load(&stream->until_ns));
    return result;
}

static CUresult do_cuLaunchKernel(bool per_thread, CUfunction function, struct shape grid, struct shape block,
                                  CUstream handle, void **parameters, void **extra)
{
    CUstream stream;
    CUresult result = launch_kernel(function, grid, block, handle, per_thread);

    bool adds = result == CUDA_SUCCESS && strncmp(function->name, "add_words", 9) == 0;
    if (result != CUDA_SUCCESS || (!adds && strncmp(function->name, "store_words", 11) != 0))
        return result;
    result = fake_stream(handle, per_thread, &stream);
    if (result != CUDA_SUCCESS || atomic_load(&stream->captured))
        return result;
    return store_words(stream, adds, parameters, extra);
}
FAKE_BOTH_FORMS(cuLaunchKernel, (LAUNCH_PARAMETERS, void **extra), function, LAUNCH_SHAPES, stream, parameters, extra)

static CUresult do_cuLaunchKernelEx(bool per_thread, const CUlaunchConfig *config, CUfunction function)
{
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    return launch_kernel(function, (struct shape){config->gridDimX, config->gridDimY, config->gridDimZ},
                         (struct shape){config->blockDimX, config->blockDimY, config->blockDimZ}, config->hStream,
                         per_thread);
}
FAKE_BOTH_FORMS(cuLaunchKernelEx, (const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra),
                config, function)

/* Refuses a launch whose blocks are not all on the device at once. */
static CUresult do_cuLaunchCooperativeKernel(bool per_thread, CUfunction function, struct shape grid,
                                             struct shape block, CUstream handle)
{
    CUstream stream;
    CUresult result = fake_stream(handle, per_thread, &stream);

    if (result != CUDA_SUCCESS || !function)
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_HANDLE;
    uint64_t room = (uint64_t)fake_state()->devices[stream->context->physical].units * function->blocks_per_unit;
    if ((uint64_t)grid.x * grid.y * grid.z > room)
        return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    return launch_kernel(function, grid, block, handle, per_thread);
}
FAKE_BOTH_FORMS(cuLaunchCooperativeKernel, (LAUNCH_PARAMETERS), function, LAUNCH_SHAPES, stream)

CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launches, unsigned count, unsigned flags)
{
    if (!launches || !count || flags > 3)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        const CUDA_LAUNCH_PARAMS *launch = &launches[i];
        CUresult result = do_cuLaunchCooperativeKernel(
            false, launch->function, (struct shape){launch->gridDimX, launch->gridDimY, launch->gridDimZ},
            (struct shape){launch->blockDimX, launch->blockDimY, launch->blockDimZ}, launch->hStream);

        if (result != CUDA_SUCCESS)
            return result;
    }
    return CUDA_SUCCESS;
}

static struct shape old_block(CUfunction function)
{
    return (struct shape){(unsigned)atomic_load(&function->block[0]), (unsigned)atomic_load(&function->block[1]),
                          (unsigned)atomic_load(&function->block[2])};
}

CUresult cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream)
{
    if (!function || width <= 0 || height <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    return launch_kernel(function, (struct shape){(unsigned)width, (unsigned)height, 1}, old_block(function), stream,
                         false);
}

CUresult cuLaunchGrid(CUfunction function, int width, int height)
{
    return cuLaunchGridAsync(function, width, height, NULL);
}

CUresult cuLaunch(CUfunction function)
{
    return cuLaunchGridAsync(function, 1, 1, NULL);
}

/* ---- copies and fills ---- */

/*
 * Begins a copy or fill. The caller moves the bytes at once, which is earlier than on a real device; no program may
 * rely on that. `usable`: the device's side of the copy is an allocation. *ret_uncaptured: the stream, or NULL if the
 * stream is captured: then no bytes are moved.
 */
static CUresult begin_move(CUstream handle, bool per_thread, bool usable, uint64_t cost_ns, CUstream *ret_uncaptured)
{
    CUstream stream;
    CUresult result = fake_stream(handle, per_thread, &stream);

    if (result != CUDA_SUCCESS)
        return result;
    if (!usable)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_uncaptured = atomic_load(&stream->captured) ? NULL : stream;
    return fake_submit(stream, (struct fake_work){.cost_ns = cost_ns});
}

static CUresult queue_copy(CUstream stream, bool per_thread, bool usable, bool on_device, uint64_t to, uint64_t from,
                           size_t bytes)
{
    CUstream uncaptured = NULL;
    CUresult result = begin_move(stream, per_thread, usable, fake_copy_ns(bytes, on_device), &uncaptured);

    if (result != CUDA_SUCCESS || !uncaptured)
        return result;
    memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    fake_virtual_set_used_until(to, bytes, atomic_load(&uncaptured->until_ns));
    fake_virtual_set_used_until(from, bytes, atomic_load(&uncaptured->until_ns));
    return result;
}

struct fill {
    uint64_t to;
    size_t pitch, width, height; /* width in elements; pitch in bytes */
    unsigned value, size;        /* of an element */
};

static CUresult queue_fill(CUstream stream, bool per_thread, struct fill fill)
{
    size_t row = fill.width * fill.size, span = fill.height ? fill.pitch * (fill.height - 1) + row : 0;
    bool usable = fill.pitch >= row && fake_memory_usable(fill.to, span);
    CUstream uncaptured = NULL;
    CUresult result = begin_move(stream, per_thread, usable, fake_copy_ns(row * fill.height, true), &uncaptured);

    for (size_t y = 0; result == CUDA_SUCCESS && uncaptured && y < fill.height; y++)
        fake_fill(fill.to + y * fill.pitch, &fill.value, fill.size, fill.width);
    if (result == CUDA_SUCCESS && uncaptured)
        fake_virtual_set_used_until(fill.to, span, atomic_load(&uncaptured->until_ns));
    return result;
}

#define BOTH(name, parameters, function, ...)                                                                          \
    CUresult name parameters                                                                                           \
    {                                                                                                                  \
        return function(stream, false, __VA_ARGS__);                                                                   \
    }                                                                                                                  \
    CUresult name##_ptsz parameters                                                                                    \
    {                                                                                                                  \
        return function(stream, true, __VA_ARGS__);                                                                    \
    }

BOTH(cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream), queue_copy, to &&from, true, to,
     from, bytes)
BOTH(cuMemcpyPeerAsync,
     (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes, CUstream stream),
     queue_copy, to_context &&from_context &&fake_memory_usable(to, bytes) && fake_memory_usable(from, bytes), true, to,
     from, bytes)
BOTH(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream), queue_copy,
     from &&fake_memory_usable(to, bytes), false, to, (uintptr_t)from, bytes)
BOTH(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, CUstream stream), queue_copy,
     to &&fake_memory_usable(from, bytes), false, (uintptr_t)to, from, bytes)
BOTH(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream), queue_copy,
     fake_memory_usable(to, bytes) && fake_memory_usable(from, bytes), true, to, from, bytes)
BOTH(cuMemsetD8Async, (CUdeviceptr to, unsigned char value, size_t count, CUstream stream), queue_fill,
     (struct fill){to, count, count, 1, value, 1})
BOTH(cuMemsetD16Async, (CUdeviceptr to, unsigned short value, size_t count, CUstream stream), queue_fill,
     (struct fill){to, 2 * count, count, 1, value, 2})
BOTH(cuMemsetD32Async, (CUdeviceptr to, unsigned value, size_t count, CUstream stream), queue_fill,
     (struct fill){to, 4 * count, count, 1, value, 4})
BOTH(cuMemsetD2D8Async,
     (CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height, CUstream stream), queue_fill,
     (struct fill){to, pitch, width, height, value, 1})
BOTH(cuMemsetD2D16Async,
     (CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height, CUstream stream), queue_fill,
     (struct fill){to, pitch, width, height, value, 2})
BOTH(cuMemsetD2D32Async, (CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height, CUstream stream),
     queue_fill, (struct fill){to, pitch, width, height, value, 4})
