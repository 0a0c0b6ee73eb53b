/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: arrays and mipmapped arrays. Never: imitates the layout of texels: rows are linear. */
#include <stdlib.h>

#include "memory.h"

#define LEVELS 16u

struct array {
    CUDA_ARRAY3D_DESCRIPTOR descriptor;
    uint64_t bytes; /* of all levels, also when the program maps the memory */
    uint32_t levels;
    struct fake_block *level[LEVELS]; /* requested levels, which have no memory of their own */
};

static uint64_t texel_bytes(const CUDA_ARRAY3D_DESCRIPTOR *descriptor)
{
    switch (descriptor->Format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return descriptor->NumChannels;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return descriptor->NumChannels * UINT64_C(2);
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return descriptor->NumChannels * UINT64_C(4);
    default:
        return 0;
    }
}

static uint64_t at_least_one(uint64_t value)
{
    return value ? value : 1;
}

/* A level has half of the previous level's size in each dimension, and the same number of layers. */
static uint64_t bytes_of(const CUDA_ARRAY3D_DESCRIPTOR *descriptor, uint32_t level)
{
    bool layered = descriptor->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
    uint64_t depth = layered ? at_least_one(descriptor->Depth) : at_least_one(at_least_one(descriptor->Depth) >> level);

    return fake_round_up(at_least_one(descriptor->Width >> level) * texel_bytes(descriptor), FAKE_PITCH_STEP) *
           at_least_one(at_least_one(descriptor->Height) >> level) * depth;
}

static bool is_valid(const CUDA_ARRAY3D_DESCRIPTOR *descriptor)
{
    return descriptor->Width && descriptor->Width <= 131072 && descriptor->Height <= 65536 &&
           descriptor->Depth <= 16384 && texel_bytes(descriptor) &&
           (descriptor->NumChannels == 1 || descriptor->NumChannels == 2 || descriptor->NumChannels == 4);
}

static CUresult make_array(const CUDA_ARRAY3D_DESCRIPTOR *descriptor, uint32_t levels, struct fake_block **ret_block)
{
    bool is_deferred = descriptor->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING);
    struct array *array = is_valid(descriptor) ? calloc(1, sizeof *array) : NULL;

    if (!array)
        return CUDA_ERROR_INVALID_VALUE;
    for (uint32_t i = 0; i < levels; i++)
        array->bytes += bytes_of(descriptor, i);
    array->bytes = fake_round_up(array->bytes, FAKE_ARRAY_STEP);
    array->descriptor = *descriptor;
    array->levels = levels;
    CUresult result =
        fake_memory_make_block(FAKE_BLOCK_ARRAY, FAKE_ARRAY, array->bytes, is_deferred ? 0 : array->bytes, ret_block);
    if (result == CUDA_SUCCESS)
        (*ret_block)->type_data = array;
    else
        free(array);
    return result;
}

/* Under the lock. */
static struct fake_block *block_of(uintptr_t handle)
{
    struct fake_block *block = fake_block_at(handle);

    return block && block->type == FAKE_BLOCK_ARRAY && block->address == handle ? block : NULL;
}

static CUresult destroy_array(uintptr_t handle)
{
    fake_memory_lock();
    struct fake_block *block = block_of(handle);
    struct array *array = block ? block->type_data : NULL;
    for (uint32_t i = 0; array && i < array->levels; i++)
        if (array->level[i])
            fake_block_free(array->level[i]);
    if (block) {
        fake_held_drop_array(handle);
        fake_device_release(block->physical, FAKE_ARRAY, block->device_bytes);
        fake_block_free(block);
    }
    fake_memory_unlock();
    return block ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult describe_array(uintptr_t handle, CUDA_ARRAY3D_DESCRIPTOR *ret_descriptor)
{
    fake_memory_lock();
    struct fake_block *block = block_of(handle);
    if (block)
        *ret_descriptor = ((struct array *)block->type_data)->descriptor;
    fake_memory_unlock();
    return block ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *descriptor)
{
    struct fake_block *block;
    CUresult result = array && descriptor ? make_array(descriptor, 1, &block) : CUDA_ERROR_INVALID_VALUE;

    if (result == CUDA_SUCCESS)
        *array = (CUarray)(uintptr_t)block->address;
    return result;
}

CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *descriptor)
{
    if (!descriptor)
        return CUDA_ERROR_INVALID_VALUE;
    return cuArray3DCreate_v2(array, &(CUDA_ARRAY3D_DESCRIPTOR){.Width = descriptor->Width,
                                                                .Height = descriptor->Height,
                                                                .Format = descriptor->Format,
                                                                .NumChannels = descriptor->NumChannels});
}

CUresult cuArray3DCreate(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR_v1 *descriptor)
{
    if (!descriptor)
        return CUDA_ERROR_INVALID_VALUE;
    return cuArray3DCreate_v2(array, &(CUDA_ARRAY3D_DESCRIPTOR){.Width = descriptor->Width,
                                                                .Height = descriptor->Height,
                                                                .Depth = descriptor->Depth,
                                                                .Format = descriptor->Format,
                                                                .NumChannels = descriptor->NumChannels,
                                                                .Flags = descriptor->Flags});
}

CUresult cuArrayCreate(CUarray *array, const CUDA_ARRAY_DESCRIPTOR_v1 *descriptor)
{
    if (!descriptor)
        return CUDA_ERROR_INVALID_VALUE;
    return cuArray3DCreate_v2(array, &(CUDA_ARRAY3D_DESCRIPTOR){.Width = descriptor->Width,
                                                                .Height = descriptor->Height,
                                                                .Format = descriptor->Format,
                                                                .NumChannels = descriptor->NumChannels});
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *descriptor, CUarray array)
{
    return descriptor ? describe_array((uintptr_t)array, descriptor) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *descriptor, CUarray array)
{
    CUDA_ARRAY3D_DESCRIPTOR full;
    CUresult result = descriptor ? describe_array((uintptr_t)array, &full) : CUDA_ERROR_INVALID_VALUE;

    if (result == CUDA_SUCCESS)
        *descriptor = (CUDA_ARRAY_DESCRIPTOR){
            .Width = full.Width, .Height = full.Height, .Format = full.Format, .NumChannels = full.NumChannels};
    return result;
}

CUresult cuArrayDestroy(CUarray array)
{
    return destroy_array((uintptr_t)array);
}

/* Answers only for arrays whose memory the program maps. */
static CUresult requirements_of(CUDA_ARRAY_MEMORY_REQUIREMENTS *requirements, uintptr_t handle)
{
    fake_memory_lock();
    struct fake_block *block = requirements ? block_of(handle) : NULL;
    struct array *array = block ? block->type_data : NULL;
    bool is_deferred = array && array->descriptor.Flags & CUDA_ARRAY3D_DEFERRED_MAPPING;
    if (is_deferred)
        *requirements = (CUDA_ARRAY_MEMORY_REQUIREMENTS){.size = array->bytes, .alignment = FAKE_ARRAY_STEP};
    fake_memory_unlock();
    return is_deferred ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *requirements, CUarray array, CUdevice device)
{
    (void)device;
    return requirements_of(requirements, (uintptr_t)array);
}

CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *requirements, CUmipmappedArray array,
                                               CUdevice device)
{
    (void)device;
    return requirements_of(requirements, (uintptr_t)array);
}

/* Levels beyond the smallest possible one are left out. */
CUresult cuMipmappedArrayCreate(CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned levels)
{
    struct fake_block *block;

    if (!array || !descriptor || !levels)
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t longest = descriptor->Width > descriptor->Height ? descriptor->Width : descriptor->Height;
    uint32_t max_levels = 1;
    while (max_levels < LEVELS && longest >> max_levels)
        max_levels++;
    CUresult result = make_array(descriptor, levels < max_levels ? levels : max_levels, &block);
    if (result == CUDA_SUCCESS)
        *array = (CUmipmappedArray)(uintptr_t)block->address;
    return result;
}

static struct fake_block *make_level(const struct array *mipmapped, CUcontext context, uint32_t index)
{
    struct array *level = calloc(1, sizeof *level);
    struct fake_block *block =
        level ? fake_block_make(FAKE_BLOCK_ARRAY, bytes_of(&mipmapped->descriptor, index)) : NULL;

    if (!block) {
        free(level);
        return NULL;
    }
    level->descriptor = mipmapped->descriptor;
    level->descriptor.Width = at_least_one(mipmapped->descriptor.Width >> index);
    level->descriptor.Height = mipmapped->descriptor.Height ? at_least_one(mipmapped->descriptor.Height >> index) : 0;
    block->type_data = level;
    block->context = context;
    block->kind = FAKE_ARRAY;
    return block;
}

CUresult cuMipmappedArrayGetLevel(CUarray *level, CUmipmappedArray array, unsigned index)
{
    fake_memory_lock();
    struct fake_block *block = level ? block_of((uintptr_t)array) : NULL;
    struct array *mipmapped = block ? block->type_data : NULL;
    bool has_level = mipmapped && index < mipmapped->levels;
    if (has_level && !mipmapped->level[index])
        mipmapped->level[index] = make_level(mipmapped, block->context, index);
    has_level = has_level && mipmapped->level[index];
    if (has_level)
        *level = (CUarray)(uintptr_t)mipmapped->level[index]->address;
    fake_memory_unlock();
    return has_level ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray array)
{
    return destroy_array((uintptr_t)array);
}
