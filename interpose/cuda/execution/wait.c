/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the calls by which a program learns that launches are complete. Each reports the completions before it returns.
 * Never: waits longer than the driver did.
 */
#include "interpose/kit/execution/wait.h"

#include "interpose/cuda/hooks.h"

static CUresult report_wait(const struct facet_flight_wait *wait, CUresult result)
{
    if (result == CUDA_SUCCESS)
        facet_flight_waited(wait);
    return result;
}

#define STREAM(name, per_thread)                                                                                       \
    CUresult facet_##name(CUstream stream)                                                                             \
    {                                                                                                                  \
        struct facet_flight_wait wait;                                                                                 \
                                                                                                                       \
        facet_flight_wait_stream(&wait, facet_flight_stream_of(stream, per_thread));                                   \
        return report_wait(&wait, facet_cuda_driver.name(stream));                                                     \
    }
STREAM(cuStreamSynchronize, false)
STREAM(cuStreamSynchronize_ptsz, true)
STREAM(cuStreamQuery, false)
STREAM(cuStreamQuery_ptsz, true)

CUresult facet_cuCtxSynchronize(void)
{
    struct facet_flight_wait wait;

    facet_flight_wait_context(&wait, NULL);
    return report_wait(&wait, facet_cuda_driver.cuCtxSynchronize());
}

CUresult facet_cuCtxSynchronize_v2(CUcontext context)
{
    struct facet_flight_wait wait;

    facet_flight_wait_context(&wait, context);
    return report_wait(&wait, facet_cuda_driver.cuCtxSynchronize_v2(context));
}

/* ---- events ---- */

#define RECORD(name, parameters, per_thread, ...)                                                                      \
    CUresult facet_##name parameters                                                                                   \
    {                                                                                                                  \
        struct facet_flight_wait wait;                                                                                 \
                                                                                                                       \
        facet_flight_wait_stream(&wait, facet_flight_stream_of(stream, per_thread));                                   \
        CUresult result = facet_cuda_driver.name(__VA_ARGS__);                                                         \
        if (result == CUDA_SUCCESS)                                                                                    \
            facet_flight_event_recorded(event, &wait);                                                                 \
        return result;                                                                                                 \
    }
RECORD(cuEventRecord, (CUevent event, CUstream stream), false, event, stream)
RECORD(cuEventRecord_ptsz, (CUevent event, CUstream stream), true, event, stream)
RECORD(cuEventRecordWithFlags, (CUevent event, CUstream stream, unsigned flags), false, event, stream, flags)
RECORD(cuEventRecordWithFlags_ptsz, (CUevent event, CUstream stream, unsigned flags), true, event, stream, flags)

CUresult facet_cuEventDestroy(CUevent event)
{
    facet_flight_event_gone(event);
    return facet_cuda_driver.cuEventDestroy(event);
}

CUresult facet_cuEventDestroy_v2(CUevent event)
{
    facet_flight_event_gone(event);
    return facet_cuda_driver.cuEventDestroy_v2(event);
}

static CUresult report_event(CUevent event, CUresult result)
{
    if (result == CUDA_SUCCESS)
        facet_flight_event_waited(event);
    return result;
}

CUresult facet_cuEventSynchronize(CUevent event)
{
    return report_event(event, facet_cuda_driver.cuEventSynchronize(event));
}

CUresult facet_cuEventQuery(CUevent event)
{
    return report_event(event, facet_cuda_driver.cuEventQuery(event));
}

/* The driver measures a time only between two complete events, so success means that both are complete. */
CUresult facet_cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    return report_event(end, report_event(start, facet_cuda_driver.cuEventElapsedTime(milliseconds, start, end)));
}

CUresult facet_cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end)
{
    return report_event(end, report_event(start, facet_cuda_driver.cuEventElapsedTime_v2(milliseconds, start, end)));
}
