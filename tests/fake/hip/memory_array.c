/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: arrays and mipmapped arrays, by descriptor and by channels. Never: does more than call the fake CUDA driver. */
#include "fake.h"
#include "vendor/cuda/memory.h"

_Static_assert((int)HIP_AD_FORMAT_FLOAT == (int)CU_AD_FORMAT_FLOAT, "HIP's and CUDA's number must be the same");
_Static_assert((int)hipArrayCubemap == (int)CUDA_ARRAY3D_CUBEMAP, "HIP's and CUDA's number must be the same");

static hipArray_Format format_of(const hipChannelFormatDesc *channels)
{
    if (channels->f == hipChannelFormatKindFloat)
        return channels->x == 16 ? HIP_AD_FORMAT_HALF : HIP_AD_FORMAT_FLOAT;
    if (channels->f == hipChannelFormatKindSigned)
        return channels->x == 8    ? HIP_AD_FORMAT_SIGNED_INT8
               : channels->x == 16 ? HIP_AD_FORMAT_SIGNED_INT16
                                   : HIP_AD_FORMAT_SIGNED_INT32;
    return channels->x == 8    ? HIP_AD_FORMAT_UNSIGNED_INT8
           : channels->x == 16 ? HIP_AD_FORMAT_UNSIGNED_INT16
                               : HIP_AD_FORMAT_UNSIGNED_INT32;
}

static unsigned channel_count(const hipChannelFormatDesc *channels)
{
    return (unsigned)((channels->x != 0) + (channels->y != 0) + (channels->z != 0) + (channels->w != 0));
}

static HIP_ARRAY3D_DESCRIPTOR descriptor_of_channels(const hipChannelFormatDesc *channels, hipExtent extent,
                                                     unsigned flags)
{
    return (HIP_ARRAY3D_DESCRIPTOR){.Width = extent.width,
                                    .Height = extent.height,
                                    .Depth = extent.depth,
                                    .Format = format_of(channels),
                                    .NumChannels = channel_count(channels),
                                    .Flags = flags};
}

static CUDA_ARRAY3D_DESCRIPTOR to_cuda_form(const HIP_ARRAY3D_DESCRIPTOR *descriptor)
{
    return (CUDA_ARRAY3D_DESCRIPTOR){.Width = descriptor->Width,
                                     .Height = descriptor->Height,
                                     .Depth = descriptor->Depth,
                                     .Format = descriptor->Format,
                                     .NumChannels = descriptor->NumChannels,
                                     .Flags = descriptor->Flags};
}

static hipError_t make_array(hipArray_t *array, const HIP_ARRAY3D_DESCRIPTOR *descriptor)
{
    if (!array || !descriptor)
        return hipErrorInvalidValue;
    CUDA_ARRAY3D_DESCRIPTOR cuda_descriptor = to_cuda_form(descriptor);
    return cuArray3DCreate_v2((CUarray *)array, &cuda_descriptor);
}

static hipError_t make_array_of_channels(hipArray_t *array, const hipChannelFormatDesc *channels, hipExtent extent,
                                         unsigned flags)
{
    if (!array || !channels)
        return hipErrorInvalidValue;
    HIP_ARRAY3D_DESCRIPTOR descriptor = descriptor_of_channels(channels, extent, flags);
    return make_array(array, &descriptor);
}

static hipError_t make_flat_array(hipArray_t *array, const HIP_ARRAY_DESCRIPTOR *flat)
{
    if (!array || !flat)
        return hipErrorInvalidValue;
    HIP_ARRAY3D_DESCRIPTOR descriptor = {
        .Width = flat->Width, .Height = flat->Height, .Format = flat->Format, .NumChannels = flat->NumChannels};
    return make_array(array, &descriptor);
}

static hipError_t make_levels(hipMipmappedArray_t *array, const HIP_ARRAY3D_DESCRIPTOR *descriptor, unsigned levels)
{
    if (!array || !descriptor)
        return hipErrorInvalidValue;
    CUDA_ARRAY3D_DESCRIPTOR cuda_descriptor = to_cuda_form(descriptor);
    return cuMipmappedArrayCreate((CUmipmappedArray *)array, &cuda_descriptor, levels);
}

static hipError_t make_levels_of(hipMipmappedArray_t *array, const hipChannelFormatDesc *channels, hipExtent extent,
                                 unsigned levels, unsigned flags)
{
    if (!array || !channels)
        return hipErrorInvalidValue;
    HIP_ARRAY3D_DESCRIPTOR descriptor = descriptor_of_channels(channels, extent, flags);
    return make_levels(array, &descriptor, levels);
}

static hipError_t end_array(hipArray_t array)
{
    return array ? cuArrayDestroy((CUarray)array) : hipErrorInvalidValue;
}

static hipError_t end_levels(hipMipmappedArray_t array)
{
    return array ? cuMipmappedArrayDestroy((CUmipmappedArray)array) : hipErrorInvalidValue;
}

FAKE_HIP(hipMallocArray,
         (hipArray_t * array, const hipChannelFormatDesc *channels, size_t width, size_t height, unsigned flags),
         make_array_of_channels(array, channels, (hipExtent){.width = width, .height = height}, flags))
FAKE_HIP(hipMalloc3DArray, (hipArray_t * array, const hipChannelFormatDesc *channels, hipExtent extent, unsigned flags),
         make_array_of_channels(array, channels, extent, flags))
FAKE_HIP(hipArrayCreate, (hipArray_t * array, const HIP_ARRAY_DESCRIPTOR *descriptor),
         make_flat_array(array, descriptor))
FAKE_HIP(hipArray3DCreate, (hipArray_t * array, const HIP_ARRAY3D_DESCRIPTOR *descriptor),
         make_array(array, descriptor))
FAKE_HIP(hipFreeArray, (hipArray_t array), array ? end_array(array) : hipSuccess)
FAKE_HIP(hipArrayDestroy, (hipArray_t array), end_array(array))
FAKE_HIP(hipMallocMipmappedArray,
         (hipMipmappedArray_t * array, const hipChannelFormatDesc *channels, hipExtent extent, unsigned levels,
          unsigned flags),
         make_levels_of(array, channels, extent, levels, flags))
FAKE_HIP(hipMipmappedArrayCreate, (hipMipmappedArray_t * array, HIP_ARRAY3D_DESCRIPTOR *descriptor, unsigned levels),
         make_levels(array, descriptor, levels))
FAKE_HIP(hipFreeMipmappedArray, (hipMipmappedArray_t array), end_levels(array))
FAKE_HIP(hipMipmappedArrayDestroy, (hipMipmappedArray_t array), end_levels(array))
FAKE_HIP(hipGetMipmappedArrayLevel, (hipArray_t * level, hipMipmappedArray_t array, unsigned index),
         cuMipmappedArrayGetLevel((CUarray *)level, (CUmipmappedArray)array, index))
FAKE_HIP(hipMipmappedArrayGetLevel, (hipArray_t * level, hipMipmappedArray_t array, unsigned index),
         cuMipmappedArrayGetLevel((CUarray *)level, (CUmipmappedArray)array, index))
