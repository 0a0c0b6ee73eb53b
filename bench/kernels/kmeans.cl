/* SPDX-License-Identifier: Apache-2.0 */
/* The nearest of some centres: two uniform loops, a minimum and its index. */
#pragma OPENCL FP_CONTRACT OFF

__kernel void kmeans(__global const float *points, __constant float *centres, __global uint *nearest, int count,
                     int centre_count, int features)
{
    int i = get_global_id(0);
    float least = INFINITY;
    uint which = 0;

    for (int centre = 0; centre < centre_count; centre++) {
        float distance = 0.0f;

        for (int f = 0; f < features; f++) {
            float away = points[f * count + i] - centres[centre * features + f];

            distance += away * away;
        }
        if (distance < least) {
            least = distance;
            which = (uint)centre;
        }
    }
    nearest[i] = which;
}
