/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for local memory, barriers, work-item functions, and copies by the whole group. */
__kernel void items(__global uint *out)
{
    size_t x = get_global_id(0) - get_global_offset(0), y = get_global_id(1) - get_global_offset(1);
    size_t z = get_global_id(2) - get_global_offset(2);
    __global uint *mine = out + ((z * get_global_size(1) + y) * get_global_size(0) + x) * 24;

    for (uint d = 0; d < 4; d++) {
        mine[d * 5 + 0] = get_global_id(d);
        mine[d * 5 + 1] = get_local_id(d);
        mine[d * 5 + 2] = get_group_id(d);
        mine[d * 5 + 3] = get_global_size(d) * 100 + get_local_size(d);
        mine[d * 5 + 4] = get_num_groups(d) * 100 + get_global_offset(d);
    }
    mine[20] = get_work_dim();
    mine[21] = mine[22] = mine[23] = 0;
}

__kernel __attribute__((reqd_work_group_size(8, 4, 1))) void required(__global uint *out)
{
    out[get_global_id(1) * get_global_size(0) + get_global_id(0)] = get_local_size(0) * 10 + get_local_size(1);
}

/* A local array and two local arguments must not overlap. */
__kernel void locals(__global const int *in, __global int *out, __local int *a, __local short *b)
{
    __local int own[64];
    __local char3 odd[64];
    uint item = get_local_id(0), size = get_local_size(0), next = (item + 1) % size;

    own[item] = in[get_global_id(0)];
    a[item] = own[item] * 2;
    b[item] = (short)(own[item] * 3);
    odd[item] = (char3)((char)item);
    barrier(CLK_LOCAL_MEM_FENCE);
    out[get_global_id(0)] = own[next] + a[next] * 1000 + b[(item + 2) % size] + odd[next].z;
}

/* Has a barrier in a loop whose number of rounds is an argument, and values that live across the barrier. */
__kernel void rounds(__global const int *in, __global int *out, __local int *ring, int count)
{
    uint item = get_local_id(0), size = get_local_size(0);
    int mine = in[get_global_id(0)], sum = 0;

    for (int round = 0; round < count; round++) {
        ring[item] = mine + round;
        barrier(CLK_LOCAL_MEM_FENCE);
        mine = ring[(item + 1) % size];
        sum = sum * 3 + mine;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    out[get_global_id(0)] = sum;
}

/* Has barriers in a branch that all items take or none takes, and in a nest of loops. */
__kernel void branches(__global const int *in, __global int *out, __local int *shared, int how)
{
    uint item = get_local_id(0), size = get_local_size(0);
    int value = in[get_global_id(0)];

    shared[item] = value;
    if (how & 1) {
        barrier(CLK_LOCAL_MEM_FENCE);
        value += shared[size - 1 - item];
        barrier(CLK_LOCAL_MEM_FENCE);
        shared[item] = value;
    } else if (get_group_id(0) & 1) {
        value *= 7;
    }
    for (int i = 0; i < 3; i++) {
        if (i == 1 && !(how & 2))
            continue;
        for (int k = 0; k <= i; k++) {
            barrier(CLK_LOCAL_MEM_FENCE);
            int other = shared[(item + (uint)k + 1) % size];

            barrier(CLK_LOCAL_MEM_FENCE);
            shared[item] = value = value * 2 + other;
            if (how & 4 && k == 1)
                break;
        }
        if (how & 8)
            break;
    }
    out[get_global_id(0)] = value;
}

/* Items without work return early; the other items go on. */
__kernel void early(__global const int *in, __global int *out, int count)
{
    int i = get_global_id(0), sum = 0;

    if (i >= count)
        return;
    for (int k = 0; k <= i; k++)
        sum += in[k];
    out[i] = sum;
}

int turned(__local int *shared, int value)
{
    uint item = get_local_id(0);

    shared[item] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
    value = shared[get_local_size(0) - 1 - item];
    barrier(CLK_LOCAL_MEM_FENCE);
    return value;
}

/* Calls a function with a barrier twice, and has a private array that lives across the barriers. */
__kernel void helpers(__global const int *in, __global int *out, __local int *shared)
{
    int kept[4], sum = 0;

    for (int k = 0; k < 4; k++)
        kept[k] = in[get_global_id(0)] + k;
    kept[1] = turned(shared, kept[1]);
    kept[get_local_id(0) & 3] = turned(shared, kept[2]) * 5;
    for (int k = 0; k < 4; k++)
        sum = sum * 7 + kept[k];
    out[get_global_id(0)] = sum;
}

/* Has so many barriers that the code between them becomes functions: a value of the group, private arrays and a value
 * of the item live across them. */
__kernel void many(__global const int *in, __global int *out, __local int *shared, int how)
{
    int value = in[get_global_id(0)], scale = how, kept[4] = {value, 1, 2, 3};

#define TURN(k)                                                                                                        \
    value = value * 3 + turned(shared, value + scale * (k));                                                           \
    kept[value & 3] += (k);                                                                                            \
    scale = how & (k) ? (scale * 5 + in[k]) & 1023 : scale
#define TURNS                                                                                                          \
    TURN(1);                                                                                                           \
    TURN(2);                                                                                                           \
    TURN(3);                                                                                                           \
    TURN(4);                                                                                                           \
    TURN(5);                                                                                                           \
    TURN(6);                                                                                                           \
    TURN(7)
    TURNS;
    TURNS;
    TURNS;
    TURNS;
    out[get_global_id(0)] = value + kept[0] + kept[1] * 3 + kept[2] * 5 + kept[3] * 7;
}

/* Has so many branches with barriers that the point where they join becomes a barrier, too. */
__kernel void maybe(__global const int *in, __global int *out, __local int *shared, int how)
{
    int value = in[get_global_id(0)], scale = how;

#define MAYBE(k)                                                                                                       \
    do {                                                                                                               \
        if (how & 1 << (k)) {                                                                                          \
            value = value * 5 + turned(shared, value + scale);                                                         \
            scale += in[k];                                                                                            \
        } else if (value & 1) {                                                                                        \
            value += (k);                                                                                              \
        }                                                                                                              \
    } while (0)
#define MAYBES                                                                                                         \
    MAYBE(0);                                                                                                          \
    MAYBE(1);                                                                                                          \
    MAYBE(2);                                                                                                          \
    MAYBE(3);                                                                                                          \
    MAYBE(4);                                                                                                          \
    MAYBE(5);                                                                                                          \
    MAYBE(6);                                                                                                          \
    MAYBE(7);                                                                                                          \
    MAYBE(8);                                                                                                          \
    MAYBE(9)
    MAYBES;
    MAYBES;
    MAYBES;
    MAYBES;
    out[get_global_id(0)] = value;
}

/* Each item of a group in three dimensions reads what other items of its group wrote. */
__kernel void cube(__global const int *in, __global int *out)
{
    __local int box[4][4][4];
    uint x = get_local_id(0), y = get_local_id(1), z = get_local_id(2);
    size_t at = (get_global_id(2) * get_global_size(1) + get_global_id(1)) * get_global_size(0) + get_global_id(0);

    box[z][y][x] = in[at];
    barrier(CLK_LOCAL_MEM_FENCE);
    out[at] = box[z][y][x ^ 1] + 10 * box[z][y ^ 2][x] + 100 * box[z ^ 3][y][x];
}

/* One item works for its group while the others wait. */
__kernel void leader(__global const int *in, __global int *out)
{
    __local int least;

    if (get_local_id(0) == 0) {
        least = in[get_group_id(0) * get_local_size(0)];
        for (uint i = 1; i < get_local_size(0); i++)
            least = min(least, in[get_group_id(0) * get_local_size(0) + i]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    out[get_global_id(0)] = in[get_global_id(0)] - least;
}

__kernel void copies(__global const float *in, __global float *out, __local float *here)
{
    size_t size = get_local_size(0), first = get_group_id(0) * size;
    event_t event = async_work_group_copy(here, in + first, size, 0);

    prefetch(in + first, size);
    wait_group_events(1, &event);
    here[get_local_id(0)] *= 2.0f;
    barrier(CLK_LOCAL_MEM_FENCE);
    event = async_work_group_copy(out + first, here, size, 0);
    wait_group_events(1, &event);
}

__kernel void threes(__global const float3 *in, __global float3 *out, __local float3 *here)
{
    size_t size = get_local_size(0), first = get_group_id(0) * size;
    event_t event = async_work_group_copy(here, in + first, size, 0);

    prefetch(in + first, size);
    wait_group_events(1, &event);
    here[get_local_id(0)] *= 2.0f;
    barrier(CLK_LOCAL_MEM_FENCE);
    event = async_work_group_strided_copy(out + first * 2, here, size, 2, 0);
    wait_group_events(1, &event);
}

__kernel void strided(__global const float2 *in, __global float2 *out, __local float2 *here)
{
    size_t size = get_local_size(0), first = get_group_id(0) * size;
    event_t event = async_work_group_strided_copy(here, in + first * 2, size, 2, 0);

    wait_group_events(1, &event);
    here[get_local_id(0)] += (float2)(1.0f, 2.0f);
    barrier(CLK_LOCAL_MEM_FENCE);
    event = async_work_group_strided_copy(out + first * 3, here, size, 3, 0);
    wait_group_events(1, &event);
}

/* Uses only global ids in x, so that its groups run in rows. */
__kernel void rows(__global int *out, int first)
{
    int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2), width = get_global_size(0);
    int row = (z - (int)get_global_offset(2)) * (int)get_global_size(1) + y - (int)get_global_offset(1);

    out[row * width + x - first] += x + 7 * y + 11 * z + 1000 * width;
}
