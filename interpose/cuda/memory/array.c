/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: arrays and mipmapped arrays. The driver does not tell their size; it is computed from their descriptors.
 * Never: charges arrays whose memory the program maps: that memory has been charged.
 */
#include "charge.h"
#include "reference.h"
#include "refusal.h"

#define ROW_STEP   UINT64_C(512)
#define ARRAY_STEP (UINT64_C(64) << 10)

/* Bits of a channel. Unlisted formats count as 32, the largest: compressed and video formats have fewer. */
static uint64_t channel_bits(CUarray_format format)
{
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
    case CU_AD_FORMAT_NV12:
        return 8;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 16;
    default:
        return 32;
    }
}

static uint64_t times_capped(uint64_t one, uint64_t other)
{
    uint64_t product;

    return __builtin_mul_overflow(one, other, &product) ? UINT64_MAX : product;
}

static uint64_t plus_capped(uint64_t one, uint64_t other)
{
    return one > UINT64_MAX - other ? UINT64_MAX : one + other;
}

static uint64_t half_at_level(uint64_t size, unsigned level)
{
    return level < 64 && size >> level ? size >> level : 1;
}

/* The number of layers is the same in each level; the other dimensions halve. */
static uint64_t level_bytes(const CUDA_ARRAY3D_DESCRIPTOR *array, unsigned level)
{
    uint64_t row =
        times_capped(half_at_level(array->Width, level), array->NumChannels * channel_bits(array->Format) / 8);
    bool layered = array->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
    uint64_t slices = layered ? half_at_level(array->Depth, 0) : half_at_level(array->Depth, level);

    return times_capped(times_capped(facet_cuda_round(row, ROW_STEP), half_at_level(array->Height, level)), slices);
}

/* The last level is the one whose largest side is one texel: the driver makes none beyond it. */
static uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *array, unsigned levels)
{
    uint64_t sum = 0, longest = array->Width > array->Height ? array->Width : array->Height;

    if (array->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING))
        return 0;
    for (unsigned level = 0; level < levels && level < 64 && (!level || longest >> level); level++)
        sum = plus_capped(sum, level_bytes(array, level));
    return facet_cuda_round(sum, ARRAY_STEP);
}

static CUresult destroy_array(uint64_t handle, CUstream stream)
{
    (void)stream;
    return facet_cuda_driver.cuArrayDestroy((CUarray)(uintptr_t)handle);
}

static CUresult destroy_mipmapped(uint64_t handle, CUstream stream)
{
    (void)stream;
    return facet_cuda_driver.cuMipmappedArrayDestroy((CUmipmappedArray)(uintptr_t)handle);
}

static CUresult keep_array(const struct facet_cuda_charge *charge, CUresult result, const void *handle,
                           CUresult (*destroy)(uint64_t, CUstream))
{
    if (result == CUDA_SUCCESS && facet_cuda_charge_keep(charge, FACET_CUDA_ARRAY, (uintptr_t)handle))
        return CUDA_SUCCESS;
    if (result == CUDA_SUCCESS) {
        destroy((uintptr_t)handle, NULL);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    facet_cuda_charge_drop(charge);
    return result;
}

static CUresult settle_array(const struct facet_cuda_charge *charge, CUresult result, const void *handle,
                             CUresult (*destroy)(uint64_t, CUstream))
{
    result = keep_array(charge, result, handle, destroy);
    facet_cuda_charge_end(charge);
    return result;
}

/* ---- after the quota has refused: would the driver refuse too? ---- */

#define SMALL_SIZE 64u /* texels of each dimension: some formats need several */
#define SIDE_SIZE  4u  /* texels of the other dimensions when one dimension is checked */

static size_t smaller_of(size_t one, size_t other)
{
    return one < other ? one : other;
}

static CUresult try_array(bool has_result, const CUDA_ARRAY3D_DESCRIPTOR *array, bool has_levels)
{
    CUmipmappedArray mipmapped = NULL;
    CUarray plain = NULL;
    CUresult result = has_levels ? facet_cuda_driver.cuMipmappedArrayCreate(has_result ? &mipmapped : NULL, array, 1)
                                 : facet_cuda_driver.cuArray3DCreate_v2(has_result ? &plain : NULL, array);

    if (mipmapped)
        facet_cuda_driver.cuMipmappedArrayDestroy(mipmapped);
    if (plain)
        facet_cuda_driver.cuArrayDestroy(plain);
    return result;
}

static CUDA_ARRAY3D_DESCRIPTOR shrunken(const CUDA_ARRAY3D_DESCRIPTOR *array, size_t size_most)
{
    CUDA_ARRAY3D_DESCRIPTOR part = *array;

    part.Width = smaller_of(array->Width, size_most);
    part.Height = smaller_of(array->Height, size_most);
    part.Depth = smaller_of(array->Depth, size_most);
    return part;
}

/*
 * Checks each dimension alone: it may exceed the driver's limit. A cube is skipped, because its faces must be square.
 */
static CUresult check_sides(const CUDA_ARRAY3D_DESCRIPTOR *array, bool has_levels)
{
    CUDA_ARRAY3D_DESCRIPTOR wide = shrunken(array, SIDE_SIZE), high = wide, deep = wide;
    CUresult result;

    if (array->Flags & CUDA_ARRAY3D_CUBEMAP)
        return CUDA_SUCCESS;
    wide.Width = array->Width;
    high.Height = array->Height;
    deep.Depth = array->Depth;
    if ((result = try_array(true, &wide, has_levels)) == CUDA_SUCCESS &&
        (result = try_array(true, &high, has_levels)) == CUDA_SUCCESS)
        result = try_array(true, &deep, has_levels);
    return result;
}

/* Tries a small array of the same kind. A driver that makes the small one lacks only memory for the large one. */
static CUresult refuse_array(const void *result_pointer, const CUDA_ARRAY3D_DESCRIPTOR *array, bool has_levels)
{
    uint32_t device = facet_cuda_current_device();
    CUDA_ARRAY3D_DESCRIPTOR small = shrunken(array, SMALL_SIZE);

    facet_pending_enter(device, 0);
    CUresult driver_result = try_array(result_pointer, &small, has_levels);
    if (driver_result == CUDA_SUCCESS)
        driver_result = check_sides(array, has_levels);
    facet_pending_leave();
    return facet_cuda_refuse(device, driver_result);
}

/* A NULL descriptor is charged nothing: the driver refuses it. */
static CUresult admit_array(const void *result_pointer, const CUDA_ARRAY3D_DESCRIPTOR *array, bool has_levels,
                            unsigned levels, struct facet_cuda_charge *ret_charge)
{
    uint64_t bytes = array ? array_bytes(array, levels) : 0;
    CUresult result = facet_cuda_charge_begin(facet_cuda_current_device(), bytes, ret_charge);

    return array && result == CUDA_ERROR_OUT_OF_MEMORY ? refuse_array(result_pointer, array, has_levels) : result;
}

static CUresult settle_plain(const struct facet_cuda_charge *charge, CUresult result, CUarray const *array)
{
    return settle_array(charge, result, result == CUDA_SUCCESS ? *array : NULL, destroy_array);
}

/* A flat descriptor of either type, converted to the newest form of the call. */
#define FLAT(descriptor)                                                                                               \
    (CUDA_ARRAY3D_DESCRIPTOR)                                                                                          \
    {                                                                                                                  \
        .Width = (descriptor)->Width, .Height = (descriptor)->Height, .Format = (descriptor)->Format,                  \
        .NumChannels = (descriptor)->NumChannels                                                                       \
    }

CUresult facet_cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *descriptor)
{
    struct facet_cuda_charge charge;
    CUresult result = admit_array(array, descriptor, false, 1, &charge);

    if (result != CUDA_SUCCESS)
        return result;
    return settle_plain(&charge, facet_cuda_driver.cuArray3DCreate_v2(array, descriptor), array);
}

CUresult facet_cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *descriptor)
{
    struct facet_cuda_charge charge;
    CUDA_ARRAY3D_DESCRIPTOR array3d = {0};

    if (descriptor)
        array3d = FLAT(descriptor);
    CUresult result = admit_array(array, &array3d, false, 1, &charge);
    if (result != CUDA_SUCCESS)
        return result;
    return settle_plain(&charge, facet_cuda_driver.cuArrayCreate_v2(array, descriptor), array);
}

CUresult facet_cuArray3DCreate(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR_v1 *descriptor)
{
    struct facet_cuda_charge charge;
    CUDA_ARRAY3D_DESCRIPTOR array3d = {0};

    if (descriptor) {
        array3d = FLAT(descriptor);
        array3d.Depth = descriptor->Depth;
        array3d.Flags = descriptor->Flags;
    }
    CUresult result = admit_array(array, &array3d, false, 1, &charge);
    if (result != CUDA_SUCCESS)
        return result;
    return settle_plain(&charge, facet_cuda_driver.cuArray3DCreate(array, descriptor), array);
}

CUresult facet_cuArrayCreate(CUarray *array, const CUDA_ARRAY_DESCRIPTOR_v1 *descriptor)
{
    struct facet_cuda_charge charge;
    CUDA_ARRAY3D_DESCRIPTOR array3d = {0};

    if (descriptor)
        array3d = FLAT(descriptor);
    CUresult result = admit_array(array, &array3d, false, 1, &charge);
    if (result != CUDA_SUCCESS)
        return result;
    return settle_plain(&charge, facet_cuda_driver.cuArrayCreate(array, descriptor), array);
}

CUresult facet_cuMipmappedArrayCreate(CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *descriptor,
                                      unsigned levels)
{
    struct facet_cuda_charge charge;
    CUresult result = admit_array(array, descriptor, true, levels, &charge);

    if (result != CUDA_SUCCESS)
        return result;
    result = facet_cuda_driver.cuMipmappedArrayCreate(array, descriptor, levels);
    return settle_array(&charge, result, result == CUDA_SUCCESS ? *array : NULL, destroy_mipmapped);
}

/* Destroying an array releases the memory that was mapped into it. */
static CUresult destroy_with_references(uint64_t handle, CUresult (*destroy)(uint64_t, CUstream))
{
    struct facet_cuda_reference *references = facet_cuda_references_detach(handle);
    CUresult result = facet_cuda_charge_free(FACET_CUDA_ARRAY, handle, destroy, NULL);

    facet_cuda_references_finish(references, result == CUDA_SUCCESS);
    return result;
}

CUresult facet_cuArrayDestroy(CUarray array)
{
    return destroy_with_references((uintptr_t)array, destroy_array);
}

CUresult facet_cuMipmappedArrayDestroy(CUmipmappedArray array)
{
    return destroy_with_references((uintptr_t)array, destroy_mipmapped);
}
