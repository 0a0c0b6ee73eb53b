/* SPDX-License-Identifier: Apache-2.0 */
/* One radix-2 step of a Stockham transform: a twiddle by sin and cos, and a butterfly. */
__kernel void fft_step(__global const float2 *in, __global float2 *out, int half_count, int done)
{
    int i = get_global_id(0), k = i & (done - 1);
    float angle = -3.14159265f * (float)k / (float)done;
    float2 twiddle = (float2)(cos(angle), sin(angle));
    float2 a = in[i], b = in[i + half_count];
    float2 turned = (float2)(b.x * twiddle.x - b.y * twiddle.y, b.x * twiddle.y + b.y * twiddle.x);
    int to = ((i - k) << 1) + k;

    out[to] = a + turned;
    out[to + done] = a - turned;
}
