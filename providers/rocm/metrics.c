/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: reading a GPU's sensors, by AMD SMI or else by the kernel's files.
 * Never: reports AMD SMI's activity, the time in which any work runs, as a share of busy units: it is neither `busy_ns`
 * nor `compute_active_milli`.
 */
#include <stdlib.h>

#include "rocm.h"
#include "sysfs.h"

#define MAX_CLOCK_MHZ 100000u
#define MAX_CELSIUS   250
#define MAX_WATTS     100000u

/* AMD SMI sets all 32 or 64 bits of an unknown value. */
static bool watts_of(const amdsmi_power_info_t *info, uint64_t *ret_watts)
{
    const uint64_t readings[] = {info->current_socket_power, info->socket_power, info->average_socket_power};

    for (size_t i = 0; i < sizeof readings / sizeof *readings; i++)
        if (readings[i] && readings[i] <= MAX_WATTS) {
            *ret_watts = readings[i];
            return true;
        }
    return false;
}

static void read_power(const struct rocm_smi *smi, const struct rocm_gpu *gpu, struct facet_device_metrics *to)
{
    amdsmi_power_info_t info = {0};
    uint64_t value, stamp;
    float resolution;

    if (gpu->handle && ROCM_SMI(smi, amdsmi_get_power_info, gpu->handle, &info) == AMDSMI_STATUS_SUCCESS &&
        watts_of(&info, &value)) {
        to->power_mw = value * 1000;
        to->valid |= FACET_METRIC_POWER;
    } else if (rocm_gpu_sensor(gpu->pci, "power1_average", &value) ||
               rocm_gpu_sensor(gpu->pci, "power1_input", &value)) {
        to->power_mw = value / 1000;
        to->valid |= FACET_METRIC_POWER;
    }
    if (gpu->handle &&
        ROCM_SMI(smi, amdsmi_get_energy_count, gpu->handle, &value, &resolution, &stamp) == AMDSMI_STATUS_SUCCESS &&
        resolution > 0) {
        to->energy_mj = (uint64_t)((double)value * (double)resolution / 1000.0);
        to->valid |= FACET_METRIC_ENERGY;
    }
}

/* Reads the hottest point, by which the driver throttles: the second sensor in the driver's files. */
static void read_temperature(const struct rocm_smi *smi, const struct rocm_gpu *gpu, struct facet_device_metrics *to)
{
    int64_t celsius;
    uint64_t thousandths;

    if (gpu->handle &&
        ROCM_SMI(smi, amdsmi_get_temp_metric, gpu->handle, AMDSMI_TEMPERATURE_TYPE_HOTSPOT, AMDSMI_TEMP_CURRENT,
                 &celsius) == AMDSMI_STATUS_SUCCESS &&
        celsius >= -MAX_CELSIUS && celsius <= MAX_CELSIUS) {
        to->temperature_mc = (int32_t)celsius * 1000;
        to->valid |= FACET_METRIC_TEMPERATURE;
    } else if ((rocm_gpu_sensor(gpu->pci, "temp2_input", &thousandths) ||
                rocm_gpu_sensor(gpu->pci, "temp1_input", &thousandths)) &&
               thousandths <= MAX_CELSIUS * 1000) {
        to->temperature_mc = (int32_t)thousandths;
        to->valid |= FACET_METRIC_TEMPERATURE;
    }
}

static void read_clock(const struct rocm_smi *smi, const struct rocm_gpu *gpu, struct facet_device_metrics *to)
{
    amdsmi_clk_info_t clock = {0};
    uint64_t hertz = 0;

    if (gpu->handle &&
        ROCM_SMI(smi, amdsmi_get_clock_info, gpu->handle, AMDSMI_CLK_TYPE_GFX, &clock) == AMDSMI_STATUS_SUCCESS &&
        clock.clk <= MAX_CLOCK_MHZ) {
        to->clock_mhz = clock.clk;
        to->valid |= FACET_METRIC_CLOCK;
    } else if (rocm_gpu_sensor(gpu->pci, "freq1_input", &hertz) && hertz / 1000000 <= MAX_CLOCK_MHZ) {
        to->clock_mhz = (uint32_t)(hertz / 1000000);
        to->valid |= FACET_METRIC_CLOCK;
    }
}

bool rocm_memory_total(const struct rocm_smi *smi, const struct rocm_gpu *gpu, uint64_t *ret_bytes)
{
    uint64_t bytes = 0;

    if ((gpu->handle && ROCM_SMI(smi, amdsmi_get_gpu_memory_total, gpu->handle, AMDSMI_MEM_TYPE_VRAM, &bytes) ==
                            AMDSMI_STATUS_SUCCESS) ||
        rocm_gpu_number(gpu->pci, "mem_info_vram_total", &bytes))
        *ret_bytes = bytes;
    return bytes > 0;
}

static void read_memory(const struct rocm_smi *smi, const struct rocm_gpu *gpu, struct facet_device_metrics *to)
{
    uint64_t total = 0, used = 0;

    if (!rocm_memory_total(smi, gpu, &total))
        return;
    if (((gpu->handle && ROCM_SMI(smi, amdsmi_get_gpu_memory_usage, gpu->handle, AMDSMI_MEM_TYPE_VRAM, &used) ==
                             AMDSMI_STATUS_SUCCESS) ||
         rocm_gpu_number(gpu->pci, "mem_info_vram_used", &used)) &&
        used <= total) {
        to->memory_used_bytes = used;
        to->valid |= FACET_METRIC_MEMORY_USED;
    }
}

static void read_ecc(const struct rocm_smi *smi, const struct rocm_gpu *gpu, struct facet_device_metrics *to)
{
    amdsmi_error_count_t count = {0};

    if (gpu->handle && ROCM_SMI(smi, amdsmi_get_gpu_total_ecc_count, gpu->handle, &count) == AMDSMI_STATUS_SUCCESS) {
        to->ecc_corrected = count.correctable_count;
        to->ecc_uncorrected = count.uncorrectable_count;
    } else if (!rocm_gpu_errors(gpu->pci, &to->ecc_uncorrected, &to->ecc_corrected)) {
        return;
    }
    to->valid |= FACET_METRIC_ECC_CORRECTED | FACET_METRIC_ECC_UNCORRECTED;
}

bool rocm_metrics_read(const struct rocm_smi *smi, const struct rocm_gpu *gpu, struct facet_device_metrics *ret_metrics)
{
    struct facet_device_metrics read = {.size = sizeof read, .timestamp_ns = facet_kit_now_ns()};

    read_power(smi, gpu, &read);
    read_temperature(smi, gpu, &read);
    read_clock(smi, gpu, &read);
    read_memory(smi, gpu, &read);
    read_ecc(smi, gpu, &read);
    if (read.valid)
        *ret_metrics = read;
    return read.valid != 0;
}

static enum facet_status rocm_metrics_device(struct facet_provider_instance *instance, uint32_t device,
                                             struct facet_device_metrics *ret_metrics, struct facet_error *error)
{
    struct facet_device_metrics metrics;
    enum facet_status status = gpu_device_check(&instance->gpu, device, FACET_CAN_DEVICE_METRICS, error);

    if (status != FACET_OK)
        return status;
    if (!rocm_metrics_read(&instance->smi, &instance->gpus[device], &metrics))
        return facet_kit_fail(error, FACET_DEVICE_LOST, "device %" PRIu32 ": no sensor answers any more", device);
    metrics.device = device;
    return facet_kit_struct(&metrics, sizeof metrics, ret_metrics, error);
}

static enum facet_status rocm_metrics_processes(struct facet_provider_instance *instance, uint32_t device, void *items,
                                                uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                                struct facet_error *error)
{
    struct rocm_process *processes = NULL;
    uint32_t count = 0;
    enum facet_status status = gpu_device_check(&instance->gpu, device, FACET_CAN_PROCESS_METRICS, error);

    if (status == FACET_OK)
        status = rocm_processes_read(instance, device, &processes, &count, error);
    if (status != FACET_OK)
        return status;
    struct facet_process_metrics *metrics = calloc(count + 1, sizeof *metrics);
    if (!metrics) {
        free(processes);
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for %" PRIu32 " processes", count);
    }
    for (uint32_t i = 0; i < count; i++)
        metrics[i] = (struct facet_process_metrics){
            .size = sizeof *metrics,
            .device = device,
            .pid = processes[i].pid,
            .valid = FACET_PROCESS_HAS_MEMORY | (processes[i].has_units ? FACET_PROCESS_HAS_UNITS : 0),
            .timestamp_ns = facet_kit_now_ns(),
            .memory_used_bytes = processes[i].memory_bytes,
            .units_active = processes[i].units,
        };
    status = facet_kit_list_items(metrics, sizeof *metrics, count, items, item_size, capacity, ret_count, error);
    free(metrics);
    free(processes);
    return status;
}

const struct facet_metrics_ops rocm_metrics_ops = {
    .size = sizeof rocm_metrics_ops,
    .device = rocm_metrics_device,
    .processes = rocm_metrics_processes,
};
