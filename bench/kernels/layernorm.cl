/* SPDX-License-Identifier: Apache-2.0 */
/* One row per group: mean and variance by trees in local memory, then scale and shift. */
float total(__local float *tree, float mine)
{
    uint item = get_local_id(0);

    tree[item] = mine;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint step = get_local_size(0) / 2; step > 0; step /= 2) {
        if (item < step)
            tree[item] += tree[item + step];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    mine = tree[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    return mine;
}

__kernel void layernorm(__global const float *in, __global const float *scale, __global const float *shift,
                        __global float *out, int columns, __local float *tree)
{
    int item = get_local_id(0), size = get_local_size(0), row = get_group_id(0) * columns;
    float sum = 0.0f, squares = 0.0f;

    for (int i = item; i < columns; i += size)
        sum += in[row + i];
    float mean = total(tree, sum) / (float)columns;

    for (int i = item; i < columns; i += size) {
        float away = in[row + i] - mean;

        squares += away * away;
    }
    float factor = rsqrt(total(tree, squares) / (float)columns + 1e-5f);

    for (int i = item; i < columns; i += size)
        out[row + i] = (in[row + i] - mean) * factor * scale[i] + shift[i];
}
