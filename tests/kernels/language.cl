/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for structs, constants, private arrays, control flow, and helper functions. */
struct inner {
    char tag;
    short values[3];
};

struct record {
    int number;
    double weight;
    struct inner inner;
    float4 place;
};

struct __attribute__((packed)) tight {
    char tag;
    int number;
};

/* Has a struct by value, structs in memory, and members of all alignments. */
__kernel void structs(struct record given, __global const struct record *in, __global struct record *out,
                      __global struct tight *tight)
{
    size_t i = get_global_id(0);
    struct record mine = in[i];

    mine.number += given.number;
    mine.weight *= given.weight;
    mine.inner.values[i % 3] = given.inner.values[2];
    mine.inner.tag ^= given.inner.tag;
    mine.place = mine.place.wzyx + given.place;
    out[i] = mine;
    tight[i].tag = (char)i;
    tight[i].number = mine.number;
}

__kernel void values(char a, ushort b, long c, float3 d, uchar4 e, double f, __global double *out)
{
    out[0] = a;
    out[1] = b;
    out[2] = (double)c;
    out[3] = d.x + d.y * 10.0f + d.z * 100.0f;
    out[4] = e.x + e.y * 256 + e.z * 65536 + e.w * 16777216.0;
    out[5] = f;
}

__constant int primes[8] = {2, 3, 5, 7, 11, 13, 17, 19};
__constant float table[2][3] = {{0.5f, 1.5f, 2.5f}, {10.0f, 20.0f, 30.0f}};
__constant struct {
    int first;
    float second;
} pairs[2] = {{1, 0.25f}, {2, 0.75f}};

__kernel void constants(__constant int *given, __global const int *which, __global float *out)
{
    size_t i = get_global_id(0);
    int at = which[i];

    out[i] = (float)primes[at & 7] + table[at & 1][at % 3] + (float)given[at & 15] +
             pairs[at >> 1 & 1].second * (float)pairs[at & 1].first;
}

/* Has private arrays whose indices depend on data, so that they differ from item to item without a pattern. */
__kernel void privates(__global const int *keys, __global int *out)
{
    size_t i = get_global_id(0);
    int counts[16] = {0};
    int stack[32], top = 0, sum = 0;

    for (int k = 0; k < 32; k++) {
        counts[keys[i * 32 + k] & 15]++;
        if (keys[i * 32 + k] & 1)
            stack[top++] = k;
    }
    while (top > 0)
        sum = sum * 31 + stack[--top];
    for (int k = 0; k < 16; k++)
        sum += counts[k] * counts[k];
    out[i] = sum;
}

/* The indices of private arrays follow the items' local ids: neighbouring items mostly access neighbouring elements. */
__kernel void followed(__global const int *in, __global int *out)
{
    uint i = get_global_id(0), l = get_local_id(0);
    int four[4], eight[8], many[32];
    uchar bytes[32];
    double wide[16];

    for (uint k = 0; k < 32; k++) {
        many[k] = in[i] + 100 * k;
        bytes[k] = (uchar)(in[i] + 3 * k);
        four[k & 3] = eight[k & 7] = in[i] - (int)k;
        wide[k & 15] = in[i] * 0.5 + k;
    }
    out[i * 8] = many[l & 31];
    out[i * 8 + 1] = many[(l + 5) % 32];
    out[i * 8 + 2] = many[l ^ 9];
    out[i * 8 + 3] = many[min(l + 1, 31u)];
    out[i * 8 + 4] = many[(uint)((float)l * 0.4f)];
    out[i * 8 + 5] = bytes[l & 31] + (int)(2 * wide[l & 15]);
    out[i * 8 + 6] = four[l & 3];
    out[i * 8 + 7] = eight[l & 7];
}

/* Each item has loops that mostly load and whose lengths differ from item to item. Such items run one by one, in loops
 * that are unrolled. */
__kernel void own_ways(__global const int *starts, __global const int *order, __global const int *values,
                       __global int *out)
{
    int i = get_global_id(0), k = starts[i], a = 0, b = 1, at = i, sum = 0;

    for (; k < starts[i + 1]; k++) { /* two values that swap places */
        int old = a;

        a = b;
        b = old + values[order[k]];
    }
    do { /* until the walk is back where it began */
        at = order[at];
        sum = sum * 3 + values[at];
    } while (at != i);
    out[i * 4] = a;
    out[i * 4 + 1] = b;
    out[i * 4 + 2] = k;
    out[i * 4 + 3] = sum;
}

int collatz(int n)
{
    int steps = 0;

    while (n != 1) {
        n = n % 2 ? 3 * n + 1 : n / 2;
        steps++;
    }
    return steps;
}

void swap(int *a, int *b)
{
    int old = *a;

    *a = *b;
    *b = old;
}

/* Has loops with continue and break, early returns, a switch that falls through, a do loop, and pointers to private
 * variables. */
__kernel void flow(__global const int *in, __global int *out)
{
    int i = get_global_id(0);
    int value = in[i], other = i, sum = 0;

    if (value < 0) {
        out[i] = -1;
        return;
    }
    for (int k = 0; k < 100; k++) {
        if (k % 3 == value % 3)
            continue;
        if (k > value)
            break;
        for (int m = 0;; m++) {
            if (m * m > k)
                break;
            sum += m;
        }
    }
    switch (value % 6) {
    case 0:
        sum += 100;
        break;
    case 1:
        sum += 200;
    case 2:
        sum += 300;
        break;
    case 4:
        out[i] = collatz(value);
        return;
    default:
        sum = -sum;
    }
    do {
        swap(&sum, &other);
        value /= 2;
    } while (value > 4);
    out[i] = sum * 1000 + other;
}

/* Sorts elements in global memory through pointers that it computes. */
__kernel void pointers(__global const int *in, __global int *out)
{
    size_t i = get_global_id(0);
    __global const int *from = in + i * 8, *end = from + 8;
    __global int *to = out + i * 8;

    for (; from < end; from++) {
        __global int *at = to + (from - (in + i * 8));

        for (; at > to && at[-1] > *from; at--)
            *at = at[-1];
        *at = *from;
    }
}

__kernel void bits(__global const uint *in, __global uint *out)
{
    size_t i = get_global_id(0);
    union {
        uint whole;
        uchar bytes[4];
        float number;
    } value;
    bool odd = in[i] & 1;

    value.whole = in[i];
    out[i] = value.bytes[0] << 24 | value.bytes[3] | (odd ? sizeof(long) << 8 : 0) | (uint)(value.number < 0.0f) << 16;
}

/* Loads neighbouring elements, and elements that a compiler might take for neighbouring ones. */
__kernel void sampled(__global const float *table, __global const int *words, __global float *out, int last,
                      float scale)
{
    int i = get_global_id(0), at = (int)((float)i * scale);
    size_t half_way = get_global_id(0) / 2;
    uint third = (uint)i / 3u;

    at = at < last ? at : last;
    out[i] = table[at] + 2.0f * table[last - at] + 4.0f * table[half_way] + 8.0f * (float)words[i >> 2] +
             16.0f * (float)words[third + 1];
    if (i & 1)
        out[i] += table[(i * 5) / 8];
}

/* Writes so much that stores which fill whole cache lines bypass the caches. `from` shifts them off a line's start. */
__kernel void flood(__global const int *in, __global int *out, __global float4 *wide, int from, int most)
{
    int i = get_global_id(0);

    if (i < most)
        out[i + from] = in[i] * 3;
    wide[i] = (float4)((float)i, (float)in[i], 1.0f, (float)from);
}

__kernel void flood_all(__global const int *in, __global int *out, int from)
{
    int i = get_global_id(0);

    out[i + from] = in[i] ^ i;
}

__kernel void twice(__global float *x)
{
    x[get_global_id(0)] *= 2.0f;
}

/* Calls a kernel like a function. */
__kernel void twice_and_more(__global float *x, __global float *y)
{
    twice(x);
    y[get_global_id(0)] = x[get_global_id(0)] + 1.0f;
}

/* Has more private memory than a thread's stack holds. */
__kernel void large(__global const int *in, __global int *out)
{
    int own[200000], i = get_global_id(0), sum = 0;

    for (int j = 0; j < 200000; j += 997)
        own[j] = in[i] + j;
    for (int j = 0; j < 200000; j += 997)
        sum += own[(j / 997 * 7 % 201) * 997];
    out[i] = sum;
}

/* Stores some fields twice, with stores to other fields in between: the last value must stay. */
__kernel void fields_again(__global const float *in, __global float2 *pairs, __global float4 *fours)
{
    size_t i = get_global_id(0);

    pairs[i].x = 0;
    pairs[i].y = 1;
    pairs[i].x = in[i] > 4 ? in[i] : -1;
    fours[i].x = 7;
    fours[i].y = 8;
    fours[i].z = 9;
    fours[i].w = 10;
    fours[i].x = in[i];
    fours[i].z = pairs[i].y + pairs[i].x;
    fours[i].y = in[i] * 2;
    fours[i].w = fours[i].z;
    fours[i].x += 1;
}

/* In the items that reach the sum, its bits never overlap, so that it could be computed as an addition to the first
 * item's value. That item may be masked off, and in it the bits do overlap. */
__kernel void bits_apart(__global const int *in, __global int *out)
{
    int i = get_global_id(0);

    out[i] = 0;
    if (i & 1)
        if (in[i] & 1)
            out[i] = (i * 6 + 3) | 2;
}
