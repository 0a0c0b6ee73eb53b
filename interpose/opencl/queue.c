/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: command queues. Profiling is enabled for our measurement, and hidden from a program that did not request it.
 * Never: changes the requested order, or makes a queue on another device than the vGPU's: a driver may allow queues on
 * the root device in a context of a sub-device.
 *
 * Queues on the device are not profiled (their events are not visible); they hold memory, and are charged for it.
 */
#include <string.h>

#include "device.h"
#include "extension.h"
#include "layer.h"
#include "measure.h"
#include "objects.h"
#include "process.h"
#include "track.h"

#define MAX_WORDS 33 /* of a property list, terminator included; longer ones are passed on unchanged */

/* How a queue differs from the program's request. A queue without a difference is not in the map. */
enum {
    PROFILING_HIDDEN = 1,
    PAIR_ADDED = 2, /* its list begins with a pair of ours */
    LIST_ADDED = 4, /* the program gave no list; the driver got a list of ours */
};

static uint64_t changes_of(cl_command_queue queue)
{
    uint64_t flags = 0;

    facet_cl_map_get(FACET_CL_QUEUES, queue, &flags);
    return flags;
}

/* Also forgets an earlier queue at this address. A queue that cannot be remembered is undone. */
static cl_command_queue remember_queue(cl_command_queue queue, uint64_t flags, cl_int *errcode_ret)
{
    uint64_t stale;

    if (!flags) {
        facet_cl_map_take(FACET_CL_QUEUES, queue, &stale);
    } else if (!facet_cl_map_put(FACET_CL_QUEUES, queue, flags, NULL)) {
        facet_cl_target.clReleaseCommandQueue(queue);
        facet_cl_set_error(errcode_ret, CL_OUT_OF_HOST_MEMORY);
        return NULL;
    }
    return queue;
}

static bool refuse_foreign_device(cl_device_id device, cl_int *errcode_ret)
{
    if (facet_cl_device_is_ours(device)) {
        facet_cl_measure_device(device);
        return false;
    }
    facet_cl_set_error(errcode_ret, CL_INVALID_DEVICE);
    return true;
}

cl_command_queue facet_clCreateCommandQueue(cl_context context, cl_device_id device,
                                            cl_command_queue_properties properties, cl_int *errcode_ret)
{
    cl_command_queue queue = NULL;

    if (refuse_foreign_device(device, errcode_ret))
        return NULL;
    if (!(properties & CL_QUEUE_PROFILING_ENABLE)) {
        queue =
            facet_cl_target.clCreateCommandQueue(context, device, properties | CL_QUEUE_PROFILING_ENABLE, errcode_ret);
        if (queue)
            return remember_queue(queue, PROFILING_HIDDEN, errcode_ret);
        facet_cl_track_set_host_time_needed();
    }
    queue = facet_cl_target.clCreateCommandQueue(context, device, properties, errcode_ret);
    return queue ? remember_queue(queue, 0, errcode_ret) : NULL;
}

typedef cl_command_queue (*create_function)(cl_context, cl_device_id, const cl_queue_properties *, cl_int *);

/* A property list of the program, parsed. */
struct request {
    const cl_queue_properties *list;
    size_t words;       /* without the terminator */
    size_t flags_index; /* index of the value of CL_QUEUE_PROPERTIES; 0: not given */
    cl_command_queue_properties flags;
    cl_uint size; /* CL_QUEUE_SIZE; 0: not given */
};

static struct request read_list(const cl_queue_properties *list)
{
    struct request request = {.list = list};

    for (; list && list[request.words] && request.words < MAX_WORDS; request.words += 2) {
        if (list[request.words] == CL_QUEUE_PROPERTIES) {
            request.flags_index = request.words + 1;
            request.flags = (cl_command_queue_properties)list[request.words + 1];
        } else if (list[request.words] == CL_QUEUE_SIZE) {
            request.size = (cl_uint)list[request.words + 1];
        }
    }
    return request;
}

/* Copies the list with profiling switched on; returns the flags that say what was changed. */
static uint64_t add_profiling(const struct request *request, cl_queue_properties *list)
{
    size_t at = 0;

    if (!request->flags_index) {
        list[at++] = CL_QUEUE_PROPERTIES;
        list[at++] = CL_QUEUE_PROFILING_ENABLE;
    }
    if (request->words)
        memcpy(list + at, request->list, request->words * sizeof *list);
    list[at + request->words] = 0;
    if (request->flags_index)
        list[request->flags_index] |= CL_QUEUE_PROFILING_ENABLE;
    return PROFILING_HIDDEN | (request->flags_index ? 0 : PAIR_ADDED) | (request->list ? 0 : LIST_ADDED);
}

/* The memory that the device sets aside for a queue of its own. */
static uint64_t device_queue_bytes(const struct request *request, cl_device_id device)
{
    cl_uint bytes = request->size;

    if (!bytes)
        facet_cl_target.clGetDeviceInfo(device, CL_DEVICE_QUEUE_ON_DEVICE_PREFERRED_SIZE, sizeof bytes, &bytes, NULL);
    return bytes;
}

/*
 * Probes with the same request, without a charge: the device has memory for many such queues, and the probe is released
 * at once.
 */
static cl_int refuse_on_device(create_function create, cl_context context, cl_device_id device,
                               const struct request *request)
{
    cl_int driver_result = CL_SUCCESS;
    cl_command_queue probe = create(context, device, request->list, &driver_result);

    if (probe)
        facet_cl_target.clReleaseCommandQueue(probe);
    return facet_cl_charge_refuse(probe ? CL_SUCCESS : driver_result, CL_OUT_OF_RESOURCES);
}

/*
 * A driver makes a device's default queue once and returns it at later calls. So the charge is kept only for a queue
 * that is not in the map yet.
 */
static cl_command_queue create_on_device(create_function create, cl_context context, cl_device_id device,
                                         const struct request *request, cl_int *errcode_ret)
{
    facet_cl_charge charge, earlier = 0;
    enum facet_cl_admission admission = facet_cl_charge_try(device_queue_bytes(request, device), &charge);

    if (admission != FACET_CL_CHARGED) {
        facet_cl_set_error(errcode_ret, admission == FACET_CL_NO_VGPU
                                            ? CL_OUT_OF_RESOURCES
                                            : refuse_on_device(create, context, device, request));
        return NULL;
    }
    cl_command_queue queue = create(context, device, request->list, errcode_ret);
    if (!queue) {
        facet_cl_charge_drop(charge);
        return NULL;
    }
    if (!facet_cl_map_put(FACET_CL_DEVICE_QUEUES, queue, charge, &earlier)) {
        facet_cl_target.clReleaseCommandQueue(queue);
        facet_cl_charge_drop(charge);
        facet_cl_set_error(errcode_ret, CL_OUT_OF_HOST_MEMORY);
        return NULL;
    }
    facet_cl_charge_drop(earlier);
    return queue;
}

static cl_command_queue create_from_list(create_function create, cl_context context, cl_device_id device,
                                         const cl_queue_properties *properties, cl_int *errcode_ret)
{
    struct request request = read_list(properties);
    cl_queue_properties list[MAX_WORDS + 3];
    cl_command_queue queue;

    if (refuse_foreign_device(device, errcode_ret))
        return NULL;
    if (request.flags & CL_QUEUE_ON_DEVICE)
        return create_on_device(create, context, device, &request, errcode_ret);
    if (!(request.flags & CL_QUEUE_PROFILING_ENABLE) && request.words < MAX_WORDS) {
        uint64_t flags = add_profiling(&request, list);

        queue = create(context, device, list, errcode_ret);
        if (queue)
            return remember_queue(queue, flags, errcode_ret);
        facet_cl_track_set_host_time_needed();
    }
    queue = create(context, device, properties, errcode_ret);
    return queue ? remember_queue(queue, 0, errcode_ret) : NULL;
}

cl_command_queue facet_clCreateCommandQueueWithProperties(cl_context context, cl_device_id device,
                                                          const cl_queue_properties *properties, cl_int *errcode_ret)
{
    return create_from_list(facet_cl_target.clCreateCommandQueueWithProperties, context, device, properties,
                            errcode_ret);
}

cl_command_queue facet_clCreateCommandQueueWithPropertiesKHR(cl_context context, cl_device_id device,
                                                             const cl_queue_properties_khr *properties,
                                                             cl_int *errcode_ret)
{
    return create_from_list(facet_cl_real_clCreateCommandQueueWithPropertiesKHR, context, device, properties,
                            errcode_ret);
}

/* Removes the records before the last reference is released, because another queue may get the address right after. */
cl_int facet_clReleaseCommandQueue(cl_command_queue queue)
{
    facet_cl_charge charge = 0;
    cl_uint references = 0;
    uint64_t flags;

    if ((!facet_cl_map_empty(FACET_CL_QUEUES) || !facet_cl_map_empty(FACET_CL_DEVICE_QUEUES)) &&
        facet_cl_target.clGetCommandQueueInfo(queue, CL_QUEUE_REFERENCE_COUNT, sizeof references, &references, NULL) ==
            CL_SUCCESS &&
        references == 1) {
        facet_cl_map_take(FACET_CL_QUEUES, queue, &flags);
        facet_cl_map_take(FACET_CL_DEVICE_QUEUES, queue, &charge);
    }
    cl_int result = facet_cl_target.clReleaseCommandQueue(queue);
    facet_cl_charge_drop(charge);
    return result;
}

static cl_int answer_query(const void *value, size_t size, size_t param_value_size, void *param_value,
                           size_t *param_value_size_ret)
{
    if (param_value && param_value_size < size)
        return CL_INVALID_VALUE;
    if (param_value && size)
        memcpy(param_value, value, size);
    if (param_value_size_ret)
        *param_value_size_ret = size;
    return CL_SUCCESS;
}

/* The program's own list, reconstructed from the driver's copy. */
static cl_int answer_list(cl_command_queue queue, uint64_t flags, size_t param_value_size, void *param_value,
                          size_t *param_value_size_ret)
{
    cl_queue_properties list[MAX_WORDS + 3] = {0};
    size_t size = 0, skip = flags & PAIR_ADDED ? 2 * sizeof *list : 0;
    cl_int result = facet_cl_target.clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES_ARRAY, sizeof list, list, &size);

    if (result != CL_SUCCESS)
        return result;
    if (flags & LIST_ADDED || size < skip)
        return answer_query(NULL, 0, param_value_size, param_value, param_value_size_ret);
    for (size_t i = 0; list[i] && !skip; i += 2)
        if (list[i] == CL_QUEUE_PROPERTIES)
            list[i + 1] &= ~(cl_queue_properties)CL_QUEUE_PROFILING_ENABLE;
    return answer_query((const char *)list + skip, size - skip, param_value_size, param_value, param_value_size_ret);
}

cl_int facet_clGetCommandQueueInfo(cl_command_queue queue, cl_command_queue_info param_name, size_t param_value_size,
                                   void *param_value, size_t *param_value_size_ret)
{
    uint64_t flags = changes_of(queue);
    cl_command_queue_properties properties;

    if (param_name == CL_QUEUE_PROPERTIES_ARRAY && flags)
        return answer_list(queue, flags, param_value_size, param_value, param_value_size_ret);

    cl_int result =
        facet_cl_target.clGetCommandQueueInfo(queue, param_name, param_value_size, param_value, param_value_size_ret);
    if (result == CL_SUCCESS && param_name == CL_QUEUE_PROPERTIES && param_value && flags & PROFILING_HIDDEN) {
        memcpy(&properties, param_value, sizeof properties);
        properties &= ~(cl_command_queue_properties)CL_QUEUE_PROFILING_ENABLE;
        memcpy(param_value, &properties, sizeof properties);
    }
    return result;
}

/*
 * OpenCL 1.0 only. Once the program enables profiling, it is not hidden any more. In the driver, profiling is never
 * disabled.
 */
cl_int facet_clSetCommandQueueProperty(cl_command_queue queue, cl_command_queue_properties properties, cl_bool enable,
                                       cl_command_queue_properties *old_properties)
{
    const cl_command_queue_properties profiling = CL_QUEUE_PROFILING_ENABLE;
    uint64_t flags = changes_of(queue), unused;
    cl_int result = facet_cl_target.clSetCommandQueueProperty(
        queue, flags & PROFILING_HIDDEN && !enable ? properties & ~profiling : properties, enable, old_properties);

    if (result != CL_SUCCESS || !(flags & PROFILING_HIDDEN))
        return result;
    if (old_properties)
        *old_properties &= ~profiling;
    if (enable && properties & profiling)
        facet_cl_map_take(FACET_CL_QUEUES, queue, &unused);
    return result;
}

cl_int facet_clGetEventProfilingInfo(cl_event event, cl_profiling_info param_name, size_t param_value_size,
                                     void *param_value, size_t *param_value_size_ret)
{
    cl_command_queue queue = NULL;

    if (facet_cl_target.clGetEventInfo(event, CL_EVENT_COMMAND_QUEUE, sizeof queue, &queue, NULL) == CL_SUCCESS &&
        changes_of(queue) & PROFILING_HIDDEN)
        return CL_PROFILING_INFO_NOT_AVAILABLE;
    cl_int result =
        facet_cl_target.clGetEventProfilingInfo(event, param_name, param_value_size, param_value, param_value_size_ret);
    if (result == CL_SUCCESS)
        facet_cl_track_waited(queue, 1, &event);
    return result;
}
