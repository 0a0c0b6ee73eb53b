/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: health, and two kinds of events: the driver's own (XIDs), and differences between two readings of a GPU.
 * Never: waits for the driver. A state that changes and changes back between two readings is missed; an XID is not.
 */
#include "cuda.h"

/* The health of a GPU by its remapped rows of memory. */
static uint32_t health_of_rows(const struct cuda_nvml *nvml, nvmlDevice_t handle)
{
    unsigned corrected, uncorrected, pending, failed;

    if (CUDA_NVML(nvml, nvmlDeviceGetRemappedRows, handle, &corrected, &uncorrected, &pending, &failed) != NVML_SUCCESS)
        return FACET_HEALTH_UNKNOWN;
    if (failed)
        return FACET_HEALTH_FAILED;
    return pending ? FACET_HEALTH_DEGRADED : FACET_HEALTH_OK;
}

bool cuda_gpu_read_state(const struct cuda_nvml *nvml, const struct cuda_gpu *gpu, struct cuda_reading *ret_reading)
{
    struct cuda_reading reading = {.present = true};
    unsigned long long errors = 0;
    nvmlReturn_t result = CUDA_NVML(nvml, nvmlDeviceGetTotalEccErrors, gpu->handle, NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                                    NVML_VOLATILE_ECC, &errors);
    enum facet_status status = cuda_nvml_status(result);

    if (status != FACET_OK && status != FACET_UNSUPPORTED && status != FACET_DEVICE_LOST)
        return false;
    reading.present = status != FACET_DEVICE_LOST;
    reading.has_ecc = status == FACET_OK;
    reading.ecc_uncorrected = reading.has_ecc ? errors : 0;
    if (reading.present) {
        cuda_throttle_read(nvml, gpu->handle, &reading.throttle);
        reading.health = health_of_rows(nvml, gpu->handle);
        if (reading.has_ecc && reading.health == FACET_HEALTH_UNKNOWN)
            reading.health = FACET_HEALTH_OK;
        if (errors && reading.health == FACET_HEALTH_OK)
            reading.health = FACET_HEALTH_DEGRADED;
    }
    *ret_reading = reading;
    return true;
}

enum facet_status cuda_device_health(struct facet_provider_instance *instance, uint32_t device, uint32_t *ret_health,
                                     struct facet_error *error)
{
    enum facet_status status = facet_kit_check_device(device, instance->gpu.count, error);
    struct cuda_reading reading;

    if (status != FACET_OK)
        return status;
    if (!ret_health)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "ret_health: expected an address, not NULL");
    if (!cuda_gpu_read_state(&instance->nvml, &instance->gpus[device], &reading))
        return facet_kit_fail(error, FACET_IO, "device %" PRIu32 ": the driver does not answer", device);
    if (!reading.present)
        return facet_kit_fail(error, FACET_DEVICE_LOST, "device %" PRIu32 ": the driver has lost it", device);
    *ret_health = reading.health;
    return FACET_OK;
}

/* Called with the lock. */
static struct facet_event *add_event(struct facet_provider_instance *instance, uint32_t device, uint32_t kind,
                                     uint64_t value, const char *message)
{
    return facet_kit_event_add(&instance->events, device, instance->gpu.infos[device].uuid, kind, value, message);
}

void cuda_event_of_partition(struct facet_provider_instance *instance, uint32_t device, const char *uuid, bool created)
{
    pthread_mutex_lock(&instance->lock);
    struct facet_event *event = add_event(instance, device, FACET_EVENT_PARTITION, created,
                                          created ? "a partition was created" : "a partition was destroyed");
    FACET_KIT_TEXT(event->uuid, uuid);
    pthread_mutex_unlock(&instance->lock);
}

void cuda_events_begin(struct facet_provider_instance *instance)
{
    const struct cuda_nvml *nvml = &instance->nvml;

    if (CUDA_NVML(nvml, nvmlEventSetCreate, &instance->event_set) != NVML_SUCCESS) {
        instance->event_set = NULL;
        return;
    }
    /* A GPU whose XIDs cannot be registered reports none. */
    for (uint32_t i = 0; i < instance->gpu.count; i++)
        CUDA_NVML(nvml, nvmlDeviceRegisterEvents, instance->gpus[i].handle, nvmlEventTypeXidCriticalError,
                  instance->event_set);
}

void cuda_events_end(struct facet_provider_instance *instance)
{
    if (instance->event_set)
        CUDA_NVML(&instance->nvml, nvmlEventSetFree, instance->event_set);
}

static bool find_device(const struct facet_provider_instance *instance, nvmlDevice_t handle, uint32_t *ret_device)
{
    for (uint32_t i = 0; i < instance->gpu.count; i++)
        if (instance->gpus[i].handle == handle) {
            *ret_device = i;
            return true;
        }
    return false;
}

/* Takes at most as many XIDs as are kept, so that a GPU that reports them endlessly does not block the caller. */
static void take_xids(struct facet_provider_instance *instance)
{
    nvmlEventData_t data;
    uint32_t device;
    char message[64];

    for (uint32_t i = 0; i < FACET_KIT_EVENTS && instance->event_set; i++) {
        if (CUDA_NVML(&instance->nvml, nvmlEventSetWait_v2, instance->event_set, &data, 0) != NVML_SUCCESS)
            return;
        if (data.eventType != nvmlEventTypeXidCriticalError || !find_device(instance, data.device, &device))
            continue;
        snprintf(message, sizeof message, "the driver reports XID %llu", data.eventData);
        add_event(instance, device, FACET_EVENT_VENDOR_ERROR, data.eventData, message);
    }
}

static void report_changes(struct facet_provider_instance *instance, uint32_t device, const struct cuda_reading *now)
{
    const struct cuda_reading *before = &instance->gpus[device].last_reading;

    if (now->present != before->present)
        add_event(instance, device, FACET_EVENT_HOTPLUG, now->present,
                  now->present ? "the driver sees the GPU again" : "the driver has lost the GPU");
    if (now->present && now->health != before->health)
        add_event(instance, device, FACET_EVENT_HEALTH, now->health, "errors of the GPU's memory");
    if (now->present && now->throttle != before->throttle)
        add_event(instance, device, FACET_EVENT_THROTTLE, now->throttle,
                  now->throttle ? "the GPU is slowed down" : "the GPU is not slowed down any more");
    if (now->has_ecc && before->has_ecc && now->ecc_uncorrected > before->ecc_uncorrected)
        add_event(instance, device, FACET_EVENT_ECC, now->ecc_uncorrected, "uncorrected memory errors");
}

static void read_all_gpus(struct facet_provider_instance *instance)
{
    for (uint32_t device = 0; device < instance->gpu.count; device++) {
        struct cuda_gpu *gpu = &instance->gpus[device];
        struct cuda_reading now;

        if (!(instance->gpu.infos[device].capabilities & FACET_CAN_EVENTS) ||
            !cuda_gpu_read_state(&instance->nvml, gpu, &now))
            continue;
        report_changes(instance, device, &now);
        if (!now.has_ecc) { /* a failed reading keeps the count of the one before */
            now.has_ecc = gpu->last_reading.has_ecc;
            now.ecc_uncorrected = gpu->last_reading.ecc_uncorrected;
        }
        gpu->last_reading = now;
    }
}

enum facet_status cuda_device_events(struct facet_provider_instance *instance, uint64_t after, void *items,
                                     uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                     struct facet_error *error)
{
    enum facet_status status = gpu_devices_check(&instance->gpu, FACET_CAN_EVENTS, error);

    if (status != FACET_OK)
        return status;
    pthread_mutex_lock(&instance->lock);
    take_xids(instance);
    read_all_gpus(instance);
    status = facet_kit_events_give(&instance->events, after, items, item_size, capacity, ret_count, error);
    pthread_mutex_unlock(&instance->lock);
    return status;
}
