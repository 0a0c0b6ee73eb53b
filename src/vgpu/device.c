/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: finding a driver's devices, opening a session and a memory on each, and reading their capabilities.
 * Never: opens a device that cannot hold vGPUs; the error names the reason.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/table.h"
#include "vgpu/driver.h"

#define NEEDED_CAPABILITIES (FACET_CAN_MEMORY | FACET_CAN_EXECUTE)
#define MEMORY_CAPABILITIES (FACET_CAN_MAP_MEMORY | FACET_CAN_SHARE_PAGES)

static uint64_t needed_capabilities(const struct facet_driver *driver)
{
    return driver->config.off & FACET_OFF_MEMORY ? NEEDED_CAPABILITIES : NEEDED_CAPABILITIES | MEMORY_CAPABILITIES;
}

static bool can_hold_vgpus(const struct facet_driver *driver, const struct facet_device_record *record)
{
    uint64_t needed = needed_capabilities(driver);

    return (record->info.capabilities & needed) == needed && record->health != FACET_HEALTH_FAILED;
}

static const struct facet_device_record *first_suitable(const struct facet_driver *driver,
                                                        const struct facet_device_table *table)
{
    for (uint32_t i = 0; i < facet_device_table_count(table); i++) {
        const struct facet_device_record *record = facet_device_table_at(table, i);

        if (can_hold_vgpus(driver, record))
            return record;
    }
    return NULL;
}

static enum facet_status find_record(const struct facet_driver *driver, const struct facet_device_table *table,
                                     const char *name, const struct facet_device_record **ret_record,
                                     struct facet_error *error)
{
    const struct facet_device_record *record = NULL;

    if (!name) {
        char why[256];

        record = first_suitable(driver, table);
        facet_device_table_explain(table, why, sizeof why);
        if (!record)
            return facet_error_argument(error, FACET_NOT_FOUND, "devices",
                                        "none of the %" PRIu32
                                        " devices here can map and share memory and run kernels%s",
                                        facet_device_table_count(table), why[0] ? why : "; the provider `cpu` can");
    } else {
        enum facet_status status = facet_device_table_find(table, name, &record, error);

        /* The device table's error names its argument, `device`; the caller's argument is the list `devices`. */
        if (status != FACET_OK && error && strcmp(error->argument, "device") == 0)
            snprintf(error->argument, sizeof error->argument, "devices");
        if (status != FACET_OK)
            return status;
        if (!can_hold_vgpus(driver, record))
            return facet_error_argument(error, FACET_UNSUPPORTED, "devices",
                                        "device %s: expected one that is not failed, maps and shares memory and runs "
                                        "kernels (capabilities 0x%" PRIx64 ")",
                                        record->id, record->info.capabilities);
    }
    *ret_record = record;
    return FACET_OK;
}

/* Reads the property "kernel_target=..."; `target` stays "" when the device lacks it. */
static void read_target(struct facet_vgpu_device *device)
{
    static const char key[] = "kernel_target=";
    char text[16384];
    uint32_t size = 0;

    if (device->provider->device->properties(device->instance, device->number, text, sizeof text, &size, NULL) !=
        FACET_OK)
        return;
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));)
        if (strncmp(line, key, sizeof key - 1) == 0)
            snprintf(device->target, sizeof device->target, "%s", line + sizeof key - 1);
}

static enum facet_status open_session(struct facet_vgpu_device *device, const char *path, struct facet_error *error)
{
    const struct facet_session_options options = {.size = sizeof options, .place = device->driver->config.place};
    enum facet_status status = facet_session_open(path, &options, &device->session, error);

    if (status != FACET_OK)
        return status;
    device->provider = facet_session_provider(device->session);
    device->instance = facet_session_instance(device->session);
    return FACET_OK;
}

/* Pages are charged to a context of the driver's own. */
static enum facet_status open_memory(struct facet_vgpu_device *device, struct facet_error *error)
{
    const struct facet_driver *driver = device->driver;
    const struct facet_memory_config defaults = {.size = sizeof defaults};
    const struct facet_memory_ops *ops = device->provider->memory;
    struct facet_memory_info info = {.size = sizeof info};
    enum facet_status status =
        ops->create_context(device->instance, device->number, NULL, "facet-driver", &device->owner, error);

    if (status == FACET_OK)
        status = ops->info(device->instance, device->owner, &info, error);
    if (status != FACET_OK)
        return status;
    device->memory_bytes = info.total_bytes;
    if (driver->config.off & FACET_OFF_MEMORY)
        return FACET_OK;
    status =
        facet_memory_open_device(device->session, device->number, device->owner,
                                 driver->config.memory ? driver->config.memory : &defaults, &device->memory, error);
    if (status != FACET_OK)
        return status;
    struct facet_memory_usage usage = {.size = sizeof usage};

    status = facet_memory_get_usage(device->memory, &usage, error);
    if (status != FACET_OK)
        return status;
    device->memory_bytes = usage.total_bytes;
    device->swap_bytes = driver->config.memory ? driver->config.memory->swap_bytes : 0;
    return FACET_OK;
}

static enum facet_status set_policy(struct facet_vgpu_device *device, struct facet_error *error)
{
    const struct facet_driver_config *config = &device->driver->config;
    bool preempt = !(config->off & FACET_OFF_PREEMPTION);

    if (config->policy == FACET_SCHEDULE_FAIR && preempt && config->slice_ns == 0)
        return FACET_OK; /* the default: not sent, because a device may lack the operation */
    return device->provider->execution->set_policy(device->instance, device->number, config->policy, preempt,
                                                   config->slice_ns, error);
}

static enum facet_status open_device(struct facet_vgpu_device *device, const struct facet_device_record *record,
                                     struct facet_error *error)
{
    const char *colon = strrchr(record->id, ':');

    snprintf(device->id, sizeof device->id, "%s", record->id);
    device->info = record->info;
    device->number = colon ? (uint32_t)strtoul(colon + 1, NULL, 10) : 0;
    enum facet_status status = open_session(device, record->provider->path, error);
    if (status == FACET_OK)
        status = open_memory(device, error);
    if (status == FACET_OK)
        status = set_policy(device, error);
    if (status == FACET_OK)
        status = facet_history_create(device->driver->config.history, &device->history, error);
    if (status == FACET_OK)
        read_target(device);
    else
        facet_error_prefix(error, "device %s", record->id);
    return status;
}

enum facet_status facet_vgpu_devices_open(struct facet_driver *driver, struct facet_error *error)
{
    struct facet_device_table *table = NULL;
    const struct facet_device_record *record = NULL;
    enum facet_status status = facet_device_table_open(driver->config.providers, &table, error);

    if (status != FACET_OK)
        return status;
    for (uint32_t i = 0; i < driver->devices && status == FACET_OK; i++) {
        struct facet_vgpu_device *device = &driver->device[i];

        device->driver = driver;
        device->index = i;
        status = find_record(driver, table, driver->device_names ? driver->device_names[i] : NULL, &record, error);
        if (status == FACET_OK)
            status = open_device(device, record, error);
    }
    facet_device_table_close(table);
    return status;
}

void facet_vgpu_devices_close(struct facet_driver *driver)
{
    for (uint32_t i = 0; i < driver->devices; i++) {
        struct facet_vgpu_device *device = &driver->device[i];

        facet_history_destroy(device->history);
        facet_memory_close(device->memory);
        if (device->owner)
            (void)device->provider->memory->destroy_context(device->instance, device->owner, NULL);
        facet_session_close(device->session);
    }
}

enum facet_status facet_vgpu_device_check(struct facet_vgpu_device *device, struct facet_error *error)
{
    if (!atomic_load_explicit(&device->lost, memory_order_relaxed))
        return FACET_OK;
    return facet_error_set(error, FACET_DEVICE_LOST, "device %s of this driver is lost; its vGPUs can be destroyed",
                           device->id);
}
