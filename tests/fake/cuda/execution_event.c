/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: events; each is a moment in a stream's work. Never: frees an event. */
#include "execution.h"

#define NS_PER_MS 1e6

static CUresult check_event(CUevent event)
{
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    if (event->dead || atomic_load_explicit(&event->context->dead, memory_order_relaxed)) {
        atomic_fetch_add(&fake_execution_misuse, 1);
        return event->dead ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    return fake_device_check(event->context->physical);
}

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    CUcontext context;
    CUresult result = fake_enter(&context);

    if (result != CUDA_SUCCESS)
        return result;
    if (!event || flags > (CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS))
        return CUDA_ERROR_INVALID_VALUE;
    *event = fake_execution_allocate(sizeof **event);
    (*event)->context = context;
    (*event)->flags = flags;
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent event)
{
    CUresult result = check_event(event);

    if (result == CUDA_SUCCESS)
        event->dead = true;
    return result;
}

CUresult cuEventDestroy(CUevent event)
{
    return cuEventDestroy_v2(event);
}

static CUresult do_cuEventRecord(bool per_thread, CUevent event, CUstream handle)
{
    CUstream stream;
    CUresult result = fake_stream(handle, per_thread, &stream);

    if (result == CUDA_SUCCESS)
        result = check_event(event);
    if (result == CUDA_SUCCESS && event->context != stream->context)
        result = CUDA_ERROR_INVALID_HANDLE;
    if (result != CUDA_SUCCESS || fake_capture_record(stream, event, &result))
        return result;
    uint64_t now = fake_now_ns(), ready = fake_stream_ready_ns(stream);
    event->stream = stream;
    event->recorded = true;
    event->capture = NULL;
    atomic_store(&event->time_ns, ready > now ? ready : now);
    return CUDA_SUCCESS;
}
FAKE_BOTH_FORMS(cuEventRecord, (CUevent event, CUstream stream), event, stream)

static CUresult do_cuEventRecordWithFlags(bool per_thread, CUevent event, CUstream stream, unsigned flags)
{
    return flags > 1 ? CUDA_ERROR_INVALID_VALUE : do_cuEventRecord(per_thread, event, stream);
}
FAKE_BOTH_FORMS(cuEventRecordWithFlags, (CUevent event, CUstream stream, unsigned flags), event, stream, flags)

static CUresult check_event_query(CUevent event)
{
    CUresult result = check_event(event);

    if (result == CUDA_SUCCESS)
        result = fake_capture_unsafe();
    return result == CUDA_SUCCESS && event->capture ? CUDA_ERROR_CAPTURED_EVENT : result;
}

CUresult cuEventQuery(CUevent event)
{
    CUresult result = check_event_query(event);

    if (result != CUDA_SUCCESS)
        return result;
    return event->recorded && fake_now_ns() < atomic_load(&event->time_ns) ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent event)
{
    CUresult result = check_event_query(event);

    if (result != CUDA_SUCCESS)
        return result;
    if (event->recorded)
        fake_sleep_until(atomic_load(&event->time_ns));
    fake_pools_synchronized();
    return fake_device_check(event->context->physical);
}

static bool is_timed(const struct CUevent_st *event)
{
    return event->recorded && !event->capture && !(event->flags & CU_EVENT_DISABLE_TIMING);
}

CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end)
{
    uint64_t now = fake_now_ns();
    CUresult result = check_event(start);

    if (result == CUDA_SUCCESS)
        result = check_event(end);
    if (result != CUDA_SUCCESS)
        return result;
    if (!milliseconds)
        return CUDA_ERROR_INVALID_VALUE;
    if (!is_timed(start) || !is_timed(end) || start->context != end->context)
        return CUDA_ERROR_INVALID_HANDLE;
    uint64_t from = atomic_load(&start->time_ns), to = atomic_load(&end->time_ns);
    if (now < from || now < to)
        return CUDA_ERROR_NOT_READY;
    *milliseconds = (float)((double)(int64_t)(to - from) / NS_PER_MS);
    return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    return cuEventElapsedTime_v2(milliseconds, start, end);
}

static CUresult do_cuStreamWaitEvent(bool per_thread, CUstream handle, CUevent event, unsigned flags)
{
    CUstream stream;
    CUresult result = fake_stream(handle, per_thread, &stream);

    if (result == CUDA_SUCCESS)
        result = flags > 1 ? CUDA_ERROR_INVALID_VALUE : check_event(event);
    if (result != CUDA_SUCCESS || fake_capture_wait_event(stream, event, &result))
        return result;
    if (event->recorded)
        fake_stream_raise_end(stream, atomic_load(&event->time_ns));
    return CUDA_SUCCESS;
}
FAKE_BOTH_FORMS(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags), stream, event, flags)
