/* SPDX-License-Identifier: Apache-2.0 */
/* Adds `a` times the vector x to the vector y. */
__kernel void saxpy(float a, __global const float *x, __global float *y)
{
    int i = get_global_id(0);

    y[i] = a * x[i] + y[i];
}
