/* SPDX-License-Identifier: Apache-2.0 */
/* One row per group: its maximum and its sum by trees in local memory, exp twice. */
float largest(__local float *tree, float mine)
{
    uint item = get_local_id(0);

    tree[item] = mine;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint step = get_local_size(0) / 2; step > 0; step /= 2) {
        if (item < step)
            tree[item] = fmax(tree[item], tree[item + step]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    mine = tree[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    return mine;
}

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

__kernel void softmax(__global const float *in, __global float *out, int columns, __local float *tree)
{
    int item = get_local_id(0), size = get_local_size(0), row = get_group_id(0) * columns;
    float most = -INFINITY, sum = 0.0f;

    for (int i = item; i < columns; i += size)
        most = fmax(most, in[row + i]);
    most = largest(tree, most);
    for (int i = item; i < columns; i += size)
        sum += exp(in[row + i] - most);
    sum = total(tree, sum);
    for (int i = item; i < columns; i += size)
        out[row + i] = exp(in[row + i] - most) / sum;
}
