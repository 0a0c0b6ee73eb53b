/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the calls by which a program learns that commands are complete. They report these commands before they return.
 * Never: waits for more than the driver did, or reports a command as complete that the driver does not.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "layer.h"
#include "track.h"

static cl_command_queue queue_of(cl_event event)
{
    cl_command_queue queue = NULL;

    return facet_cl_target.clGetEventInfo(event, CL_EVENT_COMMAND_QUEUE, sizeof queue, &queue, NULL) == CL_SUCCESS
               ? queue
               : NULL;
}

cl_int facet_clFinish(cl_command_queue queue)
{
    cl_int result = facet_cl_target.clFinish(queue);

    if (result == CL_SUCCESS)
        facet_cl_track_waited(queue, 0, NULL);
    return result;
}

/* A user event has no queue, and no tracked command. */
static void report_events(cl_uint count, const cl_event *events)
{
    cl_command_queue last = NULL;

    for (cl_uint i = 0; i < count; i++) {
        cl_command_queue queue = queue_of(events[i]);

        if (queue && queue != last)
            facet_cl_track_waited(queue, count, events);
        last = queue;
    }
}

/* A failed command is complete too. */
cl_int facet_clWaitForEvents(cl_uint count, const cl_event *events)
{
    cl_int result = facet_cl_target.clWaitForEvents(count, events);

    if (result == CL_SUCCESS || result == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)
        report_events(count, events);
    return result;
}

cl_int facet_clGetEventInfo(cl_event event, cl_event_info name, size_t size, void *value, size_t *ret_size)
{
    cl_int result = facet_cl_target.clGetEventInfo(event, name, size, value, ret_size);

    if (result == CL_SUCCESS && name == CL_EVENT_COMMAND_EXECUTION_STATUS && value &&
        *(const cl_int *)value <= CL_COMPLETE)
        report_events(1, &event);
    return result;
}

/* Passed from the thread that sets the callback to the driver's thread that calls it. */
struct callback {
    void(CL_CALLBACK *notify)(cl_event, cl_int, void *);
    void *user_data;
    _Atomic bool written;
};

static void CL_CALLBACK on_event(cl_event event, cl_int status, void *user_data)
{
    struct callback *context = user_data;
    bool written = atomic_load_explicit(&context->written, memory_order_acquire);
    struct callback callback = {.notify = context->notify, .user_data = context->user_data};

    free(context);
    if (written && status <= CL_COMPLETE)
        facet_cl_track_called_back(event);
    callback.notify(event, status, callback.user_data);
}

cl_int facet_clSetEventCallback(cl_event event, cl_int status,
                                void(CL_CALLBACK *notify)(cl_event, cl_int, void *user_data), void *user_data)
{
    struct callback *callback = notify ? malloc(sizeof *callback) : NULL;

    if (!callback)
        return facet_cl_target.clSetEventCallback(event, status, notify, user_data);
    *callback = (struct callback){.notify = notify, .user_data = user_data};
    atomic_store_explicit(&callback->written, true, memory_order_release);
    cl_int result = facet_cl_target.clSetEventCallback(event, status, on_event, callback);
    if (result != CL_SUCCESS)
        free(callback);
    return result;
}

static void report_if_blocking(cl_bool blocking, cl_int result, cl_command_queue queue)
{
    if (blocking && result == CL_SUCCESS)
        facet_cl_track_waited(queue, 0, NULL);
}

void *facet_clEnqueueMapBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking, cl_map_flags flags,
                               size_t offset, size_t size, cl_uint num_waits, const cl_event *waits, cl_event *event,
                               cl_int *errcode_ret)
{
    cl_int result = CL_SUCCESS;
    void *address = facet_cl_target.clEnqueueMapBuffer(queue, buffer, blocking, flags, offset, size, num_waits, waits,
                                                       event, &result);

    report_if_blocking(blocking, result, queue);
    facet_cl_set_error(errcode_ret, result);
    return address;
}

void *facet_clEnqueueMapImage(cl_command_queue queue, cl_mem image, cl_bool blocking, cl_map_flags flags,
                              const size_t *origin, const size_t *region, size_t *row, size_t *slice, cl_uint num_waits,
                              const cl_event *waits, cl_event *event, cl_int *errcode_ret)
{
    cl_int result = CL_SUCCESS;
    void *address = facet_cl_target.clEnqueueMapImage(queue, image, blocking, flags, origin, region, row, slice,
                                                      num_waits, waits, event, &result);

    report_if_blocking(blocking, result, queue);
    facet_cl_set_error(errcode_ret, result);
    return address;
}

cl_int facet_clEnqueueSVMMap(cl_command_queue queue, cl_bool blocking, cl_map_flags flags, void *pointer, size_t size,
                             cl_uint num_waits, const cl_event *waits, cl_event *event)
{
    cl_int result = facet_cl_target.clEnqueueSVMMap(queue, blocking, flags, pointer, size, num_waits, waits, event);

    report_if_blocking(blocking, result, queue);
    return result;
}
