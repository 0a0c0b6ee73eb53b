/* SPDX-License-Identifier: Apache-2.0 */
/* Iterations until a point escapes; neighbouring items differ. */
#pragma OPENCL FP_CONTRACT OFF

__kernel void mandelbrot(__global uint *out, int width, int height, int most)
{
    int column = get_global_id(0), row = get_global_id(1), i = 0;
    float cx = (float)column * 3.0f / (float)width - 2.25f, cy = (float)row * 2.5f / (float)height - 1.25f;
    float x = 0.0f, y = 0.0f;

    while (i < most && x * x + y * y <= 4.0f) {
        float next = x * x - y * y + cx;

        y = 2.0f * x * y + cy;
        x = next;
        i++;
    }
    out[row * width + column] = (uint)i;
}
