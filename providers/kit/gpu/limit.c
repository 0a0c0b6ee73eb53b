/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the table `limit`: bytes and compute units of workers that a provider runs.
 * Never: limits other programs, or promises more than the device has.
 *
 * Memory is counted here, before the driver is called; the driver separates compute units (slices, driver.h). All
 * workers may use memory that is not reserved. Workers without a limit also run on units that are reserved for others:
 * a host that reserves units must keep such workers away.
 *
 * Limits last as long as the instance: after a restart the host sets them again.
 */
#include <stdlib.h>

#include "machine.h"
#include "provider_kit.h"

static enum facet_status check_device_and_worker(const struct gpu_machine *machine, uint32_t device, const char *worker,
                                                 uint64_t capability, struct facet_error *error)
{
    enum facet_status status = gpu_device_check(machine, device, capability, error);

    return status == FACET_OK ? facet_kit_check_worker(worker, error) : status;
}

/* With the context lock: finds or adds a worker. Refuses if it has this limit, or uses the device already. */
static enum facet_status find_worker(struct gpu_device *device, const char *name, uint32_t limit,
                                     struct gpu_worker **ret_worker, struct facet_error *error)
{
    struct gpu_worker *worker = gpu_worker_get(device, name);

    if (!worker)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for worker %s", name);
    if (worker->valid & limit)
        return facet_kit_fail(error, FACET_BAD_STATE, "worker %s has this limit; expected it to be cleared first",
                              name);
    if (worker->contexts || worker->used_bytes)
        return facet_kit_fail(error, FACET_BUSY,
                              "worker %s has a context, or pages in use; expected none before it is "
                              "limited",
                              name);
    *ret_worker = worker;
    return FACET_OK;
}

/* --- memory --- */

static enum facet_status limit_memory(struct gpu_machine *machine, uint32_t device, const char *name, uint64_t bytes,
                                      struct facet_error *error)
{
    struct gpu_worker *worker = NULL;
    enum facet_status status = find_worker(&machine->devices[device], name, FACET_WORKER_HAS_MEMORY, &worker, error);

    if (status != FACET_OK)
        return status;
    uint64_t left = gpu_memory_left(machine, device);
    if (bytes <= left) {
        worker->memory_bytes = bytes;
        worker->valid |= FACET_WORKER_HAS_MEMORY;
        return FACET_OK;
    }
    gpu_worker_drop(&machine->devices[device], worker);
    return facet_kit_fail(error, FACET_NO_SPACE,
                          "bytes %" PRIu64 ": expected at most the %" PRIu64 " that is neither promised nor used",
                          bytes, left);
}

static enum facet_status limit_set_memory(struct facet_provider_instance *instance, uint32_t device, const char *worker,
                                          uint64_t bytes, struct facet_error *error)
{
    struct gpu_machine *machine = gpu_machine_of(instance);
    enum facet_status status = check_device_and_worker(machine, device, worker, FACET_CAN_LIMIT_MEMORY, error);

    if (status != FACET_OK)
        return status;
    uint64_t whole = machine->infos[device].memory_bytes;
    if (bytes == 0 || bytes > whole)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "bytes %" PRIu64 ": expected 1 to %" PRIu64, bytes, whole);
    pthread_mutex_lock(&machine->context_lock);
    status = limit_memory(machine, device, worker, bytes, error);
    pthread_mutex_unlock(&machine->context_lock);
    return status;
}

/* --- compute units --- */

/* A worker with a limit takes no turns with other workers, because it has its own compute units. */
static enum facet_status limit_units(struct gpu_machine *machine, uint32_t device, uint32_t units,
                                     struct gpu_worker *worker, struct facet_error *error)
{
    gpu_slice_handle handle = NULL;
    uint32_t granted = 0;
    enum facet_status status = gpu_turns_begin(machine, device, &worker->turns, error);

    if (status == FACET_OK)
        status = machine->driver->take_slice(machine, device, units, &handle, &granted, error);
    if (status == FACET_OK)
        status = gpu_slice_new(machine, device, handle, granted, &worker->slice, error);
    if (status == FACET_OK)
        worker->valid |= FACET_WORKER_HAS_COMPUTE;
    else
        gpu_turns_end(machine, &worker->turns);
    return status;
}

static enum facet_status limit_compute(struct gpu_machine *machine, uint32_t device, const char *name, uint32_t units,
                                       struct facet_error *error)
{
    struct gpu_worker *worker = NULL;
    enum facet_status status = find_worker(&machine->devices[device], name, FACET_WORKER_HAS_COMPUTE, &worker, error);

    if (status != FACET_OK)
        return status;
    status = limit_units(machine, device, units, worker, error);
    if (status != FACET_OK)
        gpu_worker_drop(&machine->devices[device], worker);
    return status;
}

static enum facet_status limit_set_compute(struct facet_provider_instance *instance, uint32_t device,
                                           const char *worker, uint32_t milli, struct facet_error *error)
{
    struct gpu_machine *machine = gpu_machine_of(instance);
    enum facet_status status = check_device_and_worker(machine, device, worker, FACET_CAN_LIMIT_COMPUTE, error);

    if (status != FACET_OK)
        return status;
    if (milli == 0 || milli > FACET_MILLI_WHOLE)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "milli %" PRIu32 ": expected 1 to %u", milli,
                              FACET_MILLI_WHOLE);
    uint64_t whole = machine->infos[device].compute_units;
    uint32_t units = (uint32_t)((milli * whole + FACET_MILLI_WHOLE - 1) / FACET_MILLI_WHOLE);
    pthread_mutex_lock(&machine->context_lock);
    status = limit_compute(machine, device, worker, units, error);
    pthread_mutex_unlock(&machine->context_lock);
    return status;
}

/* --- reading and lifting --- */

static void describe_limit(const struct gpu_machine *machine, uint32_t device, const struct gpu_worker *worker,
                           struct facet_worker_limit *ret_limit)
{
    uint32_t whole = machine->infos[device].compute_units, units = worker->slice ? worker->slice->units : 0;

    *ret_limit = (struct facet_worker_limit){
        .size = sizeof *ret_limit,
        .valid = worker->valid,
        .device = device,
        .compute_units = units,
        .compute_milli = whole ? units * FACET_MILLI_WHOLE / whole : 0,
        .memory_bytes = worker->memory_bytes,
    };
    FACET_KIT_TEXT(ret_limit->worker, worker->name);
}

static enum facet_status not_limited(const char *worker, struct facet_error *error)
{
    return facet_kit_fail(error, FACET_NOT_FOUND, "worker %s: expected one with limits", worker);
}

static enum facet_status limit_get(struct facet_provider_instance *instance, uint32_t device, const char *worker,
                                   struct facet_worker_limit *ret_limit, struct facet_error *error)
{
    struct gpu_machine *machine = gpu_machine_of(instance);
    struct facet_worker_limit limit;
    enum facet_status status = check_device_and_worker(machine, device, worker, FACET_CAN_LIMIT_MEMORY, error);

    if (status != FACET_OK)
        return status;
    pthread_mutex_lock(&machine->context_lock);
    const struct gpu_worker *found = gpu_worker_find(&machine->devices[device], worker);
    bool limited = found && found->valid;
    if (limited)
        describe_limit(machine, device, found, &limit);
    pthread_mutex_unlock(&machine->context_lock);
    return limited ? facet_kit_struct(&limit, sizeof limit, ret_limit, error) : not_limited(worker, error);
}

/* Called with the context lock. */
static enum facet_status list_limits(const struct gpu_machine *machine, uint32_t device, void *items,
                                     uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                     struct facet_error *error)
{
    const struct gpu_worker *worker;
    uint32_t count = 0, filled = 0;

    for (worker = machine->devices[device].workers; worker; worker = worker->next)
        count += worker->valid != 0;
    struct facet_worker_limit *limits = calloc((size_t)count + 1, sizeof *limits);
    if (!limits)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for %" PRIu32 " limits", count);
    for (worker = machine->devices[device].workers; worker; worker = worker->next)
        if (worker->valid)
            describe_limit(machine, device, worker, &limits[filled++]);
    enum facet_status status =
        facet_kit_list_items(limits, sizeof *limits, count, items, item_size, capacity, ret_count, error);
    free(limits);
    return status;
}

static enum facet_status limit_list(struct facet_provider_instance *instance, uint32_t device, void *items,
                                    uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                    struct facet_error *error)
{
    struct gpu_machine *machine = gpu_machine_of(instance);
    enum facet_status status = gpu_device_check(machine, device, FACET_CAN_LIMIT_MEMORY, error);

    if (status != FACET_OK)
        return status;
    pthread_mutex_lock(&machine->context_lock);
    status = list_limits(machine, device, items, item_size, capacity, ret_count, error);
    pthread_mutex_unlock(&machine->context_lock);
    return status;
}

void gpu_worker_unlimit(struct gpu_machine *machine, uint32_t device, struct gpu_worker *worker)
{
    gpu_slice_drop(machine, device, worker->slice);
    gpu_turns_end(machine, &worker->turns);
    worker->slice = NULL;
    worker->valid = 0;
    worker->memory_bytes = 0;
}

static enum facet_status clear_limit(struct gpu_machine *machine, uint32_t device, const char *name,
                                     struct facet_error *error)
{
    struct gpu_worker *worker = gpu_worker_find(&machine->devices[device], name);

    if (!worker || !worker->valid)
        return not_limited(name, error);
    if (worker->contexts || worker->used_bytes)
        return facet_kit_fail(error, FACET_BUSY, "worker %s has a context, or pages in use; expected none", name);
    gpu_worker_unlimit(machine, device, worker);
    gpu_worker_drop(&machine->devices[device], worker);
    return FACET_OK;
}

static enum facet_status limit_clear(struct facet_provider_instance *instance, uint32_t device, const char *worker,
                                     struct facet_error *error)
{
    struct gpu_machine *machine = gpu_machine_of(instance);
    enum facet_status status = check_device_and_worker(machine, device, worker, FACET_CAN_LIMIT_MEMORY, error);

    if (status != FACET_OK)
        return status;
    pthread_mutex_lock(&machine->context_lock);
    status = clear_limit(machine, device, worker, error);
    pthread_mutex_unlock(&machine->context_lock);
    return status;
}

const struct facet_limit_ops gpu_limit_ops = {
    .size = sizeof gpu_limit_ops,
    .set_memory = limit_set_memory,
    .set_compute = limit_set_compute,
    .get = limit_get,
    .list = limit_list,
    .clear = limit_clear,
};
