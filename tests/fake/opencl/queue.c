/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: command queues and the commands put into them. Never: runs a command: the engine does that. */
#include <string.h>

#include "fake.h"

/* With FAKE_REFUSE_PROFILING in the environment, the driver has no profiling. */
static cl_command_queue make_queue(cl_context context, cl_device_id device, cl_command_queue_properties properties,
                                   cl_int *errcode_ret)
{
    cl_command_queue queue;

    if (properties & CL_QUEUE_PROFILING_ENABLE && getenv("FAKE_REFUSE_PROFILING")) {
        fake_error(errcode_ret, CL_INVALID_QUEUE_PROPERTIES);
        return NULL;
    }
    queue = fake_make(sizeof *queue);
    queue->context = context;
    queue->device = device;
    queue->properties = properties;
    fake_dispatch.clRetainContext(context);
    atomic_fetch_add(&fake_counters.queues, 1);
    fake_error(errcode_ret, CL_SUCCESS);
    return queue;
}

static cl_command_queue create_queue_with_properties(cl_context context, cl_device_id device,
                                                     const cl_queue_properties *list, cl_int *errcode_ret)
{
    cl_command_queue_properties properties = 0;
    size_t words = 0;

    /* Keeps seven pairs at most, so that the terminator fits into queue->list. */
    for (; list && list[words] && words < 14; words += 2)
        if (list[words] == CL_QUEUE_PROPERTIES)
            properties = (cl_command_queue_properties)list[words + 1];
    cl_command_queue queue = make_queue(context, device, properties, errcode_ret);
    if (queue && list) {
        queue->list_words = words + 1;
        memcpy(queue->list, list, words * sizeof *list);
    }
    return queue;
}

static cl_int retain_queue(cl_command_queue queue)
{
    atomic_fetch_add(&queue->base.references, 1);
    return CL_SUCCESS;
}

static cl_int release_queue(cl_command_queue queue)
{
    if (fake_unref(&queue->base)) {
        atomic_fetch_sub(&fake_counters.queues, 1);
        fake_dispatch.clReleaseContext(queue->context);
        free(queue);
    }
    return CL_SUCCESS;
}

static cl_int get_queue_info(cl_command_queue queue, cl_command_queue_info name, size_t size, void *value, size_t *ret)
{
    cl_uint references = atomic_load(&queue->base.references);

    switch (name) {
    case CL_QUEUE_PROPERTIES:
        return fake_answer(&queue->properties, sizeof queue->properties, size, value, ret);
    case CL_QUEUE_PROPERTIES_ARRAY:
        return fake_answer(queue->list, queue->list_words * sizeof queue->list[0], size, value, ret);
    case CL_QUEUE_REFERENCE_COUNT:
        return fake_answer(&references, sizeof references, size, value, ret);
    case CL_QUEUE_DEVICE:
        return fake_answer(&queue->device, sizeof queue->device, size, value, ret);
    case CL_QUEUE_CONTEXT:
        return fake_answer(&queue->context, sizeof queue->context, size, value, ret);
    default:
        return CL_INVALID_VALUE;
    }
}

static cl_int queue_kernel(cl_command_queue queue, cl_kernel kernel, cl_command_type type, cl_uint num_waits,
                           const cl_event *waits, cl_event *event_ret)
{
    if (!queue)
        return CL_INVALID_COMMAND_QUEUE;
    if (!kernel)
        return CL_INVALID_KERNEL;
    cl_event event = fake_command(queue, type, num_waits, waits);
    event->duration_ns = kernel->sleeps ? (uint64_t)kernel->microseconds * 1000 : 0;
    return fake_submit(event, CL_FALSE, event_ret);
}

static cl_int enqueue_kernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions, const size_t *offset,
                             const size_t *global, const size_t *local, cl_uint num_waits, const cl_event *waits,
                             cl_event *event_ret)
{
    if (dimensions < 1 || dimensions > 3)
        return CL_INVALID_WORK_DIMENSION;
    return queue_kernel(queue, kernel, CL_COMMAND_NDRANGE_KERNEL, num_waits, waits, event_ret);
}

static cl_int enqueue_task(cl_command_queue queue, cl_kernel kernel, cl_uint num_waits, const cl_event *waits,
                           cl_event *event_ret)
{
    return queue_kernel(queue, kernel, CL_COMMAND_TASK, num_waits, waits, event_ret);
}

static cl_int queue_copy(cl_command_queue queue, cl_command_type type, char *target, const char *source, size_t bytes,
                         cl_bool blocking, cl_uint num_waits, const cl_event *waits, cl_event *event_ret)
{
    if (!queue)
        return CL_INVALID_COMMAND_QUEUE;
    cl_event event = fake_command(queue, type, num_waits, waits);
    event->target = target;
    event->source = source;
    event->bytes = bytes;
    return fake_submit(event, blocking, event_ret);
}

static cl_int enqueue_read(cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset, size_t size,
                           void *pointer, cl_uint num_waits, const cl_event *waits, cl_event *event_ret)
{
    return queue_copy(queue, CL_COMMAND_READ_BUFFER, pointer, buffer->data ? buffer->data + offset : NULL, size,
                      blocking, num_waits, waits, event_ret);
}

static cl_int enqueue_write(cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset, size_t size,
                            const void *pointer, cl_uint num_waits, const cl_event *waits, cl_event *event_ret)
{
    return queue_copy(queue, CL_COMMAND_WRITE_BUFFER, buffer->data ? buffer->data + offset : NULL, pointer, size,
                      blocking, num_waits, waits, event_ret);
}

static cl_int enqueue_fill(cl_command_queue queue, cl_mem buffer, const void *pattern, size_t pattern_size,
                           size_t offset, size_t size, cl_uint num_waits, const cl_event *waits, cl_event *event_ret)
{
    return queue_copy(queue, CL_COMMAND_FILL_BUFFER, NULL, NULL, size, CL_FALSE, num_waits, waits, event_ret);
}

static cl_int enqueue_marker(cl_command_queue queue, cl_uint num_waits, const cl_event *waits, cl_event *event_ret)
{
    return queue_copy(queue, CL_COMMAND_MARKER, NULL, NULL, 0, CL_FALSE, num_waits, waits, event_ret);
}

static cl_int enqueue_svm_free(cl_command_queue queue, cl_uint count, void *pointers[],
                               void(CL_CALLBACK *notify)(cl_command_queue, cl_uint, void *[], void *), void *user_data,
                               cl_uint num_waits, const cl_event *waits, cl_event *event_ret)
{
    if (!queue)
        return CL_INVALID_COMMAND_QUEUE;
    if (notify || !count || !pointers)
        return CL_INVALID_OPERATION;
    cl_event event = fake_command(queue, CL_COMMAND_SVM_FREE, num_waits, waits);
    event->freed = calloc(count, sizeof(void *));
    memcpy(event->freed, pointers, count * sizeof(void *));
    event->num_freed = count;
    return fake_submit(event, CL_FALSE, event_ret);
}

void fake_install_queue(cl_icd_dispatch *dispatch)
{
    dispatch->clCreateCommandQueue = make_queue;
    dispatch->clCreateCommandQueueWithProperties = create_queue_with_properties;
    dispatch->clRetainCommandQueue = retain_queue;
    dispatch->clReleaseCommandQueue = release_queue;
    dispatch->clGetCommandQueueInfo = get_queue_info;
    dispatch->clEnqueueNDRangeKernel = enqueue_kernel;
    dispatch->clEnqueueTask = enqueue_task;
    dispatch->clEnqueueReadBuffer = enqueue_read;
    dispatch->clEnqueueWriteBuffer = enqueue_write;
    dispatch->clEnqueueFillBuffer = enqueue_fill;
    dispatch->clEnqueueMarkerWithWaitList = enqueue_marker;
    dispatch->clEnqueueSVMFree = enqueue_svm_free;
}
