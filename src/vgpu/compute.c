/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: a vGPU's share, priority, bounds and precision, and the policy of a device. Never: decides which vGPU is next.
 */
#include <inttypes.h>

#include "vgpu/driver.h"

static bool has_share_setting(const struct facet_vgpu *vgpu)
{
    return vgpu->request_milli > 0 || vgpu->limit_milli != FACET_MILLI_WHOLE || vgpu->priority != FACET_PRIORITY_NORMAL;
}

/* Default values are not sent unless others were sent before: a device may lack these operations. */
enum facet_status facet_vgpu_apply(struct facet_vgpu *vgpu, struct facet_error *error)
{
    const struct facet_vgpu_device *device = vgpu->device;
    const struct facet_execution_ops *ops = device->provider->execution;
    enum facet_status status = FACET_OK;

    if (has_share_setting(vgpu) || vgpu->has_share)
        status = ops->set_share(device->instance, vgpu->context, vgpu->request_milli, vgpu->limit_milli, vgpu->priority,
                                error);
    if (status == FACET_OK)
        vgpu->has_share = vgpu->has_share || has_share_setting(vgpu);
    if (status == FACET_OK && (vgpu->units || vgpu->launches || vgpu->has_bounds))
        status = ops->set_bounds(device->instance, vgpu->context, vgpu->units, vgpu->launches, error);
    if (status == FACET_OK)
        vgpu->has_bounds = vgpu->has_bounds || vgpu->units || vgpu->launches;
    return status;
}

/* The changes of one call; a member that is UNCHANGED keeps its value. */
struct change {
    int64_t request_milli, limit_milli, priority, units, launches;
};

#define UNCHANGED (-1)

static uint32_t changed_value(int64_t to, uint32_t from)
{
    return to == UNCHANGED ? from : (uint32_t)to;
}

/* Applies the change; when the device refuses it, every setting stays as it was. */
static enum facet_status apply_change(struct facet_vgpu *vgpu, const struct change *change, struct facet_error *error)
{
    uint32_t request = vgpu->request_milli, limit = vgpu->limit_milli, priority = vgpu->priority, units = vgpu->units,
             launches = vgpu->launches;

    vgpu->request_milli = changed_value(change->request_milli, request);
    vgpu->limit_milli = changed_value(change->limit_milli, limit);
    vgpu->priority = changed_value(change->priority, priority);
    vgpu->units = changed_value(change->units, units);
    vgpu->launches = changed_value(change->launches, launches);
    enum facet_status status = facet_vgpu_apply(vgpu, error);
    if (status == FACET_OK) {
        pthread_rwlock_wrlock(&vgpu->driver->list_lock);
        vgpu->device->promised_milli += vgpu->request_milli - request;
        pthread_rwlock_unlock(&vgpu->driver->list_lock);
        vgpu->scaled_milli = vgpu->scaled_units = 0; /* scaling starts anew from these settings */
        return FACET_OK;
    }
    vgpu->request_milli = request;
    vgpu->limit_milli = limit;
    vgpu->priority = priority;
    vgpu->units = units;
    vgpu->launches = launches;
    return status;
}

static enum facet_status set_compute(struct facet_driver *driver, uint32_t id, const struct change *change,
                                     struct facet_error *error)
{
    FACET_CLEANUP_VGPU struct facet_vgpu *vgpu = NULL;
    enum facet_status status = facet_vgpu_take(driver, id, &vgpu, error);

    if (status != FACET_OK)
        return status;
    status = facet_vgpu_device_check(vgpu->device, error);
    if (status == FACET_OK && facet_vgpu_is_off(vgpu, FACET_OFF_COMPUTE))
        status = facet_error_set(error, FACET_UNSUPPORTED,
                                 "shares, priorities and bounds need compute virtualization, which is off");
    if (status == FACET_OK) {
        pthread_mutex_lock(&vgpu->lock);
        status = apply_change(vgpu, change, error);
        pthread_mutex_unlock(&vgpu->lock);
    }
    return facet_vgpu_note_status(vgpu, status);
}

enum facet_status facet_vgpu_set_share(struct facet_driver *driver, uint32_t id, uint32_t request_milli,
                                       uint32_t limit_milli, struct facet_error *error)
{
    if (limit_milli == 0 || limit_milli > FACET_MILLI_WHOLE || request_milli > limit_milli)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "limit_milli",
                                    "request_milli %" PRIu32 ", limit_milli %" PRIu32
                                    ": expected a limit of 1 to %u, and a request of at most that",
                                    request_milli, limit_milli, FACET_MILLI_WHOLE);
    return set_compute(driver, id, &(struct change){request_milli, limit_milli, UNCHANGED, UNCHANGED, UNCHANGED},
                       error);
}

enum facet_status facet_vgpu_check_priority(uint32_t priority, struct facet_error *error)
{
    if (priority <= FACET_PRIORITY_HIGH)
        return FACET_OK;
    return facet_error_argument(error, FACET_OUT_OF_RANGE, "priority",
                                "priority %" PRIu32 ": expected an enum facet_priority", priority);
}

enum facet_status facet_vgpu_set_priority(struct facet_driver *driver, uint32_t id, uint32_t priority,
                                          struct facet_error *error)
{
    enum facet_status status = facet_vgpu_check_priority(priority, error);

    if (status != FACET_OK)
        return status;
    return set_compute(driver, id, &(struct change){UNCHANGED, UNCHANGED, priority, UNCHANGED, UNCHANGED}, error);
}

enum facet_status facet_vgpu_set_bounds(struct facet_driver *driver, uint32_t id, uint32_t units, uint32_t launches,
                                        struct facet_error *error)
{
    return set_compute(driver, id, &(struct change){UNCHANGED, UNCHANGED, UNCHANGED, units, launches}, error);
}

enum facet_status facet_driver_set_policy(struct facet_driver *driver, uint32_t index, uint32_t policy, bool preempt,
                                          uint64_t slice_ns, struct facet_error *error)
{
    FACET_VGPU_NEED_DRIVER(driver, error);
    if (index >= driver->devices)
        return facet_error_argument(error, FACET_NOT_FOUND, "device",
                                    "device %" PRIu32 ": the driver has %" PRIu32 " devices", index, driver->devices);
    if (policy > FACET_SCHEDULE_FIFO)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "policy",
                                    "policy %" PRIu32 ": expected an enum facet_scheduling", policy);
    struct facet_vgpu_device *device = &driver->device[index];
    enum facet_status status = facet_vgpu_device_check(device, error);

    if (status == FACET_OK)
        status =
            device->provider->execution->set_policy(device->instance, device->number, policy, preempt, slice_ns, error);
    if (status == FACET_DEVICE_LOST)
        atomic_store(&device->lost, true);
    return status;
}

/* ---- precision ---- */

static void set_bit(atomic_uint *bits, uint32_t bit, bool on)
{
    if (on)
        atomic_fetch_or(bits, bit);
    else
        atomic_fetch_and(bits, ~bit);
}

static enum facet_status refuse_switched_off(const char *what, struct facet_error *error)
{
    return facet_error_set(error, FACET_UNSUPPORTED, "%s switched off for this driver", what);
}

enum facet_status facet_vgpu_set_tensor_cores(struct facet_driver *driver, uint32_t id, bool on,
                                              struct facet_error *error)
{
    FACET_CLEANUP_VGPU struct facet_vgpu *vgpu = NULL;
    enum facet_status status = facet_vgpu_take(driver, id, &vgpu, error);

    if (status == FACET_OK)
        status = facet_vgpu_device_check(vgpu->device, error);
    if (status != FACET_OK)
        return status;
    if (on && facet_vgpu_is_off(vgpu, FACET_OFF_TENSOR_CORES))
        return refuse_switched_off("tensor cores are", error);
    set_bit(&vgpu->features_off, FACET_OFF_TENSOR_CORES, !on);
    return FACET_OK;
}

enum facet_status facet_vgpu_set_mixed_precision(struct facet_driver *driver, uint32_t id, bool on,
                                                 struct facet_error *error)
{
    FACET_CLEANUP_VGPU struct facet_vgpu *vgpu = NULL;
    enum facet_status status = facet_vgpu_take(driver, id, &vgpu, error);

    if (status == FACET_OK)
        status = facet_vgpu_device_check(vgpu->device, error);
    if (status != FACET_OK)
        return status;
    if (on && facet_vgpu_is_off(vgpu, FACET_OFF_MIXED_PRECISION))
        return refuse_switched_off("mixed precision is", error);
    set_bit(&vgpu->features_on, FACET_ON_MIXED_PRECISION, on);
    return FACET_OK;
}
