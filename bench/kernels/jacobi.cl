/* SPDX-License-Identifier: Apache-2.0 */
/* One sweep of a weighted Jacobi solver over a plane, at the points that a mask selects. */
__kernel void jacobi(__global const float *old, __global const float *right, __global const int *fixed,
                     __global float *new, int width, float weight)
{
    int x = get_global_id(0) + 1, y = get_global_id(1) + 1, at = y * width + x;
    float around = 0.25f * (old[at - 1] + old[at + 1] + old[at - width] + old[at + width] - right[at]);

    new[at] = fixed[at] ? old[at] : old[at] + weight * (around - old[at]);
}
