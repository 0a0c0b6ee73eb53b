/* SPDX-License-Identifier: Apache-2.0 */
/* A recursive function, which section 6.9.i of OpenCL C forbids. */
int faculty(int n)
{
    return n < 2 ? 1 : n * faculty(n - 1);
}

__kernel void call(__global int *out)
{
    out[get_global_id(0)] = faculty(out[get_global_id(0)]);
}
