/* SPDX-License-Identifier: Apache-2.0 */
/* Counts random points in a quarter circle: a generator per item, and a loop of fixed length with a condition. */
#pragma OPENCL FP_CONTRACT OFF

uint next(uint state)
{
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

__kernel void monte_carlo(__global const uint *seeds, __global uint *hits, int darts)
{
    size_t i = get_global_id(0);
    uint state = seeds[i] | 1u, inside = 0;

    for (int dart = 0; dart < darts; dart++) {
        state = next(state);
        float x = (float)(state >> 8) * 0x1p-24f;

        state = next(state);
        float y = (float)(state >> 8) * 0x1p-24f;

        if (x * x + y * y <= 1.0f)
            inside++;
    }
    hits[i] = inside;
}
