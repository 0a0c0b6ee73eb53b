/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the utilization of the device by the vGPU, over all of its processes.
 * Never: estimates: every figure was measured by the limiter or by the driver, for this vGPU's processes.
 *
 * The limiter counts device time. The increase of that count between two calls, divided by the time between them, is
 * the vGPU's utilization, as NVML's figure is the utilization in its sample period. Until two calls are far enough
 * apart, the driver's samples of the vGPU's processes are used, or without samples the device's own figure.
 */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "hooks.h"
#include "vgpu.h"

/* Completions are reported about every millisecond: a period covers many of them. */
#define PERIOD_NS UINT64_C(100000000)

struct samples {
    nvmlProcessUtilizationSample_t *list;
    unsigned count;
};

/* The driver's samples of the vGPU's own processes; the caller frees `list`. */
static nvmlReturn_t read_samples(const struct facet_nvml_vgpu *vgpu, nvmlDevice_t device, unsigned long long last_seen,
                                 struct samples *ret_samples)
{
    FACET_CLEANUP_FREE struct facet_nvml_process *processes = malloc(FACET_SEGMENT_SLOTS * sizeof *processes);
    unsigned count = 0, kept_count = 0, index, process_count = processes ? facet_nvml_processes(vgpu, processes) : 0;
    nvmlReturn_t result = facet_nvml_library.nvmlDeviceGetProcessUtilization(device, NULL, &count, last_seen);

    if (!processes)
        return NVML_ERROR_MEMORY;
    if (result != NVML_SUCCESS && result != NVML_ERROR_INSUFFICIENT_SIZE)
        return result;
    nvmlProcessUtilizationSample_t *list = calloc(count + 1, sizeof *list);
    if (!list)
        return NVML_ERROR_MEMORY;
    result = count ? facet_nvml_library.nvmlDeviceGetProcessUtilization(device, list, &count, last_seen)
                   : NVML_ERROR_NOT_FOUND;
    for (unsigned i = 0; result == NVML_SUCCESS && i < count; i++)
        if (facet_nvml_find_process(list[i].pid, processes, process_count, &index))
            list[kept_count++] = list[i];
    *ret_samples = (struct samples){list, kept_count};
    return result == NVML_SUCCESS && kept_count == 0 ? NVML_ERROR_NOT_FOUND : result;
}

nvmlReturn_t facet_nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples,
                                                   unsigned *count, unsigned long long last_seen)
{
    const struct facet_nvml_vgpu *vgpu = facet_nvml_owner(device);
    struct samples tenant_samples = {0};

    /* The library answers how much room is needed; only the samples are reduced. */
    if (!samples || !count)
        return facet_nvml_library.nvmlDeviceGetProcessUtilization(device, samples, count, last_seen);
    if (!vgpu)
        return NVML_ERROR_NO_PERMISSION;
    nvmlReturn_t result = read_samples(vgpu, device, last_seen, &tenant_samples);
    if (result == NVML_SUCCESS) {
        for (unsigned i = 0; i < tenant_samples.count && i < *count; i++)
            samples[i] = tenant_samples.list[i];
        result = tenant_samples.count > *count ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
        *count = tenant_samples.count;
    }
    free(tenant_samples.list);
    return result;
}

static void keep_tenant_samples(nvmlProcessesUtilizationInfo_v1_t *info, const struct facet_nvml_vgpu *vgpu)
{
    FACET_CLEANUP_FREE struct facet_nvml_process *processes = malloc(FACET_SEGMENT_SLOTS * sizeof *processes);
    unsigned kept_count = 0, index, process_count = processes ? facet_nvml_processes(vgpu, processes) : 0;

    for (unsigned i = 0; i < info->processSamplesCount; i++)
        if (facet_nvml_find_process(info->procUtilArray[i].pid, processes, process_count, &index))
            info->procUtilArray[kept_count++] = info->procUtilArray[i];
    info->processSamplesCount = kept_count;
}

/* The caller gives room for the library's samples of all processes: that is the size that the library asked for. */
nvmlReturn_t facet_nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device, nvmlProcessesUtilizationInfo_v1_t *info)
{
    const struct facet_nvml_vgpu *vgpu = facet_nvml_owner(device);

    if (info && info->version != VENDOR_NVML_VERSION(nvmlProcessesUtilizationInfo_v1_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    nvmlReturn_t result = facet_nvml_library.nvmlDeviceGetProcessesUtilizationInfo(device, info);
    if (result != NVML_SUCCESS || !info->procUtilArray)
        return result;
    if (!vgpu)
        return NVML_ERROR_NO_PERMISSION;
    keep_tenant_samples(info, vgpu);
    return info->processSamplesCount ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

/* The vGPU's share of the last period. False before the first period has ended, unless the vGPU was idle: 0 then. */
static bool measure_percent(struct facet_nvml_vgpu *vgpu, unsigned *ret_percent)
{
    struct facet_nvml_period *period = &vgpu->period;
    struct facet_usage_totals totals;

    facet_usage_sum(vgpu->usage, &totals);
    uint64_t published_ns = facet_nvml_device_time(vgpu, totals.busy_ns);
    pthread_mutex_lock(&facet_nvml_lock);
    uint64_t now = facet_clock_now_ns(), length = now - period->start_ns;
    if (length >= PERIOD_NS) {
        uint64_t busy = published_ns > period->busy_ns ? published_ns - period->busy_ns : 0;

        period->percent = busy < length ? (unsigned)(busy * 100 / length) : 100;
        period->has_percent = true;
        period->start_ns = now;
        period->busy_ns = published_ns;
    }
    bool is_measured = period->has_percent || (totals.inflight == 0 && published_ns == period->busy_ns);
    *ret_percent = period->percent;
    pthread_mutex_unlock(&facet_nvml_lock);
    return is_measured;
}

/* Sums the newest sample of each process; leaves `utilization` unchanged when there is none. */
static void sum_samples(const struct facet_nvml_vgpu *vgpu, nvmlDevice_t device, nvmlUtilization_t *utilization)
{
    struct samples tenant_samples = {0};
    nvmlUtilization_t sum = {0};

    if (!facet_nvml_library.nvmlDeviceGetProcessUtilization)
        return;
    nvmlReturn_t result = read_samples(vgpu, device, 0, &tenant_samples);
    for (unsigned i = 0; i < tenant_samples.count; i++) {
        bool newest = true;

        for (unsigned other = 0; other < tenant_samples.count; other++)
            newest &= tenant_samples.list[other].pid != tenant_samples.list[i].pid ||
                      tenant_samples.list[other].timeStamp <= tenant_samples.list[i].timeStamp;
        sum.gpu += newest ? tenant_samples.list[i].smUtil : 0;
        sum.memory += newest ? tenant_samples.list[i].memUtil : 0;
    }
    free(tenant_samples.list);
    if (result == NVML_SUCCESS)
        *utilization =
            (nvmlUtilization_t){.gpu = sum.gpu < 100 ? sum.gpu : 100, .memory = sum.memory < 100 ? sum.memory : 100};
}

nvmlReturn_t facet_nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization)
{
    nvmlReturn_t result = facet_nvml_library.nvmlDeviceGetUtilizationRates(device, utilization);
    struct facet_nvml_vgpu *vgpu = facet_nvml_vgpu(device);
    unsigned percent;

    if (result != NVML_SUCCESS || !vgpu)
        return result;
    sum_samples(vgpu, device, utilization);
    if (measure_percent(vgpu, &percent))
        utilization->gpu = percent;
    return NVML_SUCCESS;
}
