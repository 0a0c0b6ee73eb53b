/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of 256 values: atomics in local memory, one row of counts per group. */
#define BINS 256
#define EACH 16

__kernel void histogram(__global const uchar *in, __global uint *counts)
{
    __local uint bins[BINS];
    uint item = get_local_id(0), size = get_local_size(0), first = get_group_id(0) * size * EACH;

    for (uint bin = item; bin < BINS; bin += size)
        bins[bin] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = 0; i < EACH; i++)
        atomic_inc(&bins[in[first + i * size + item]]);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint bin = item; bin < BINS; bin += size)
        counts[get_group_id(0) * BINS + bin] = bins[bin];
}
