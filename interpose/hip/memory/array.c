/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: arrays and mipmapped arrays, whose size the runtime does not tell: it is reckoned from what they are. */
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

/* A bit count below 0 is the runtime's to refuse. */
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

/* The body of a hook: what it makes is freed by `free_it`; without `known` the runtime is to say what is wrong. */
#define MAKE(known, of, call, free_it)                                                                                 \
    struct facet_memory_charge charge;                                                                                 \
    struct facet_memory_array whole = {0};                                                                             \
                                                                                                                       \
    if (known)                                                                                                         \
        whole = of;                                                                                                    \
    hipError_t result = facet_hip_charge_take(facet_hip_current_device(), facet_memory_array_bytes(&whole), &charge);  \
    if (result != hipSuccess)                                                                                          \
        return result;                                                                                                 \
    result = facet_hip_driver.call;                                                                                    \
    return facet_hip_charge_settle(&charge, result, FACET_MEMORY_ARRAY, result == hipSuccess ? (uintptr_t)*array : 0,  \
                                   free_it)

hipError_t facet_hipMallocArray(hipArray_t *array, const hipChannelFormatDesc *channels, size_t width, size_t height,
                                unsigned flags)
{
    MAKE(channels, of_channels(channels, (hipExtent){.width = width, .height = height}, flags, 1),
         hipMallocArray(array, channels, width, height, flags), free_array);
}

hipError_t facet_hipMalloc3DArray(hipArray_t *array, const hipChannelFormatDesc *channels, hipExtent extent,
                                  unsigned flags)
{
    MAKE(channels, of_channels(channels, extent, flags, 1), hipMalloc3DArray(array, channels, extent, flags),
         free_array);
}

hipError_t facet_hipArrayCreate(hipArray_t *array, const HIP_ARRAY_DESCRIPTOR *descriptor)
{
    MAKE(descriptor,
         of_descriptor(&(HIP_ARRAY3D_DESCRIPTOR){.Width = descriptor->Width,
                                                 .Height = descriptor->Height,
                                                 .Format = descriptor->Format,
                                                 .NumChannels = descriptor->NumChannels},
                       1),
         hipArrayCreate(array, descriptor), destroy_array);
}

hipError_t facet_hipArray3DCreate(hipArray_t *array, const HIP_ARRAY3D_DESCRIPTOR *descriptor)
{
    MAKE(descriptor, of_descriptor(descriptor, 1), hipArray3DCreate(array, descriptor), destroy_array);
}

hipError_t facet_hipMallocMipmappedArray(hipMipmappedArray_t *array, const hipChannelFormatDesc *channels,
                                         hipExtent extent, unsigned levels, unsigned flags)
{
    MAKE(channels, of_channels(channels, extent, flags, levels),
         hipMallocMipmappedArray(array, channels, extent, levels, flags), free_levels);
}

hipError_t facet_hipMipmappedArrayCreate(hipMipmappedArray_t *array, HIP_ARRAY3D_DESCRIPTOR *descriptor,
                                         unsigned levels)
{
    MAKE(descriptor, of_descriptor(descriptor, levels), hipMipmappedArrayCreate(array, descriptor, levels),
         destroy_levels);
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
