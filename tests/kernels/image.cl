/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that read pixels of images by integer and by float coordinates, with samplers of the source and of the host,
 * that write pixels, and that ask for an image's size. */
__constant sampler_t nearest = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_NEAREST;

__kernel void floats(__read_only image2d_t image, __global float4 *out)
{
    int2 at = (int2)((int)get_global_id(0), (int)get_global_id(1));

    out[at.y * (int)get_global_size(0) + at.x] = read_imagef(image, nearest, at - 1);
}

__kernel void ints(__read_only image2d_t image, __global int4 *out)
{
    int2 at = (int2)((int)get_global_id(0), (int)get_global_id(1));

    out[at.y * (int)get_global_size(0) + at.x] = read_imagei(image, nearest, at - 1);
}

__kernel void uints(__read_only image2d_t image, __global uint4 *out)
{
    int2 at = (int2)((int)get_global_id(0), (int)get_global_id(1));

    out[at.y * (int)get_global_size(0) + at.x] = read_imageui(image, nearest, at - 1);
}

/* Reads without a sampler, which is defined only inside the image. */
__kernel void bare(__read_only image2d_t image, __global float4 *out)
{
    int2 at = (int2)((int)get_global_id(0), (int)get_global_id(1));

    out[at.y * (int)get_global_size(0) + at.x] = read_imagef(image, at);
}

__kernel void sampled(__read_only image2d_t image, sampler_t sampler, __global const float2 *at, __global float4 *out)
{
    size_t i = get_global_id(0);

    out[i] = read_imagef(image, sampler, at[i]);
}

__kernel void line(__read_only image1d_t image, sampler_t sampler, __global const float *at, __global float4 *out)
{
    size_t i = get_global_id(0);

    out[i] = read_imagef(image, sampler, at[i]);
}

__kernel void box(__read_only image3d_t image, sampler_t sampler, __global const float4 *at, __global float4 *out)
{
    size_t i = get_global_id(0);

    out[i] = read_imagef(image, sampler, at[i]);
}

__kernel void write_floats(__write_only image2d_t image, __global const float4 *in)
{
    int2 at = (int2)((int)get_global_id(0), (int)get_global_id(1));

    write_imagef(image, at, in[at.y * (int)get_global_size(0) + at.x]);
}

__kernel void write_ints(__write_only image2d_t image, __global const int4 *in)
{
    int2 at = (int2)((int)get_global_id(0), (int)get_global_id(1));

    write_imagei(image, at, in[at.y * (int)get_global_size(0) + at.x]);
}

__kernel void write_uints(__write_only image2d_t image, __global const uint4 *in)
{
    int2 at = (int2)((int)get_global_id(0), (int)get_global_id(1));

    write_imageui(image, at, in[at.y * (int)get_global_size(0) + at.x]);
}

__kernel void about(__read_only image2d_t plane, __read_only image3d_t box, __global int *out)
{
    out[0] = get_image_width(plane);
    out[1] = get_image_height(plane);
    out[2] = get_image_dim(plane).x;
    out[3] = get_image_channel_order(plane);
    out[4] = get_image_channel_data_type(plane);
    out[5] = get_image_width(box);
    out[6] = get_image_height(box);
    out[7] = get_image_depth(box);
}
