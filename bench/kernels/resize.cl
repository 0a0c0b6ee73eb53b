/* SPDX-License-Identifier: Apache-2.0 */
/* A picture at another size: four loads by index, two mixes per item. */
#pragma OPENCL FP_CONTRACT OFF

__kernel void resize(__global const float *in, __global float *out, int from_width, int from_height, int to_width,
                     int to_height)
{
    int x = get_global_id(0), y = get_global_id(1);
    float fx = (float)x * (float)(from_width - 1) / (float)to_width;
    float fy = (float)y * (float)(from_height - 1) / (float)to_height;
    int left = (int)fx, top = (int)fy;
    float ax = fx - (float)left, ay = fy - (float)top;
    __global const float *corner = in + top * from_width + left;
    float above = corner[0] + (corner[1] - corner[0]) * ax;
    float below = corner[from_width] + (corner[from_width + 1] - corner[from_width]) * ax;

    out[y * to_width + x] = above + (below - above) * ay;
}
