/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: streams and their order, waiting for them, host functions. Never: frees a stream. */
#include "execution.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

pthread_mutex_t fake_execution_lock = PTHREAD_MUTEX_INITIALIZER;
_Atomic uint32_t fake_execution_misuse;

static _Atomic uint64_t next_id = 3; /* the default streams have ids 1 and 2 */

/* Links all objects to each other, so that a leak checker does not report objects that a program has dropped. */
void *fake_execution_allocate(size_t size)
{
    static struct object {
        struct object *_Atomic next;
        _Alignas(16) char bytes[];
    } * _Atomic objects;
    struct object *made = calloc(1, sizeof *made + size), *first = atomic_load(&objects);

    if (!made)
        abort();
    do
        atomic_store_explicit(&made->next, first, memory_order_relaxed);
    while (!atomic_compare_exchange_weak(&objects, &first, made));
    return made->bytes;
}

struct fake_execution *fake_execution_of(CUcontext context)
{
    struct fake_execution *found = atomic_load_explicit(&context->execution, memory_order_acquire);
    void *none = NULL;

    if (found)
        return found;
    found = calloc(1, sizeof *found);
    if (!found)
        abort();
    found->context = context;
    found->legacy =
        (struct CUstream_st){.magic = FAKE_STREAM, .context = context, .legacy = true, .id = 1, .joined = true};
    if (!atomic_compare_exchange_strong(&context->execution, &none, found)) {
        free(found);
        return none;
    }
    return found;
}

static CUstream stream_new(CUcontext context, unsigned flags, int priority)
{
    CUstream stream = fake_execution_allocate(sizeof *stream);
    struct fake_execution *execution = fake_execution_of(context);

    stream->magic = FAKE_STREAM;
    stream->context = context;
    stream->flags = flags;
    stream->priority = priority;
    stream->joined = true;
    stream->id = atomic_fetch_add(&next_id, 1);
    pthread_mutex_lock(&fake_execution_lock);
    stream->next = execution->streams;
    execution->streams = stream;
    pthread_mutex_unlock(&fake_execution_lock);
    return stream;
}

/* A thread has one default stream in each context. */
static CUstream thread_default_stream(CUcontext context)
{
    static _Thread_local struct {
        uint64_t context_id;
        CUstream stream;
    } last;

    if (last.stream && last.context_id == context->id)
        return last.stream;
    pthread_mutex_lock(&fake_execution_lock);
    CUstream found = fake_execution_of(context)->streams;
    while (found && !(found->thread && pthread_equal(found->thread, pthread_self())))
        found = found->next;
    pthread_mutex_unlock(&fake_execution_lock);
    if (!found) {
        found = stream_new(context, CU_STREAM_DEFAULT, 0);
        pthread_mutex_lock(&fake_execution_lock); /* other threads search the same list for their streams */
        found->thread = pthread_self();
        pthread_mutex_unlock(&fake_execution_lock);
    }
    last.context_id = context->id;
    last.stream = found;
    return found;
}

static CUresult count_misuse(CUresult result)
{
    atomic_fetch_add(&fake_execution_misuse, 1);
    return result;
}

CUresult fake_stream(CUstream handle, bool per_thread, CUstream *ret_stream)
{
    CUcontext context;

    if (handle == NULL || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
        CUresult result = fake_enter(&context);
        if (result != CUDA_SUCCESS)
            return result;
        bool is_per_thread = handle == CU_STREAM_PER_THREAD || (!handle && per_thread);
        *ret_stream = is_per_thread ? thread_default_stream(context) : &fake_execution_of(context)->legacy;
        return CUDA_SUCCESS;
    }
    if (__builtin_expect(handle->magic != FAKE_STREAM || handle->dead, 0))
        return count_misuse(CUDA_ERROR_INVALID_HANDLE);
    if (__builtin_expect(atomic_load_explicit(&handle->context->dead, memory_order_relaxed), 0))
        return count_misuse(CUDA_ERROR_CONTEXT_IS_DESTROYED);
    if (__builtin_expect(handle->green && fake_green_is_dead(handle->green), 0))
        return count_misuse(CUDA_ERROR_CONTEXT_IS_DESTROYED);
    *ret_stream = handle;
    return fake_device_check(handle->context->physical);
}

/* ---- order ---- */

static void raise_atomic(_Atomic uint64_t *word, uint64_t value)
{
    uint64_t old = atomic_load_explicit(word, memory_order_relaxed);

    while (old < value && !atomic_compare_exchange_weak(word, &old, value))
        ;
}

static bool blocks_legacy(const struct CUstream_st *stream)
{
    return !(stream->flags & CU_STREAM_NON_BLOCKING);
}

uint64_t fake_stream_ready_ns(CUstream stream)
{
    struct fake_execution *execution = fake_execution_of(stream->context);
    uint64_t own_end_ns = atomic_load(&stream->until_ns), other_end_ns = 0;

    if (stream->legacy)
        other_end_ns = atomic_load(&execution->blocking_ns);
    else if (blocks_legacy(stream))
        other_end_ns = atomic_load(&execution->legacy.until_ns);
    return own_end_ns > other_end_ns ? own_end_ns : other_end_ns;
}

void fake_stream_raise_end(CUstream stream, uint64_t end_ns)
{
    struct fake_execution *execution = fake_execution_of(stream->context);

    raise_atomic(&stream->until_ns, end_ns);
    if (blocks_legacy(stream))
        raise_atomic(&execution->blocking_ns, end_ns);
    raise_atomic(&execution->all_ns, end_ns);
}

void fake_sleep_until(uint64_t when_ns)
{
    struct timespec when = {.tv_sec = (time_t)(when_ns / 1000000000u), .tv_nsec = (long)(when_ns % 1000000000u)};

    if (fake_now_ns() < when_ns)
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL) == EINTR)
            ;
}

static void wait_for_host(const _Atomic uint32_t *pending)
{
    while (atomic_load(pending))
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

/* ---- host functions ---- */

struct host_call {
    void (*run)(void *argument, CUstream stream);
    void *argument;
    CUstream stream;
    uint64_t ready_ns;
    uint64_t index; /* among the stream's host functions */
};

/* Waits until the call may run and the stream's earlier calls have run: the system may wake threads in any order. */
static void wait_for_turn(const struct host_call *call)
{
    fake_sleep_until(call->ready_ns);
    while (atomic_load(&call->stream->host_completed) != call->index)
        fake_sleep_until(fake_now_ns() + 100000);
}

static void *host_main(void *argument)
{
    struct host_call call = *(struct host_call *)argument;

    free(argument);
    wait_for_turn(&call);
    call.run(call.argument, call.stream);
    atomic_fetch_add(&call.stream->host_completed, 1);
    atomic_fetch_sub(&call.stream->host_pending, 1);
    atomic_fetch_sub(&fake_execution_of(call.stream->context)->host_pending, 1);
    return NULL;
}

CUresult fake_submit_host_function(CUstream stream, void (*run)(void *argument, CUstream stream), void *argument)
{
    struct host_call *call = malloc(sizeof *call);
    CUgraph graph;
    pthread_t thread;

    CUresult result = fake_capture_work(stream, &graph);
    if (result != CUDA_SUCCESS || graph || !call) {
        if (result == CUDA_SUCCESS && graph)
            result = fake_submit(stream, (struct fake_work){.cost_ns = 0});
        free(call);
        return result;
    }
    *call = (struct host_call){run, argument, stream, fake_stream_ready_ns(stream),
                               atomic_fetch_add(&stream->host_submitted, 1)};
    atomic_fetch_add(&stream->host_pending, 1);
    atomic_fetch_add(&fake_execution_of(stream->context)->host_pending, 1);
    if (pthread_create(&thread, NULL, host_main, call) != 0)
        abort();
    pthread_detach(thread);
    return CUDA_SUCCESS;
}

struct host_function {
    CUhostFn function;
    CUstreamCallback callback;
    void *data;
};

static void run_host(void *argument, CUstream stream)
{
    struct host_function host = *(struct host_function *)argument;

    free(argument);
    if (host.function)
        host.function(host.data);
    else
        host.callback(stream, CUDA_SUCCESS, host.data);
}

static CUresult submit_function(CUstream handle, bool per_thread, struct host_function host)
{
    struct host_function *copy;
    CUstream stream;

    CUresult result = fake_stream(handle, per_thread, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    copy = malloc(sizeof *copy);
    if (!copy)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *copy = host;
    bool captured = atomic_load(&stream->captured);
    result = fake_submit_host_function(stream, run_host, copy);
    if (result != CUDA_SUCCESS || captured) /* a captured function never runs: graphs only take time here */
        free(copy);
    return result;
}

static CUresult do_cuLaunchHostFunc(bool per_thread, CUstream handle, CUhostFn function, void *data)
{
    return function ? submit_function(handle, per_thread, (struct host_function){.function = function, .data = data})
                    : CUDA_ERROR_INVALID_VALUE;
}
FAKE_BOTH_FORMS(cuLaunchHostFunc, (CUstream stream, CUhostFn function, void *data), stream, function, data)

static CUresult do_cuStreamAddCallback(bool per_thread, CUstream handle, CUstreamCallback callback, void *data,
                                       unsigned flags)
{
    if (!callback || flags)
        return CUDA_ERROR_INVALID_VALUE;
    return submit_function(handle, per_thread, (struct host_function){.callback = callback, .data = data});
}
FAKE_BOTH_FORMS(cuStreamAddCallback, (CUstream stream, CUstreamCallback callback, void *data, unsigned flags), stream,
                callback, data, flags)

/* ---- the functions ---- */

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    CUcontext context;
    CUresult result = fake_enter(&context);

    if (result != CUDA_SUCCESS)
        return result;
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return CUDA_SUCCESS;
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
    CUcontext context;
    CUresult result = fake_enter(&context);

    if (result != CUDA_SUCCESS)
        return result;
    if (!stream || flags > CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    *stream = stream_new(context, flags, priority > 0 ? 0 : priority < -5 ? -5 : priority);
    return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    return cuStreamCreateWithPriority(stream, flags, 0);
}

/* Returns at once; the work in the stream continues. A capture that began in the stream is invalidated. */
CUresult cuStreamDestroy_v2(CUstream handle)
{
    CUstream stream;

    if (!handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = fake_stream(handle, false, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&fake_execution_lock);
    if (stream->capture)
        stream->capture->invalid = true;
    stream->dead = true;
    pthread_mutex_unlock(&fake_execution_lock);
    return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream stream)
{
    return cuStreamDestroy_v2(stream);
}

static CUresult do_cuStreamQuery(bool per_thread, CUstream handle)
{
    CUstream stream;
    CUresult result = fake_stream(handle, per_thread, &stream);

    if (result == CUDA_SUCCESS)
        result = fake_capture_wait(stream);
    if (result != CUDA_SUCCESS)
        return result;
    return fake_now_ns() >= fake_stream_ready_ns(stream) && !atomic_load(&stream->host_pending) ? CUDA_SUCCESS
                                                                                                : CUDA_ERROR_NOT_READY;
}
FAKE_BOTH_FORMS(cuStreamQuery, (CUstream stream), stream)

static CUresult do_cuStreamSynchronize(bool per_thread, CUstream handle)
{
    CUstream stream;
    CUresult result = fake_stream(handle, per_thread, &stream);

    if (result == CUDA_SUCCESS)
        result = fake_capture_wait(stream);
    if (result != CUDA_SUCCESS)
        return result;
    fake_sleep_until(fake_stream_ready_ns(stream));
    wait_for_host(&stream->host_pending);
    fake_pools_synchronized();
    return fake_device_check(stream->context->physical);
}
FAKE_BOTH_FORMS(cuStreamSynchronize, (CUstream stream), stream)

static CUresult synchronize_context(CUcontext context)
{
    struct fake_execution *execution = fake_execution_of(context);
    CUresult result = fake_capture_wait_context(context);

    if (result != CUDA_SUCCESS)
        return result;
    fake_sleep_until(atomic_load(&execution->all_ns));
    wait_for_host(&execution->host_pending);
    fake_pools_synchronized();
    return fake_device_check(context->physical);
}

CUresult cuCtxSynchronize(void)
{
    CUcontext context;
    CUresult result = fake_enter(&context);

    return result == CUDA_SUCCESS ? synchronize_context(context) : result;
}

CUresult cuCtxSynchronize_v2(CUcontext context)
{
    CUresult result = context ? fake_context_check(context) : fake_enter(&context);

    return result == CUDA_SUCCESS ? synchronize_context(context) : result;
}

static CUresult do_cuStreamGetPriority(bool per_thread, CUstream handle, int *priority)
{
    CUstream stream;
    CUresult result = fake_stream(handle, per_thread, &stream);

    if (result == CUDA_SUCCESS)
        *priority = stream->priority;
    return result;
}
FAKE_BOTH_FORMS(cuStreamGetPriority, (CUstream stream, int *priority), stream, priority)

static CUresult do_cuStreamGetFlags(bool per_thread, CUstream handle, unsigned *flags)
{
    CUstream stream;
    CUresult result = fake_stream(handle, per_thread, &stream);

    if (result == CUDA_SUCCESS)
        *flags = stream->flags;
    return result;
}
FAKE_BOTH_FORMS(cuStreamGetFlags, (CUstream stream, unsigned *flags), stream, flags)

static CUresult do_cuStreamGetId(bool per_thread, CUstream handle, unsigned long long *id)
{
    CUstream stream;
    CUresult result = fake_stream(handle, per_thread, &stream);

    if (result == CUDA_SUCCESS)
        *id = stream->id;
    return result;
}
FAKE_BOTH_FORMS(cuStreamGetId, (CUstream stream, unsigned long long *id), stream, id)

static CUresult do_cuStreamGetCtx(bool per_thread, CUstream handle, CUcontext *context)
{
    CUstream stream;
    CUresult result = fake_stream(handle, per_thread, &stream);

    if (result == CUDA_SUCCESS)
        *context = stream->context;
    return result;
}
FAKE_BOTH_FORMS(cuStreamGetCtx, (CUstream stream, CUcontext *context), stream, context)

static CUresult do_cuStreamGetDevice(bool per_thread, CUstream handle, CUdevice *device)
{
    CUstream stream;
    CUresult result = fake_stream(handle, per_thread, &stream);

    if (result == CUDA_SUCCESS)
        *device = stream->context->device;
    return result;
}
FAKE_BOTH_FORMS(cuStreamGetDevice, (CUstream stream, CUdevice *device), stream, device)
