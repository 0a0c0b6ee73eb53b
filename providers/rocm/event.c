/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: health, and two kinds of events: the driver's notifications, and differences between two readings of a GPU.
 * Never: waits for the driver. A state that changes and changes back between two readings is missed; a notification is
 * not.
 */
#include "rocm.h"
#include "sysfs.h"

static const struct {
    uint32_t number;
    const char *text;
} notifications[] = {
    {AMDSMI_EVT_NOTIF_VMFAULT, "a page fault in the GPU's memory"},
    {AMDSMI_EVT_NOTIF_THERMAL_THROTTLE, "the GPU is slowed down by its temperature"},
    {AMDSMI_EVT_NOTIF_GPU_PRE_RESET, "the GPU is about to be reset"},
    {AMDSMI_EVT_NOTIF_GPU_POST_RESET, "the GPU was reset"},
};

#define NOTIFICATIONS (sizeof notifications / sizeof *notifications)

bool rocm_gpu_read_state(const struct rocm_smi *smi, const struct rocm_gpu *gpu, struct rocm_reading *ret_reading)
{
    struct rocm_reading reading = {.present = true};
    amdsmi_error_count_t count = {0};
    uint64_t corrected = 0;
    amdsmi_status_t result =
        gpu->handle ? ROCM_SMI(smi, amdsmi_get_gpu_total_ecc_count, gpu->handle, &count) : AMDSMI_STATUS_NOT_SUPPORTED;
    enum facet_status status = rocm_smi_status(result);

    if (status != FACET_OK && status != FACET_UNSUPPORTED && status != FACET_DEVICE_LOST)
        return false;
    reading.present = status != FACET_DEVICE_LOST;
    reading.has_ecc = status == FACET_OK;
    reading.ecc_uncorrected = count.uncorrectable_count;
    if (status == FACET_UNSUPPORTED)
        reading.has_ecc = rocm_gpu_errors(gpu->pci, &reading.ecc_uncorrected, &corrected);
    if (reading.has_ecc)
        reading.health = reading.ecc_uncorrected ? FACET_HEALTH_DEGRADED : FACET_HEALTH_OK;
    *ret_reading = reading;
    return true;
}

enum facet_status rocm_device_health(struct facet_provider_instance *instance, uint32_t device, uint32_t *ret_health,
                                     struct facet_error *error)
{
    enum facet_status status = facet_kit_check_device(device, instance->gpu.count, error);
    struct rocm_reading reading;

    if (status != FACET_OK)
        return status;
    if (!ret_health)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "ret_health: expected an address, not NULL");
    if (!rocm_gpu_read_state(&instance->smi, &instance->gpus[device], &reading))
        return facet_kit_fail(error, FACET_IO, "device %" PRIu32 ": AMD SMI does not answer", device);
    if (!reading.present)
        return facet_kit_fail(error, FACET_DEVICE_LOST, "device %" PRIu32 ": AMD SMI has lost it", device);
    *ret_health = reading.health;
    return FACET_OK;
}

/* Called with the lock. */
static struct facet_event *add_event(struct facet_provider_instance *instance, uint32_t device, uint32_t kind,
                                     uint64_t value, const char *message)
{
    return facet_kit_event_add(&instance->events, device, instance->gpu.infos[device].uuid, kind, value, message);
}

void rocm_event_of_partition(struct facet_provider_instance *instance, uint32_t device, const char *uuid, bool created)
{
    pthread_mutex_lock(&instance->lock);
    struct facet_event *event = add_event(instance, device, FACET_EVENT_PARTITION, created,
                                          created ? "a partition was created" : "a partition was destroyed");
    FACET_KIT_TEXT(event->uuid, uuid);
    pthread_mutex_unlock(&instance->lock);
}

/* --- notifications --- */

void rocm_events_begin(struct facet_provider_instance *instance)
{
    const struct rocm_smi *smi = &instance->smi;
    uint64_t mask = 0;

    for (size_t i = 0; i < NOTIFICATIONS; i++)
        mask |= AMDSMI_EVENT_MASK_FROM_INDEX(notifications[i].number);
    /* A GPU without notifications reports none. */
    for (uint32_t i = 0; i < instance->gpu.count; i++)
        if (instance->gpus[i].handle &&
            ROCM_SMI(smi, amdsmi_init_gpu_event_notification, instance->gpus[i].handle) == AMDSMI_STATUS_SUCCESS)
            ROCM_SMI(smi, amdsmi_set_gpu_event_notification_mask, instance->gpus[i].handle, mask);
}

void rocm_events_end(struct facet_provider_instance *instance)
{
    for (uint32_t i = 0; i < instance->gpu.count; i++)
        if (instance->gpus[i].handle)
            ROCM_SMI(&instance->smi, amdsmi_stop_gpu_event_notification, instance->gpus[i].handle);
}

static bool find_device(const struct facet_provider_instance *instance, amdsmi_processor_handle handle,
                        uint32_t *ret_device)
{
    for (uint32_t i = 0; i < instance->gpu.count; i++)
        if (instance->gpus[i].handle == handle) {
            *ret_device = i;
            return true;
        }
    return false;
}

static void add_notification(struct facet_provider_instance *instance, const amdsmi_evt_notification_data_t *data)
{
    uint32_t device;

    if (!find_device(instance, data->processor_handle, &device))
        return;
    for (size_t i = 0; i < NOTIFICATIONS; i++) {
        if (notifications[i].number != data->event)
            continue;
        if (data->event == AMDSMI_EVT_NOTIF_THERMAL_THROTTLE)
            add_event(instance, device, FACET_EVENT_THROTTLE, FACET_THROTTLE_THERMAL, notifications[i].text);
        else
            add_event(instance, device, FACET_EVENT_VENDOR_ERROR, data->event, notifications[i].text);
    }
}

/* Takes at most as many notifications as are kept, so that a GPU that never stops sending does not block the caller. */
static void take_notifications(struct facet_provider_instance *instance)
{
    for (uint32_t i = 0; i < FACET_KIT_EVENTS; i++) {
        amdsmi_evt_notification_data_t data = {0};
        uint32_t count = 1;

        if (ROCM_SMI(&instance->smi, amdsmi_get_gpu_event_notification, 0, &count, &data) != AMDSMI_STATUS_SUCCESS ||
            count == 0)
            return;
        add_notification(instance, &data);
    }
}

/* --- differences --- */

static void report_changes(struct facet_provider_instance *instance, uint32_t device, const struct rocm_reading *now)
{
    const struct rocm_reading *before = &instance->gpus[device].last_reading;

    if (now->present != before->present)
        add_event(instance, device, FACET_EVENT_HOTPLUG, now->present,
                  now->present ? "AMD SMI sees the GPU again" : "AMD SMI has lost the GPU");
    if (now->present && now->health != before->health)
        add_event(instance, device, FACET_EVENT_HEALTH, now->health, "errors of the GPU's memory");
    if (now->has_ecc && before->has_ecc && now->ecc_uncorrected > before->ecc_uncorrected)
        add_event(instance, device, FACET_EVENT_ECC, now->ecc_uncorrected, "uncorrected memory errors");
}

static void read_all_gpus(struct facet_provider_instance *instance)
{
    for (uint32_t device = 0; device < instance->gpu.count; device++) {
        struct rocm_gpu *gpu = &instance->gpus[device];
        struct rocm_reading now;

        if (!(instance->gpu.infos[device].capabilities & FACET_CAN_EVENTS) ||
            !rocm_gpu_read_state(&instance->smi, gpu, &now))
            continue;
        report_changes(instance, device, &now);
        if (!now.has_ecc) { /* a failed reading keeps the count of the one before */
            now.has_ecc = gpu->last_reading.has_ecc;
            now.ecc_uncorrected = gpu->last_reading.ecc_uncorrected;
        }
        gpu->last_reading = now;
    }
}

enum facet_status rocm_device_events(struct facet_provider_instance *instance, uint64_t after, void *items,
                                     uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                     struct facet_error *error)
{
    enum facet_status status = gpu_devices_check(&instance->gpu, FACET_CAN_EVENTS, error);

    if (status != FACET_OK)
        return status;
    pthread_mutex_lock(&instance->lock);
    take_notifications(instance);
    read_all_gpus(instance);
    status = facet_kit_events_give(&instance->events, after, items, item_size, capacity, ret_count, error);
    pthread_mutex_unlock(&instance->lock);
    return status;
}
