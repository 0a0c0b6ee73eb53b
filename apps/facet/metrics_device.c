/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: a device's session, and turning a failure into a reason. Never: reads values that the provider does not offer.
 */
#include "metrics_device.h"

#include <facet/provider/metrics.h>

#include "base/clock.h"

enum facet_status metrics_device_open(const struct facet_device_record *record, struct metrics_device *ret_device,
                                      struct facet_error *error)
{
    struct facet_session *session;
    enum facet_status status = facet_session_open(record->provider->path, NULL, &session, error);

    if (status == FACET_OK)
        *ret_device = (struct metrics_device){.record = record, .session = session};
    return status;
}

void metrics_device_close(struct metrics_device *device)
{
    facet_session_close(device->session);
    *device = (struct metrics_device){0};
}

/* False for a provider that measures only its own process's work: this session runs nothing, and 0 would be wrong. */
static bool can_measure_others(const struct facet_device_record *record)
{
    return (record->info.capabilities & FACET_CAN_DEVICE_METRICS) &&
           !(record->provider->traits & FACET_PROVIDER_OWN_WORK);
}

static enum facet_status read_metrics(const struct metrics_device *device, struct facet_device_metrics *ret_metrics,
                                      struct facet_error *error)
{
    enum facet_status status = FACET_UNSUPPORTED;

    *ret_metrics = (struct facet_device_metrics){.size = sizeof *ret_metrics};
    if (can_measure_others(device->record))
        status = facet_session_provider(device->session)
                     ->metrics->device(facet_session_instance(device->session), device->record->info.index, ret_metrics,
                                       error);
    if (status != FACET_UNSUPPORTED)
        return status;
    *ret_metrics = (struct facet_device_metrics){.size = sizeof *ret_metrics}; /* no bit of `valid`: nothing measured */
    return FACET_OK;
}

static enum facet_unmeasured reason_of(enum facet_status status)
{
    return status == FACET_DEVICE_LOST  ? FACET_UNMEASURED_GONE
           : status == FACET_PERMISSION ? FACET_UNMEASURED_PERMISSION
           : status == FACET_CORRUPT    ? FACET_UNMEASURED_MALFORMED
                                        : FACET_UNMEASURED_IO;
}

enum facet_status metrics_device_look(const struct metrics_device *device, bool first,
                                      struct facet_measurement *measurements, uint32_t *count,
                                      struct facet_error *error)
{
    const struct facet_device_info *info = &device->record->info;
    struct facet_error ours = {0};
    struct facet_device_metrics metrics;
    enum facet_status failed = read_metrics(device, &metrics, &ours);
    uint64_t now_ns = facet_clock_now_ns(); /* after the call: a provider may take its time to answer */

    if (failed != FACET_OK && first) {
        *error = ours;
        return failed;
    }
    enum facet_status status = facet_gather_device(failed == FACET_OK ? &metrics : NULL,
                                                   info->valid & FACET_DEVICE_HAS_MEMORY ? info->memory_bytes : 0,
                                                   now_ns, measurements, count, error);

    for (uint32_t i = 0; status == FACET_OK && failed != FACET_OK && i < *count; i++)
        measurements[i].reason = reason_of(failed);
    return status;
}
