/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the metrics of drivers that programs opened and publish. Never: makes up a value that is not known. */
#include "metrics_library.h"

#include <inttypes.h>
#include <stdio.h>

#include "monitor/prometheus.h"
#include "vgpu/published.h"

enum { LABELS = 6 };

typedef void (*write_func)(struct facet_prometheus *text, const struct facet_label *labels, size_t label_count,
                           uint64_t value);

/* The texts that labels point to. */
struct names {
    char pid[24], driver[16], index[16], vgpu[16];
};

static const struct device_metric {
    const char *name;
    enum facet_metric_type type;
    const char *help;
    write_func write;
    size_t offset;
    bool wide;
    uint32_t valid;
} device_metrics[] =
    {
#define METRIC(name, type, help, write, member, bit)                                                                   \
    {                                                                                                                  \
        "facet_library_device_" name, type, help, write, offsetof(struct facet_driver_device, member),                 \
            sizeof(((struct facet_driver_device *)NULL)->member) == sizeof(uint64_t), bit                              \
    }
        METRIC("lost", FACET_METRIC_GAUGE, "1 when the program has lost the device.", facet_prometheus_count, lost, 0),
        METRIC("vgpus", FACET_METRIC_GAUGE, "The program's vGPUs on the device.", facet_prometheus_count, vgpus, 0),
        METRIC("memory_bytes", FACET_METRIC_GAUGE, "The most memory that the program's vGPUs can have together.",
               facet_prometheus_count, memory_bytes, 0),
        METRIC("memory_used_bytes", FACET_METRIC_GAUGE,
               "The part of memory_bytes that is obtained from the device now.", facet_prometheus_count,
               memory_used_bytes, 0),
        METRIC("busy_seconds_total", FACET_METRIC_COUNTER, "Time with at least one kernel on the device.",
               facet_prometheus_seconds, busy_ns, FACET_DRIVER_HAS_BUSY),
        METRIC("utilization_ratio", FACET_METRIC_GAUGE, "Share of the compute units' time taken by work lately.",
               facet_prometheus_ratio, utilization_milli, FACET_DRIVER_HAS_UTILIZATION),
#undef METRIC
},
  vgpu_metrics[] = {
#define METRIC(name, type, help, write, member, bit)                                                                   \
    {                                                                                                                  \
        "facet_library_vgpu_" name, type, help, write, offsetof(struct facet_vgpu_info, member),                       \
            sizeof(((struct facet_vgpu_info *)NULL)->member) == sizeof(uint64_t), bit                                  \
    }
      METRIC("memory_limit_bytes", FACET_METRIC_GAUGE, "Memory limit.", facet_prometheus_count, memory_limit_bytes,
             FACET_VGPU_HAS_MEMORY),
      METRIC("memory_allocated_bytes", FACET_METRIC_GAUGE, "Memory allocated, in the sizes that were asked for.",
             facet_prometheus_count, memory_allocated_bytes, FACET_VGPU_HAS_MEMORY),
      METRIC("memory_reserved_bytes", FACET_METRIC_GAUGE, "Memory allocated, in whole pages.", facet_prometheus_count,
             memory_reserved_bytes, FACET_VGPU_HAS_MEMORY),
      METRIC("memory_peak_bytes", FACET_METRIC_GAUGE, "The most memory that it held.", facet_prometheus_count,
             memory_peak_bytes, FACET_VGPU_HAS_MEMORY),
      METRIC("compute_request_ratio", FACET_METRIC_GAUGE, "Guaranteed share of the device; 0 is best effort.",
             facet_prometheus_ratio, request_milli, 0),
      METRIC("compute_ratio", FACET_METRIC_GAUGE, "Share of the device's time measured lately.", facet_prometheus_ratio,
             compute_milli, FACET_VGPU_HAS_COMPUTE),
      METRIC("device_time_seconds_total", FACET_METRIC_COUNTER,
             "Measured device time of complete launches, operations and transfers.", facet_prometheus_seconds, busy_ns,
             0),
      METRIC("queue_seconds_total", FACET_METRIC_COUNTER,
             "Time in queues of complete launches, operations and transfers.", facet_prometheus_seconds, delay_ns,
             FACET_VGPU_HAS_RECORDS),
      METRIC("launches_total", FACET_METRIC_COUNTER, "Launches, operations and transfers queued.",
             facet_prometheus_count, launched_total, 0),
      METRIC("completed_total", FACET_METRIC_COUNTER, "Launches, operations and transfers that are complete.",
             facet_prometheus_count, completed_total, 0),
      METRIC("failed_total", FACET_METRIC_COUNTER, "Launches, operations and transfers that failed.",
             facet_prometheus_count, failed_total, FACET_VGPU_HAS_RECORDS),
      METRIC("cancelled_total", FACET_METRIC_COUNTER, "Launches, operations and transfers that were cancelled.",
             facet_prometheus_count, cancelled_total, FACET_VGPU_HAS_RECORDS),
      METRIC("queued", FACET_METRIC_GAUGE, "Launches, operations and transfers that wait now.", facet_prometheus_count,
             queued, 0),
      METRIC("running", FACET_METRIC_GAUGE, "Launches, operations and transfers that run now.", facet_prometheus_count,
             running, 0),
#undef METRIC
};

static void name_driver(struct names *names, const struct facet_published *driver)
{
    snprintf(names->pid, sizeof names->pid, "%" PRIi64, driver->pid);
    snprintf(names->driver, sizeof names->driver, "%" PRIu32, driver->number);
}

static uint64_t value_of(const struct device_metric *metric, const void *item)
{
    uint64_t wide;
    uint32_t narrow;

    if (metric->wide) {
        memcpy(&wide, (const char *)item + metric->offset, sizeof wide);
        return wide;
    }
    memcpy(&narrow, (const char *)item + metric->offset, sizeof narrow);
    return narrow;
}

static void begin_family(struct facet_prometheus *text, const struct device_metric *metric, bool *begun)
{
    if (!*begun)
        facet_prometheus_family(text, metric->name, metric->type, metric->help);
    *begun = true;
}

static void write_device_metric(struct facet_prometheus *text, const struct device_metric *metric,
                                const struct facet_published *drivers, uint32_t count)
{
    struct names names;
    bool begun = false;

    for (uint32_t i = 0; i < count; i++) {
        name_driver(&names, &drivers[i]);
        for (uint32_t k = 0; k < drivers[i].devices; k++) {
            const struct facet_driver_device *device = &drivers[i].device[k];
            /* A driver may open one device twice: its place in the driver's list tells the two apart. */
            const struct facet_label labels[] = {{"pid", names.pid},
                                                 {"driver", names.driver},
                                                 {"program", drivers[i].program},
                                                 {"device", device->id},
                                                 {"index", names.index}};

            if ((device->valid & metric->valid) != metric->valid)
                continue;
            begin_family(text, metric, &begun);
            snprintf(names.index, sizeof names.index, "%" PRIu32, k);
            metric->write(text, labels, sizeof labels / sizeof labels[0], value_of(metric, device));
        }
    }
}

static void write_vgpu_metric(struct facet_prometheus *text, const struct device_metric *metric,
                              const struct facet_published *drivers, uint32_t count)
{
    struct names names;
    bool begun = false;

    for (uint32_t i = 0; i < count; i++) {
        name_driver(&names, &drivers[i]);
        for (uint32_t k = 0; k < drivers[i].vgpus; k++) {
            const struct facet_vgpu_info *vgpu = &drivers[i].vgpu[k];
            const char *device = vgpu->device < drivers[i].devices ? drivers[i].device[vgpu->device].id : "";
            const struct facet_label labels[LABELS] = {
                {"pid", names.pid},   {"driver", names.driver}, {"program", drivers[i].program},
                {"vgpu", names.vgpu}, {"name", vgpu->name},     {"device", device}};

            if ((vgpu->valid & metric->valid) != metric->valid)
                continue;
            snprintf(names.vgpu, sizeof names.vgpu, "%" PRIu32, vgpu->id);
            begin_family(text, metric, &begun);
            metric->write(text, labels, LABELS, value_of(metric, vgpu));
        }
    }
}

static uint32_t warn_of_refused(const struct command *self, const struct facet_published *drivers, uint32_t count)
{
    uint32_t refused = 0;

    for (uint32_t i = 0; i < count; i++) {
        if (!drivers[i].refusal[0])
            continue;
        command_warn(self, "driver %" PRIu32 " of process %" PRIi64 " is left out: what it publishes is damaged: %s",
                     drivers[i].number, drivers[i].pid, drivers[i].refusal);
        refused++;
    }
    return refused;
}

enum facet_status metrics_of_library(const struct command *self, char **ret_text, uint32_t *ret_drivers,
                                     struct facet_error *error)
{
    struct facet_published *drivers = NULL;
    struct facet_prometheus text;
    uint32_t count = 0;
    enum facet_status status = facet_published_read(&drivers, &count, error);

    if (status != FACET_OK)
        return status;
    uint32_t refused = warn_of_refused(self, drivers, count);
    facet_prometheus_init(&text);
    for (size_t i = 0; i < sizeof device_metrics / sizeof device_metrics[0]; i++)
        write_device_metric(&text, &device_metrics[i], drivers, count);
    for (size_t i = 0; i < sizeof vgpu_metrics / sizeof vgpu_metrics[0]; i++)
        write_vgpu_metric(&text, &vgpu_metrics[i], drivers, count);
    facet_published_free(drivers, count);
    bool failed = text.failed;
    char *output = facet_prometheus_take(&text);
    if (failed)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for the metrics of %" PRIu32 " programs", count);
    *ret_text = output;
    *ret_drivers = count - refused;
    return FACET_OK;
}
