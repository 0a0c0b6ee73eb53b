/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: images: their size from the description before creation, corrected by the driver's answer after it.
 * Never: charges an image made from a buffer or another image; that memory is charged already.
 */
#include "layer.h"
#include "memory.h"

static uint64_t channel_count(cl_channel_order order)
{
    switch (order) {
    case CL_R:
    case CL_A:
    case CL_Rx:
    case CL_INTENSITY:
    case CL_LUMINANCE:
    case CL_DEPTH:
        return 1;
    case CL_RG:
    case CL_RA:
    case CL_RGx:
        return 2;
    case CL_RGB:
    case CL_RGBx:
    case CL_sRGB:
    case CL_sRGBx:
        return 3;
    default: /* unlisted orders count as the widest; the driver's answer corrects the size */
        return 4;
    }
}

static uint64_t pixel_bytes(const cl_image_format *format)
{
    switch (format->image_channel_data_type) {
    case CL_UNORM_SHORT_565:
    case CL_UNORM_SHORT_555:
        return 2;
    case CL_UNORM_INT_101010:
    case CL_UNORM_INT_101010_2:
    case CL_UNORM_INT24:
        return 4;
    case CL_SNORM_INT8:
    case CL_UNORM_INT8:
    case CL_SIGNED_INT8:
    case CL_UNSIGNED_INT8:
        return channel_count(format->image_channel_order);
    case CL_SNORM_INT16:
    case CL_UNORM_INT16:
    case CL_SIGNED_INT16:
    case CL_UNSIGNED_INT16:
    case CL_HALF_FLOAT:
        return 2 * channel_count(format->image_channel_order);
    default:
        return 4 * channel_count(format->image_channel_order);
    }
}

static uint64_t at_least(uint64_t value, uint64_t minimum)
{
    return value > minimum ? value : minimum;
}

/* Dimensions that an image type does not use may hold any value, so only the used ones are read. */
struct extent {
    uint64_t width, height, depth, layers;
};

static struct extent extent_of(const cl_image_desc *desc)
{
    struct extent extent = {.width = desc->image_width, .height = 1, .depth = 1, .layers = 1};

    switch (desc->image_type) {
    case CL_MEM_OBJECT_IMAGE1D_ARRAY:
        extent.layers = desc->image_array_size;
        break;
    case CL_MEM_OBJECT_IMAGE2D_ARRAY:
        extent.layers = desc->image_array_size;
        extent.height = desc->image_height;
        break;
    case CL_MEM_OBJECT_IMAGE3D:
        extent.depth = desc->image_depth;
        extent.height = desc->image_height;
        break;
    case CL_MEM_OBJECT_IMAGE2D:
        extent.height = desc->image_height;
        break;
    default:
        break;
    }
    return extent;
}

static uint64_t level_bytes(const struct extent *extent, uint64_t row_bytes, uint64_t slice_bytes)
{
    uint64_t slice = at_least(slice_bytes, facet_cl_memory_times(row_bytes, extent->height));

    return facet_cl_memory_times(facet_cl_memory_times(slice, extent->depth), extent->layers);
}

static uint64_t add_capped(uint64_t left, uint64_t right)
{
    uint64_t sum;

    return __builtin_add_overflow(left, right, &sum) ? UINT64_MAX : sum;
}

static uint64_t image_bytes(const cl_image_format *format, const cl_image_desc *desc)
{
    struct extent extent = extent_of(desc);
    uint64_t pixel = pixel_bytes(format);
    uint64_t total = level_bytes(&extent, at_least(desc->image_row_pitch, facet_cl_memory_times(pixel, extent.width)),
                                 desc->image_slice_pitch);

    for (cl_uint level = 1; level < desc->num_mip_levels && level < 64; level++) {
        extent.width = at_least(extent.width / 2, 1);
        extent.height = at_least(extent.height / 2, 1);
        extent.depth = at_least(extent.depth / 2, 1);
        total = add_capped(total, level_bytes(&extent, facet_cl_memory_times(pixel, extent.width), 0));
    }
    return facet_cl_memory_times(total, at_least(desc->num_samples, 1));
}

/* ---- after the quota has refused: would the driver refuse too? ---- */

/* The arguments of a call. `old_dimensions`: 2 or 3 for clCreateImage2D and clCreateImage3D, else 0. */
struct image {
    cl_context context;
    cl_mem_flags flags;
    const cl_image_format *format;
    const cl_image_desc *desc;
    void *host_ptr;
    unsigned old_dimensions;
};

static cl_int try_image(const struct image *image, const cl_image_desc *desc)
{
    cl_int result = CL_SUCCESS;
    cl_mem probe;

    if (image->old_dimensions == 2)
        probe = facet_cl_target.clCreateImage2D(image->context, image->flags, image->format, desc->image_width,
                                                desc->image_height, desc->image_row_pitch, image->host_ptr, &result);
    else if (image->old_dimensions == 3)
        probe = facet_cl_target.clCreateImage3D(image->context, image->flags, image->format, desc->image_width,
                                                desc->image_height, desc->image_depth, desc->image_row_pitch,
                                                desc->image_slice_pitch, image->host_ptr, &result);
    else
        probe =
            facet_cl_target.clCreateImage(image->context, image->flags, image->format, desc, image->host_ptr, &result);
    return facet_cl_memory_probe_result(probe, result);
}

/*
 * The pitches describe the program's memory, and stay valid for a part of that memory. The number of levels depends on
 * the largest dimension.
 */
static cl_image_desc shrunken(const cl_image_desc *desc, size_t size_most)
{
    cl_image_desc part = *desc;

    part.image_width = desc->image_width < size_most ? desc->image_width : size_most;
    part.image_height = desc->image_height < size_most ? desc->image_height : size_most;
    part.image_depth = desc->image_depth < size_most ? desc->image_depth : size_most;
    part.image_array_size = desc->image_array_size < size_most ? desc->image_array_size : size_most;
    part.num_mip_levels = desc->num_mip_levels ? 1 : 0;
    return part;
}

#define SMALL_SIZE 4u /* texels of each dimension: a format may need several */

/* Tries a small image, then one with each full dimension, which may exceed the driver's limit. */
static cl_int probe_image(const void *context)
{
    const struct image *image = context;
    cl_image_desc parts[5];
    cl_int result = CL_SUCCESS;

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        parts[i] = shrunken(image->desc, SMALL_SIZE);
    parts[1].image_width = image->desc->image_width;
    parts[2].image_height = image->desc->image_height;
    parts[3].image_depth = image->desc->image_depth;
    parts[4].image_array_size = image->desc->image_array_size;
    for (size_t i = 0; i < sizeof parts / sizeof *parts && result == CL_SUCCESS; i++)
        result = try_image(image, &parts[i]);
    return result;
}

static bool admit_image(const struct image *image, facet_cl_charge *ret_charge, cl_int *errcode_ret)
{
    /* Nothing is charged without a description, which the driver refuses, or for memory of another object. */
    bool is_charged = image->format && image->desc && !image->desc->mem_object;

    return facet_cl_memory_admit(is_charged ? image_bytes(image->format, image->desc) : 0, probe_image, image,
                                 ret_charge, errcode_ret);
}

/* Drivers pad images, so the actual size is known only after the call. */
static cl_mem bind_image(cl_mem image, bool own_memory, facet_cl_charge charge, cl_int *errcode_ret)
{
    size_t bytes = 0;

    if (image && own_memory &&
        facet_cl_target.clGetMemObjectInfo(image, CL_MEM_SIZE, sizeof bytes, &bytes, NULL) == CL_SUCCESS && bytes) {
        cl_int result = facet_cl_charge_resize(&charge, bytes, CL_MEM_OBJECT_ALLOCATION_FAILURE);
        if (result != CL_SUCCESS) {
            facet_cl_target.clReleaseMemObject(image);
            facet_cl_charge_drop(charge);
            facet_cl_set_error(errcode_ret, result);
            return NULL;
        }
    }
    return own_memory || !image ? facet_cl_memory_bind(image, charge, errcode_ret) : image;
}

cl_mem facet_clCreateImage(cl_context context, cl_mem_flags flags, const cl_image_format *image_format,
                           const cl_image_desc *image_desc, void *host_ptr, cl_int *errcode_ret)
{
    facet_cl_charge charge;

    if (!admit_image(&(struct image){context, flags, image_format, image_desc, host_ptr, 0}, &charge, errcode_ret))
        return NULL;
    return bind_image(facet_cl_target.clCreateImage(context, flags, image_format, image_desc, host_ptr, errcode_ret),
                      image_desc && !image_desc->mem_object, charge, errcode_ret);
}

cl_mem facet_clCreateImageWithProperties(cl_context context, const cl_mem_properties *properties, cl_mem_flags flags,
                                         const cl_image_format *image_format, const cl_image_desc *image_desc,
                                         void *host_ptr, cl_int *errcode_ret)
{
    facet_cl_charge charge;

    if (!admit_image(&(struct image){context, flags, image_format, image_desc, host_ptr, 0}, &charge, errcode_ret))
        return NULL;
    return bind_image(facet_cl_target.clCreateImageWithProperties(context, properties, flags, image_format, image_desc,
                                                                  host_ptr, errcode_ret),
                      image_desc && !image_desc->mem_object, charge, errcode_ret);
}

cl_mem facet_clCreateImage2D(cl_context context, cl_mem_flags flags, const cl_image_format *image_format, size_t width,
                             size_t height, size_t row_pitch, void *host_ptr, cl_int *errcode_ret)
{
    cl_image_desc desc = {.image_type = CL_MEM_OBJECT_IMAGE2D,
                          .image_width = width,
                          .image_height = height,
                          .image_row_pitch = row_pitch};
    facet_cl_charge charge;

    if (!admit_image(&(struct image){context, flags, image_format, &desc, host_ptr, 2}, &charge, errcode_ret))
        return NULL;
    return bind_image(
        facet_cl_target.clCreateImage2D(context, flags, image_format, width, height, row_pitch, host_ptr, errcode_ret),
        true, charge, errcode_ret);
}

cl_mem facet_clCreateImage3D(cl_context context, cl_mem_flags flags, const cl_image_format *image_format, size_t width,
                             size_t height, size_t depth, size_t row_pitch, size_t slice_pitch, void *host_ptr,
                             cl_int *errcode_ret)
{
    cl_image_desc desc = {.image_type = CL_MEM_OBJECT_IMAGE3D,
                          .image_width = width,
                          .image_height = height,
                          .image_depth = depth,
                          .image_row_pitch = row_pitch,
                          .image_slice_pitch = slice_pitch};
    facet_cl_charge charge;

    if (!admit_image(&(struct image){context, flags, image_format, &desc, host_ptr, 3}, &charge, errcode_ret))
        return NULL;
    return bind_image(facet_cl_target.clCreateImage3D(context, flags, image_format, width, height, depth, row_pitch,
                                                      slice_pitch, host_ptr, errcode_ret),
                      true, charge, errcode_ret);
}
