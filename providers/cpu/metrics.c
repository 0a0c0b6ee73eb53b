/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the table `metrics`: the executor's measurements, and the memory that contexts hold.
 * Never: counts the work of others on these processors.
 *
 * A share is busy time over the time between two readings: the first reading has none.
 */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "cpu.h"

/* Busy time of units in thousandths of the time that all units have in `elapsed_ns`. */
static uint32_t share_of(const struct facet_provider_instance *instance, uint64_t busy_ns, uint64_t elapsed_ns)
{
    uint64_t whole_ns = elapsed_ns * instance->info.compute_units / FACET_MILLI_WHOLE;
    uint64_t milli = whole_ns > 0 ? busy_ns / whole_ns : 0;

    return milli > FACET_MILLI_WHOLE ? FACET_MILLI_WHOLE : (uint32_t)milli;
}

/* With the lock held. */
static void read_device(struct facet_provider_instance *instance, struct facet_device_metrics *ret_metrics)
{
    uint64_t now_ns = cpu_now_ns(CLOCK_MONOTONIC), unit_ns = 0, busy_ns = 0;
    struct facet_device_metrics metrics = {
        .size = sizeof metrics,
        .valid = FACET_METRIC_MEMORY_USED | FACET_METRIC_BUSY,
        .timestamp_ns = cpu_now_ns(CLOCK_REALTIME),
        .memory_used_bytes = cpu_memory_used(instance),
    };

    cpu_executor_busy(instance->executor, &unit_ns, &busy_ns);
    metrics.busy_ns = busy_ns;
    if (instance->read_at_ns > 0 && now_ns > instance->read_at_ns) {
        instance->compute_milli = share_of(instance, unit_ns - instance->read_unit_ns, now_ns - instance->read_at_ns);
        instance->was_read = true;
    }
    instance->read_at_ns = now_ns;
    instance->read_unit_ns = unit_ns;
    if (instance->was_read) {
        metrics.valid |= FACET_METRIC_COMPUTE_ACTIVE;
        metrics.compute_active_milli = instance->compute_milli;
    }
    *ret_metrics = metrics;
}

static enum facet_status metrics_device(struct facet_provider_instance *instance, uint32_t device,
                                        struct facet_device_metrics *ret_metrics, struct facet_error *error)
{
    struct facet_device_metrics metrics;
    enum facet_status status = cpu_check_device(instance, device, error);

    if (status != FACET_OK)
        return status;
    CPU_REQUIRE(ret_metrics, error);
    pthread_mutex_lock(&instance->lock);
    read_device(instance, &metrics);
    pthread_mutex_unlock(&instance->lock);
    return facet_kit_struct(&metrics, sizeof metrics, ret_metrics, error);
}

/* --- processes: all are in this one; one item for each worker that has anything --- */

static uint32_t units_active(const struct facet_provider_instance *instance, const struct cpu_worker *worker)
{
    const struct cpu_context *context;
    uint32_t units = 0;

    if (worker->tenant)
        return cpu_tenant_units_active(worker->tenant);
    TAILQ_FOREACH (context, &instance->contexts, link)
        if (context->worker == worker)
            units += cpu_tenant_units_active(context->tenant);
    return units;
}

static void read_share(const struct facet_provider_instance *instance, struct cpu_worker *worker, uint64_t busy_ns)
{
    uint64_t now_ns = cpu_now_ns(CLOCK_MONOTONIC);

    if (worker->read_at_ns > 0 && now_ns > worker->read_at_ns) {
        worker->compute_milli = share_of(instance, busy_ns - worker->read_busy_ns, now_ns - worker->read_at_ns);
        worker->was_read = true;
    }
    worker->read_at_ns = now_ns;
    worker->read_busy_ns = busy_ns;
}

static void read_worker(const struct facet_provider_instance *instance, struct cpu_worker *worker, bool is_reading,
                        struct facet_process_metrics *ret_process)
{
    uint64_t busy_ns = cpu_worker_busy_ns(instance, worker);

    if (is_reading) /* a call that only counts the processes is no reading */
        read_share(instance, worker, busy_ns);
    *ret_process = (struct facet_process_metrics){
        .size = sizeof *ret_process,
        .pid = (int32_t)getpid(),
        .valid = FACET_PROCESS_HAS_MEMORY | FACET_PROCESS_HAS_RESERVED | FACET_PROCESS_HAS_BUSY |
                 FACET_PROCESS_HAS_UNITS | (worker->was_read ? FACET_PROCESS_HAS_COMPUTE : 0),
        .timestamp_ns = cpu_now_ns(CLOCK_REALTIME),
        .memory_used_bytes = worker->used_bytes,
        .memory_reserved_bytes = worker->reserved_bytes,
        .busy_ns = busy_ns,
        .compute_milli = worker->was_read ? worker->compute_milli : 0,
        .units_active = units_active(instance, worker),
    };
    FACET_KIT_TEXT(ret_process->worker, worker->name);
}

static enum facet_status list_workers(struct facet_provider_instance *instance, void *items, uint32_t item_size,
                                      uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    struct cpu_worker *worker;
    uint32_t count = 0, filled = 0;

    TAILQ_FOREACH (worker, &instance->workers, link)
        count += cpu_worker_is_used(worker);
    struct facet_process_metrics *processes = calloc((size_t)count + 1, sizeof *processes);
    if (!processes)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for %" PRIu32 " processes", count);
    TAILQ_FOREACH (worker, &instance->workers, link)
        if (cpu_worker_is_used(worker))
            read_worker(instance, worker, capacity >= count, &processes[filled++]);
    enum facet_status status =
        facet_kit_list_items(processes, sizeof *processes, count, items, item_size, capacity, ret_count, error);
    free(processes);
    return status;
}

static enum facet_status metrics_processes(struct facet_provider_instance *instance, uint32_t device, void *items,
                                           uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                           struct facet_error *error)
{
    enum facet_status status = cpu_check_device(instance, device, error);

    if (status != FACET_OK)
        return status;
    pthread_mutex_lock(&instance->lock);
    status = list_workers(instance, items, item_size, capacity, ret_count, error);
    pthread_mutex_unlock(&instance->lock);
    return status;
}

const struct facet_metrics_ops cpu_metrics_ops = {
    .size = sizeof cpu_metrics_ops,
    .device = metrics_device,
    .processes = metrics_processes,
};
