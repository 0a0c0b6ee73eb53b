/* SPDX-License-Identifier: Apache-2.0 */
/* A sparse matrix (CSR) times a vector: rows of uneven length, loads by index. */
__kernel void spmv(__global const uint *starts, __global const uint *columns, __global const float *values,
                   __global const float *x, __global float *y)
{
    size_t row = get_global_id(0);
    float sum = 0.0f;

    for (uint i = starts[row]; i < starts[row + 1]; i++)
        sum += values[i] * x[columns[i]];
    y[row] = sum;
}
