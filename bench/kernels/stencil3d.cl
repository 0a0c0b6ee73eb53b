/* SPDX-License-Identifier: Apache-2.0 */
/* Seven points of a volume; the edge becomes zero. */
__kernel void stencil3d(__global const float *in, __global float *out, int width, int height, int depth)
{
    int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
    int plane = width * height, at = z * plane + y * width + x;
    float sum = 0.0f;

    if (x > 0 && y > 0 && z > 0 && x < width - 1 && y < height - 1 && z < depth - 1)
        sum = 0.4f * in[at] + 0.1f * (in[at - 1] + in[at + 1] + in[at - width] + in[at + width] + in[at - plane] +
                                      in[at + plane]);
    out[at] = sum;
}
