/* SPDX-License-Identifier: Apache-2.0 */
/* Conway's game on bytes; the world is a torus. */
__kernel void life(__global const uchar *in, __global uchar *out, int width, int height)
{
    int x = get_global_id(0), y = get_global_id(1);
    int west = x == 0 ? width - 1 : x - 1, east = x == width - 1 ? 0 : x + 1;
    int north = (y == 0 ? height - 1 : y - 1) * width, south = (y == height - 1 ? 0 : y + 1) * width;
    int here = y * width;
    int neighbours = in[north + west] + in[north + x] + in[north + east] + in[here + west] + in[here + east] +
                     in[south + west] + in[south + x] + in[south + east];

    out[here + x] = neighbours == 3 || (neighbours == 2 && in[here + x] == 1) ? 1 : 0;
}
