/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the families of device metrics. Never: writes a value whose bit is clear. */
#include "endpoint_device_metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/describe.h"
#include "tenants.h"

/* The readings of all devices: each family of metrics is written once, with the samples of all devices. */
struct readings {
    const struct facet_device_table *devices;
    struct device_reading *list;
    uint32_t count;
    const struct vgpu_info *infos;
    size_t info_count;
};

static const struct facet_device_record *device_at(const struct readings *readings, uint32_t index)
{
    return facet_device_table_at(readings->devices, index);
}

/* --- devices ---------------------------------------------------------------------------------------------------- */

typedef void (*write_func)(struct facet_prometheus *text, const struct facet_label *labels, size_t label_count,
                           uint64_t value);

#define READ(name, expression)                                                                                         \
    static uint64_t read_##name(const struct facet_device_metrics *metrics)                                            \
    {                                                                                                                  \
        return expression;                                                                                             \
    }
READ(power, metrics->power_mw)
READ(energy, metrics->energy_mj)
READ(clock, metrics->clock_mhz *UINT64_C(1000000))
READ(memory_used, metrics->memory_used_bytes)
READ(pcie_rx, metrics->pcie_rx_bytes)
READ(pcie_tx, metrics->pcie_tx_bytes)
READ(busy, metrics->busy_ns)
READ(compute_active, metrics->compute_active_milli)
READ(tensor_active, metrics->tensor_active_milli)
READ(memory_active, metrics->memory_active_milli)
READ(encoder_active, metrics->encoder_active_milli)
READ(decoder_active, metrics->decoder_active_milli)
READ(ecc_corrected, metrics->ecc_corrected)
READ(ecc_uncorrected, metrics->ecc_uncorrected)
#undef READ

/* facet_prometheus_ratio() divides by 1000: it writes milliwatts as watts, and milli as a share of 1. */
static const struct device_metric {
    uint64_t bit;
    const char *name;
    enum facet_metric_type type;
    const char *help;
    write_func write;
    uint64_t (*read)(const struct facet_device_metrics *metrics);
} device_metrics[] = {
    {FACET_METRIC_POWER, "facet_device_power_watts", FACET_METRIC_GAUGE, "Power the device draws.",
     facet_prometheus_ratio, read_power},
    {FACET_METRIC_ENERGY, "facet_device_energy_joules_total", FACET_METRIC_COUNTER, "Energy the device has used.",
     facet_prometheus_ratio, read_energy},
    {FACET_METRIC_CLOCK, "facet_device_clock_hertz", FACET_METRIC_GAUGE, "Clock of the compute units now.",
     facet_prometheus_count, read_clock},
    {FACET_METRIC_MEMORY_USED, "facet_device_memory_used_bytes", FACET_METRIC_GAUGE, "Device memory in use.",
     facet_prometheus_count, read_memory_used},
    {FACET_METRIC_PCIE_RX, "facet_device_pcie_receive_bytes_total", FACET_METRIC_COUNTER, "Bytes into the device.",
     facet_prometheus_count, read_pcie_rx},
    {FACET_METRIC_PCIE_TX, "facet_device_pcie_transmit_bytes_total", FACET_METRIC_COUNTER, "Bytes out of the device.",
     facet_prometheus_count, read_pcie_tx},
    {FACET_METRIC_BUSY, "facet_device_busy_seconds_total", FACET_METRIC_COUNTER,
     "Time with at least one kernel on the device.", facet_prometheus_seconds, read_busy},
    {FACET_METRIC_COMPUTE_ACTIVE, "facet_device_compute_active_ratio", FACET_METRIC_GAUGE,
     "Share of the compute units at work.", facet_prometheus_ratio, read_compute_active},
    {FACET_METRIC_TENSOR_ACTIVE, "facet_device_tensor_active_ratio", FACET_METRIC_GAUGE,
     "Share of the matrix units at work.", facet_prometheus_ratio, read_tensor_active},
    {FACET_METRIC_MEMORY_ACTIVE, "facet_device_memory_active_ratio", FACET_METRIC_GAUGE,
     "Share of the peak memory bandwidth.", facet_prometheus_ratio, read_memory_active},
    {FACET_METRIC_ENCODER_ACTIVE, "facet_device_encoder_active_ratio", FACET_METRIC_GAUGE,
     "Share of the video encoders at work.", facet_prometheus_ratio, read_encoder_active},
    {FACET_METRIC_DECODER_ACTIVE, "facet_device_decoder_active_ratio", FACET_METRIC_GAUGE,
     "Share of the video decoders at work.", facet_prometheus_ratio, read_decoder_active},
    {FACET_METRIC_ECC_CORRECTED, "facet_device_ecc_corrected_total", FACET_METRIC_COUNTER,
     "Memory errors that were corrected.", facet_prometheus_count, read_ecc_corrected},
    {FACET_METRIC_ECC_UNCORRECTED, "facet_device_ecc_uncorrected_total", FACET_METRIC_COUNTER,
     "Memory errors that were not corrected.", facet_prometheus_count, read_ecc_uncorrected},
};

static bool has_metric(const struct device_reading *reading, uint64_t bit)
{
    return reading->has_metrics && (reading->metrics.valid & bit);
}

/* Begins a family before its first sample. A family without samples is left out, because absent is not zero. */
static void begin_family(struct facet_prometheus *text, bool *begun, const char *name, enum facet_metric_type type,
                         const char *help)
{
    if (!*begun)
        facet_prometheus_family(text, name, type, help);
    *begun = true;
}

static void write_metric(struct facet_prometheus *text, const struct device_metric *metric,
                         const struct readings *readings)
{
    bool begun = false;

    for (uint32_t i = 0; i < readings->count; i++) {
        const struct facet_label labels[] = {{"device", device_at(readings, i)->id},
                                             {"name", device_at(readings, i)->info.name}};
        if (!has_metric(&readings->list[i], metric->bit))
            continue;
        begin_family(text, &begun, metric->name, metric->type, metric->help);
        metric->write(text, labels, 2, metric->read(&readings->list[i].metrics));
    }
}

static void write_temperature(struct facet_prometheus *text, const struct readings *readings)
{
    bool begun = false;

    for (uint32_t i = 0; i < readings->count; i++) {
        const struct facet_label labels[] = {{"device", device_at(readings, i)->id},
                                             {"name", device_at(readings, i)->info.name}};
        if (!has_metric(&readings->list[i], FACET_METRIC_TEMPERATURE))
            continue;
        begin_family(text, &begun, "facet_device_temperature_celsius", FACET_METRIC_GAUGE,
                     "Temperature of the device.");
        facet_prometheus_signed(text, labels, 2, readings->list[i].metrics.temperature_mc);
    }
}

static void write_throttle(struct facet_prometheus *text, const struct readings *readings)
{
    static const char *const reasons[] = {"power", "thermal", "fault"}; /* FACET_THROTTLE_*, in the order of bits */
    bool begun = false;

    for (uint32_t i = 0; i < readings->count; i++) {
        if (!has_metric(&readings->list[i], FACET_METRIC_THROTTLE))
            continue;
        begin_family(text, &begun, "facet_device_throttled", FACET_METRIC_GAUGE,
                     "1 while the clock is lower than it could be for this reason.");
        for (unsigned bit = 0; bit < sizeof reasons / sizeof reasons[0]; bit++) {
            const struct facet_label labels[] = {{"device", device_at(readings, i)->id},
                                                 {"name", device_at(readings, i)->info.name},
                                                 {"reason", reasons[bit]}};
            facet_prometheus_count(text, labels, 3, readings->list[i].metrics.throttle >> bit & 1);
        }
    }
}

/* Writes one sample per health, 1 for the present one and 0 for the others, as is usual for an enumeration. */
static void write_health(struct facet_prometheus *text, const struct readings *readings)
{
    bool begun = false;

    for (uint32_t i = 0; i < readings->count; i++)
        for (uint32_t health = FACET_HEALTH_UNKNOWN; health <= FACET_HEALTH_FAILED; health++) {
            const struct facet_label labels[] = {{"device", device_at(readings, i)->id},
                                                 {"name", device_at(readings, i)->info.name},
                                                 {"health", facet_health_name(health)}};
            begin_family(text, &begun, "facet_device_health", FACET_METRIC_GAUGE,
                         "1 for the health that the device has.");
            facet_prometheus_count(text, labels, 3, readings->list[i].health == health);
        }
}

/* --- links and processes ---------------------------------------------------------------------------------------- */

static const struct link_metric {
    uint32_t bit;
    const char *name, *help;
    size_t offset;
} link_metrics[] = {
    {FACET_LINK_METRIC_RX, "facet_link_receive_bytes_total", "Bytes into the device over the link.",
     offsetof(struct facet_link_metrics, rx_bytes)},
    {FACET_LINK_METRIC_TX, "facet_link_transmit_bytes_total", "Bytes out of the device over the link.",
     offsetof(struct facet_link_metrics, tx_bytes)},
    {FACET_LINK_METRIC_ERRORS, "facet_link_errors_total", "Replays and checksum errors of the link.",
     offsetof(struct facet_link_metrics, errors)},
};

static void write_link_metric(struct facet_prometheus *text, const struct link_metric *metric,
                              const struct readings *readings)
{
    bool begun = false;
    char number[16];

    for (uint32_t i = 0; i < readings->count; i++)
        for (uint32_t j = 0; j < readings->list[i].link_count; j++) {
            const struct facet_link_metrics *link = &readings->list[i].links[j];
            const struct facet_label labels[] = {
                {"device", device_at(readings, i)->id}, {"link", number}, {"type", facet_link_type_name(link->type)}};
            if (!(link->valid & metric->bit))
                continue;
            snprintf(number, sizeof number, "%u", link->link);
            begin_family(text, &begun, metric->name, FACET_METRIC_COUNTER, metric->help);
            facet_prometheus_count(text, labels, 3, *(const uint64_t *)((const char *)link + metric->offset));
        }
}

static uint64_t process_memory(const struct facet_process_metrics *process)
{
    return process->memory_used_bytes;
}

static uint64_t process_busy(const struct facet_process_metrics *process)
{
    return process->busy_ns;
}

static uint64_t process_compute(const struct facet_process_metrics *process)
{
    return process->compute_milli;
}

static const struct process_metric {
    uint32_t bit;
    const char *name;
    enum facet_metric_type type;
    const char *help;
    write_func write;
    uint64_t (*read)(const struct facet_process_metrics *process);
} process_metrics[] = {
    {FACET_PROCESS_HAS_MEMORY, "facet_process_memory_used_bytes", FACET_METRIC_GAUGE,
     "Device memory of the process, as the device sees it.", facet_prometheus_count, process_memory},
    {FACET_PROCESS_HAS_BUSY, "facet_process_device_time_seconds_total", FACET_METRIC_COUNTER,
     "Device time of the process, as the device sees it.", facet_prometheus_seconds, process_busy},
    {FACET_PROCESS_HAS_COMPUTE, "facet_process_compute_ratio", FACET_METRIC_GAUGE, "Share of the device that it uses.",
     facet_prometheus_ratio, process_compute},
};

/* The name of the vGPU with this id; "" when there is none. */
static const char *name_of(const struct readings *readings, const char *id)
{
    for (size_t i = 0; i < readings->info_count; i++)
        if (strcmp(readings->infos[i].row.id, id) == 0)
            return readings->infos[i].row.name;
    return "";
}

static void write_process_metric(struct facet_prometheus *text, const struct process_metric *metric,
                                 const struct readings *readings)
{
    bool begun = false;
    char pid[16];

    for (uint32_t i = 0; i < readings->count; i++)
        for (uint32_t j = 0; j < readings->list[i].process_count; j++) {
            const struct facet_process_metrics *process = &readings->list[i].processes[j];
            const struct facet_label labels[] = {{"device", device_at(readings, i)->id},
                                                 {"pid", pid},
                                                 {"vgpu", process->worker},
                                                 {"name", name_of(readings, process->worker)},
                                                 {"partition", process->partition_uuid}};
            if (!(process->valid & metric->bit))
                continue;
            snprintf(pid, sizeof pid, "%d", process->pid);
            begin_family(text, &begun, metric->name, metric->type, metric->help);
            metric->write(text, labels, 5, metric->read(process));
        }
}

/* --- all of it -------------------------------------------------------------------------------------------------- */

/* Names the vGPU of each process: providers report only vGPUs that they limit, so segments show the others. */
static enum facet_status name_workers(struct readings *readings, struct facet_error *error)
{
    struct tenants tenants;

    enum facet_status status = tenants_read(readings->infos, readings->info_count, &tenants, error);
    if (status != FACET_OK)
        return status;
    for (uint32_t i = 0; i < readings->count; i++)
        for (uint32_t j = 0; j < readings->list[i].process_count; j++) {
            struct facet_process_metrics *process = &readings->list[i].processes[j];
            const struct vgpu_info *info =
                process->worker[0] ? NULL : tenants_find(&tenants, device_at(readings, i)->id, process->pid);
            if (info)
                snprintf(process->worker, sizeof process->worker, "%s", info->row.id);
        }
    tenants_free(&tenants);
    return FACET_OK;
}

static enum facet_status read_all(const struct daemon *daemon, struct readings *readings, struct facet_error *error)
{
    enum facet_status status = FACET_OK;
    uint32_t count = facet_device_table_count(daemon->devices);

    readings->devices = daemon->devices;
    readings->list = calloc(count ? count : 1, sizeof *readings->list);
    if (!readings->list)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for the metrics of %u devices", count);
    while (status == FACET_OK && readings->count < count) {
        status = sessions_read(daemon->sessions, device_at(readings, readings->count), &readings->list[readings->count],
                               error);
        readings->count += status == FACET_OK;
    }
    return status == FACET_OK ? name_workers(readings, error) : status;
}

static void readings_free(struct readings *readings)
{
    for (uint32_t i = 0; i < readings->count; i++)
        device_reading_free(&readings->list[i]);
    free(readings->list);
}

enum facet_status device_metrics_write(const struct daemon *daemon, const struct vgpu_info *infos, size_t info_count,
                                       struct facet_prometheus *text, struct facet_error *error)
{
    struct readings readings = {.infos = infos, .info_count = info_count};

    sessions_watch(daemon->sessions);
    enum facet_status status = read_all(daemon, &readings, error);
    if (status == FACET_OK) {
        write_health(text, &readings);
        for (size_t i = 0; i < sizeof device_metrics / sizeof device_metrics[0]; i++)
            write_metric(text, &device_metrics[i], &readings);
        write_temperature(text, &readings);
        write_throttle(text, &readings);
        for (size_t i = 0; i < sizeof link_metrics / sizeof link_metrics[0]; i++)
            write_link_metric(text, &link_metrics[i], &readings);
        for (size_t i = 0; i < sizeof process_metrics / sizeof process_metrics[0]; i++)
            write_process_metric(text, &process_metrics[i], &readings);
    }
    readings_free(&readings);
    return status;
}
