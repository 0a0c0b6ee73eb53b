/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: buffers and pipes. Host-pointer buffers are charged too: drivers may copy them to the device.
 * Never: charges sub-buffers, because they hold no memory of their own.
 */
#include "memory.h"

#include "device.h"
#include "layer.h"

uint64_t facet_cl_memory_times(uint64_t bytes, uint64_t count)
{
    uint64_t product;

    return __builtin_mul_overflow(bytes, count, &product) ? UINT64_MAX : product;
}

bool facet_cl_memory_admit(uint64_t bytes, cl_int (*probe)(const void *request), const void *request,
                           facet_cl_charge *ret_charge, cl_int *errcode_ret)
{
    enum facet_cl_admission admission = facet_cl_charge_try(bytes, ret_charge);

    if (__builtin_expect(admission == FACET_CL_OVER_QUOTA, 0))
        facet_cl_set_error(errcode_ret, facet_cl_charge_refuse(probe(request), CL_MEM_OBJECT_ALLOCATION_FAILURE));
    else if (admission == FACET_CL_NO_VGPU)
        facet_cl_set_error(errcode_ret, CL_OUT_OF_RESOURCES);
    return admission == FACET_CL_CHARGED;
}

cl_int facet_cl_memory_probe_result(cl_mem object, cl_int result)
{
    if (!object)
        return result;
    facet_cl_target.clReleaseMemObject(object);
    return CL_SUCCESS;
}

/* Our callback was registered first, so it runs last, after the program's own. */
static void CL_CALLBACK on_destroyed(cl_mem object, void *user_data)
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
    if (facet_cl_target.clSetMemObjectDestructorCallback(object, on_destroyed, (void *)(uintptr_t)charge) == CL_SUCCESS)
        return object;
    facet_cl_target.clReleaseMemObject(object);
    facet_cl_charge_drop(charge);
    facet_cl_set_error(errcode_ret, CL_OUT_OF_RESOURCES);
    return NULL;
}

/* ---- buffers ---- */

struct buffer {
    cl_context context;
    cl_mem_flags flags;
    size_t size;
    void *host_ptr;
};

#define SMALL_BYTES 64u /* size of a probe */

static uint64_t allocation_most(cl_int (*query)(cl_device_id, cl_device_info, size_t, void *, size_t *))
{
    struct facet_cl_device ours;
    cl_ulong bytes = UINT64_MAX;

    if (facet_cl_device_find(&ours))
        query(ours.id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof bytes, &bytes, NULL);
    return bytes;
}

/* Omits the program's properties: a property may transfer memory of another API, which the probe would then free. */
static cl_int probe_buffer(const void *request)
{
    const struct buffer *buffer = request;
    cl_int result = CL_SUCCESS;
    size_t small_bytes = buffer->size < SMALL_BYTES ? buffer->size : SMALL_BYTES;
    cl_mem probe =
        facet_cl_target.clCreateBuffer(buffer->context, buffer->flags, small_bytes, buffer->host_ptr, &result);

    result = facet_cl_memory_probe_result(probe, result);
    return result == CL_SUCCESS && buffer->size > allocation_most(facet_cl_target.clGetDeviceInfo)
               ? CL_INVALID_BUFFER_SIZE
               : result;
}

/* The specification has an error of its own for a buffer above the device's limit, which the quota lowers. */
static bool admit_buffer(const struct buffer *buffer, facet_cl_charge *ret_charge, cl_int *errcode_ret)
{
    cl_int result = CL_SUCCESS;

    if (__builtin_expect(facet_cl_memory_admit(buffer->size, probe_buffer, buffer, ret_charge, &result), 1))
        return true;
    if (result == CL_MEM_OBJECT_ALLOCATION_FAILURE && buffer->size > allocation_most(facet_clGetDeviceInfo))
        result = CL_INVALID_BUFFER_SIZE;
    facet_cl_set_error(errcode_ret, result);
    return false;
}

cl_mem facet_clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host_ptr, cl_int *errcode_ret)
{
    facet_cl_charge charge;

    if (!admit_buffer(&(struct buffer){context, flags, size, host_ptr}, &charge, errcode_ret))
        return NULL;
    return facet_cl_memory_bind(facet_cl_target.clCreateBuffer(context, flags, size, host_ptr, errcode_ret), charge,
                                errcode_ret);
}

cl_mem facet_clCreateBufferWithProperties(cl_context context, const cl_mem_properties *properties, cl_mem_flags flags,
                                          size_t size, void *host_ptr, cl_int *errcode_ret)
{
    facet_cl_charge charge;

    if (!admit_buffer(&(struct buffer){context, flags, size, host_ptr}, &charge, errcode_ret))
        return NULL;
    return facet_cl_memory_bind(
        facet_cl_target.clCreateBufferWithProperties(context, properties, flags, size, host_ptr, errcode_ret), charge,
        errcode_ret);
}

/* ---- pipes ---- */

#define PROBE_PACKET_MOST (1u << 20) /* the largest packet of a probe */

struct pipe {
    cl_context context;
    cl_mem_flags flags;
    cl_uint packet_size;
    const cl_pipe_properties *properties;
};

static cl_int probe_pipe(const void *request)
{
    const struct pipe *pipe = request;
    struct facet_cl_device ours;
    cl_int result = CL_SUCCESS;
    cl_uint most = UINT32_MAX;

    if (facet_cl_device_find(&ours))
        facet_cl_target.clGetDeviceInfo(ours.id, CL_DEVICE_PIPE_MAX_PACKET_SIZE, sizeof most, &most, NULL);
    if (pipe->packet_size > most || pipe->packet_size > PROBE_PACKET_MOST)
        return pipe->packet_size > most ? CL_INVALID_PIPE_SIZE : CL_SUCCESS;
    cl_mem probe =
        facet_cl_target.clCreatePipe(pipe->context, pipe->flags, pipe->packet_size, 1, pipe->properties, &result);

    return facet_cl_memory_probe_result(probe, result);
}

cl_mem facet_clCreatePipe(cl_context context, cl_mem_flags flags, cl_uint packet_size, cl_uint max_packets,
                          const cl_pipe_properties *properties, cl_int *errcode_ret)
{
    facet_cl_charge charge;

    if (!facet_cl_memory_admit((uint64_t)packet_size * max_packets, probe_pipe,
                               &(struct pipe){context, flags, packet_size, properties}, &charge, errcode_ret))
        return NULL;
    return facet_cl_memory_bind(
        facet_cl_target.clCreatePipe(context, flags, packet_size, max_packets, properties, errcode_ret), charge,
        errcode_ret);
}
