/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the table `limit`: bytes and whole compute units of workers.
 * Never: promises more than the device has. Limits last as long as the instance: after a restart the host sets them
 * again.
 */
#include <stdlib.h>

#include "cpu.h"

static enum facet_status check_device_and_worker(struct facet_provider_instance *instance, uint32_t device,
                                                 const char *worker, struct facet_error *error)
{
    enum facet_status status = cpu_check_device(instance, device, error);

    return status == FACET_OK ? facet_kit_check_worker(worker, error) : status;
}

/* Finds or adds the worker. Refuses if it has this limit, or uses the device already. */
static enum facet_status find_worker(struct facet_provider_instance *instance, const char *name, uint32_t limit,
                                     struct cpu_worker **ret_worker, struct facet_error *error)
{
    struct cpu_worker *worker = NULL;
    enum facet_status status = cpu_worker_get(instance, name, &worker, error);

    if (status != FACET_OK)
        return status;
    if (worker->valid & limit)
        return facet_kit_fail(error, FACET_BAD_STATE, "worker %s has this limit; expected it to be cleared first",
                              name);
    if (cpu_worker_is_used(worker))
        return facet_kit_fail(error, FACET_BUSY,
                              "worker %s has a context, or pages in use; expected none before it is limited", name);
    *ret_worker = worker;
    return FACET_OK;
}

static enum facet_status limit_memory(struct facet_provider_instance *instance, const char *name, uint64_t bytes,
                                      struct facet_error *error)
{
    struct cpu_worker *worker = NULL;
    enum facet_status status = find_worker(instance, name, FACET_WORKER_HAS_MEMORY, &worker, error);

    if (status != FACET_OK)
        return status;
    if (bytes <= cpu_memory_free(instance)) {
        worker->memory_bytes = bytes;
        worker->valid |= FACET_WORKER_HAS_MEMORY;
        return FACET_OK;
    }
    cpu_worker_settle(instance, worker);
    return facet_kit_fail(error, FACET_NO_SPACE,
                          "bytes %" PRIu64 ": expected at most the %" PRIu64 " that is neither promised nor used",
                          bytes, cpu_memory_free(instance));
}

static enum facet_status limit_set_memory(struct facet_provider_instance *instance, uint32_t device, const char *worker,
                                          uint64_t bytes, struct facet_error *error)
{
    enum facet_status status = check_device_and_worker(instance, device, worker, error);

    if (status != FACET_OK)
        return status;
    if (bytes == 0 || bytes > instance->info.memory_bytes)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "bytes %" PRIu64 ": expected 1 to %" PRIu64, bytes,
                              instance->info.memory_bytes);
    pthread_mutex_lock(&instance->lock);
    status = limit_memory(instance, worker, bytes, error);
    pthread_mutex_unlock(&instance->lock);
    return status;
}

static enum facet_status limit_units(struct facet_provider_instance *instance, const char *name, uint32_t units,
                                     struct facet_error *error)
{
    struct cpu_worker *worker = NULL;
    enum facet_status status = find_worker(instance, name, FACET_WORKER_HAS_COMPUTE, &worker, error);

    if (status != FACET_OK)
        return status;
    if (units > cpu_units_free(instance))
        status = facet_kit_fail(error, FACET_NO_SPACE,
                                "%" PRIu32 " compute units: expected at most the %" PRIu32 " that no worker has", units,
                                cpu_units_free(instance));
    else
        status = cpu_tenant_create(instance->executor, &worker->tenant, error);
    if (status != FACET_OK) {
        cpu_worker_settle(instance, worker);
        return status;
    }
    cpu_tenant_set_units(worker->tenant, units);
    worker->units = units;
    worker->valid |= FACET_WORKER_HAS_COMPUTE;
    cpu_units_set_unlimited(instance);
    return FACET_OK;
}

static enum facet_status limit_set_compute(struct facet_provider_instance *instance, uint32_t device,
                                           const char *worker, uint32_t milli, struct facet_error *error)
{
    enum facet_status status = check_device_and_worker(instance, device, worker, error);

    if (status != FACET_OK)
        return status;
    if (milli == 0 || milli > FACET_MILLI_WHOLE)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "milli %" PRIu32 ": expected 1 to %u", milli,
                              FACET_MILLI_WHOLE);
    uint32_t units = (milli * instance->info.compute_units + FACET_MILLI_WHOLE - 1) / FACET_MILLI_WHOLE;
    pthread_mutex_lock(&instance->lock);
    status = limit_units(instance, worker, units, error);
    pthread_mutex_unlock(&instance->lock);
    return status;
}

static void describe_limit(const struct facet_provider_instance *instance, const struct cpu_worker *worker,
                           struct facet_worker_limit *ret_limit)
{
    memset(ret_limit, 0, sizeof *ret_limit);
    ret_limit->size = sizeof *ret_limit;
    ret_limit->valid = worker->valid;
    ret_limit->compute_units = worker->units;
    ret_limit->compute_milli = worker->units * FACET_MILLI_WHOLE / instance->info.compute_units;
    ret_limit->memory_bytes = worker->memory_bytes;
    FACET_KIT_TEXT(ret_limit->worker, worker->name);
}

static enum facet_status not_limited(const char *worker, struct facet_error *error)
{
    return facet_kit_fail(error, FACET_NOT_FOUND, "worker %s: expected one with limits", worker);
}

static enum facet_status limit_get(struct facet_provider_instance *instance, uint32_t device, const char *worker,
                                   struct facet_worker_limit *ret_limit, struct facet_error *error)
{
    struct facet_worker_limit limit;
    enum facet_status status = check_device_and_worker(instance, device, worker, error);

    if (status != FACET_OK)
        return status;
    pthread_mutex_lock(&instance->lock);
    const struct cpu_worker *found = cpu_worker_find(instance, worker);
    bool limited = found && found->valid;
    if (limited)
        describe_limit(instance, found, &limit);
    pthread_mutex_unlock(&instance->lock);
    return limited ? facet_kit_struct(&limit, sizeof limit, ret_limit, error) : not_limited(worker, error);
}

/* With the lock held. */
static enum facet_status list_limits(const struct facet_provider_instance *instance, void *items, uint32_t item_size,
                                     uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    const struct cpu_worker *worker;
    uint32_t count = 0, filled = 0;

    TAILQ_FOREACH (worker, &instance->workers, link)
        count += worker->valid != 0;
    struct facet_worker_limit *limits = calloc((size_t)count + 1, sizeof *limits);
    if (!limits)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for %" PRIu32 " limits", count);
    TAILQ_FOREACH (worker, &instance->workers, link)
        if (worker->valid)
            describe_limit(instance, worker, &limits[filled++]);
    enum facet_status status =
        facet_kit_list_items(limits, sizeof *limits, count, items, item_size, capacity, ret_count, error);
    free(limits);
    return status;
}

static enum facet_status limit_list(struct facet_provider_instance *instance, uint32_t device, void *items,
                                    uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                    struct facet_error *error)
{
    enum facet_status status = cpu_check_device(instance, device, error);

    if (status != FACET_OK)
        return status;
    pthread_mutex_lock(&instance->lock);
    status = list_limits(instance, items, item_size, capacity, ret_count, error);
    pthread_mutex_unlock(&instance->lock);
    return status;
}

static enum facet_status clear_limit(struct facet_provider_instance *instance, const char *name,
                                     struct cpu_tenant **ret_tenant, struct facet_error *error)
{
    struct cpu_worker *worker = cpu_worker_find(instance, name);

    if (!worker || !worker->valid)
        return not_limited(name, error);
    if (cpu_worker_is_used(worker))
        return facet_kit_fail(error, FACET_BUSY, "worker %s has a context, or pages in use; expected none", name);
    *ret_tenant = worker->tenant;
    worker->tenant = NULL;
    worker->valid = 0;
    worker->units = 0;
    cpu_worker_settle(instance, worker);
    cpu_units_set_unlimited(instance);
    return FACET_OK;
}

static enum facet_status limit_clear(struct facet_provider_instance *instance, uint32_t device, const char *worker,
                                     struct facet_error *error)
{
    struct cpu_tenant *tenant = NULL;
    enum facet_status status = check_device_and_worker(instance, device, worker, error);

    if (status != FACET_OK)
        return status;
    pthread_mutex_lock(&instance->lock);
    status = clear_limit(instance, worker, &tenant, error);
    pthread_mutex_unlock(&instance->lock);
    cpu_tenant_destroy(tenant);
    return status;
}

const struct facet_limit_ops cpu_limit_ops = {
    .size = sizeof cpu_limit_ops,
    .set_memory = limit_set_memory,
    .set_compute = limit_set_compute,
    .get = limit_get,
    .list = limit_list,
    .clear = limit_clear,
};
