/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: memory that contexts keep for their kernels: heap and printf buffers, on the device. Never: imitates stacks. */
#include "memory.h"

#define LIMITS 3u

/* Of a context; by the block's address, which dies with the context. */
struct kept {
    uint64_t context_id;
    size_t values[LIMITS];
    struct fake_block *blocks[LIMITS];
};

static struct kept all[64]; /* under the lock; used again when full: a replaced one cannot shrink any more */

static const size_t initial[LIMITS] = {
    [CU_LIMIT_STACK_SIZE] = 1024, [CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20, [CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20};

static struct kept *kept_of(CUcontext context)
{
    struct kept *kept = &all[context->id % 64];

    if (kept->context_id != context->id) {
        *kept = (struct kept){.context_id = context->id};
        for (uint32_t i = 0; i < LIMITS; i++)
            kept->values[i] = initial[i];
    }
    return kept;
}

/* A context's first buffers are part of its cost. */
static bool change_limit(CUcontext context, CUlimit limit, size_t value)
{
    struct kept *kept = kept_of(context);
    struct fake_block *block = NULL;

    if (limit != CU_LIMIT_STACK_SIZE && value > initial[limit]) {
        block = fake_memory_make_own(context, FAKE_CONTEXT, value - initial[limit]);
        if (!block)
            return false;
    }
    if (kept->blocks[limit])
        fake_memory_release(kept->blocks[limit]);
    kept->blocks[limit] = block;
    kept->values[limit] = value;
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
    *value = kept_of(context)->values[limit];
    fake_memory_unlock();
    return CUDA_SUCCESS;
}
