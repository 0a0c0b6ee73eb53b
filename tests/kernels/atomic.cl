/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for atomics of 32 bits on global and local memory and, if LONGS is defined, of 64 bits. */
#ifdef LONGS
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable
#endif

#define ALL(type, where)                                                                                               \
    void all_##type##_##where(__##where type *cells, type value)                                                       \
    {                                                                                                                  \
        atomic_add(&cells[0], value);                                                                                  \
        atomic_sub(&cells[1], value);                                                                                  \
        atomic_inc(&cells[2]);                                                                                         \
        atomic_dec(&cells[3]);                                                                                         \
        atomic_min(&cells[4], value);                                                                                  \
        atomic_max(&cells[5], value);                                                                                  \
        atomic_and(&cells[6], value | 0x10);                                                                           \
        atomic_or(&cells[7], value);                                                                                   \
        atomic_xor(&cells[8], value);                                                                                  \
        type seen = cells[9], assumed;                                                                                 \
                                                                                                                       \
        do {                                                                                                           \
            assumed = seen;                                                                                            \
            seen = atomic_cmpxchg(&cells[9], assumed, assumed + value * 3);                                            \
        } while (seen != assumed);                                                                                     \
    }

ALL(int, global)
ALL(uint, global)
ALL(int, local)
ALL(uint, local)

__kernel void ints(__global const int *values, __global int *cells, __global const uint *uvalues,
                   __global uint *ucells)
{
    size_t i = get_global_id(0);

    all_int_global(cells, values[i]);
    all_uint_global(ucells, uvalues[i]);
}

__kernel void locals(__global const int *values, __global int *cells, __global const uint *uvalues,
                     __global uint *ucells)
{
    __local int mine[10];
    __local uint umine[10];
    size_t i = get_global_id(0), item = get_local_id(0);

    if (item < 10) {
        mine[item] = cells[get_group_id(0) * 10 + item];
        umine[item] = ucells[get_group_id(0) * 10 + item];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    all_int_local(mine, values[i]);
    all_uint_local(umine, uvalues[i]);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < 10) {
        cells[get_group_id(0) * 10 + item] = mine[item];
        ucells[get_group_id(0) * 10 + item] = umine[item];
    }
}

/* Every item gets a ticket of its own, and exchanges lose or double no value. */
__kernel void tickets(__global uint *counter, __global uint *taken, __global uint *left, __global float *place)
{
    uint ticket = atomic_add(counter, 1u);

    taken[ticket] = 1;
    left[get_global_id(0)] = atomic_xchg(counter + 1, (uint)get_global_id(0) + 1u);
    atomic_xchg(place, (float)ticket);
}

#ifdef LONGS
__kernel void longs(__global const long *values, __global long *cells)
{
    long value = values[get_global_id(0)];

    atom_add(&cells[0], value);
    atom_sub(&cells[1], value);
    atom_inc(&cells[2]);
    atom_dec(&cells[3]);
    atom_min(&cells[4], value);
    atom_max(&cells[5], value);
    atom_and(&cells[6], value);
    atom_or(&cells[7], value);
    atom_xor(&cells[8], value);
}
#endif
