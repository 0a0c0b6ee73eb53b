/* SPDX-License-Identifier: Apache-2.0 */
/* A transposition through a padded tile in local memory. */
#define TILE 16

__kernel void transpose(__global const float *in, __global float *out, int width, int height)
{
    __local float tile[TILE][TILE + 1];
    int lx = get_local_id(0), ly = get_local_id(1);
    int left = get_group_id(0) * TILE, top = get_group_id(1) * TILE;

    tile[ly][lx] = in[(top + ly) * width + left + lx];
    barrier(CLK_LOCAL_MEM_FENCE);
    out[(left + ly) * height + top + lx] = tile[lx][ly];
}
