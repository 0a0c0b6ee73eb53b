/* SPDX-License-Identifier: Apache-2.0 */
/* Colours to gray: four bytes in, one out, in integers. */
__kernel void gray(__global const uchar4 *in, __global uchar *out)
{
    size_t i = get_global_id(0);
    uint4 pixel = convert_uint4(in[i]);

    out[i] = (uchar)((pixel.x * 77u + pixel.y * 150u + pixel.z * 29u + 128u) >> 8);
}
