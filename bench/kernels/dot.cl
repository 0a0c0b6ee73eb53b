/* SPDX-License-Identifier: Apache-2.0 */
/* A scalar product: 16 elements per item, then a tree in local memory. */
#define EACH 16

__kernel void dot_product(__global const float *x, __global const float *y, __global float *sums)
{
    __local float tree[256];
    uint item = get_local_id(0), size = get_local_size(0), first = get_group_id(0) * size * EACH;
    float sum = 0.0f;

    for (uint i = 0; i < EACH; i++)
        sum += x[first + i * size + item] * y[first + i * size + item];
    tree[item] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint step = size / 2; step > 0; step /= 2) {
        if (item < step)
            tree[item] += tree[item + step];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (item == 0)
        sums[get_group_id(0)] = tree[0];
}
