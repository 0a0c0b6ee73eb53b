/* SPDX-License-Identifier: Apache-2.0 */
/* A product of square matrices by its definition. */
__kernel void matmul_naive(__global const float *a, __global const float *b, __global float *c, int n)
{
    int column = get_global_id(0), row = get_global_id(1);
    float sum = 0.0f;

    for (int i = 0; i < n; i++)
        sum += a[row * n + i] * b[i * n + column];
    c[row * n + column] = sum;
}
