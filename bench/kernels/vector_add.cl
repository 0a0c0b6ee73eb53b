/* SPDX-License-Identifier: Apache-2.0 */
/* The sum of two vectors, four elements per item. */
__kernel void vector_add(__global const float4 *x, __global const float4 *y, __global float4 *z)
{
    size_t i = get_global_id(0);

    z[i] = x[i] + y[i];
}
