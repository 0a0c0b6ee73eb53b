/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: hard limits of workers: whole, exclusive compute units, and bytes.
 * Never: promises more than the device has, or limits a device beside a worker without a limit on it.
 *
 * Units of a worker are adjacent. If too few free units are adjacent, the units of workers without a context are moved
 * together.
 */
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "provider_kit.h"
#include "share.h"
#include "state.h"
#include "usage.h"

/* Refuses if a worker without this kind of limit uses the device, because its use has no bound. */
static enum facet_status check_unlimited_users(const struct facet_provider_instance *instance,
                                               const struct sim_record *record, uint32_t device, uint32_t kind,
                                               struct facet_error *error)
{
    const struct sim_partition *partition = sim_record_first_partition(record, device);

    if (partition)
        return facet_kit_fail(error, FACET_BUSY, "device %" PRIu32 " is partitioned (partition %s); expected it whole",
                              device, partition->uuid);
    if (!sim_record_first_worker(record, device) && sim_uses_device(instance, device))
        return facet_kit_fail(error, FACET_BUSY,
                              "device %" PRIu32 " is used without limits; expected no context on it yet", device);
    for (uint32_t i = 0; i < record->worker_count; i++) {
        const struct sim_worker *worker = &record->workers[i];

        if (worker->device == device && !(worker->valid & kind) && sim_uses_worker(instance, device, worker->name))
            return facet_kit_fail(error, FACET_BUSY,
                                  "worker %s uses device %" PRIu32 " without such a limit; expected no context of it",
                                  worker->name, device);
    }
    return FACET_OK;
}

static enum facet_status check_room(const struct facet_provider_instance *instance, const struct sim_record *record,
                                    uint32_t device, struct facet_error *error)
{
    uint32_t most = sim_device_info(instance, device)->max_workers, count = 0;

    for (uint32_t i = 0; i < record->worker_count; i++)
        count += record->workers[i].device == device;
    if (count < most)
        return FACET_OK;
    return facet_kit_fail(error, FACET_BUSY, "device %" PRIu32 " has %" PRIu32 " workers; expected fewer", device,
                          count);
}

/* The worker to limit: an existing one, or a new one at the end. A limit that is set already is refused. */
static enum facet_status find_worker(const struct facet_provider_instance *instance, struct sim_record *record,
                                     uint32_t device, const char *name, uint32_t kind, struct sim_worker **ret_worker,
                                     struct facet_error *error)
{
    struct sim_worker *worker = sim_record_worker(record, device, name), new_worker = {.device = device};
    enum facet_status status = check_unlimited_users(instance, record, device, kind, error);

    if (worker && (worker->valid & kind))
        return facet_kit_fail(error, FACET_BAD_STATE, "worker %s has this limit; expected it to be cleared first",
                              name);
    if (status == FACET_OK && !worker) {
        FACET_KIT_TEXT(new_worker.name, name);
        status = check_room(instance, record, device, error);
        if (status == FACET_OK)
            status = sim_record_add_worker(record, &new_worker, error);
        worker = sim_record_worker(record, device, name);
    }
    if (status == FACET_OK)
        *ret_worker = worker;
    return status;
}

static enum facet_status limit_memory(const struct facet_provider_instance *instance, struct sim_record *record,
                                      uint32_t device, const char *name, uint64_t bytes, struct facet_error *error)
{
    const struct facet_device_info *info = sim_device_info(instance, device);
    uint64_t left = info->memory_bytes - sim_memory_promised(record, device, name);
    struct sim_worker *worker;
    enum facet_status status;

    if (bytes == 0 || bytes > info->memory_bytes)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "bytes %" PRIu64 ": expected 1 to %" PRIu64, bytes,
                              info->memory_bytes);
    status = find_worker(instance, record, device, name, FACET_WORKER_HAS_MEMORY, &worker, error);
    if (status != FACET_OK)
        return status;
    if (bytes > left)
        return facet_kit_fail(error, FACET_NO_SPACE,
                              "bytes %" PRIu64 ": expected at most the %" PRIu64 " that no worker of device %" PRIu32
                              " was promised",
                              bytes, left, device);
    worker->valid |= FACET_WORKER_HAS_MEMORY;
    worker->memory_bytes = bytes;
    return FACET_OK;
}

/* Moves the units of workers without a context as far down as possible. */
static void compact_units(const struct facet_provider_instance *instance, struct sim_record *record,
                          const struct facet_device_info *info)
{
    for (uint32_t i = 0; i < record->worker_count; i++) {
        struct sim_worker *worker = &record->workers[i];

        if (worker->device == info->index && worker->compute_units > 0 &&
            !sim_uses_worker(instance, worker->device, worker->name))
            worker->first_unit = sim_free_run(record, info, worker->name, worker->compute_units).first;
    }
}

static uint32_t units_promised(const struct sim_record *record, uint32_t device)
{
    uint32_t units = 0;

    for (uint32_t i = 0; i < record->worker_count; i++)
        if (record->workers[i].device == device)
            units += record->workers[i].compute_units;
    return units;
}

/* Finds the first of `units` adjacent free units. */
static enum facet_status find_units(const struct facet_provider_instance *instance, struct sim_record *record,
                                    const struct facet_device_info *info, const char *name, uint32_t units,
                                    uint32_t *ret_first, struct facet_error *error)
{
    uint32_t left = info->compute_units - units_promised(record, info->index);
    struct sim_run run;

    if (units > left)
        return facet_kit_fail(error, FACET_NO_SPACE,
                              "%" PRIu32 " compute units: expected at most the %" PRIu32
                              " that no worker of device %" PRIu32 " has",
                              units, left, info->index);
    run = sim_free_run(record, info, name, units);
    if (run.count < units) {
        compact_units(instance, record, info);
        run = sim_free_run(record, info, name, units);
    }
    if (run.count < units)
        return facet_kit_fail(error, FACET_NO_SPACE,
                              "%" PRIu32
                              " compute units: the free ones lie apart, between workers at work; expected at "
                              "most %" PRIu32,
                              units, run.count);
    *ret_first = run.first;
    return FACET_OK;
}

static enum facet_status limit_compute(const struct facet_provider_instance *instance, struct sim_record *record,
                                       uint32_t device, const char *name, uint32_t milli, struct facet_error *error)
{
    const struct facet_device_info *info = sim_device_info(instance, device);
    uint32_t units, first = 0;
    struct sim_worker *worker;
    enum facet_status status;

    if (milli == 0 || milli > FACET_MILLI_WHOLE)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "milli %" PRIu32 ": expected 1 to %u", milli,
                              FACET_MILLI_WHOLE);
    units = (milli * info->compute_units + FACET_MILLI_WHOLE - 1) / FACET_MILLI_WHOLE;
    status = find_worker(instance, record, device, name, FACET_WORKER_HAS_COMPUTE, &worker, error);
    if (status == FACET_OK)
        status = find_units(instance, record, info, name, units, &first, error);
    if (status != FACET_OK)
        return status;
    worker->valid |= FACET_WORKER_HAS_COMPUTE;
    worker->first_unit = first;
    worker->compute_units = units;
    worker->compute_milli = units * FACET_MILLI_WHOLE / info->compute_units;
    return FACET_OK;
}

static enum facet_status begin_limit(struct facet_provider_instance *instance, uint32_t device, const char *worker,
                                     const char *operation, struct sim_record **ret_record, struct facet_error *error)
{
    enum facet_status status = sim_begin(instance, device, operation, error);

    if (status == FACET_OK)
        status = facet_kit_check_worker(worker, error);
    return status == FACET_OK ? sim_state_begin(instance, ret_record, error) : status;
}

static enum facet_status limit_set_memory(struct facet_provider_instance *instance, uint32_t device, const char *worker,
                                          uint64_t bytes, struct facet_error *error)
{
    struct sim_record *record;
    enum facet_status status;

    if (!instance)
        return sim_refuse_null("instance", error);
    SIM_LOCK(instance);
    status = begin_limit(instance, device, worker, "limit.set_memory", &record, error);
    if (status != FACET_OK)
        return status;
    return sim_state_end(instance, limit_memory(instance, record, device, worker, bytes, error), error);
}

static enum facet_status limit_set_compute(struct facet_provider_instance *instance, uint32_t device,
                                           const char *worker, uint32_t milli, struct facet_error *error)
{
    struct sim_record *record;
    enum facet_status status;

    if (!instance)
        return sim_refuse_null("instance", error);
    SIM_LOCK(instance);
    status = begin_limit(instance, device, worker, "limit.set_compute", &record, error);
    if (status != FACET_OK)
        return status;
    return sim_state_end(instance, limit_compute(instance, record, device, worker, milli, error), error);
}

static void describe_limit(const struct facet_provider_instance *instance, const struct sim_worker *worker,
                           struct facet_worker_limit *limit)
{
    memset(limit, 0, sizeof *limit);
    limit->size = sizeof *limit;
    limit->valid = worker->valid;
    limit->device = worker->device;
    limit->compute_units = worker->compute_units;
    limit->compute_milli = worker->compute_milli;
    limit->memory_bytes = worker->memory_bytes;
    memcpy(limit->worker, worker->name, sizeof limit->worker);
    snprintf(limit->address, sizeof limit->address, "%s/%s", sim_device_info(instance, worker->device)->uuid,
             worker->name);
}

static enum facet_status not_limited(const char *name, uint32_t device, struct facet_error *error)
{
    return facet_kit_fail(error, FACET_NOT_FOUND, "worker %s: expected one with limits on device %" PRIu32, name,
                          device);
}

static enum facet_status limit_get(struct facet_provider_instance *instance, uint32_t device, const char *worker,
                                   struct facet_worker_limit *ret_limit, struct facet_error *error)
{
    struct facet_worker_limit limit;
    struct sim_record *record;
    const struct sim_worker *found;
    enum facet_status status;

    if (!instance || !ret_limit)
        return sim_refuse_null(instance ? "ret_limit" : "instance", error);
    SIM_LOCK(instance);
    status = begin_limit(instance, device, worker, "limit.get", &record, error);
    if (status != FACET_OK)
        return status;
    found = sim_record_worker(record, device, worker);
    if (found)
        describe_limit(instance, found, &limit);
    status = sim_state_end(instance, found ? FACET_OK : not_limited(worker, device, error), error);
    return status == FACET_OK ? facet_kit_struct(&limit, sizeof limit, ret_limit, error) : status;
}

static enum facet_status describe_limits(struct facet_provider_instance *instance, uint32_t device,
                                         struct facet_worker_limit **ret_limits, uint32_t *ret_count,
                                         struct facet_error *error)
{
    struct sim_record *record;
    struct facet_worker_limit *limits;
    uint32_t count = 0;
    enum facet_status status = sim_state_begin(instance, &record, error);

    if (status != FACET_OK)
        return status;
    limits = calloc(record->worker_count + 1, sizeof *limits);
    for (uint32_t i = 0; limits && i < record->worker_count; i++)
        if (record->workers[i].device == device)
            describe_limit(instance, &record->workers[i], &limits[count++]);
    status = sim_state_end(instance, FACET_OK, error);
    if (!limits)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a list of limits");
    *ret_limits = limits;
    *ret_count = count;
    return status;
}

static enum facet_status limit_list(struct facet_provider_instance *instance, uint32_t device, void *items,
                                    uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                    struct facet_error *error)
{
    struct facet_worker_limit *limits = NULL;
    uint32_t count = 0;
    enum facet_status status;

    if (!instance || !ret_count)
        return sim_refuse_null(instance ? "ret_count" : "instance", error);
    SIM_LOCK(instance);
    status = sim_begin(instance, device, "limit.list", error);
    if (status == FACET_OK)
        status = describe_limits(instance, device, &limits, &count, error);
    if (status != FACET_OK)
        return status;
    status = facet_kit_list_items(limits, sizeof *limits, count, items, item_size, capacity, ret_count, error);
    free(limits);
    return status;
}

static enum facet_status remove_worker(const struct facet_provider_instance *instance, struct sim_record *record,
                                       uint32_t device, const char *name, struct facet_error *error)
{
    const struct sim_worker *worker = sim_record_worker(record, device, name);

    if (!worker)
        return not_limited(name, device, error);
    if (sim_uses_worker(instance, device, name))
        return facet_kit_fail(error, FACET_BUSY, "worker %s has a context on device %" PRIu32 "; expected none", name,
                              device);
    sim_record_remove_worker(record, worker);
    return FACET_OK;
}

static enum facet_status limit_clear(struct facet_provider_instance *instance, uint32_t device, const char *worker,
                                     struct facet_error *error)
{
    struct sim_record *record;
    enum facet_status status;

    if (!instance)
        return sim_refuse_null("instance", error);
    SIM_LOCK(instance);
    status = begin_limit(instance, device, worker, "limit.clear", &record, error);
    if (status != FACET_OK)
        return status;
    return sim_state_end(instance, remove_worker(instance, record, device, worker, error), error);
}

const struct facet_limit_ops sim_limit_ops = {
    .size = sizeof sim_limit_ops,
    .set_memory = limit_set_memory,
    .set_compute = limit_set_compute,
    .get = limit_get,
    .list = limit_list,
    .clear = limit_clear,
};
