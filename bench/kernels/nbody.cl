/* SPDX-License-Identifier: Apache-2.0 */
/* The pull of all bodies on each: a uniform inner loop with a reciprocal square root. */
__kernel void nbody(__global const float4 *bodies, __global float4 *pulls, int count, float softening)
{
    int i = get_global_id(0);
    float4 me = bodies[i];
    float3 pull = (float3)(0.0f);

    for (int j = 0; j < count; j++) {
        float4 other = bodies[j];
        float3 way = other.xyz - me.xyz;
        float inverse = rsqrt(way.x * way.x + way.y * way.y + way.z * way.z + softening);

        pull += way * (other.w * inverse * inverse * inverse);
    }
    pulls[i] = (float4)(pull, 0.0f);
}
