/* SPDX-License-Identifier: Apache-2.0 */
/* Walks until they leave a band: each item has a loop of its own length. */
__kernel void random_walk(__global const uint *seeds, __global uint *steps, int band, uint most)
{
    size_t i = get_global_id(0);
    uint state = seeds[i], taken = 0;
    int place = 0;

    while (taken < most && place > -band && place < band) {
        state = state * 1664525u + 1013904223u;
        place += (state >> 31) ? 1 : -1;
        taken++;
    }
    steps[i] = taken;
}
