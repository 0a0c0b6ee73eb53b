/* SPDX-License-Identifier: Apache-2.0 */
/* Adds `a` times one vector to another. */
__kernel void saxpy(float a, __global const float *x, __global float *y)
{
    int i = get_global_id(0);

    y[i] = a * x[i] + y[i];
}
