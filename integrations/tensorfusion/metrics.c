/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the metrics of processes and devices in the form of TensorFusion's ABI.
 * Never: invents a value. A value that was not measured is 0 in the ABI's fields, which cannot express "not measured",
 * and is left out of the extra metrics.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "facade.h"

#define PERCENT(milli) ((milli) / 10.0)

/* ---- processes ---- */

static void fill_process(const struct facade_device *device, const struct facet_process_metrics *from,
                         ProcessInformation *to)
{
    const struct facet_device_info *info = &device->info;

    memset(to, 0, sizeof *to);
    snprintf(to->processId, sizeof to->processId, "%d", from->pid);
    FACADE_TEXT(to->deviceUUID, info->uuid);
    to->totalSMs = info->compute_units;
    if (from->valid & FACET_PROCESS_HAS_COMPUTE)
        to->computeUtilizationPercent = PERCENT(from->compute_milli);
    if (from->valid & FACET_PROCESS_HAS_UNITS)
        to->activeSMs = from->units_active;
    if (from->valid & FACET_PROCESS_HAS_RESERVED)
        to->memoryReservedBytes = from->memory_reserved_bytes;
    if (!(from->valid & FACET_PROCESS_HAS_MEMORY))
        return;
    to->memoryUsedBytes = from->memory_used_bytes;
    if (info->memory_bytes)
        to->memoryUtilizationPercent = 100.0 * (double)from->memory_used_bytes / (double)info->memory_bytes;
}

struct processes {
    ProcessInformation *items;
    size_t capacity, count; /* `count` may exceed `capacity`: it is the number needed */
    uint32_t device_count, failed_devices;
    struct facet_error error;
};

static void collect_processes(struct facade_call *call, const struct facade_device *device, struct processes *collected)
{
    const struct facade_query query = facade_query_of(device);
    FACADE_CLEANUP_FREE void *found = NULL;
    struct facet_error error = {0};
    uint32_t count = 0;

    if (!(device->info.capabilities & FACET_CAN_PROCESS_METRICS))
        return;
    collected->device_count++;
    if (facade_fetch(facade_ask_processes, &query, sizeof(struct facet_process_metrics), &found, &count, &error) !=
        FACET_OK) {
        facade_log(call, "WARN", "%s: no processes: %s", device->info.uuid, error.message);
        collected->failed_devices++;
        collected->error = error;
        return;
    }
    for (const struct facet_process_metrics *process = found; count > 0; process++, count--) {
        if (collected->count < collected->capacity)
            fill_process(device, process, &collected->items[collected->count]);
        collected->count++;
    }
}

static AccelResult list_processes(struct facade_call *call, ProcessInformation *to, size_t max, size_t *ret_count)
{
    struct processes collected = {.items = to, .capacity = max};
    struct facade_devices devices;
    struct facet_error error = {0};

    if (!to || !ret_count || max == 0)
        return facade_fail(call, ACCEL_ERROR_INVALID_PARAM, "expected room for at least one process and a count");
    AccelResult result = facade_enter(call);
    if (result != ACCEL_SUCCESS)
        return result;
    if (facade_devices_list(call, &devices, &error) != FACET_OK)
        return facade_refuse(call, &error);
    for (uint32_t i = 0; i < devices.count; i++)
        collect_processes(call, &devices.items[i], &collected);
    free(devices.items);
    if (collected.device_count && collected.failed_devices == collected.device_count)
        return facade_refuse(call, &collected.error);
    if (collected.count > max)
        facade_log(call, "WARN", "there are %zu processes, and room for %zu", collected.count, max);
    *ret_count = collected.count < max ? collected.count : max;
    return ACCEL_SUCCESS;
}

AccelResult AccelGetProcessInformation(ProcessInformation *processes, size_t maxCount, size_t *processCount)
{
    struct facade_call call;

    facade_begin(&call, __func__);
    return facade_leave(&call, list_processes(&call, processes, maxCount, processCount));
}

/* ---- devices ---- */

static void add_extra(DeviceMetrics *to, const char *key, double value)
{
    if (to->extraMetricsCount == MAX_EXTRA_METRICS)
        return;
    FACADE_TEXT(to->extraMetrics[to->extraMetricsCount].key, key);
    to->extraMetrics[to->extraMetricsCount++].value = value;
}

static void fill_extra(const struct facet_device_metrics *from, DeviceMetrics *to)
{
    const struct {
        uint64_t bit;
        const char *key;
        double value;
    } extra[] = {
        {FACET_METRIC_TENSOR_ACTIVE, "tensorCoreUsagePercent", PERCENT(from->tensor_active_milli)},
        {FACET_METRIC_MEMORY_ACTIVE, "memoryBandwidthUsagePercent", PERCENT(from->memory_active_milli)},
        {FACET_METRIC_ENCODER_ACTIVE, "encoderUtilization", PERCENT(from->encoder_active_milli)},
        {FACET_METRIC_DECODER_ACTIVE, "decoderUtilization", PERCENT(from->decoder_active_milli)},
        {FACET_METRIC_CLOCK, "clockMHz", from->clock_mhz},
        {FACET_METRIC_ENERGY, "energyJoules", (double)from->energy_mj / 1000.0},
        {FACET_METRIC_THROTTLE, "throttleReasons", from->throttle},
        {FACET_METRIC_ECC_CORRECTED, "eccCorrected", (double)from->ecc_corrected},
        {FACET_METRIC_ECC_UNCORRECTED, "eccUncorrected", (double)from->ecc_uncorrected},
    };

    for (size_t i = 0; i < sizeof extra / sizeof *extra; i++) {
        if (from->valid & extra[i].bit)
            add_extra(to, extra[i].key, extra[i].value);
    }
}

static void fill_links(struct facade_call *call, const struct facade_device *device, DeviceMetrics *to)
{
    const struct facade_query query = facade_query_of(device);
    FACADE_CLEANUP_FREE void *found = NULL;
    struct facet_error error = {0};
    uint32_t count = 0;
    char key[64];

    if (!(device->info.capabilities & FACET_CAN_LINK_METRICS))
        return;
    if (facade_fetch(facade_ask_link_metrics, &query, sizeof(struct facet_link_metrics), &found, &count, &error) !=
        FACET_OK)
        facade_log(call, "WARN", "%s: no link metrics: %s", device->info.uuid, error.message);
    for (const struct facet_link_metrics *link = found; count > 0; link++, count--) {
        if (link->valid & FACET_LINK_METRIC_RX) {
            snprintf(key, sizeof key, "link%uRxBytes", link->link);
            add_extra(to, key, (double)link->rx_bytes);
        }
        if (link->valid & FACET_LINK_METRIC_TX) {
            snprintf(key, sizeof key, "link%uTxBytes", link->link);
            add_extra(to, key, (double)link->tx_bytes);
        }
    }
}

static enum facet_status read_device(struct facade_call *call, const struct facade_device *device, DeviceMetrics *to,
                                     struct facet_error *error)
{
    const struct facade_query query = facade_query_of(device);
    struct facet_device_metrics read = {.size = sizeof read};
    enum facet_status status = query.provider->metrics->device(query.instance, query.device, &read, error);

    if (status != FACET_OK)
        return status;
    FACADE_TEXT(to->deviceUUID, device->info.uuid);
    if (read.valid & FACET_METRIC_POWER)
        to->powerUsageWatts = (double)read.power_mw / 1000.0;
    if (read.valid & FACET_METRIC_TEMPERATURE)
        to->temperatureCelsius = read.temperature_mc / 1000.0;
    if (read.valid & FACET_METRIC_PCIE_RX)
        to->pcieRxBytes = read.pcie_rx_bytes;
    if (read.valid & FACET_METRIC_PCIE_TX)
        to->pcieTxBytes = read.pcie_tx_bytes;
    if (read.valid & FACET_METRIC_COMPUTE_ACTIVE)
        to->utilizationPercent = (read.compute_active_milli + 5) / 10;
    if (read.valid & FACET_METRIC_MEMORY_USED)
        to->memoryUsedBytes = read.memory_used_bytes;
    fill_extra(&read, to);
    fill_links(call, device, to);
    return FACET_OK;
}

static enum facet_status read_named(struct facade_call *call, const struct facade_devices *devices, const char *uuid,
                                    DeviceMetrics *to, struct facet_error *error)
{
    for (uint32_t i = 0; i < devices->count; i++) {
        if (strcasecmp(devices->items[i].info.uuid, uuid) == 0)
            return read_device(call, &devices->items[i], to, error);
    }
    return facet_error_set(error, FACET_NOT_FOUND, "no device has the uuid '%.64s'", uuid);
}

static AccelResult check_request(struct facade_call *call, const char **uuids, size_t count, const DeviceMetrics *to)
{
    if (!uuids || !to || count == 0)
        return facade_fail(call, ACCEL_ERROR_INVALID_PARAM, "expected at least one uuid and room for its metrics");
    for (size_t i = 0; i < count; i++) {
        if (!uuids[i] || !*uuids[i])
            return facade_fail(call, ACCEL_ERROR_INVALID_PARAM, "uuid %zu: expected a text, not NULL or empty", i);
    }
    return ACCEL_SUCCESS;
}

static AccelResult read_devices(struct facade_call *call, const char **uuids, size_t count, DeviceMetrics *to)
{
    struct facade_devices devices;
    struct facet_error error = {0};
    AccelResult result = check_request(call, uuids, count, to);

    if (result == ACCEL_SUCCESS)
        result = facade_enter(call);
    if (result != ACCEL_SUCCESS)
        return result;
    FACADE_CLEANUP_FREE DeviceMetrics *read = calloc(count, sizeof *read);
    if (!read)
        return facade_fail(call, ACCEL_ERROR_RESOURCE_EXHAUSTED, "no memory for the metrics of %zu devices", count);
    enum facet_status status = facade_devices_list(call, &devices, &error);
    if (status != FACET_OK)
        return facade_refuse(call, &error);
    for (size_t i = 0; i < count && status == FACET_OK; i++)
        status = read_named(call, &devices, uuids[i], &read[i], &error);
    free(devices.items);
    if (status != FACET_OK)
        return facade_refuse(call, &error);
    memcpy(to, read, count * sizeof *read);
    return ACCEL_SUCCESS;
}

AccelResult AccelGetDeviceMetrics(const char **deviceUUIDs, size_t deviceCount, DeviceMetrics *metrics)
{
    struct facade_call call;

    facade_begin(&call, __func__);
    return facade_leave(&call, read_devices(&call, deviceUUIDs, deviceCount, metrics));
}
