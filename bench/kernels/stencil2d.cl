/* SPDX-License-Identifier: Apache-2.0 */
/* Nine points of a plane; the edge is copied. */
__kernel void stencil2d(__global const float *in, __global float *out, int width, int height)
{
    int x = get_global_id(0), y = get_global_id(1), at = y * width + x;

    if (x == 0 || y == 0 || x == width - 1 || y == height - 1) {
        out[at] = in[at];
        return;
    }
    out[at] = 0.5f * in[at] + 0.1f * (in[at - 1] + in[at + 1] + in[at - width] + in[at + width]) +
              0.025f * (in[at - width - 1] + in[at - width + 1] + in[at + width - 1] + in[at + width + 1]);
}
