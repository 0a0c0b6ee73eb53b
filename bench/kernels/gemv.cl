/* SPDX-License-Identifier: Apache-2.0 */
/* A matrix, stored by columns, times a vector: one row per item. */
__kernel void gemv(__global const float *matrix, __global const float *x, __global float *y, int rows, int columns)
{
    int row = get_global_id(0);
    float sum = 0.0f;

    for (int column = 0; column < columns; column++)
        sum += matrix[column * rows + row] * x[column];
    y[row] = sum;
}
