/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: atomics of 64 bits (cl_khr_int64_base_atomics and cl_khr_int64_extended_atomics), which libclc's generic
 * library lacks; for the host and PTX. Never: orders other accesses (OpenCL C 1.2, 6.12.11: relaxed). */
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable
#include "vectors.h"

#define FETCH(name, builtin, type, where)                                                                              \
    PUBLIC type name(volatile where type *cell, type value)                                                            \
    {                                                                                                                  \
        return builtin(cell, value, __ATOMIC_RELAXED);                                                                 \
    }

#define ALL(type, where)                                                                                               \
    FETCH(atom_add, __atomic_fetch_add, type, where)                                                                   \
    FETCH(atom_sub, __atomic_fetch_sub, type, where)                                                                   \
    FETCH(atom_xchg, __atomic_exchange_n, type, where)                                                                 \
    FETCH(atom_min, __atomic_fetch_min, type, where)                                                                   \
    FETCH(atom_max, __atomic_fetch_max, type, where)                                                                   \
    FETCH(atom_and, __atomic_fetch_and, type, where)                                                                   \
    FETCH(atom_or, __atomic_fetch_or, type, where)                                                                     \
    FETCH(atom_xor, __atomic_fetch_xor, type, where)                                                                   \
    PUBLIC type atom_inc(volatile where type *cell)                                                                    \
    {                                                                                                                  \
        return __atomic_fetch_add(cell, (type)1, __ATOMIC_RELAXED);                                                    \
    }                                                                                                                  \
    PUBLIC type atom_dec(volatile where type *cell)                                                                    \
    {                                                                                                                  \
        return __atomic_fetch_sub(cell, (type)1, __ATOMIC_RELAXED);                                                    \
    }                                                                                                                  \
    PUBLIC type atom_cmpxchg(volatile where type *cell, type expected, type value)                                     \
    {                                                                                                                  \
        __atomic_compare_exchange_n(cell, &expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);                \
        return expected;                                                                                               \
    }

ALL(long, __global)
ALL(ulong, __global)
ALL(long, __local)
ALL(ulong, __local)
