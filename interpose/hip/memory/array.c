/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: arrays and mipmapped arrays. The runtime does not tell their size; it is computed from their descriptors.
 */
#include "charge.h"

static uint64_t format_bits(hipArray_Format format)
{
    switch (format) {
    case HIP_AD_FORMAT_UNSIGNED_INT8:
    case HIP_AD_FORMAT_SIGNED_INT8:
        return 8;
    case HIP_AD_FORMAT_UNSIGNED_INT16:
    case HIP_AD_FORMAT_SIGNED_INT16:
    case HIP_AD_FORMAT_HALF:
        return 16;
    default:
        return 32;
    }
}

/* The runtime refuses a negative bit count itself. */
static uint64_t channel_bytes(const hipChannelFormatDesc *channels)
{
    return ((uint64_t)(uint32_t)channels->x + (uint32_t)channels->y + (uint32_t)channels->z + (uint32_t)channels->w) /
           8;
}

static struct facet_memory_array of_descriptor(const HIP_ARRAY3D_DESCRIPTOR *array, unsigned levels)
{
    return (struct facet_memory_array){.width = array->Width,
                                       .height = array->Height,
                                       .depth = array->Depth,
                                       .texel_bytes = array->NumChannels * format_bits(array->Format) / 8,
                                       .levels = levels,
                                       .layered = array->Flags & (hipArrayLayered | hipArrayCubemap)};
}

static struct facet_memory_array of_channels(const hipChannelFormatDesc *channels, hipExtent extent, unsigned flags,
                                             unsigned levels)
{
    return (struct facet_memory_array){.width = extent.width,
                                       .height = extent.height,
                                       .depth = extent.depth,
                                       .texel_bytes = channel_bytes(channels),
                                       .levels = levels,
                                       .layered = flags & (hipArrayLayered | hipArrayCubemap)};
}

static int free_array(uint64_t handle, void *stream)
{
    (void)stream;
    return facet_hip_driver.hipFreeArray((hipArray_t)(uintptr_t)handle); /* NOLINT(performance-no-int-to-ptr) */
}

static int destroy_array(uint64_t handle, void *stream)
{
    (void)stream;
    return facet_hip_driver.hipArrayDestroy((hipArray_t)(uintptr_t)handle); /* NOLINT(performance-no-int-to-ptr) */
}

static int free_levels(uint64_t handle, void *stream)
{
    (void)stream;
    /* NOLINTNEXTLINE(performance-no-int-to-ptr) */
    return facet_hip_driver.hipFreeMipmappedArray((hipMipmappedArray_t)(uintptr_t)handle);
}

static int destroy_levels(uint64_t handle, void *stream)
{
    (void)stream;
    /* NOLINTNEXTLINE(performance-no-int-to-ptr) */
    return facet_hip_driver.hipMipmappedArrayDestroy((hipMipmappedArray_t)(uintptr_t)handle);
}

/* ---- after the quota has refused: would the runtime refuse too? ---- */

#define FEW  64u /* texels of each dimension: some formats need several */
#define LESS 4u

enum way { PLAIN, PLAIN_3D, LEVELS, DESCRIBED, DESCRIBED_3D, DESCRIBED_LEVELS };

struct asked {
    enum way way;
    bool has_place;
    const hipChannelFormatDesc *channels; /* used by the first three */
    hipExtent extent;
    unsigned flags;
    HIP_ARRAY3D_DESCRIPTOR descriptor; /* used by the others, for its format */
};

static hipError_t make_array(const struct asked *asked, hipExtent extent, hipArray_t *array)
{
    HIP_ARRAY3D_DESCRIPTOR described = asked->descriptor;

    described.Width = extent.width;
    described.Height = extent.height;
    described.Depth = extent.depth;
    switch (asked->way) {
    case PLAIN:
        return facet_hip_driver.hipMallocArray(array, asked->channels, extent.width, extent.height, asked->flags);
    case PLAIN_3D:
        return facet_hip_driver.hipMalloc3DArray(array, asked->channels, extent, asked->flags);
    case DESCRIBED:
        return facet_hip_driver.hipArrayCreate(array, &(HIP_ARRAY_DESCRIPTOR){.Width = extent.width,
                                                                              .Height = extent.height,
                                                                              .Format = described.Format,
                                                                              .NumChannels = described.NumChannels});
    default:
        return facet_hip_driver.hipArray3DCreate(array, &described);
    }
}

static hipError_t make_levels(const struct asked *asked, hipExtent extent, hipMipmappedArray_t *array)
{
    HIP_ARRAY3D_DESCRIPTOR described = asked->descriptor;

    if (asked->way == LEVELS)
        return facet_hip_driver.hipMallocMipmappedArray(array, asked->channels, extent, 1, asked->flags);
    described.Width = extent.width;
    described.Height = extent.height;
    described.Depth = extent.depth;
    return facet_hip_driver.hipMipmappedArrayCreate(array, &described, 1);
}

static hipError_t make_and_free(const struct asked *asked, hipExtent extent)
{
    bool has_levels = asked->way == LEVELS || asked->way == DESCRIBED_LEVELS;
    hipMipmappedArray_t levels = NULL;
    hipArray_t array = NULL;
    hipError_t result = has_levels ? make_levels(asked, extent, asked->has_place ? &levels : NULL)
                                   : make_array(asked, extent, asked->has_place ? &array : NULL);

    if (levels)
        facet_hip_driver.hipMipmappedArrayDestroy(levels);
    if (array)
        facet_hip_driver.hipArrayDestroy(array);
    return result;
}

static hipExtent part_of(hipExtent extent, size_t most)
{
    return (hipExtent){.width = extent.width < most ? extent.width : most,
                       .height = extent.height < most ? extent.height : most,
                       .depth = extent.depth < most ? extent.depth : most};
}

/*
 * Checks each dimension alone: it may exceed the runtime's limit. A cube is skipped, because its faces must be square.
 */
static hipError_t judge_sides(const struct asked *asked)
{
    hipExtent wide = part_of(asked->extent, LESS), high = wide, deep = wide;
    hipError_t result;

    if (asked->flags & hipArrayCubemap)
        return hipSuccess;
    wide.width = asked->extent.width;
    high.height = asked->extent.height;
    deep.depth = asked->extent.depth;
    if ((result = make_and_free(asked, wide)) == hipSuccess && (result = make_and_free(asked, high)) == hipSuccess)
        result = make_and_free(asked, deep);
    return result;
}

/* Tries a small array of the same kind. A runtime that makes the small one lacks only memory for the large one. */
static hipError_t refuse_array(const struct facet_memory_charge *charge, const struct asked *asked)
{
    facet_hip_judge_begin(charge->device, 0);
    hipError_t judged = make_and_free(asked, part_of(asked->extent, FEW));
    if (judged == hipSuccess)
        judged = judge_sides(asked);
    return facet_hip_judge_end(charge, judged);
}

static hipError_t take_array(const struct asked *asked, const struct facet_memory_array *array,
                             struct facet_memory_charge *ret_charge)
{
    hipError_t result = facet_hip_charge_take(facet_hip_current_device(), facet_memory_array_bytes(array), ret_charge);

    return ret_charge->refused ? refuse_array(ret_charge, asked) : result;
}

static hipError_t take_plain(enum way way, const void *place, const hipChannelFormatDesc *channels, hipExtent extent,
                             unsigned flags, unsigned levels, struct facet_memory_charge *ret_charge)
{
    const struct asked asked = {.way = way, .has_place = place, .channels = channels, .extent = extent, .flags = flags};
    struct facet_memory_array array = {0}; /* without channels the size is 0: the runtime reports the error */

    if (channels)
        array = of_channels(channels, extent, flags, levels);
    return take_array(&asked, &array, ret_charge);
}

static hipError_t take_described(enum way way, const void *place, const HIP_ARRAY3D_DESCRIPTOR *descriptor,
                                 unsigned levels, struct facet_memory_charge *ret_charge)
{
    struct asked asked = {.way = way, .has_place = place};
    struct facet_memory_array array = {0};

    if (descriptor) {
        asked.descriptor = *descriptor;
        asked.flags = descriptor->Flags;
        asked.extent =
            (hipExtent){.width = descriptor->Width, .height = descriptor->Height, .depth = descriptor->Depth};
        array = of_descriptor(descriptor, levels);
    }
    return take_array(&asked, &array, ret_charge);
}

/* ---- the calls ---- */

/* The end of a hook; `free_it` frees an array that cannot be recorded. */
#define MAKE(call, free_it)                                                                                            \
    if (result != hipSuccess)                                                                                          \
        return result;                                                                                                 \
    result = facet_hip_driver.call;                                                                                    \
    return facet_hip_charge_settle(&charge, result, FACET_MEMORY_ARRAY, result == hipSuccess ? (uintptr_t)*array : 0,  \
                                   free_it)

hipError_t facet_hipMallocArray(hipArray_t *array, const hipChannelFormatDesc *channels, size_t width, size_t height,
                                unsigned flags)
{
    struct facet_memory_charge charge;
    hipError_t result =
        take_plain(PLAIN, array, channels, (hipExtent){.width = width, .height = height}, flags, 1, &charge);

    MAKE(hipMallocArray(array, channels, width, height, flags), free_array);
}

hipError_t facet_hipMalloc3DArray(hipArray_t *array, const hipChannelFormatDesc *channels, hipExtent extent,
                                  unsigned flags)
{
    struct facet_memory_charge charge;
    hipError_t result = take_plain(PLAIN_3D, array, channels, extent, flags, 1, &charge);

    MAKE(hipMalloc3DArray(array, channels, extent, flags), free_array);
}

hipError_t facet_hipArrayCreate(hipArray_t *array, const HIP_ARRAY_DESCRIPTOR *descriptor)
{
    struct facet_memory_charge charge;
    HIP_ARRAY3D_DESCRIPTOR whole = {0};

    if (descriptor)
        whole = (HIP_ARRAY3D_DESCRIPTOR){.Width = descriptor->Width,
                                         .Height = descriptor->Height,
                                         .Format = descriptor->Format,
                                         .NumChannels = descriptor->NumChannels};
    hipError_t result = take_described(DESCRIBED, array, descriptor ? &whole : NULL, 1, &charge);
    MAKE(hipArrayCreate(array, descriptor), destroy_array);
}

hipError_t facet_hipArray3DCreate(hipArray_t *array, const HIP_ARRAY3D_DESCRIPTOR *descriptor)
{
    struct facet_memory_charge charge;
    hipError_t result = take_described(DESCRIBED_3D, array, descriptor, 1, &charge);

    MAKE(hipArray3DCreate(array, descriptor), destroy_array);
}

hipError_t facet_hipMallocMipmappedArray(hipMipmappedArray_t *array, const hipChannelFormatDesc *channels,
                                         hipExtent extent, unsigned levels, unsigned flags)
{
    struct facet_memory_charge charge;
    hipError_t result = take_plain(LEVELS, array, channels, extent, flags, levels, &charge);

    MAKE(hipMallocMipmappedArray(array, channels, extent, levels, flags), free_levels);
}

hipError_t facet_hipMipmappedArrayCreate(hipMipmappedArray_t *array, HIP_ARRAY3D_DESCRIPTOR *descriptor,
                                         unsigned levels)
{
    struct facet_memory_charge charge;
    hipError_t result = take_described(DESCRIBED_LEVELS, array, descriptor, levels, &charge);

    MAKE(hipMipmappedArrayCreate(array, descriptor, levels), destroy_levels);
}

hipError_t facet_hipFreeArray(hipArray_t array)
{
    return facet_charge_free(FACET_MEMORY_ARRAY, (uintptr_t)array, free_array, NULL);
}

hipError_t facet_hipArrayDestroy(hipArray_t array)
{
    return facet_charge_free(FACET_MEMORY_ARRAY, (uintptr_t)array, destroy_array, NULL);
}

hipError_t facet_hipFreeMipmappedArray(hipMipmappedArray_t array)
{
    return facet_charge_free(FACET_MEMORY_ARRAY, (uintptr_t)array, free_levels, NULL);
}

hipError_t facet_hipMipmappedArrayDestroy(hipMipmappedArray_t array)
{
    return facet_charge_free(FACET_MEMORY_ARRAY, (uintptr_t)array, destroy_levels, NULL);
}
