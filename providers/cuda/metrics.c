/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: reading a GPU's sensors and its processes.
 * Never: turns a rate into a counter. Nor is NVML's utilization, the time in which any kernel runs, reported as
 * `busy_ns` or `compute_active_milli`. PCIe traffic comes from the 64-bit counters of driver 560 or newer, because
 * counters of 32 bits overflow within a tenth of a second.
 */
#include <stdlib.h>

#include "cuda.h"

#define MILLI_OF_PERCENT 10u
#define MAX_CLOCK_MHZ    100000u
#define MAX_CELSIUS      250u
#define TRIES            8 /* a list may grow between two calls */

static void read_power(const struct cuda_nvml *nvml, nvmlDevice_t handle, struct facet_device_metrics *to)
{
    unsigned milliwatts;
    unsigned long long millijoules;

    if (CUDA_NVML(nvml, nvmlDeviceGetPowerUsage, handle, &milliwatts) == NVML_SUCCESS) {
        to->power_mw = milliwatts;
        to->valid |= FACET_METRIC_POWER;
    }
    if (CUDA_NVML(nvml, nvmlDeviceGetTotalEnergyConsumption, handle, &millijoules) == NVML_SUCCESS) {
        to->energy_mj = millijoules;
        to->valid |= FACET_METRIC_ENERGY;
    }
}

bool cuda_throttle_read(const struct cuda_nvml *nvml, nvmlDevice_t handle, uint32_t *ret_throttle)
{
    static const struct {
        unsigned long long reasons;
        uint32_t throttle;
    } kinds[] = {
        {nvmlClocksThrottleReasonSwPowerCap | nvmlClocksThrottleReasonHwPowerBrakeSlowdown, FACET_THROTTLE_POWER},
        {nvmlClocksThrottleReasonSwThermalSlowdown | nvmlClocksThrottleReasonHwThermalSlowdown, FACET_THROTTLE_THERMAL},
    };
    unsigned long long reasons = 0, named_reasons = 0;
    uint32_t throttle = 0;

    if (CUDA_NVML(nvml, nvmlDeviceGetCurrentClocksThrottleReasons, handle, &reasons) != NVML_SUCCESS)
        return false;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        named_reasons |= reasons & kinds[i].reasons;
        throttle |= reasons & kinds[i].reasons ? kinds[i].throttle : 0;
    }
    /* The hardware may slow down without naming a reason. */
    if (reasons & nvmlClocksThrottleReasonHwSlowdown && !named_reasons)
        throttle |= FACET_THROTTLE_FAULT;
    *ret_throttle = throttle;
    return true;
}

/* The first form of the call counts the memory that the driver reserves as used and in the total. */
nvmlReturn_t cuda_memory_read(const struct cuda_nvml *nvml, nvmlDevice_t handle, nvmlMemory_t *ret_memory)
{
    nvmlMemory_v2_t memory = {.version = VENDOR_NVML_VERSION(nvmlMemory_v2_t, 2)};

    if (CUDA_NVML(nvml, nvmlDeviceGetMemoryInfo_v2, handle, &memory) != NVML_SUCCESS || memory.reserved > memory.total)
        return nvml->nvmlDeviceGetMemoryInfo(handle, ret_memory);
    *ret_memory = (nvmlMemory_t){.total = memory.total - memory.reserved, .free = memory.free, .used = memory.used};
    return NVML_SUCCESS;
}

static void read_levels(const struct cuda_nvml *nvml, nvmlDevice_t handle, struct facet_device_metrics *to)
{
    unsigned value;
    nvmlMemory_t memory;

    if (CUDA_NVML(nvml, nvmlDeviceGetTemperature, handle, NVML_TEMPERATURE_GPU, &value) == NVML_SUCCESS &&
        value <= MAX_CELSIUS) {
        to->temperature_mc = (int32_t)value * 1000;
        to->valid |= FACET_METRIC_TEMPERATURE;
    }
    if (CUDA_NVML(nvml, nvmlDeviceGetClockInfo, handle, NVML_CLOCK_SM, &value) == NVML_SUCCESS &&
        value <= MAX_CLOCK_MHZ) {
        to->clock_mhz = value;
        to->valid |= FACET_METRIC_CLOCK;
    }
    if (cuda_memory_read(nvml, handle, &memory) == NVML_SUCCESS && memory.used <= memory.total) {
        to->memory_used_bytes = memory.used;
        to->valid |= FACET_METRIC_MEMORY_USED;
    }
}

static void read_media(const struct cuda_nvml *nvml, nvmlDevice_t handle, struct facet_device_metrics *to)
{
    unsigned percent, period;

    if (CUDA_NVML(nvml, nvmlDeviceGetEncoderUtilization, handle, &percent, &period) == NVML_SUCCESS && percent <= 100) {
        to->encoder_active_milli = percent * MILLI_OF_PERCENT;
        to->valid |= FACET_METRIC_ENCODER_ACTIVE;
    }
    if (CUDA_NVML(nvml, nvmlDeviceGetDecoderUtilization, handle, &percent, &period) == NVML_SUCCESS && percent <= 100) {
        to->decoder_active_milli = percent * MILLI_OF_PERCENT;
        to->valid |= FACET_METRIC_DECODER_ACTIVE;
    }
}

static bool count_errors(const struct cuda_nvml *nvml, nvmlDevice_t handle, int type, uint64_t *ret_count)
{
    unsigned long long count;

    if (CUDA_NVML(nvml, nvmlDeviceGetTotalEccErrors, handle, type, NVML_VOLATILE_ECC, &count) != NVML_SUCCESS)
        return false;
    *ret_count = count;
    return true;
}

/* With ECC off no error is counted, and the call fails: a count of 0 would claim that there was none. */
static void read_ecc(const struct cuda_nvml *nvml, nvmlDevice_t handle, struct facet_device_metrics *to)
{
    if (count_errors(nvml, handle, NVML_MEMORY_ERROR_TYPE_CORRECTED, &to->ecc_corrected))
        to->valid |= FACET_METRIC_ECC_CORRECTED;
    if (count_errors(nvml, handle, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, &to->ecc_uncorrected))
        to->valid |= FACET_METRIC_ECC_UNCORRECTED;
}

static void read_traffic(const struct cuda_nvml *nvml, nvmlDevice_t handle, struct facet_device_metrics *to)
{
    nvmlFieldValue_t fields[] = {{.fieldId = NVML_FI_DEV_PCIE_COUNT_RX_BYTES},
                                 {.fieldId = NVML_FI_DEV_PCIE_COUNT_TX_BYTES}};

    if (CUDA_NVML(nvml, nvmlDeviceGetFieldValues, handle, 2, fields) != NVML_SUCCESS)
        return;
    for (int i = 0; i < 2; i++)
        if (fields[i].nvmlReturn != NVML_SUCCESS || fields[i].valueType != NVML_VALUE_TYPE_UNSIGNED_LONG_LONG)
            return;
    to->pcie_rx_bytes = fields[0].value.ullVal;
    to->pcie_tx_bytes = fields[1].value.ullVal;
    to->valid |= FACET_METRIC_PCIE_RX | FACET_METRIC_PCIE_TX;
}

nvmlReturn_t cuda_metrics_read(const struct cuda_nvml *nvml, const struct cuda_gpu *gpu,
                               struct facet_device_metrics *ret_metrics)
{
    struct facet_device_metrics read = {.size = sizeof read, .timestamp_ns = facet_kit_now_ns()};
    unsigned celsius;

    read_power(nvml, gpu->handle, &read);
    read_levels(nvml, gpu->handle, &read);
    read_media(nvml, gpu->handle, &read);
    if (cuda_throttle_read(nvml, gpu->handle, &read.throttle))
        read.valid |= FACET_METRIC_THROTTLE;
    read_ecc(nvml, gpu->handle, &read);
    read_traffic(nvml, gpu->handle, &read);
    if (read.valid) {
        *ret_metrics = read;
        return NVML_SUCCESS;
    }
    nvmlReturn_t why = CUDA_NVML(nvml, nvmlDeviceGetTemperature, gpu->handle, NVML_TEMPERATURE_GPU, &celsius);
    return why ? why : NVML_ERROR_NOT_SUPPORTED;
}

static enum facet_status cuda_metrics_device(struct facet_provider_instance *instance, uint32_t device,
                                             struct facet_device_metrics *ret_metrics, struct facet_error *error)
{
    struct facet_device_metrics metrics;
    enum facet_status status = gpu_device_check(&instance->gpu, device, FACET_CAN_DEVICE_METRICS, error);

    if (status != FACET_OK)
        return status;
    nvmlReturn_t result = cuda_metrics_read(&instance->nvml, &instance->gpus[device], &metrics);
    if (result != NVML_SUCCESS)
        return cuda_nvml_fail(&instance->nvml, error, "reading the sensors", result);
    metrics.device = device;
    return facet_kit_struct(&metrics, sizeof metrics, ret_metrics, error);
}

struct process_list {
    nvmlProcessInfo_t *entries;
    unsigned count;
};

/* The processes that compute on a GPU or a MIG device; the caller frees `entries`. */
static nvmlReturn_t read_processes(const struct cuda_nvml *nvml, nvmlDevice_t handle, struct process_list *ret_list)
{
    __typeof__(nvml->nvmlDeviceGetComputeRunningProcesses_v3) read =
        nvml->nvmlDeviceGetComputeRunningProcesses_v3 ? nvml->nvmlDeviceGetComputeRunningProcesses_v3
                                                      : nvml->nvmlDeviceGetComputeRunningProcesses_v2;
    nvmlReturn_t result = NVML_ERROR_INSUFFICIENT_SIZE;
    unsigned room = 64;

    for (int i = 0; i < TRIES && result == NVML_ERROR_INSUFFICIENT_SIZE; i++) {
        unsigned count = room;
        nvmlProcessInfo_t *entries = calloc(room, sizeof *entries);

        if (!entries)
            return NVML_ERROR_MEMORY;
        result = read(handle, &count, entries);
        if (result == NVML_SUCCESS)
            *ret_list = (struct process_list){entries, count};
        else
            free(entries);
        room = count + 64;
    }
    return result;
}

/* Sets the newest share of each process that has a sample. A process without a sample gets no value, rather than 0. */
static void read_shares(const struct cuda_nvml *nvml, nvmlDevice_t handle, struct facet_process_metrics *metrics,
                        uint32_t metric_count)
{
    nvmlProcessUtilizationSample_t samples[256];
    unsigned count = sizeof samples / sizeof *samples;

    if (CUDA_NVML(nvml, nvmlDeviceGetProcessUtilization, handle, samples, &count, 0) != NVML_SUCCESS)
        return;
    for (uint32_t m = 0; m < metric_count; m++) {
        unsigned long long newest = 0;

        for (unsigned i = 0; i < count; i++) {
            if (samples[i].pid != (unsigned)metrics[m].pid || samples[i].timeStamp < newest || samples[i].smUtil > 100)
                continue;
            newest = samples[i].timeStamp;
            metrics[m].compute_milli = samples[i].smUtil * MILLI_OF_PERCENT;
            metrics[m].valid |= FACET_PROCESS_HAS_COMPUTE;
        }
    }
}

struct metrics_list {
    struct facet_process_metrics *items;
    uint32_t count;
};

/* Adds the processes of a GPU, or of its partition. NVML sets all bits of a process's memory if that is unknown. */
static nvmlReturn_t add_processes(const struct cuda_nvml *nvml, nvmlDevice_t handle, uint32_t device,
                                  const char *partition, struct metrics_list *list)
{
    struct process_list found;
    nvmlReturn_t result = read_processes(nvml, handle, &found);

    if (result != NVML_SUCCESS)
        return result;
    struct facet_process_metrics *items = realloc(list->items, (list->count + found.count + 1) * sizeof *items);
    if (!items) {
        free(found.entries);
        return NVML_ERROR_MEMORY;
    }
    list->items = items;
    for (unsigned i = 0; i < found.count; i++) {
        bool has_bytes = found.entries[i].usedGpuMemory != (unsigned long long)NVML_VALUE_NOT_AVAILABLE;
        struct facet_process_metrics *item = &items[list->count++];

        *item = (struct facet_process_metrics){.size = sizeof *item,
                                               .device = device,
                                               .pid = (int32_t)found.entries[i].pid,
                                               .valid = has_bytes ? FACET_PROCESS_HAS_MEMORY : 0,
                                               .timestamp_ns = facet_kit_now_ns(),
                                               .memory_used_bytes = has_bytes ? found.entries[i].usedGpuMemory : 0};
        FACET_KIT_TEXT(item->partition_uuid, partition);
    }
    free(found.entries);
    return NVML_SUCCESS;
}

/* A partition that another program destroys meanwhile has no processes: the error for it is ignored. */
static nvmlReturn_t add_part_processes(struct facet_provider_instance *instance, uint32_t device,
                                       struct metrics_list *list)
{
    struct cuda_part parts[CUDA_MAX_PARTS];
    uint32_t count = 0;
    nvmlReturn_t result = NVML_SUCCESS;

    pthread_mutex_lock(&instance->parts_lock);
    if (cuda_parts_read(instance, device, parts, &count, NULL) != FACET_OK)
        result = NVML_ERROR_UNKNOWN;
    for (uint32_t i = 0; i < count && result == NVML_SUCCESS; i++) {
        if (parts[i].mig)
            result = add_processes(&instance->nvml, parts[i].mig, device, parts[i].info.uuid, list);
        if (result == NVML_ERROR_INVALID_ARGUMENT || result == NVML_ERROR_NOT_FOUND)
            result = NVML_SUCCESS;
    }
    pthread_mutex_unlock(&instance->parts_lock);
    return result;
}

static enum facet_status cuda_metrics_processes(struct facet_provider_instance *instance, uint32_t device, void *items,
                                                uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                                struct facet_error *error)
{
    enum facet_status status = gpu_device_check(&instance->gpu, device, FACET_CAN_PROCESS_METRICS, error);
    struct metrics_list list = {0};

    if (status != FACET_OK)
        return status;
    const struct cuda_gpu *gpu = &instance->gpus[device];
    nvmlReturn_t result = gpu->is_partitioned ? add_part_processes(instance, device, &list)
                                              : add_processes(&instance->nvml, gpu->handle, device, "", &list);
    if (result == NVML_SUCCESS) {
        if (!gpu->is_partitioned)
            read_shares(&instance->nvml, gpu->handle, list.items, list.count);
        status = facet_kit_list_items(list.items, sizeof *list.items, list.count, items, item_size, capacity, ret_count,
                                      error);
    } else {
        status = cuda_nvml_fail(&instance->nvml, error, "nvmlDeviceGetComputeRunningProcesses", result);
    }
    free(list.items);
    return status;
}

const struct facet_metrics_ops cuda_metrics_ops = {
    .size = sizeof cuda_metrics_ops,
    .device = cuda_metrics_device,
    .processes = cuda_metrics_processes,
    .links = cuda_metrics_links,
};
