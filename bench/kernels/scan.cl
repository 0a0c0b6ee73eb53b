/* SPDX-License-Identifier: Apache-2.0 */
/* Inclusive sums within each group: Hillis and Steele, two barriers per step. */
__kernel void scan(__global const uint *in, __global uint *out, __local uint *sums)
{
    uint item = get_local_id(0), size = get_local_size(0);

    sums[item] = in[get_global_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint step = 1; step < size; step *= 2) {
        uint before = item >= step ? sums[item - step] : 0;

        barrier(CLK_LOCAL_MEM_FENCE);
        sums[item] += before;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    out[get_global_id(0)] = sums[item];
}
