/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: HIP's implementation of the calls that the kit's launch tracking needs.
 * Never: calls a hooked function; passes on hipStreamLegacy, which older runtimes take for an address.
 *
 * HIP has one context per device. It is represented by the device, and ends when the device is reset.
 */
#include "interpose/kit/execution/driver.h"

#include "base/clock.h"
#include "context.h"
#include "interpose/hip/hooks.h"
#include "interpose/hip/initialize.h"
#include "interpose/hip/process.h"

_Static_assert(FACET_HIP_TENANTS <= FACET_FLIGHT_DEVICES, "each vGPU has an entry");

static uint32_t list_tenants(struct facet_tenant **ret_tenants)
{
    *ret_tenants = facet_hip_process.tenants;
    return facet_hip_process.count;
}

static bool is_default(void *stream)
{
    return stream == FACET_FLIGHT_LEGACY || stream == FACET_FLIGHT_PER_THREAD;
}

static hipStream_t handle_of(void *stream)
{
    return stream == FACET_FLIGHT_LEGACY ? NULL : stream;
}

/* If the thread's device cannot be initialized, it is returned for every stream: a query might initialize it again. */
static bool device_of(void *stream, int *ret_device)
{
    if (is_default(stream) || facet_hip_initialize_device(facet_hip_current_device()) != hipSuccess)
        return facet_hip_unhooked.hipGetDevice(ret_device) == hipSuccess;
    if (facet_hip_unhooked.hipStreamGetDevice)
        return facet_hip_unhooked.hipStreamGetDevice(stream, ret_device) == hipSuccess;
    if (!facet_hip_unhooked.hipGetStreamDeviceId)
        return facet_hip_unhooked.hipGetDevice(ret_device) == hipSuccess;
    *ret_device = facet_hip_unhooked.hipGetStreamDeviceId(stream);
    return *ret_device >= 0;
}

static bool stream_context(void *stream, void **ret_context)
{
    int device;

    if (!device_of(stream, &device))
        return false;
    *ret_context = facet_hip_context(device);
    return true;
}

static uint32_t stream_device(void *stream)
{
    return facet_hip_stream_device(stream);
}

static struct facet_tenant *stream_tenant(void *stream, uint32_t *ret_device)
{
    int device;

    if (!device_of(stream, &device))
        return NULL;
    *ret_device = (uint32_t)device;
    return facet_hip_initialize_device(*ret_device) == hipSuccess ? facet_hip_tenant(*ret_device) : NULL;
}

static bool stream_joins_legacy(void *stream)
{
    unsigned flags = hipStreamNonBlocking;

    return facet_hip_unhooked.hipStreamGetFlags && facet_hip_unhooked.hipStreamGetFlags(stream, &flags) == hipSuccess &&
           !(flags & hipStreamNonBlocking);
}

/* The legacy stream cannot be captured. Querying it while another stream is captured would end that capture. */
static bool stream_captured(void *stream)
{
    hipStreamCaptureStatus status = hipStreamCaptureStatusNone;

    if (stream == FACET_FLIGHT_LEGACY || !facet_hip_unhooked.hipStreamIsCapturing)
        return false;
    return facet_hip_unhooked.hipStreamIsCapturing(stream, &status) != hipSuccess ||
           status != hipStreamCaptureStatusNone;
}

static enum facet_flight_state state_of(hipError_t result)
{
    if (result == hipSuccess)
        return FACET_FLIGHT_DONE;
    return result == hipErrorNotReady ? FACET_FLIGHT_RUNNING : FACET_FLIGHT_LOST;
}

static enum facet_flight_state stream_state(void *stream, void *context)
{
    hipError_t result =
        stream == FACET_FLIGHT_LEGACY ? facet_hip_unhooked.hipSetDevice(facet_hip_context_device(context)) : hipSuccess;

    return state_of(result == hipSuccess ? facet_hip_driver.hipStreamQuery(handle_of(stream)) : result);
}

/* The runtime creates an event on the thread's device, which may differ from the stream's. */
static void *event_new(void *context)
{
    int current, device = facet_hip_context_device(context);
    hipEvent_t event = NULL;

    bool must_switch = facet_hip_unhooked.hipGetDevice(&current) == hipSuccess && current != device;
    if (must_switch && facet_hip_unhooked.hipSetDevice(device) != hipSuccess)
        return NULL;
    if (facet_hip_driver.hipEventCreate(&event) != hipSuccess)
        event = NULL;
    if (must_switch)
        facet_hip_unhooked.hipSetDevice(current);
    return event;
}

static void event_free(void *event)
{
    facet_hip_driver.hipEventDestroy(event);
}

static bool event_record(void *event, void *stream)
{
    return facet_hip_driver.hipEventRecord(event, handle_of(stream)) == hipSuccess;
}

static enum facet_flight_state event_state(void *event)
{
    return state_of(facet_hip_driver.hipEventQuery(event));
}

static bool event_distance(void *from, void *to, int64_t *ret_ns)
{
    float milliseconds;

    if (facet_hip_driver.hipEventElapsedTime(&milliseconds, from, to) != hipSuccess)
        return false;
    *ret_ns = (int64_t)((double)milliseconds * (double)FACET_NS_PER_MS);
    return true;
}

/* Relaxed mode: queries by the helper thread must not end a capture in another thread. */
static void helper_begins(void)
{
    hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed;

    if (facet_hip_unhooked.hipThreadExchangeStreamCaptureMode)
        facet_hip_unhooked.hipThreadExchangeStreamCaptureMode(&mode);
}

const struct facet_flight_driver facet_flight_driver = {
    .tenants = list_tenants,
    .stream_context = stream_context,
    .stream_tenant = stream_tenant,
    .stream_device = stream_device,
    .stream_joins_legacy = stream_joins_legacy,
    .stream_captured = stream_captured,
    .stream_state = stream_state,
    .event_new = event_new,
    .event_free = event_free,
    .event_record = event_record,
    .event_state = event_state,
    .event_distance = event_distance,
    .helper_begins = helper_begins,
};
