/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: devices as TensorFusion's ABI describes them, and the list of the driver's files that workers need mounted.
 * Never: lists partitions as devices: a scheduler would hand them out as whole devices.
 *
 * The ABI cannot distinguish a value that was not measured from zero. Properties hold the facts for which it has no
 * field; a simulated device has the property "simulated".
 */
#include <stdlib.h>
#include <string.h>

#include "facade.h"

#define PROPERTIES_SIZE 65536u

/* ---- properties ---- */

static bool has_property(const DeviceProperties *props, const char *key)
{
    for (size_t i = 0; i < props->count; i++) {
        if (strcmp(props->properties[i].key, key) == 0)
            return true;
    }
    return false;
}

/* Does nothing if the key is there: a provider may itself report a property that the facade has added. */
static void add_property(struct facade_call *call, ExtendedDeviceInfo *device, const char *key, const char *value)
{
    DeviceProperties *props = &device->props;

    if (has_property(props, key))
        return;
    if (props->count == MAX_DEVICE_PROPERTIES) {
        facade_log(call, "WARN", "%s: property %s is left out: there is room for %d", device->basic.uuid, key,
                   MAX_DEVICE_PROPERTIES);
        return;
    }
    FACADE_TEXT(props->properties[props->count].key, key);
    FACADE_TEXT(props->properties[props->count].value, value);
    props->count++;
}

/* Adds the properties of a text of lines "key=value", which is split in place. */
static void split_properties(struct facade_call *call, char *text, ExtendedDeviceInfo *device)
{
    char *rest = NULL;

    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *value = strchr(line, '=');

        if (!value)
            continue;
        *value++ = '\0';
        if (strcmp(line, "firmware_version") == 0)
            FACADE_TEXT(device->basic.firmwareVersion, value);
        add_property(call, device, line, value);
    }
}

static void read_properties(struct facade_call *call, const struct facade_device *from, ExtendedDeviceInfo *device)
{
    const struct facade_query query = facade_query_of(from);
    FACADE_CLEANUP_FREE char *text = calloc(1, PROPERTIES_SIZE);
    struct facet_error error = {0};
    uint32_t size;

    if (query.provider->traits & FACET_PROVIDER_SIMULATED)
        add_property(call, device, "simulated", "true");
    if (!text)
        return;
    enum facet_status status =
        query.provider->device->properties(query.instance, query.device, text, PROPERTIES_SIZE, &size, &error);
    if (status == FACET_OK)
        split_properties(call, text, device);
    else if (status != FACET_UNSUPPORTED)
        facade_log(call, "WARN", "%s: no properties: %s", device->basic.uuid, error.message);
}

/* ---- devices ---- */

/* Reads the first device node of the device; the ABI has room for one. */
static void read_node(struct facade_call *call, const struct facade_device *from, DeviceBasicInfo *basic)
{
    const struct facade_query query = facade_query_of(from);
    FACADE_CLEANUP_FREE void *found = NULL;
    struct facet_error error = {0};
    uint32_t count = 0;

    if (!(from->info.capabilities & FACET_CAN_CONTAINER))
        return;
    if (facade_fetch(facade_ask_container, &query, sizeof(struct facet_container_item), &found, &count, &error) !=
        FACET_OK)
        facade_log(call, "WARN", "%s: no device node: %s", basic->uuid, error.message);
    for (const struct facet_container_item *item = found; count > 0; item++, count--) {
        if (item->kind != FACET_CONTAINER_DEVICE_NODE)
            continue;
        FACADE_TEXT(basic->deviceNode, item->host);
        return;
    }
}

static void fill_basic(const struct facet_device_info *info, uint32_t index, DeviceBasicInfo *basic)
{
    FACADE_TEXT(basic->uuid, info->uuid);
    FACADE_TEXT(basic->vendor, info->vendor);
    FACADE_TEXT(basic->model, info->name);
    FACADE_TEXT(basic->driverVersion, info->driver_version);
    basic->index = (int32_t)index;
    basic->numaNode = info->valid & FACET_DEVICE_HAS_NUMA ? info->numa_node : -1;
    basic->totalMemoryBytes = info->memory_bytes;
    basic->totalComputeUnits = info->compute_units;
    basic->maxTflops = (double)info->peak_gflops / 1000.0;
    basic->pcieGen = info->pcie_generation;
    basic->pcieWidth = info->pcie_width;
}

static void fill_capabilities(const struct facet_device_info *info, VirtualizationCapabilities *can)
{
    can->supportsPartitioning = info->capabilities & FACET_CAN_PARTITION;
    can->supportsSoftIsolation = info->modes & FACET_DEVICE_MODE(FACET_MODE_SOFT);
    can->supportsHardIsolation = info->modes & FACET_DEVICE_MODE(FACET_MODE_HARD);
    can->supportsSnapshot = info->capabilities & FACET_CAN_SNAPSHOT;
    can->supportsMetrics = info->capabilities & FACET_CAN_DEVICE_METRICS;
    can->supportsRemoting = info->capabilities & FACET_CAN_REMOTE;
    can->maxPartitions = info->max_partitions;
    can->maxWorkersPerDevice = info->max_workers;
}

static void fill_device(struct facade_call *call, const struct facade_device *from, uint32_t index,
                        ExtendedDeviceInfo *device)
{
    memset(device, 0, sizeof *device);
    fill_basic(&from->info, index, &device->basic);
    fill_capabilities(&from->info, &device->virtualizationCapabilities);
    read_node(call, from, &device->basic);
    read_properties(call, from, device);
}

static AccelResult count_devices(struct facade_call *call, size_t *ret_count)
{
    struct facade_devices devices;
    struct facet_error error = {0};

    if (!ret_count)
        return facade_fail(call, ACCEL_ERROR_INVALID_PARAM, "deviceCount: expected an address, not NULL");
    AccelResult result = facade_enter_discovery(call);
    if (result != ACCEL_SUCCESS)
        return result;
    if (facade_devices_list(call, &devices, &error) != FACET_OK)
        return facade_refuse(call, &error);
    free(devices.items);
    *ret_count = devices.count;
    return ACCEL_SUCCESS;
}

AccelResult AccelGetDeviceCount(size_t *deviceCount)
{
    struct facade_call call;

    facade_begin(&call, __func__);
    return facade_leave(&call, count_devices(&call, deviceCount));
}

static AccelResult list_devices(struct facade_call *call, ExtendedDeviceInfo *to, size_t max, size_t *ret_count)
{
    struct facade_devices devices;
    struct facet_error error = {0};

    if (!to || !ret_count || max == 0)
        return facade_fail(call, ACCEL_ERROR_INVALID_PARAM, "expected room for at least one device and a count");
    AccelResult result = facade_enter_discovery(call);
    if (result != ACCEL_SUCCESS)
        return result;
    if (facade_devices_list(call, &devices, &error) != FACET_OK)
        return facade_refuse(call, &error);
    size_t count = devices.count < max ? devices.count : max;
    for (size_t i = 0; i < count; i++)
        fill_device(call, &devices.items[i], (uint32_t)i, &to[i]);
    if (count < devices.count)
        facade_log(call, "WARN", "there are %u devices, and room for %zu", devices.count, max);
    free(devices.items);
    *ret_count = count;
    return ACCEL_SUCCESS;
}

AccelResult AccelGetAllDevices(ExtendedDeviceInfo *devices, size_t maxCount, size_t *deviceCount)
{
    struct facade_call call;

    facade_begin(&call, __func__);
    return facade_leave(&call, list_devices(&call, devices, maxCount, deviceCount));
}

/* ---- mounts for workers ---- */

struct mounts {
    MountPath *items;
    size_t capacity, count; /* `count` may exceed `capacity`: it is the number needed */
};

static void add_mount(struct mounts *mounts, const struct facet_container_item *item)
{
    size_t mount_count = mounts->count < mounts->capacity ? mounts->count : mounts->capacity;

    for (size_t i = 0; i < mount_count; i++) {
        if (strcmp(mounts->items[i].hostPath, item->host) == 0 && strcmp(mounts->items[i].guestPath, item->guest) == 0)
            return;
    }
    if (mounts->count < mounts->capacity) {
        memset(&mounts->items[mounts->count], 0, sizeof *mounts->items);
        FACADE_TEXT(mounts->items[mounts->count].hostPath, item->host);
        FACADE_TEXT(mounts->items[mounts->count].guestPath, item->guest);
    }
    mounts->count++;
}

static void collect_mounts(struct facade_call *call, const struct facade_device *device, struct mounts *mounts)
{
    const struct facade_query query = facade_query_of(device);
    FACADE_CLEANUP_FREE void *found = NULL;
    struct facet_error error = {0};
    uint32_t count = 0;

    if (!(device->info.capabilities & FACET_CAN_CONTAINER))
        return;
    if (facade_fetch(facade_ask_container, &query, sizeof(struct facet_container_item), &found, &count, &error) !=
        FACET_OK)
        facade_log(call, "WARN", "%s: no files: %s", device->info.uuid, error.message);
    for (const struct facet_container_item *item = found; count > 0; item++, count--) {
        if (item->kind == FACET_CONTAINER_MOUNT)
            add_mount(mounts, item);
    }
}

static AccelResult list_mounts(struct facade_call *call, MountPath *to, size_t max, size_t *ret_count)
{
    struct mounts mounts = {to, max, 0};
    struct facade_devices devices;
    struct facet_error error = {0};

    if (!to || !ret_count || max == 0)
        return facade_fail(call, ACCEL_ERROR_INVALID_PARAM, "expected room for at least one mount and a count");
    AccelResult result = facade_enter(call);
    if (result != ACCEL_SUCCESS)
        return result;
    if (facade_devices_list(call, &devices, &error) != FACET_OK)
        return facade_refuse(call, &error);
    for (uint32_t i = 0; i < devices.count; i++)
        collect_mounts(call, &devices.items[i], &mounts);
    free(devices.items);
    if (mounts.count > max)
        facade_log(call, "WARN", "there are %zu mounts, and room for %zu", mounts.count, max);
    *ret_count = mounts.count < max ? mounts.count : max;
    return ACCEL_SUCCESS;
}

AccelResult AccelGetVendorMountLibs(MountPath *mounts, size_t maxCount, size_t *mountCount)
{
    struct facade_call call;

    facade_begin(&call, __func__);
    return facade_leave(&call, list_mounts(&call, mounts, maxCount, mountCount));
}
