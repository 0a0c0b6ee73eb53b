/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the launch sequence, and the calls that run kernels. Never: defers or reorders a command. */
#include "launch.h"

#include "base/clock.h"
#include "interpose/kit/estimate.h"
#include "layer.h"
#include "track.h"

cl_int facet_cl_launch_begin(struct facet_cl_launch *launch, uint64_t key, cl_uint num_waits, cl_event *event)
{
    struct facet_tenant *tenant = facet_cl_tenant();

    *launch = (struct facet_cl_launch){.key = key, .num_waits = num_waits, .event = event ? event : &launch->own_event};
    if (!tenant || !facet_cl_track_ready())
        return CL_OUT_OF_RESOURCES;
    launch->estimate_ns = facet_tenant_launch(tenant, facet_estimate_get(key));
    if (launch->estimate_ns == FACET_TENANT_LOST)
        return CL_OUT_OF_RESOURCES;
    launch->tenant = tenant;
    launch->submitted_ns = facet_cl_track_needs_host_time() ? facet_clock_now_ns() : 0;
    return CL_SUCCESS;
}

cl_int facet_cl_launch_end(struct facet_cl_launch *launch, cl_command_queue queue, cl_bool blocking, cl_int result)
{
    if (!launch->tenant) {
        if (blocking && result == CL_SUCCESS)
            facet_cl_track_waited(queue, 0, NULL);
        return result;
    }
    if (result != CL_SUCCESS) {
        facet_tenant_refused(launch->tenant, launch->estimate_ns);
        return result;
    }

    struct facet_cl_command command = {
        .event = *launch->event,
        .queue = queue,
        .key = launch->key,
        .estimate_ns = launch->estimate_ns,
        .submitted_ns = launch->submitted_ns,
        .may_be_held = launch->num_waits != 0,
    };
    if (launch->event != &launch->own_event)
        facet_cl_target.clRetainEvent(command.event);
    if (blocking) {
        facet_cl_track_finished(launch->tenant, &command);
        facet_cl_track_waited(queue, 0, NULL);
        return CL_SUCCESS;
    }
    facet_cl_track_add(launch->tenant, &command);
    /* Other vGPUs wait for the device: commands that stay in a driver's batch only delay them. */
    if (queue && facet_tenant_reports_promptly(launch->tenant))
        facet_cl_target.clFlush(queue);
    return CL_SUCCESS;
}

/* The sizes of all dimensions in one word: launches with the same word share an estimate. */
static uint64_t hash_sizes(cl_uint dimensions, const size_t *sizes)
{
    uint64_t hash = 1;

    for (cl_uint i = 0; sizes && i < dimensions && i < 3; i++)
        hash = hash * UINT64_C(0x100000001b3) ^ sizes[i];
    return hash;
}

cl_int facet_clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                    const size_t *global_offset, const size_t *global_size, const size_t *local_size,
                                    cl_uint num_waits, const cl_event *waits, cl_event *event)
{
    struct facet_cl_launch launch;
    cl_int result = facet_cl_launch_begin(&launch, facet_estimate_key(kernel, hash_sizes(dimensions, global_size)),
                                          num_waits, event);

    if (result == CL_SUCCESS)
        result = facet_cl_target.clEnqueueNDRangeKernel(queue, kernel, dimensions, global_offset, global_size,
                                                        local_size, num_waits, waits, launch.event);
    return facet_cl_launch_end(&launch, queue, CL_FALSE, result);
}

cl_int facet_clEnqueueTask(cl_command_queue queue, cl_kernel kernel, cl_uint num_waits, const cl_event *waits,
                           cl_event *event)
{
    struct facet_cl_launch launch;
    cl_int result = facet_cl_launch_begin(&launch, facet_estimate_key(kernel, 1), num_waits, event);

    if (result == CL_SUCCESS)
        result = facet_cl_target.clEnqueueTask(queue, kernel, num_waits, waits, launch.event);
    return facet_cl_launch_end(&launch, queue, CL_FALSE, result);
}

cl_int facet_clEnqueueNativeKernel(cl_command_queue queue, void(CL_CALLBACK *function)(void *), void *arguments,
                                   size_t size, cl_uint num_memory, const cl_mem *memory, const void **locations,
                                   cl_uint num_waits, const cl_event *waits, cl_event *event)
{
    struct facet_cl_launch launch;
    const void *object = (const void *)(uintptr_t)function;
    cl_int result = facet_cl_launch_begin(&launch, facet_estimate_key(object, size), num_waits, event);

    if (result == CL_SUCCESS)
        result = facet_cl_target.clEnqueueNativeKernel(queue, function, arguments, size, num_memory, memory, locations,
                                                       num_waits, waits, launch.event);
    return facet_cl_launch_end(&launch, queue, CL_FALSE, result);
}
