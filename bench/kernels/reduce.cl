/* SPDX-License-Identifier: Apache-2.0 */
/* One sum per group: a tree in local memory, one barrier per level. */
__kernel void reduce(__global const float *in, __global float *sums, __local float *tree)
{
    size_t item = get_local_id(0);

    tree[item] = in[get_global_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (size_t half_size = get_local_size(0) / 2; half_size > 0; half_size /= 2) {
        if (item < half_size)
            tree[item] += tree[item + half_size];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (item == 0)
        sums[get_group_id(0)] = tree[0];
}
