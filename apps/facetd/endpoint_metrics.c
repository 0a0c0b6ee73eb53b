/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: GET /metrics: the list of metrics and their names. Never: makes up a value that is not known. */
#include <stdlib.h>

#include "audit.h"
#include "base/clock.h"
#include "endpoint_device_metrics.h"
#include "limiter/refused.h"
#include "monitor/prometheus.h"

enum { LABEL_COUNT = 3 };

/* How a number is written. */
typedef void (*write_func)(struct facet_prometheus *text, const struct facet_label *labels, size_t label_count,
                           uint64_t value);

/* Reads one number of a vGPU; false when it was not measured. */
typedef bool (*read_func)(const struct vgpu_info *info, uint64_t *ret_value);

static bool read_memory_limit(const struct vgpu_info *info, uint64_t *ret_value)
{
    *ret_value = info->row.limits.memory_bytes;
    return info->row.limits.memory_bytes != MEMORY_UNDECIDED;
}

static bool read_compute_request(const struct vgpu_info *info, uint64_t *ret_value)
{
    *ret_value = info->row.limits.compute_request_milli;
    return true;
}

static bool read_compute_limit(const struct vgpu_info *info, uint64_t *ret_value)
{
    *ret_value = info->row.limits.compute_limit_milli;
    return true;
}

static bool read_share(const struct vgpu_info *info, uint64_t *ret_value)
{
    *ret_value = info->view.share_milli;
    return info->measured && info->view.share_valid && info->view.believed & FACET_BELIEVED_BUSY;
}

#define READ_TOTAL(member, bit)                                                                                        \
    static bool read_##member(const struct vgpu_info *info, uint64_t *ret_value)                                       \
    {                                                                                                                  \
        *ret_value = info->view.totals.member;                                                                         \
        return info->measured && info->view.believed & (bit);                                                          \
    }
READ_TOTAL(memory_bytes, FACET_BELIEVED_MEMORY)
READ_TOTAL(memory_peak_bytes, FACET_BELIEVED_PEAK)
READ_TOTAL(throttled_ns, FACET_BELIEVED_THROTTLED)
READ_TOTAL(launches, FACET_BELIEVED_LAUNCHES)
READ_TOTAL(denied, FACET_BELIEVED_DENIED)
READ_TOTAL(processes, FACET_BELIEVED_ALL)
#undef READ_TOTAL

static bool read_device_time(const struct vgpu_info *info, uint64_t *ret_value)
{
    *ret_value = info->view.device_time_ns;
    return info->measured && info->view.believed & FACET_BELIEVED_BUSY;
}

static bool read_refused(const struct vgpu_info *info, uint64_t *ret_value)
{
    char reason[FACET_REFUSED_REASON_SIZE];
    uint32_t count = 0;
    bool has_count = info->measured && facet_refused_read(info->segment, &count, reason);

    *ret_value = count;
    return has_count;
}

static bool read_damaged(const struct vgpu_info *info, uint64_t *ret_value)
{
    *ret_value = info->damaged;
    return info->measured || info->damaged;
}

static const struct vgpu_metric {
    const char *name;
    enum facet_metric_type type;
    const char *help;
    write_func write;
    read_func read;
} vgpu_metrics[] = {
    {"facet_vgpu_memory_limit_bytes", FACET_METRIC_GAUGE, "Memory quota of the vGPU.", facet_prometheus_count,
     read_memory_limit},
    {"facet_vgpu_memory_used_bytes", FACET_METRIC_GAUGE, "Device memory that the vGPU's processes hold.",
     facet_prometheus_count, read_memory_bytes},
    {"facet_vgpu_memory_peak_bytes", FACET_METRIC_GAUGE, "The most device memory held at once.", facet_prometheus_count,
     read_memory_peak_bytes},
    {"facet_vgpu_device_time_seconds_total", FACET_METRIC_COUNTER, "Device time that the vGPU had.",
     facet_prometheus_seconds, read_device_time},
    {"facet_vgpu_throttled_seconds_total", FACET_METRIC_COUNTER, "Time that threads waited to launch.",
     facet_prometheus_seconds, read_throttled_ns},
    {"facet_vgpu_launches_total", FACET_METRIC_COUNTER, "Kernels launched.", facet_prometheus_count, read_launches},
    {"facet_vgpu_denied_allocations_total", FACET_METRIC_COUNTER, "Allocations refused for quota.",
     facet_prometheus_count, read_denied},
    {"facet_vgpu_processes", FACET_METRIC_GAUGE, "Processes in the vGPU.", facet_prometheus_count, read_processes},
    {"facet_vgpu_refused_processes_total", FACET_METRIC_COUNTER, "Processes that could not enter the vGPU.",
     facet_prometheus_count, read_refused},
    {"facet_vgpu_damaged", FACET_METRIC_GAUGE, "1 if the vGPU's segment was damaged and numbers of it are left out.",
     facet_prometheus_count, read_damaged},
    {"facet_vgpu_compute_request_ratio", FACET_METRIC_GAUGE, "Guaranteed share of the device; 0 is best effort.",
     facet_prometheus_ratio, read_compute_request},
    {"facet_vgpu_compute_limit_ratio", FACET_METRIC_GAUGE, "Cap on the share of the device; 1 is none.",
     facet_prometheus_ratio, read_compute_limit},
    {"facet_vgpu_share_ratio", FACET_METRIC_GAUGE, "Share of the device's time measured over the last second.",
     facet_prometheus_ratio, read_share},
};

static void fill_labels(const struct vgpu_info *info, struct facet_label labels[static LABEL_COUNT])
{
    labels[0] = (struct facet_label){"vgpu", info->row.id};
    labels[1] = (struct facet_label){"name", info->row.name};
    labels[2] = (struct facet_label){"device", info->row.device_id};
}

/* Writes one family. A family without samples is left out, because absent is not zero. */
static void write_vgpu_metric(struct facet_prometheus *text, const struct vgpu_metric *metric,
                              const struct vgpu_info *infos, size_t count)
{
    struct facet_label labels[LABEL_COUNT];
    bool begun = false;
    uint64_t value = 0;

    for (size_t i = 0; i < count; i++) {
        if (!metric->read(&infos[i], &value))
            continue;
        if (!begun)
            facet_prometheus_family(text, metric->name, metric->type, metric->help);
        begun = true;
        fill_labels(&infos[i], labels);
        metric->write(text, labels, LABEL_COUNT, value);
    }
}

/* Writes the driver's own count of each vGPU's memory. */
static void write_audit(struct facet_prometheus *text, struct audit *audit, const struct vgpu_info *infos, size_t count)
{
    struct facet_label labels[LABEL_COUNT];
    struct audit_result result;
    bool begun = false;

    for (size_t i = 0; i < count; i++) {
        if (!audit_of(audit, infos[i].row.id, &result))
            continue;
        if (!begun)
            facet_prometheus_family(text, "facet_vgpu_driver_memory_bytes", FACET_METRIC_GAUGE,
                                    "Device memory of the vGPU's processes by the driver's own count.");
        begun = true;
        fill_labels(&infos[i], labels);
        facet_prometheus_count(text, labels, LABEL_COUNT, result.driver_bytes);
    }
}

/* Writes one sample per state, 1 for the present one and 0 for the others, as is usual for an enumeration. */
static void write_states(struct facet_prometheus *text, const struct vgpu_info *infos, size_t count)
{
    struct facet_label labels[LABEL_COUNT + 1];

    if (count == 0)
        return;
    facet_prometheus_family(text, "facet_vgpu_state", FACET_METRIC_GAUGE, "1 for the state that the vGPU is in.");
    for (size_t i = 0; i < count; i++) {
        fill_labels(&infos[i], labels);
        for (unsigned state = 0; state < VGPU_STATE_COUNT; state++) {
            labels[LABEL_COUNT] = (struct facet_label){"state", vgpu_state_name((enum vgpu_state)state)};
            facet_prometheus_count(text, labels, LABEL_COUNT + 1, infos[i].state == state);
        }
    }
}

static void write_devices(struct facet_prometheus *text, const struct facet_device_table *devices)
{
    bool begun = false;

    for (uint32_t i = 0; i < facet_device_table_count(devices); i++) {
        const struct facet_device_record *device = facet_device_table_at(devices, i);
        const struct facet_label labels[] = {{"device", device->id}, {"name", device->info.name}};
        if (!(device->info.valid & FACET_DEVICE_HAS_MEMORY))
            continue;
        if (!begun)
            facet_prometheus_family(text, "facet_device_memory_bytes", FACET_METRIC_GAUGE, "Memory of the device.");
        begun = true;
        facet_prometheus_count(text, labels, 2, device->info.memory_bytes);
    }
}

static void write_daemon(struct facet_prometheus *text, const struct daemon *daemon)
{
    const struct facet_label version = {"version", FACET_VERSION};

    facet_prometheus_family(text, "facet_build_info", FACET_METRIC_GAUGE, "Always 1; the label says which facetd.");
    facet_prometheus_count(text, &version, 1, 1);
    facet_prometheus_family(text, "facet_daemon_uptime_seconds", FACET_METRIC_GAUGE, "Time since facetd started.");
    facet_prometheus_seconds(text, NULL, 0, facet_clock_now_ns() - daemon->started_ns);
}

enum facet_status endpoint_metrics(const struct daemon *daemon, const struct call *call, struct answer *ret_answer,
                                   struct facet_error *error)
{
    struct vgpu_info *infos = NULL;
    struct facet_prometheus text;
    size_t count = 0;

    enum facet_status status = registry_list(daemon->registry, &infos, &count, error);
    if (status != FACET_OK)
        return status;
    facet_prometheus_init(&text);
    write_daemon(&text, daemon);
    write_devices(&text, daemon->devices);
    status = device_metrics_write(daemon, infos, count, &text, error);
    for (size_t i = 0; i < sizeof vgpu_metrics / sizeof vgpu_metrics[0]; i++)
        write_vgpu_metric(&text, &vgpu_metrics[i], infos, count);
    write_audit(&text, daemon->audit, infos, count);
    write_states(&text, infos, count);
    free(infos);

    char *whole = facet_prometheus_take(&text);
    if (status != FACET_OK) {
        free(whole);
        return status;
    }
    if (!whole)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for the metrics");
    *ret_answer = (struct answer){.http = 200, .text = whole};
    return FACET_OK;
}
