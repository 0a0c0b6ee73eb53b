/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: running commands. A command that waits for nothing and takes no time runs at once, others on a worker thread.
 * Never: calls a program's callback while it holds its lock.
 */
#include <string.h>
#include <time.h>

#include "fake.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static cl_event first, *end_of_list = &first; /* commands not run yet, each with one reference */
static bool worker_made;

static void release_event(cl_event event)
{
    if (!fake_unref(&event->base))
        return;
    for (cl_uint i = 0; i < event->num_waits; i++)
        release_event(event->waits[i]);
    if (event->queue)
        fake_dispatch.clReleaseCommandQueue(event->queue);
    while (event->callbacks) {
        struct fake_callback *callback = event->callbacks;
        event->callbacks = callback->next;
        free(callback);
    }
    atomic_fetch_sub(&fake_counters.events, 1);
    free(event->waits);
    free(event->freed);
    free(event);
}

static cl_event retain(cl_event event)
{
    atomic_fetch_add(&event->base.references, 1);
    return event;
}

static cl_event make_event(cl_context context, cl_command_type type)
{
    cl_event event = fake_make(sizeof *event);

    event->context = context;
    event->type = type;
    event->queued_ns = fake_now_ns();
    atomic_fetch_add(&fake_counters.events, 1);
    return event;
}

cl_event fake_command(cl_command_queue queue, cl_command_type type, cl_uint num_waits, const cl_event *waits)
{
    cl_event event = make_event(queue->context, type);

    event->queue = queue;
    fake_dispatch.clRetainCommandQueue(queue);
    event->status = CL_QUEUED;
    event->waits = calloc(num_waits + 1, sizeof(cl_event)); /* one more for the order of the queue */
    for (; event->num_waits < num_waits; event->num_waits++)
        event->waits[event->num_waits] = retain(waits[event->num_waits]);
    return event;
}

static bool is_ready(const struct _cl_event *event)
{
    for (cl_uint i = 0; i < event->num_waits; i++)
        if (event->waits[i]->status > CL_COMPLETE)
            return false;
    return true;
}

static void run_event(cl_event event)
{
    if (event->target && event->source)
        memcpy(event->target, event->source, event->bytes);
    for (cl_uint i = 0; i < event->num_freed; i++)
        fake_pointer_free(event->freed[i]);
}

/* Runs the callbacks that are due; called without the lock. */
static void call_back(cl_event event, struct fake_callback *due)
{
    while (due) {
        struct fake_callback *next = due->next;

        due->notify(event, event->status < 0 ? event->status : due->status, due->user_data);
        free(due);
        due = next;
    }
}

static struct fake_callback *finish_event(cl_event event, cl_int status)
{
    struct fake_callback *due = event->callbacks;

    event->callbacks = NULL;
    event->end_ns = fake_now_ns();
    event->status = status;
    if (event->queue) {
        event->queue->pending--;
        if (event->queue->last == event)
            event->queue->last = NULL;
    }
    pthread_cond_broadcast(&changed);
    return due;
}

static cl_event take_ready(void)
{
    for (cl_event *at = &first; *at; at = &(*at)->next) {
        cl_event event = *at;

        if (!is_ready(event))
            continue;
        *at = event->next;
        if (end_of_list == &event->next)
            end_of_list = at;
        return event;
    }
    return NULL;
}

static void run_command(cl_event event)
{
    event->status = CL_RUNNING;
    event->start_ns = fake_now_ns();
    pthread_mutex_unlock(&lock);
    if (event->duration_ns) {
        struct timespec duration = {.tv_sec = (time_t)(event->duration_ns / 1000000000u),
                                    .tv_nsec = (long)(event->duration_ns % 1000000000u)};
        nanosleep(&duration, NULL);
    }
    run_event(event);
    pthread_mutex_lock(&lock);
    struct fake_callback *due = finish_event(event, CL_COMPLETE);
    pthread_mutex_unlock(&lock);
    call_back(event, due);
    release_event(event);
    pthread_mutex_lock(&lock);
}

static void *engine_main(void *unused)
{
    pthread_mutex_lock(&lock);
    for (;;) {
        cl_event event = take_ready();

        if (event)
            run_command(event);
        else
            pthread_cond_wait(&changed, &lock);
    }
    return unused;
}

static void make_worker(void)
{
    pthread_t thread;

    if (!worker_made && pthread_create(&thread, NULL, engine_main, NULL) == 0) {
        pthread_detach(thread);
        worker_made = true;
    }
}

static void follow_order(cl_event event)
{
    cl_command_queue queue = event->queue;

    if (queue->properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)
        return;
    if (queue->last)
        event->waits[event->num_waits++] = retain(queue->last);
}

cl_int fake_submit(cl_event event, cl_bool blocking, cl_event *event_ret)
{
    struct fake_callback *due = NULL;
    cl_command_queue queue = event->queue;

    atomic_fetch_add(&fake_counters.launches, 1);
    pthread_mutex_lock(&lock);
    follow_order(event);
    queue->pending++;
    if (event_ret)
        *event_ret = retain(event);
    if (!event->duration_ns && is_ready(event)) {
        event->start_ns = fake_now_ns();
        run_event(event);
        due = finish_event(event, CL_COMPLETE);
        pthread_mutex_unlock(&lock);
        call_back(event, due);
        release_event(event);
        return CL_SUCCESS;
    }
    make_worker();
    cl_event waited = blocking ? retain(event) : NULL;
    queue->last = event;
    event->next = NULL;
    *end_of_list = event;
    end_of_list = &event->next;
    if (is_ready(event))
        event->status = CL_SUBMITTED;
    pthread_cond_broadcast(&changed);
    while (waited && waited->status > CL_COMPLETE)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    if (waited)
        release_event(waited);
    return CL_SUCCESS;
}

static cl_int wait_for_events(cl_uint count, const cl_event *events)
{
    cl_int result = count && events ? CL_SUCCESS : CL_INVALID_VALUE;

    pthread_mutex_lock(&lock);
    for (cl_uint i = 0; result != CL_INVALID_VALUE && i < count; i++) {
        while (events[i]->status > CL_COMPLETE)
            pthread_cond_wait(&changed, &lock);
        if (events[i]->status < 0)
            result = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

static cl_int finish_queue(cl_command_queue queue)
{
    pthread_mutex_lock(&lock);
    while (queue->pending)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    return CL_SUCCESS;
}

static cl_int flush_queue(cl_command_queue queue)
{
    return queue ? CL_SUCCESS : CL_INVALID_COMMAND_QUEUE;
}

static cl_event create_user_event(cl_context context, cl_int *errcode_ret)
{
    cl_event event = make_event(context, CL_COMMAND_USER);

    event->status = CL_SUBMITTED;
    fake_error(errcode_ret, CL_SUCCESS);
    return event;
}

static cl_int set_user_event_status(cl_event event, cl_int status)
{
    pthread_mutex_lock(&lock);
    struct fake_callback *due = finish_event(event, status);
    pthread_mutex_unlock(&lock);
    call_back(event, due);
    return CL_SUCCESS;
}

static cl_int set_event_callback(cl_event event, cl_int status, void(CL_CALLBACK *notify)(cl_event, cl_int, void *),
                                 void *user_data)
{
    struct fake_callback *callback = malloc(sizeof *callback);

    *callback = (struct fake_callback){.status = status, .notify = notify, .user_data = user_data};
    pthread_mutex_lock(&lock);
    bool due = event->status <= CL_COMPLETE;
    if (!due) {
        callback->next = event->callbacks;
        event->callbacks = callback;
    }
    pthread_mutex_unlock(&lock);
    if (due)
        call_back(event, callback);
    return CL_SUCCESS;
}

static cl_int retain_event(cl_event event)
{
    retain(event);
    return CL_SUCCESS;
}

static cl_int release_event_call(cl_event event)
{
    release_event(event);
    return CL_SUCCESS;
}

static cl_int get_event_info(cl_event event, cl_event_info name, size_t size, void *value, size_t *ret)
{
    cl_uint references = atomic_load(&event->base.references);
    cl_int status;

    switch (name) {
    case CL_EVENT_COMMAND_QUEUE:
        return fake_answer(&event->queue, sizeof event->queue, size, value, ret);
    case CL_EVENT_COMMAND_TYPE:
        return fake_answer(&event->type, sizeof event->type, size, value, ret);
    case CL_EVENT_REFERENCE_COUNT:
        return fake_answer(&references, sizeof references, size, value, ret);
    case CL_EVENT_COMMAND_EXECUTION_STATUS:
        pthread_mutex_lock(&lock);
        status = event->status;
        pthread_mutex_unlock(&lock);
        return fake_answer(&status, sizeof status, size, value, ret);
    default:
        return CL_INVALID_VALUE;
    }
}

static cl_int get_profiling_info(cl_event event, cl_profiling_info name, size_t size, void *value, size_t *ret)
{
    cl_ulong time;

    if (!event->queue || !(event->queue->properties & CL_QUEUE_PROFILING_ENABLE))
        return CL_PROFILING_INFO_NOT_AVAILABLE;
    pthread_mutex_lock(&lock);
    bool complete = event->status <= CL_COMPLETE;
    time = name == CL_PROFILING_COMMAND_START ? event->start_ns
           : name == CL_PROFILING_COMMAND_END ? event->end_ns
                                              : event->queued_ns;
    pthread_mutex_unlock(&lock);
    return complete ? fake_answer(&time, sizeof time, size, value, ret) : CL_PROFILING_INFO_NOT_AVAILABLE;
}

void fake_install_engine(cl_icd_dispatch *dispatch)
{
    dispatch->clWaitForEvents = wait_for_events;
    dispatch->clFinish = finish_queue;
    dispatch->clFlush = flush_queue;
    dispatch->clCreateUserEvent = create_user_event;
    dispatch->clSetUserEventStatus = set_user_event_status;
    dispatch->clSetEventCallback = set_event_callback;
    dispatch->clRetainEvent = retain_event;
    dispatch->clReleaseEvent = release_event_call;
    dispatch->clGetEventInfo = get_event_info;
    dispatch->clGetEventProfilingInfo = get_profiling_info;
}
