/* SPDX-License-Identifier: Apache-2.0 */
/* One step of a bitonic sort: the item reads its partner and keeps the smaller or the larger. */
__kernel void bitonic_step(__global const uint *in, __global uint *out, uint distance, uint block)
{
    uint i = get_global_id(0), partner = i ^ distance;
    uint mine = in[i], other = in[partner];
    bool upward = (i & block) == 0, first = i < partner;

    out[i] = upward == first ? min(mine, other) : max(mine, other);
}
