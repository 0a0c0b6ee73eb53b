/* SPDX-License-Identifier: Apache-2.0 */
/* Streams two vectors into a third. */
__kernel void saxpy(float a, __global const float *x, __global const float *y, __global float *z)
{
    int i = get_global_id(0);

    z[i] = a * x[i] + y[i];
}
