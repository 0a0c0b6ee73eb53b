/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: cl_intel_unified_shared_memory: allocations by raw pointer, and their copies.
 * Never: treats host, device and shared memory differently, because each may be made resident on the device.
 */
#include "extension.h"
#include "launch.h"
#include "layer.h"
#include "svm.h"
#include "track.h"

/* The three ways to allocate, and their arguments. */
struct request {
    clHostMemAllocINTEL_fn host; /* NULL: device_or_shared allocates */
    clDeviceMemAllocINTEL_fn device_or_shared;
    cl_context context;
    cl_device_id device;
    const cl_mem_properties_intel *properties;
    cl_uint alignment;
};

#define SMALL_BYTES 64u /* size of a probe */

static void *allocate_with_driver(const struct request *request, size_t size, cl_int *errcode_ret)
{
    if (request->host)
        return request->host(request->context, request->properties, size, request->alignment, errcode_ret);
    return request->device_or_shared(request->context, request->device, request->properties, size, request->alignment,
                                     errcode_ret);
}

static void free_with_driver(cl_context context, void *pointer)
{
    clMemFreeINTEL_fn real_free = atomic_load(&facet_cl_real_clMemFreeINTEL);

    if (real_free)
        real_free(context, pointer);
}

/* Probes with a small size, if the memory can be freed again: the driver may refuse the call for any size. */
static cl_int refuse_usm(const struct request *request, size_t size)
{
    cl_int driver_result = CL_SUCCESS;

    if (atomic_load(&facet_cl_real_clMemFreeINTEL)) {
        void *probe = allocate_with_driver(request, size < SMALL_BYTES ? size : SMALL_BYTES, &driver_result);

        if (probe) {
            free_with_driver(request->context, probe);
            driver_result = CL_SUCCESS;
        }
    }
    return facet_cl_charge_refuse(driver_result, CL_OUT_OF_RESOURCES);
}

static bool admit_usm(const struct request *request, size_t size, facet_cl_charge *ret_charge, cl_int *errcode_ret)
{
    enum facet_cl_admission admission = facet_cl_charge_try(size, ret_charge);

    if (admission != FACET_CL_CHARGED)
        facet_cl_set_error(errcode_ret,
                           admission == FACET_CL_OVER_QUOTA ? refuse_usm(request, size) : CL_OUT_OF_RESOURCES);
    return admission == FACET_CL_CHARGED;
}

/*
 * If the program has not looked up the function that frees, the memory is freed with its context, and stays charged
 * until then.
 */
static void *bind_charge(cl_context context, void *pointer, facet_cl_charge charge, cl_int *errcode_ret)
{
    if (facet_cl_pointer_bind(pointer, charge))
        return pointer;
    if (atomic_load(&facet_cl_real_clMemFreeINTEL)) {
        free_with_driver(context, pointer);
        facet_cl_charge_drop(charge);
    }
    facet_cl_set_error(errcode_ret, CL_OUT_OF_HOST_MEMORY);
    return NULL;
}

static void *allocate_usm(const struct request *request, size_t size, cl_int *errcode_ret)
{
    facet_cl_charge charge;

    if (!admit_usm(request, size, &charge, errcode_ret))
        return NULL;
    return bind_charge(request->context, allocate_with_driver(request, size, errcode_ret), charge, errcode_ret);
}

void *facet_clHostMemAllocINTEL(cl_context context, const cl_mem_properties_intel *properties, size_t size,
                                cl_uint alignment, cl_int *errcode_ret)
{
    const struct request request = {.host = atomic_load(&facet_cl_real_clHostMemAllocINTEL),
                                    .context = context,
                                    .properties = properties,
                                    .alignment = alignment};

    return allocate_usm(&request, size, errcode_ret);
}

void *facet_clDeviceMemAllocINTEL(cl_context context, cl_device_id device, const cl_mem_properties_intel *properties,
                                  size_t size, cl_uint alignment, cl_int *errcode_ret)
{
    const struct request request = {.device_or_shared = atomic_load(&facet_cl_real_clDeviceMemAllocINTEL),
                                    .context = context,
                                    .device = device,
                                    .properties = properties,
                                    .alignment = alignment};

    return allocate_usm(&request, size, errcode_ret);
}

void *facet_clSharedMemAllocINTEL(cl_context context, cl_device_id device, const cl_mem_properties_intel *properties,
                                  size_t size, cl_uint alignment, cl_int *errcode_ret)
{
    const struct request request = {.device_or_shared = atomic_load(&facet_cl_real_clSharedMemAllocINTEL),
                                    .context = context,
                                    .device = device,
                                    .properties = properties,
                                    .alignment = alignment};

    return allocate_usm(&request, size, errcode_ret);
}

static cl_int free_with(clMemFreeINTEL_fn real, cl_context context, void *pointer)
{
    facet_cl_charge charge = facet_cl_pointer_unbind(pointer);
    cl_int result = real(context, pointer);

    facet_cl_charge_drop(charge);
    return result;
}

cl_int facet_clMemFreeINTEL(cl_context context, void *pointer)
{
    return free_with(atomic_load(&facet_cl_real_clMemFreeINTEL), context, pointer);
}

cl_int facet_clMemBlockingFreeINTEL(cl_context context, void *pointer)
{
    cl_int result = free_with(atomic_load(&facet_cl_real_clMemBlockingFreeINTEL), context, pointer);

    facet_cl_track_waited(NULL, 0, NULL);
    return result;
}

cl_int facet_clEnqueueMemcpyINTEL(cl_command_queue queue, cl_bool blocking, void *target, const void *source,
                                  size_t size, cl_uint num_waits, const cl_event *waits, cl_event *event)
{
    clEnqueueMemcpyINTEL_fn real = atomic_load(&facet_cl_real_clEnqueueMemcpyINTEL);
    struct facet_cl_launch launch;
    cl_int result = facet_cl_transfer_begin(&launch, size, num_waits, event);

    if (result == CL_SUCCESS)
        result = real(queue, blocking, target, source, size, num_waits, waits, launch.event);
    return facet_cl_launch_end(&launch, queue, blocking, result);
}

cl_int facet_clEnqueueMemFillINTEL(cl_command_queue queue, void *target, const void *pattern, size_t pattern_size,
                                   size_t size, cl_uint num_waits, const cl_event *waits, cl_event *event)
{
    clEnqueueMemFillINTEL_fn real = atomic_load(&facet_cl_real_clEnqueueMemFillINTEL);
    struct facet_cl_launch launch;
    cl_int result = facet_cl_transfer_begin(&launch, size, num_waits, event);

    if (result == CL_SUCCESS)
        result = real(queue, target, pattern, pattern_size, size, num_waits, waits, launch.event);
    return facet_cl_launch_end(&launch, queue, CL_FALSE, result);
}

cl_int facet_clEnqueueMigrateMemINTEL(cl_command_queue queue, const void *pointer, size_t size,
                                      cl_mem_migration_flags flags, cl_uint num_waits, const cl_event *waits,
                                      cl_event *event)
{
    clEnqueueMigrateMemINTEL_fn real = atomic_load(&facet_cl_real_clEnqueueMigrateMemINTEL);
    struct facet_cl_launch launch;
    cl_int result = facet_cl_transfer_begin(&launch, size, num_waits, event);

    if (result == CL_SUCCESS)
        result = real(queue, pointer, size, flags, num_waits, waits, launch.event);
    return facet_cl_launch_end(&launch, queue, CL_FALSE, result);
}
