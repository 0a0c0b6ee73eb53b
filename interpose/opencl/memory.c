/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: buffers and pipes. Host-pointer buffers are charged too: drivers may copy them to the device.
 * Never: sees sub-buffers; they hold no memory of their own.
 */
#include "memory.h"

#include "device.h"
#include "layer.h"

uint64_t facet_cl_memory_times(uint64_t bytes, uint64_t count)
{
    uint64_t product;

    return __builtin_mul_overflow(bytes, count, &product) ? UINT64_MAX : product;
}

bool facet_cl_memory_admit(uint64_t bytes, cl_int refusal, facet_cl_charge *ret_charge, cl_int *errcode_ret)
{
    cl_int result = facet_cl_charge_take(bytes, refusal, ret_charge);

    if (result != CL_SUCCESS)
        facet_cl_set_error(errcode_ret, result);
    return result == CL_SUCCESS;
}

/* Ours was registered first, so it runs last, when the program's own callbacks are done with the memory. */
static void CL_CALLBACK on_death(cl_mem object, void *user_data)
{
    (void)object;
    facet_cl_charge_drop((facet_cl_charge)(uintptr_t)user_data);
}

cl_mem facet_cl_memory_bind(cl_mem object, facet_cl_charge charge, cl_int *errcode_ret)
{
    _Static_assert(sizeof(void *) >= sizeof(facet_cl_charge), "a charge travels as user_data");

    if (!object) {
        facet_cl_charge_drop(charge);
        return NULL;
    }
    if (facet_cl_target.clSetMemObjectDestructorCallback(object, on_death, (void *)(uintptr_t)charge) == CL_SUCCESS)
        return object;
    facet_cl_target.clReleaseMemObject(object);
    facet_cl_charge_drop(charge);
    facet_cl_set_error(errcode_ret, CL_OUT_OF_RESOURCES);
    return NULL;
}

/* A refused buffer larger than any the device (as we show it) can hold has its own error in the specification. */
static cl_int buffer_refusal(uint64_t bytes)
{
    struct facet_cl_device ours;
    cl_ulong largest = 0;

    if (facet_cl_device_find(&ours) &&
        facet_clGetDeviceInfo(ours.id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof largest, &largest, NULL) == CL_SUCCESS &&
        bytes > largest)
        return CL_INVALID_BUFFER_SIZE;
    return CL_MEM_OBJECT_ALLOCATION_FAILURE;
}

static bool admit_buffer(uint64_t bytes, facet_cl_charge *ret_charge, cl_int *errcode_ret)
{
    cl_int result = facet_cl_charge_take(bytes, CL_MEM_OBJECT_ALLOCATION_FAILURE, ret_charge);

    if (result == CL_MEM_OBJECT_ALLOCATION_FAILURE)
        result = buffer_refusal(bytes);
    if (result != CL_SUCCESS)
        facet_cl_set_error(errcode_ret, result);
    return result == CL_SUCCESS;
}

cl_mem facet_clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host_ptr, cl_int *errcode_ret)
{
    facet_cl_charge charge;

    if (!admit_buffer(size, &charge, errcode_ret))
        return NULL;
    return facet_cl_memory_bind(facet_cl_target.clCreateBuffer(context, flags, size, host_ptr, errcode_ret), charge,
                                errcode_ret);
}

cl_mem facet_clCreateBufferWithProperties(cl_context context, const cl_mem_properties *properties, cl_mem_flags flags,
                                          size_t size, void *host_ptr, cl_int *errcode_ret)
{
    facet_cl_charge charge;

    if (!admit_buffer(size, &charge, errcode_ret))
        return NULL;
    return facet_cl_memory_bind(
        facet_cl_target.clCreateBufferWithProperties(context, properties, flags, size, host_ptr, errcode_ret), charge,
        errcode_ret);
}

cl_mem facet_clCreatePipe(cl_context context, cl_mem_flags flags, cl_uint packet_size, cl_uint max_packets,
                          const cl_pipe_properties *properties, cl_int *errcode_ret)
{
    facet_cl_charge charge;

    if (!facet_cl_memory_admit((uint64_t)packet_size * max_packets, CL_MEM_OBJECT_ALLOCATION_FAILURE, &charge,
                               errcode_ret))
        return NULL;
    return facet_cl_memory_bind(
        facet_cl_target.clCreatePipe(context, flags, packet_size, max_packets, properties, errcode_ret), charge,
        errcode_ret);
}
