/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: command queues: profiling switched on for our own measurement, and hidden from a program that did not ask.
 * Never: changes the order a program asked for, or makes a queue on another device than the vGPU's: a driver may let a
 * context of a sub-device have queues on the root device.
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

#define MAX_WORDS 33 /* of a property list, terminator included; longer ones are passed on as they are */

/* How a queue differs from the program's request; a queue that does not is not in the map. */
enum {
    PROFILING_HIDDEN = 1,
    PAIR_ADDED = 2, /* its list begins with a pair of ours */
    LIST_ADDED = 4, /* the program gave no list at all */
};

static uint64_t flags_of(cl_command_queue queue)
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

static bool refuse_foreign(cl_device_id device, cl_int *errcode_ret)
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

    if (refuse_foreign(device, errcode_ret))
        return NULL;
    if (!(properties & CL_QUEUE_PROFILING_ENABLE)) {
        queue =
            facet_cl_target.clCreateCommandQueue(context, device, properties | CL_QUEUE_PROFILING_ENABLE, errcode_ret);
        if (queue)
            return remember_queue(queue, PROFILING_HIDDEN, errcode_ret);
        facet_cl_track_want_time();
    }
    queue = facet_cl_target.clCreateCommandQueue(context, device, properties, errcode_ret);
    return queue ? remember_queue(queue, 0, errcode_ret) : NULL;
}

typedef cl_command_queue (*create_function)(cl_context, cl_device_id, const cl_queue_properties *, cl_int *);

/* A property list as the program gave it, taken apart. */
struct wish {
    const cl_queue_properties *list;
    size_t words;      /* without the terminator */
    size_t flags_word; /* where the value of CL_QUEUE_PROPERTIES is; 0 = not given */
    cl_command_queue_properties flags;
    cl_uint size; /* CL_QUEUE_SIZE; 0 = not given */
};

static struct wish read_list(const cl_queue_properties *list)
{
    struct wish wish = {.list = list};

    for (; list && list[wish.words] && wish.words < MAX_WORDS; wish.words += 2) {
        if (list[wish.words] == CL_QUEUE_PROPERTIES) {
            wish.flags_word = wish.words + 1;
            wish.flags = (cl_command_queue_properties)list[wish.words + 1];
        } else if (list[wish.words] == CL_QUEUE_SIZE) {
            wish.size = (cl_uint)list[wish.words + 1];
        }
    }
    return wish;
}

/* Copies the list with profiling switched on; returns the flags that say what was changed. */
static uint64_t with_profiling(const struct wish *wish, cl_queue_properties *list)
{
    size_t at = 0;

    if (!wish->flags_word) {
        list[at++] = CL_QUEUE_PROPERTIES;
        list[at++] = CL_QUEUE_PROFILING_ENABLE;
    }
    if (wish->words)
        memcpy(list + at, wish->list, wish->words * sizeof *list);
    list[at + wish->words] = 0;
    if (wish->flags_word)
        list[wish->flags_word] |= CL_QUEUE_PROFILING_ENABLE;
    return PROFILING_HIDDEN | (wish->flags_word ? 0 : PAIR_ADDED) | (wish->list ? 0 : LIST_ADDED);
}

/* The memory that the device sets aside for a queue of its own. */
static uint64_t device_queue_bytes(const struct wish *wish, cl_device_id device)
{
    cl_uint bytes = wish->size;

    if (!bytes)
        facet_cl_target.clGetDeviceInfo(device, CL_DEVICE_QUEUE_ON_DEVICE_PREFERRED_SIZE, sizeof bytes, &bytes, NULL);
    return bytes;
}

/* One of its kind: nothing of it is kept, and the device has room for many. */
static cl_int refuse_on_device(create_function create, cl_context context, cl_device_id device, const struct wish *wish)
{
    cl_int judged = CL_SUCCESS;
    cl_command_queue made = create(context, device, wish->list, &judged);

    if (made)
        facet_cl_target.clReleaseCommandQueue(made);
    return facet_cl_charge_refuse(made ? CL_SUCCESS : judged, CL_OUT_OF_RESOURCES);
}

/* The default queue of a device is made once and returned again; only a queue not seen before keeps the charge. */
static cl_command_queue create_on_device(create_function create, cl_context context, cl_device_id device,
                                         const struct wish *wish, cl_int *errcode_ret)
{
    facet_cl_charge charge, earlier = 0;
    enum facet_cl_admission admission = facet_cl_charge_try(device_queue_bytes(wish, device), &charge);

    if (admission != FACET_CL_TAKEN) {
        facet_cl_set_error(errcode_ret, admission == FACET_CL_NO_VGPU
                                            ? CL_OUT_OF_RESOURCES
                                            : refuse_on_device(create, context, device, wish));
        return NULL;
    }
    cl_command_queue queue = create(context, device, wish->list, errcode_ret);
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
    struct wish wish = read_list(properties);
    cl_queue_properties list[MAX_WORDS + 3];
    cl_command_queue queue;

    if (refuse_foreign(device, errcode_ret))
        return NULL;
    if (wish.flags & CL_QUEUE_ON_DEVICE)
        return create_on_device(create, context, device, &wish, errcode_ret);
    if (!(wish.flags & CL_QUEUE_PROFILING_ENABLE) && wish.words < MAX_WORDS) {
        uint64_t flags = with_profiling(&wish, list);

        queue = create(context, device, list, errcode_ret);
        if (queue)
            return remember_queue(queue, flags, errcode_ret);
        facet_cl_track_want_time();
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

/* The last reference goes: the layer's record goes first, because the address may be another queue's afterwards. */
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

/* The list as the program gave it, made from the one the driver keeps. */
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
    uint64_t flags = flags_of(queue);
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

/* OpenCL 1.0 only. Profiling that the program switches on is shown from then on; it never goes off underneath. */
cl_int facet_clSetCommandQueueProperty(cl_command_queue queue, cl_command_queue_properties properties, cl_bool enable,
                                       cl_command_queue_properties *old_properties)
{
    const cl_command_queue_properties profiling = CL_QUEUE_PROFILING_ENABLE;
    uint64_t flags = flags_of(queue), unused;
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
        flags_of(queue) & PROFILING_HIDDEN)
        return CL_PROFILING_INFO_NOT_AVAILABLE;
    cl_int result =
        facet_cl_target.clGetEventProfilingInfo(event, param_name, param_value_size, param_value, param_value_size_ret);
    if (result == CL_SUCCESS)
        facet_cl_track_waited(queue, 1, &event);
    return result;
}
