/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: memory that contexts keep for their kernels: heap and printf buffers, on the device. Never: imitates stacks. */
#include "memory.h"

#define LIMITS 3u

/* The limits of a context. Its blocks are freed when the context ends. */
struct context_limits {
    uint64_t context_id;
    size_t values[LIMITS];
    struct fake_block *blocks[LIMITS];
};

/* Under the lock. Contexts may share an entry; then the buffers of the replaced context cannot shrink. */
static struct context_limits all_limits[64];

static const size_t default_limits[LIMITS] = {
    [CU_LIMIT_STACK_SIZE] = 1024, [CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20, [CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20};

static struct context_limits *limits_of(CUcontext context)
{
    struct context_limits *context_limits = &all_limits[context->id % 64];

    if (context_limits->context_id != context->id) {
        *context_limits = (struct context_limits){.context_id = context->id};
        for (uint32_t i = 0; i < LIMITS; i++)
            context_limits->values[i] = default_limits[i];
    }
    return context_limits;
}

/* Buffers up to the default limits are a part of the context's memory; a block holds only what exceeds them. */
static bool change_limit(CUcontext context, CUlimit limit, size_t value)
{
    struct context_limits *context_limits = limits_of(context);
    struct fake_block *block = NULL;

    if (limit != CU_LIMIT_STACK_SIZE && value > default_limits[limit]) {
        block = fake_memory_make_driver_block(context, FAKE_CONTEXT, value - default_limits[limit]);
        if (!block)
            return false;
    }
    if (context_limits->blocks[limit])
        fake_memory_free_block(context_limits->blocks[limit]);
    context_limits->blocks[limit] = block;
    context_limits->values[limit] = value;
    return true;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    CUcontext context;
    CUresult result = limit >= 0 && limit < (CUlimit)LIMITS ? fake_enter(&context) : CUDA_ERROR_INVALID_VALUE;

    if (result != CUDA_SUCCESS)
        return result;
    fake_memory_lock();
    bool changed = change_limit(context, limit, value);
    fake_memory_unlock();
    return changed ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuCtxGetLimit(size_t *value, CUlimit limit)
{
    CUcontext context;
    bool known = value && limit >= 0 && limit < (CUlimit)LIMITS;
    CUresult result = known ? fake_enter(&context) : CUDA_ERROR_INVALID_VALUE;

    if (result != CUDA_SUCCESS)
        return result;
    fake_memory_lock();
    *value = limits_of(context)->values[limit];
    fake_memory_unlock();
    return CUDA_SUCCESS;
}
