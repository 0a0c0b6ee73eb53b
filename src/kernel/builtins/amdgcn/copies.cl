/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: async_work_group_copy() and its kin, with the type that clang gives events on AMDGPU before OpenCL C 2.0.
 *       libclc has functions of the same names for another type (compile/rename.c). Each work-item copies its share.
 * Never: copies in the background: an event has no meaning, and a wait for one is a barrier.
 */
#include "vectors.h"

#pragma OPENCL EXTENSION cl_khr_fp16 : enable

static size_t own_index(void)
{
    return (get_local_id(2) * get_local_size(1) + get_local_id(1)) * get_local_size(0) + get_local_id(0);
}

static size_t group_size(void)
{
    return get_local_size(0) * get_local_size(1) * get_local_size(2);
}

/* A stride counts elements, in global memory only. */
#define COPIES(T)                                                                                                      \
    PUBLIC event_t __private_async_work_group_strided_copy(local T *to, const global T *from, size_t count,            \
                                                           size_t stride, event_t event)                               \
    {                                                                                                                  \
        for (size_t i = own_index(), step = group_size(); i < count; i += step)                                        \
            to[i] = from[i * stride];                                                                                  \
        return event;                                                                                                  \
    }                                                                                                                  \
    PUBLIC event_t __private_async_work_group_strided_copy(global T *to, const local T *from, size_t count,            \
                                                           size_t stride, event_t event)                               \
    {                                                                                                                  \
        for (size_t i = own_index(), step = group_size(); i < count; i += step)                                        \
            to[i * stride] = from[i];                                                                                  \
        return event;                                                                                                  \
    }                                                                                                                  \
    PUBLIC event_t __private_async_work_group_copy(local T *to, const global T *from, size_t count, event_t event)     \
    {                                                                                                                  \
        return __private_async_work_group_strided_copy(to, from, count, 1, event);                                     \
    }                                                                                                                  \
    PUBLIC event_t __private_async_work_group_copy(global T *to, const local T *from, size_t count, event_t event)     \
    {                                                                                                                  \
        return __private_async_work_group_strided_copy(to, from, count, 1, event);                                     \
    }

#define COPIES_OF(T) COPIES(T) COPIES(T##2) COPIES(T##3) COPIES(T##4) COPIES(T##8) COPIES(T##16)
COPIES_OF(char)
COPIES_OF(uchar)
COPIES_OF(short)
COPIES_OF(ushort)
COPIES_OF(int)
COPIES_OF(uint)
COPIES_OF(long)
COPIES_OF(ulong)
COPIES_OF(half)
COPIES_OF(float)
COPIES_OF(double)

PUBLIC void wait_group_events(int count, private event_t *events)
{
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
}
