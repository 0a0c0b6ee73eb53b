/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: access to past measurements. Never: measures. */
#include <inttypes.h>

#include "vgpu/driver.h"

static enum facet_status read_history(const struct facet_history *history, uint64_t after_ns,
                                      struct facet_sample *samples, uint32_t *count)
{
    *count = history && *count > 0 ? (uint32_t)facet_history_since(history, after_ns, samples, *count) : 0;
    return FACET_OK;
}

enum facet_status facet_vgpu_get_history(struct facet_driver *driver, uint32_t id, uint64_t after_ns,
                                         struct facet_sample *samples, uint32_t *count, struct facet_error *error)
{
    FACET_CLEANUP_VGPU struct facet_vgpu *vgpu = NULL;

    FACET_NEED(count, error);
    if (*count > 0)
        FACET_NEED(samples, error);
    enum facet_status status = facet_vgpu_take(driver, id, &vgpu, error);
    if (status != FACET_OK)
        return status;
    return read_history(atomic_load(&vgpu->history), after_ns, samples, count);
}

enum facet_status facet_driver_get_history(struct facet_driver *driver, uint32_t device, uint64_t after_ns,
                                           struct facet_sample *samples, uint32_t *count, struct facet_error *error)
{
    FACET_VGPU_NEED_DRIVER(driver, error);
    FACET_NEED(count, error);
    if (*count > 0)
        FACET_NEED(samples, error);
    if (device >= driver->devices)
        return facet_error_argument(error, FACET_NOT_FOUND, "device",
                                    "device %" PRIu32 ": the driver has %" PRIu32 " devices", device, driver->devices);
    return read_history(driver->device[device].history, after_ns, samples, count);
}
