/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: grants of AI cores and bytes of each chip to workers, whose sum does not exceed the chip.
 * Never: limits a process itself; the header comment of ascend.c describes enforcement.
 */
#include <stdlib.h>

#include "ascend.h"

#define CAN_LIMIT (FACET_CAN_LIMIT_MEMORY | FACET_CAN_LIMIT_COMPUTE)

static struct ascend_worker *find_worker(const struct ascend_chip *chip, const char *name)
{
    struct ascend_worker *worker = chip->workers;

    while (worker && strcmp(worker->name, name) != 0)
        worker = worker->next;
    return worker;
}

struct ascend_worker *ascend_worker_take(struct ascend_chip *chip, const char *name)
{
    struct ascend_worker *worker = find_worker(chip, name);

    if (worker)
        return worker;
    worker = calloc(1, sizeof *worker);
    if (!worker)
        return NULL;
    FACET_KIT_TEXT(worker->name, name);
    worker->next = chip->workers;
    chip->workers = worker;
    return worker;
}

void ascend_worker_drop(struct ascend_chip *chip, struct ascend_worker *worker)
{
    struct ascend_worker **link = &chip->workers;

    if (worker->valid || worker->contexts)
        return;
    while (*link != worker)
        link = &(*link)->next;
    *link = worker->next;
    free(worker);
}

void ascend_workers_free(struct ascend_chip *chip)
{
    while (chip->workers) {
        struct ascend_worker *worker = chip->workers;

        chip->workers = worker->next;
        free(worker);
    }
}

static enum facet_status refuse_second_limit(const char *worker, const char *what, struct facet_error *error)
{
    return facet_kit_fail(error, FACET_BAD_STATE, "worker '%s' has a %s limit; expected it to be cleared first", worker,
                          what);
}

static enum facet_status grant_memory(struct facet_provider_instance *instance, uint32_t device, const char *name,
                                      uint64_t bytes, struct facet_error *error)
{
    struct ascend_chip *chip = &instance->chips[device];
    const struct ascend_worker *existing = find_worker(chip, name);
    uint64_t unreserved = instance->infos[device].memory_bytes;

    if (existing && existing->valid & FACET_WORKER_HAS_MEMORY)
        return refuse_second_limit(name, "memory", error);
    if (existing && existing->used_bytes > bytes)
        return facet_kit_fail(error, FACET_NO_SPACE, "worker '%s' holds %" PRIu64 " bytes already, more than %" PRIu64,
                              name, existing->used_bytes, bytes);
    for (const struct ascend_worker *other = chip->workers; other; other = other->next)
        unreserved -= other->limit_bytes;
    if (bytes > unreserved)
        return facet_kit_fail(error, FACET_NO_SPACE,
                              "%" PRIu64 " bytes: other workers' limits leave %" PRIu64 " of device %" PRIu32, bytes,
                              unreserved, device);
    struct ascend_worker *worker = ascend_worker_take(chip, name);
    if (!worker)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a worker");
    worker->limit_bytes = bytes;
    worker->valid |= FACET_WORKER_HAS_MEMORY;
    return FACET_OK;
}

static enum facet_status ascend_limit_set_memory(struct facet_provider_instance *instance, uint32_t device,
                                                 const char *worker, uint64_t bytes, struct facet_error *error)
{
    enum facet_status status = ascend_device_check(instance, device, CAN_LIMIT, error);

    if (status == FACET_OK)
        status = facet_kit_check_worker(worker, error);
    if (status != FACET_OK)
        return status;
    if (bytes == 0 || bytes > instance->infos[device].memory_bytes)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "%" PRIu64 " bytes: expected 1 to %" PRIu64, bytes,
                              instance->infos[device].memory_bytes);
    pthread_mutex_lock(&instance->lock);
    status = grant_memory(instance, device, worker, bytes, error);
    pthread_mutex_unlock(&instance->lock);
    return status;
}

/* Rounds up to whole cores, so that the worker gets at least its request. */
static enum facet_status grant_compute(struct facet_provider_instance *instance, uint32_t device, const char *name,
                                       uint32_t milli, struct facet_error *error)
{
    struct ascend_chip *chip = &instance->chips[device];
    const struct ascend_worker *existing = find_worker(chip, name);
    uint32_t unreserved = instance->infos[device].compute_units;
    uint32_t cores = (milli * unreserved + FACET_MILLI_WHOLE - 1) / FACET_MILLI_WHOLE;

    if (existing && existing->valid & FACET_WORKER_HAS_COMPUTE)
        return refuse_second_limit(name, "compute", error);
    for (const struct ascend_worker *other = chip->workers; other; other = other->next)
        unreserved -= other->cores;
    if (cores > unreserved)
        return facet_kit_fail(error, FACET_NO_SPACE,
                              "%" PRIu32 " milli are %" PRIu32 " AI cores: other workers' limits leave %" PRIu32
                              " of device %" PRIu32,
                              milli, cores, unreserved, device);
    struct ascend_worker *worker = ascend_worker_take(chip, name);
    if (!worker)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a worker");
    worker->cores = cores;
    worker->valid |= FACET_WORKER_HAS_COMPUTE;
    return FACET_OK;
}

static enum facet_status ascend_limit_set_compute(struct facet_provider_instance *instance, uint32_t device,
                                                  const char *worker, uint32_t milli, struct facet_error *error)
{
    enum facet_status status = ascend_device_check(instance, device, CAN_LIMIT, error);

    if (status == FACET_OK)
        status = facet_kit_check_worker(worker, error);
    if (status != FACET_OK)
        return status;
    if (milli == 0 || milli > FACET_MILLI_WHOLE)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "%" PRIu32 " milli: expected 1 to %u", milli,
                              FACET_MILLI_WHOLE);
    pthread_mutex_lock(&instance->lock);
    status = grant_compute(instance, device, worker, milli, error);
    pthread_mutex_unlock(&instance->lock);
    return status;
}

static void describe_limit(const struct facet_device_info *info, const struct ascend_worker *worker,
                           struct facet_worker_limit *ret_limit)
{
    *ret_limit = (struct facet_worker_limit){.size = sizeof *ret_limit,
                                             .valid = worker->valid,
                                             .device = info->index,
                                             .compute_units = worker->cores,
                                             .compute_milli = worker->cores * FACET_MILLI_WHOLE / info->compute_units,
                                             .memory_bytes = worker->limit_bytes};
    FACET_KIT_TEXT(ret_limit->worker, worker->name);
    FACET_KIT_TEXT(ret_limit->address, info->address);
    if (worker->valid & FACET_WORKER_HAS_COMPUTE) {
        size_t length = strlen(ret_limit->address);

        snprintf(ret_limit->address + length, sizeof ret_limit->address - length, ";cores=%" PRIu32 "/%" PRIu32,
                 worker->cores, info->compute_units);
    }
}

static enum facet_status no_limit(const char *worker, uint32_t device, struct facet_error *error)
{
    return facet_kit_fail(error, FACET_NOT_FOUND, "worker '%s' has no limit on device %" PRIu32, worker, device);
}

static enum facet_status ascend_limit_get(struct facet_provider_instance *instance, uint32_t device, const char *worker,
                                          struct facet_worker_limit *ret_limit, struct facet_error *error)
{
    struct facet_worker_limit limit;
    enum facet_status status = ascend_device_check(instance, device, CAN_LIMIT, error);

    if (status == FACET_OK)
        status = facet_kit_check_worker(worker, error);
    if (status != FACET_OK)
        return status;
    pthread_mutex_lock(&instance->lock);
    const struct ascend_worker *existing = find_worker(&instance->chips[device], worker);
    bool found = existing && existing->valid;
    if (found)
        describe_limit(&instance->infos[device], existing, &limit);
    pthread_mutex_unlock(&instance->lock);
    return found ? facet_kit_struct(&limit, sizeof limit, ret_limit, error) : no_limit(worker, device, error);
}

/* All limits of a device, for the caller to free. NULL: no memory. The caller holds the lock. */
static struct facet_worker_limit *collect_limits(const struct facet_provider_instance *instance, uint32_t device,
                                                 uint32_t *ret_count)
{
    const struct ascend_worker *first = instance->chips[device].workers;
    size_t most = 1;

    for (const struct ascend_worker *worker = first; worker; worker = worker->next)
        most++;
    struct facet_worker_limit *limits = calloc(most, sizeof *limits);
    uint32_t count = 0;
    for (const struct ascend_worker *worker = first; limits && worker; worker = worker->next) {
        if (worker->valid)
            describe_limit(&instance->infos[device], worker, &limits[count++]);
    }
    *ret_count = count;
    return limits;
}

static enum facet_status ascend_limit_list(struct facet_provider_instance *instance, uint32_t device, void *items,
                                           uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                           struct facet_error *error)
{
    enum facet_status status = ascend_device_check(instance, device, CAN_LIMIT, error);
    uint32_t count;

    if (status != FACET_OK)
        return status;
    pthread_mutex_lock(&instance->lock);
    struct facet_worker_limit *limits = collect_limits(instance, device, &count);
    pthread_mutex_unlock(&instance->lock);
    if (!limits)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a list of limits");
    status = facet_kit_list_items(limits, sizeof *limits, count, items, item_size, capacity, ret_count, error);
    free(limits);
    return status;
}

static enum facet_status clear_limit(struct ascend_chip *chip, uint32_t device, const char *name,
                                     struct facet_error *error)
{
    struct ascend_worker *worker = find_worker(chip, name);

    if (!worker || !worker->valid)
        return no_limit(name, device, error);
    if (worker->contexts)
        return facet_kit_fail(error, FACET_BUSY, "worker '%s' has %" PRIu32 " contexts; expected none", name,
                              worker->contexts);
    worker->valid = 0;
    ascend_worker_drop(chip, worker);
    return FACET_OK;
}

static enum facet_status ascend_limit_clear(struct facet_provider_instance *instance, uint32_t device,
                                            const char *worker, struct facet_error *error)
{
    enum facet_status status = ascend_device_check(instance, device, CAN_LIMIT, error);

    if (status == FACET_OK)
        status = facet_kit_check_worker(worker, error);
    if (status != FACET_OK)
        return status;
    pthread_mutex_lock(&instance->lock);
    status = clear_limit(&instance->chips[device], device, worker, error);
    pthread_mutex_unlock(&instance->lock);
    return status;
}

const struct facet_limit_ops ascend_limit_ops = {
    .size = sizeof ascend_limit_ops,
    .set_memory = ascend_limit_set_memory,
    .set_compute = ascend_limit_set_compute,
    .get = ascend_limit_get,
    .list = ascend_limit_list,
    .clear = ascend_limit_clear,
};
