/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: CUDA's implementation of the calls that the kit's launch tracking needs. Never: calls a hooked function. */
#include "interpose/kit/execution/driver.h"

#include "base/clock.h"
#include "interpose/cuda/hooks.h"
#include "interpose/cuda/process.h"

_Static_assert(FACET_CUDA_TENANTS <= FACET_FLIGHT_DEVICES, "each vGPU has an entry");

static uint32_t list_tenants(struct facet_tenant **ret_tenants)
{
    *ret_tenants = facet_cuda_process.tenants;
    return facet_cuda_process.count;
}

static bool is_default(void *stream)
{
    return stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

static bool stream_context(void *stream, void **ret_context)
{
    CUcontext context = NULL;
    CUresult result = is_default(stream) ? facet_cuda_unhooked.cuCtxGetCurrent(&context)
                                         : facet_cuda_unhooked.cuStreamGetCtx(stream, &context);

    *ret_context = context;
    return result == CUDA_SUCCESS && context;
}

static uint32_t stream_device(void *stream)
{
    return facet_cuda_stream_device(stream);
}

static struct facet_tenant *stream_tenant(void *stream, uint32_t *ret_device)
{
    *ret_device = facet_cuda_stream_device(stream);
    return facet_cuda_tenant(*ret_device);
}

static bool stream_joins_legacy(void *stream)
{
    unsigned flags = CU_STREAM_NON_BLOCKING;

    return facet_cuda_unhooked.cuStreamGetFlags &&
           facet_cuda_unhooked.cuStreamGetFlags(stream, &flags) == CUDA_SUCCESS && !(flags & CU_STREAM_NON_BLOCKING);
}

/* The legacy stream cannot be captured. Querying it while another stream is captured would end that capture. */
static bool stream_captured(void *stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result =
        stream == CU_STREAM_LEGACY ? CUDA_SUCCESS : facet_cuda_unhooked.cuStreamIsCapturing(stream, &status);

    return result != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static enum facet_flight_state state_of(CUresult result)
{
    if (result == CUDA_SUCCESS)
        return FACET_FLIGHT_DONE;
    return result == CUDA_ERROR_NOT_READY ? FACET_FLIGHT_RUNNING : FACET_FLIGHT_LOST;
}

static enum facet_flight_state stream_state(void *stream, void *context)
{
    CUresult result = stream == CU_STREAM_LEGACY ? facet_cuda_unhooked.cuCtxSetCurrent(context) : CUDA_SUCCESS;

    return state_of(result == CUDA_SUCCESS ? facet_cuda_driver.cuStreamQuery(stream) : result);
}

/* The driver creates an event in the current context, which may differ from the stream's. */
static void *event_new(void *context)
{
    CUcontext current = NULL, popped;
    CUevent event = NULL;

    bool must_switch = facet_cuda_unhooked.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current != context;
    if (must_switch && facet_cuda_unhooked.cuCtxPushCurrent_v2(context) != CUDA_SUCCESS)
        return NULL;
    if (facet_cuda_unhooked.cuEventCreate(&event, CU_EVENT_DEFAULT) != CUDA_SUCCESS)
        event = NULL;
    if (must_switch)
        facet_cuda_unhooked.cuCtxPopCurrent_v2(&popped);
    return event;
}

static void event_free(void *event)
{
    facet_cuda_driver.cuEventDestroy_v2(event);
}

static bool event_record(void *event, void *stream)
{
    return facet_cuda_driver.cuEventRecord(event, stream) == CUDA_SUCCESS;
}

static enum facet_flight_state event_state(void *event)
{
    return state_of(facet_cuda_driver.cuEventQuery(event));
}

static bool event_distance(void *from, void *to, int64_t *ret_ns)
{
    float milliseconds;

    if (facet_cuda_driver.cuEventElapsedTime(&milliseconds, from, to) != CUDA_SUCCESS)
        return false;
    *ret_ns = (int64_t)((double)milliseconds * (double)FACET_NS_PER_MS);
    return true;
}

/* Relaxed mode: queries by the helper thread must not end a capture in another thread. */
static void helper_begins(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

    facet_cuda_unhooked.cuThreadExchangeStreamCaptureMode(&mode);
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
