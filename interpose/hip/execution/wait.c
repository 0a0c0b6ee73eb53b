/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the calls by which a program learns that launches are complete. Each reports the completions before it returns.
 * Some of them may initialize a device.
 * Never: waits longer than the runtime did.
 */
#include "interpose/kit/execution/wait.h"

#include "interpose/hip/hooks.h"
#include "interpose/hip/initialize.h"

static hipError_t report_wait(const struct facet_flight_wait *wait, hipError_t result)
{
    if (result == hipSuccess)
        facet_flight_waited(wait);
    return result;
}

#define DEVICE(name)                                                                                                   \
    hipError_t facet_##name(void)                                                                                      \
    {                                                                                                                  \
        hipError_t result = facet_hip_initialize_device(facet_hip_current_device());                                   \
        struct facet_flight_wait wait;                                                                                 \
                                                                                                                       \
        if (result != hipSuccess)                                                                                      \
            return result;                                                                                             \
        facet_flight_wait_context(&wait, NULL);                                                                        \
        return report_wait(&wait, facet_hip_driver.name());                                                            \
    }
DEVICE(hipDeviceSynchronize)
DEVICE(hipCtxSynchronize)

#define STREAM(name, per_thread, initializes)                                                                          \
    hipError_t facet_##name(hipStream_t stream)                                                                        \
    {                                                                                                                  \
        hipError_t result = initializes ? facet_hip_initialize_device(facet_hip_current_device()) : hipSuccess;        \
        struct facet_flight_wait wait;                                                                                 \
                                                                                                                       \
        if (result != hipSuccess)                                                                                      \
            return result;                                                                                             \
        facet_flight_wait_stream(&wait, facet_flight_stream_of(stream, per_thread));                                   \
        return report_wait(&wait, facet_hip_driver.name(stream));                                                      \
    }
STREAM(hipStreamSynchronize, false, true)
STREAM(hipStreamSynchronize_spt, true, true)
STREAM(hipStreamQuery, false, false)
STREAM(hipStreamQuery_spt, true, false)

/* ---- events ---- */

#define RECORD(name, parameters, per_thread, ...)                                                                      \
    hipError_t facet_##name parameters                                                                                 \
    {                                                                                                                  \
        struct facet_flight_wait wait;                                                                                 \
                                                                                                                       \
        facet_flight_wait_stream(&wait, facet_flight_stream_of(stream, per_thread));                                   \
        hipError_t result = facet_hip_driver.name(__VA_ARGS__);                                                        \
        if (result == hipSuccess)                                                                                      \
            facet_flight_event_recorded(event, &wait);                                                                 \
        return result;                                                                                                 \
    }
RECORD(hipEventRecord, (hipEvent_t event, hipStream_t stream), false, event, stream)
RECORD(hipEventRecord_spt, (hipEvent_t event, hipStream_t stream), true, event, stream)
RECORD(hipEventRecordWithFlags, (hipEvent_t event, hipStream_t stream, unsigned flags), false, event, stream, flags)

hipError_t facet_hipEventDestroy(hipEvent_t event)
{
    facet_flight_event_gone(event);
    return facet_hip_driver.hipEventDestroy(event);
}

static hipError_t report_event(hipEvent_t event, hipError_t result)
{
    if (result == hipSuccess)
        facet_flight_event_waited(event);
    return result;
}

hipError_t facet_hipEventSynchronize(hipEvent_t event)
{
    return report_event(event, facet_hip_driver.hipEventSynchronize(event));
}

hipError_t facet_hipEventQuery(hipEvent_t event)
{
    return report_event(event, facet_hip_driver.hipEventQuery(event));
}

/* The runtime measures a time only between two complete events, so success means that both are complete. */
hipError_t facet_hipEventElapsedTime(float *milliseconds, hipEvent_t start, hipEvent_t end)
{
    return report_event(end, report_event(start, facet_hip_driver.hipEventElapsedTime(milliseconds, start, end)));
}
