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

static struct facet_memory_array from_descriptor(const HIP_ARRAY3D_DESCRIPTOR *array, unsigned levels)
{
    return (struct facet_memory_array){.width = array->Width,
                                       .height = array->Height,
                                       .depth = array->Depth,
                                       .texel_bytes = array->NumChannels * format_bits(array->Format) / 8,
                                       .levels = levels,
                                       .layered = array->Flags & (hipArrayLayered | hipArrayCubemap)};
}

static struct facet_memory_array from_channels(const hipChannelFormatDesc *channels, hipExtent extent, unsigned flags,
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

#define SMALL_SIZE 64u /* texels of each dimension: some formats need several */
#define SIDE_SIZE  4u  /* texels of the other dimensions when one dimension is checked */

enum call { PLAIN, PLAIN_3D, LEVELS, DESCRIBED, DESCRIBED_3D, DESCRIBED_LEVELS };

struct request {
    enum call call;
    bool has_result;
    const hipChannelFormatDesc *channels; /* used by PLAIN, PLAIN_3D and LEVELS */
    hipExtent extent;
    unsigned flags;
    HIP_ARRAY3D_DESCRIPTOR descriptor; /* used by the DESCRIBED calls, for its format */
};

static hipError_t make_array(const struct request *request, hipExtent extent, hipArray_t *array)
{
    HIP_ARRAY3D_DESCRIPTOR descriptor = request->descriptor;

    descriptor.Width = extent.width;
    descriptor.Height = extent.height;
    descriptor.Depth = extent.depth;
    switch (request->call) {
    case PLAIN:
        return facet_hip_driver.hipMallocArray(array, request->channels, extent.width, extent.height, request->flags);
    case PLAIN_3D:
        return facet_hip_driver.hipMalloc3DArray(array, request->channels, extent, request->flags);
    case DESCRIBED:
        return facet_hip_driver.hipArrayCreate(array, &(HIP_ARRAY_DESCRIPTOR){.Width = extent.width,
                                                                              .Height = extent.height,
                                                                              .Format = descriptor.Format,
                                                                              .NumChannels = descriptor.NumChannels});
    default:
        return facet_hip_driver.hipArray3DCreate(array, &descriptor);
    }
}

static hipError_t make_levels(const struct request *request, hipExtent extent, hipMipmappedArray_t *array)
{
    HIP_ARRAY3D_DESCRIPTOR descriptor = request->descriptor;

    if (request->call == LEVELS)
        return facet_hip_driver.hipMallocMipmappedArray(array, request->channels, extent, 1, request->flags);
    descriptor.Width = extent.width;
    descriptor.Height = extent.height;
    descriptor.Depth = extent.depth;
    return facet_hip_driver.hipMipmappedArrayCreate(array, &descriptor, 1);
}

static hipError_t try_array(const struct request *request, hipExtent extent)
{
    bool has_levels = request->call == LEVELS || request->call == DESCRIBED_LEVELS;
    hipMipmappedArray_t levels = NULL;
    hipArray_t array = NULL;
    hipError_t result = has_levels ? make_levels(request, extent, request->has_result ? &levels : NULL)
                                   : make_array(request, extent, request->has_result ? &array : NULL);

    if (levels)
        facet_hip_driver.hipMipmappedArrayDestroy(levels);
    if (array)
        facet_hip_driver.hipArrayDestroy(array);
    return result;
}

static hipExtent shrunken(hipExtent extent, size_t size_most)
{
    return (hipExtent){.width = extent.width < size_most ? extent.width : size_most,
                       .height = extent.height < size_most ? extent.height : size_most,
                       .depth = extent.depth < size_most ? extent.depth : size_most};
}

/*
 * Checks each dimension alone: it may exceed the runtime's limit. A cube is skipped, because its faces must be square.
 */
static hipError_t check_sides(const struct request *request)
{
    hipExtent wide = shrunken(request->extent, SIDE_SIZE), high = wide, deep = wide;
    hipError_t result;

    if (request->flags & hipArrayCubemap)
        return hipSuccess;
    wide.width = request->extent.width;
    high.height = request->extent.height;
    deep.depth = request->extent.depth;
    if ((result = try_array(request, wide)) == hipSuccess && (result = try_array(request, high)) == hipSuccess)
        result = try_array(request, deep);
    return result;
}

/* Tries a small array of the same kind. A runtime that makes the small one lacks only memory for the large one. */
static hipError_t refuse_array(const struct facet_memory_charge *charge, const struct request *request)
{
    facet_hip_probe_begin(charge->device, 0);
    hipError_t runtime_result = try_array(request, shrunken(request->extent, SMALL_SIZE));
    if (runtime_result == hipSuccess)
        runtime_result = check_sides(request);
    return facet_hip_probe_end(charge, runtime_result);
}

static hipError_t charge_array(const struct request *request, const struct facet_memory_array *array,
                               struct facet_memory_charge *ret_charge)
{
    hipError_t result = facet_hip_charge_take(facet_hip_current_device(), facet_memory_array_bytes(array), ret_charge);

    return ret_charge->refused ? refuse_array(ret_charge, request) : result;
}

static hipError_t charge_channels(enum call call, const void *result_pointer, const hipChannelFormatDesc *channels,
                                  hipExtent extent, unsigned flags, unsigned levels,
                                  struct facet_memory_charge *ret_charge)
{
    const struct request request = {
        .call = call, .has_result = result_pointer, .channels = channels, .extent = extent, .flags = flags};
    struct facet_memory_array array = {0}; /* without channels the size is 0: the runtime reports the error */

    if (channels)
        array = from_channels(channels, extent, flags, levels);
    return charge_array(&request, &array, ret_charge);
}

static hipError_t charge_descriptor(enum call call, const void *result_pointer,
                                    const HIP_ARRAY3D_DESCRIPTOR *descriptor, unsigned levels,
                                    struct facet_memory_charge *ret_charge)
{
    struct request request = {.call = call, .has_result = result_pointer};
    struct facet_memory_array array = {0};

    if (descriptor) {
        request.descriptor = *descriptor;
        request.flags = descriptor->Flags;
        request.extent =
            (hipExtent){.width = descriptor->Width, .height = descriptor->Height, .depth = descriptor->Depth};
        array = from_descriptor(descriptor, levels);
    }
    return charge_array(&request, &array, ret_charge);
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
        charge_channels(PLAIN, array, channels, (hipExtent){.width = width, .height = height}, flags, 1, &charge);

    MAKE(hipMallocArray(array, channels, width, height, flags), free_array);
}

hipError_t facet_hipMalloc3DArray(hipArray_t *array, const hipChannelFormatDesc *channels, hipExtent extent,
                                  unsigned flags)
{
    struct facet_memory_charge charge;
    hipError_t result = charge_channels(PLAIN_3D, array, channels, extent, flags, 1, &charge);

    MAKE(hipMalloc3DArray(array, channels, extent, flags), free_array);
}

hipError_t facet_hipArrayCreate(hipArray_t *array, const HIP_ARRAY_DESCRIPTOR *descriptor)
{
    struct facet_memory_charge charge;
    HIP_ARRAY3D_DESCRIPTOR descriptor_3d = {0};

    if (descriptor)
        descriptor_3d = (HIP_ARRAY3D_DESCRIPTOR){.Width = descriptor->Width,
                                                 .Height = descriptor->Height,
                                                 .Format = descriptor->Format,
                                                 .NumChannels = descriptor->NumChannels};
    hipError_t result = charge_descriptor(DESCRIBED, array, descriptor ? &descriptor_3d : NULL, 1, &charge);
    MAKE(hipArrayCreate(array, descriptor), destroy_array);
}

hipError_t facet_hipArray3DCreate(hipArray_t *array, const HIP_ARRAY3D_DESCRIPTOR *descriptor)
{
    struct facet_memory_charge charge;
    hipError_t result = charge_descriptor(DESCRIBED_3D, array, descriptor, 1, &charge);

    MAKE(hipArray3DCreate(array, descriptor), destroy_array);
}

hipError_t facet_hipMallocMipmappedArray(hipMipmappedArray_t *array, const hipChannelFormatDesc *channels,
                                         hipExtent extent, unsigned levels, unsigned flags)
{
    struct facet_memory_charge charge;
    hipError_t result = charge_channels(LEVELS, array, channels, extent, flags, levels, &charge);

    MAKE(hipMallocMipmappedArray(array, channels, extent, levels, flags), free_levels);
}

hipError_t facet_hipMipmappedArrayCreate(hipMipmappedArray_t *array, HIP_ARRAY3D_DESCRIPTOR *descriptor,
                                         unsigned levels)
{
    struct facet_memory_charge charge;
    hipError_t result = charge_descriptor(DESCRIBED_LEVELS, array, descriptor, levels, &charge);

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
