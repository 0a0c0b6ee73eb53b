/* SPDX-License-Identifier: Apache-2.0 */
/* A 5 x 5 filter from constant memory over a picture, clamped at its edges. */
__kernel void conv2d(__global const float *in, __global float *out, __constant float *filter, int width, int height)
{
    int x = get_global_id(0), y = get_global_id(1);
    float sum = 0.0f;

    for (int dy = -2; dy <= 2; dy++)
        for (int dx = -2; dx <= 2; dx++) {
            int from = clamp(y + dy, 0, height - 1) * width + clamp(x + dx, 0, width - 1);

            sum += filter[(dy + 2) * 5 + dx + 2] * in[from];
        }
    out[y * width + x] = sum;
}
