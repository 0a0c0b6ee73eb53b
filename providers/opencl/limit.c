/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table `limit`: whole, exclusive compute units of a worker, and memory within the device's total.
 *
 * Owns: granting units and memory to workers. Compute is rounded up to whole units that have no other holder. The
 * memory of all workers together does not exceed the device's.
 * Never: enforces anything itself. The driver runs a sub-device on its units alone, and the layer in the worker
 * enforces the amount of memory that is granted here.
 */
#include "opencl.h"

static uint64_t memory_held(const struct facet_opencl_device *device)
{
    uint64_t bytes = 0;

    for (const struct facet_opencl_holder *holder = device->holders; holder; holder = holder->next)
        bytes += holder->memory_bytes;
    return bytes;
}

/* The change that a setter requests, so that one function has the rules that both share. */
struct request {
    const char *worker;
    uint64_t bytes; /* 0: leave the memory alone */
    uint32_t milli; /* 0: leave the units alone */
};

static enum facet_status check_free(const struct facet_provider_instance *instance, uint32_t device,
                                    const struct request *request, const struct facet_opencl_holder *holder,
                                    struct facet_error *error)
{
    uint64_t device_bytes = instance->infos[device].memory_bytes, held = memory_held(&instance->devices[device]);

    if (holder && request->bytes > 0 && holder->memory_bytes > 0)
        return facet_kit_fail(error, FACET_BAD_STATE, "worker '%s' has a memory limit already: clear it first",
                              request->worker);
    if (holder && request->milli > 0 && holder->length > 0)
        return facet_kit_fail(error, FACET_BAD_STATE, "worker '%s' has a compute limit already: clear it first",
                              request->worker);
    if (request->bytes > device_bytes - held)
        return facet_kit_fail(error, FACET_NO_SPACE,
                              "bytes %" PRIu64 ": expected at most the %" PRIu64 " that other workers leave",
                              request->bytes, device_bytes - held);
    return FACET_OK;
}

static enum facet_status grant_limit(struct facet_provider_instance *instance, uint32_t device,
                                     const struct request *request, struct facet_opencl_holder *holder,
                                     struct facet_error *error)
{
    uint32_t units = instance->infos[device].compute_units;

    if (request->bytes > 0)
        holder->memory_bytes = request->bytes;
    if (request->milli == 0)
        return FACET_OK;
    return facet_opencl_holder_place(instance, device, holder, FACET_PLACEMENT_ANY,
                                     (request->milli * units + 999) / 1000, error);
}

/* Under the lock. A new worker that gets nothing is removed again. */
static enum facet_status set_limit(struct facet_provider_instance *instance, uint32_t device,
                                   const struct request *request, struct facet_error *error)
{
    struct facet_opencl_device *target = &instance->devices[device];
    struct facet_opencl_holder *existing = facet_opencl_holder_find(target, FACET_OPENCL_WORKER, request->worker);
    enum facet_status status = check_free(instance, device, request, existing, error);

    if (status != FACET_OK)
        return status;
    struct facet_opencl_holder *holder =
        existing ? existing : facet_opencl_holder_add(target, FACET_OPENCL_WORKER, request->worker);
    if (!holder)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a worker");
    status = grant_limit(instance, device, request, holder, error);
    if (status != FACET_OK && !existing)
        facet_opencl_holder_remove(target, holder);
    return status;
}

static enum facet_status opencl_set_memory(struct facet_provider_instance *instance, uint32_t device,
                                           const char *worker, uint64_t bytes, struct facet_error *error)
{
    const struct request request = {.worker = worker, .bytes = bytes};
    enum facet_status status = facet_opencl_check(instance, device, FACET_CAN_LIMIT_MEMORY, error);

    if (status == FACET_OK)
        status = facet_kit_check_worker(worker, error);
    if (status != FACET_OK)
        return status;
    uint64_t device_bytes = instance->infos[device].memory_bytes;
    if (bytes == 0 || bytes > device_bytes)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "bytes %" PRIu64 ": expected 1 to %" PRIu64, bytes,
                              device_bytes);
    pthread_mutex_lock(&instance->lock);
    status = set_limit(instance, device, &request, error);
    pthread_mutex_unlock(&instance->lock);
    return status;
}

static enum facet_status opencl_set_compute(struct facet_provider_instance *instance, uint32_t device,
                                            const char *worker, uint32_t milli, struct facet_error *error)
{
    const struct request request = {.worker = worker, .milli = milli};
    enum facet_status status = facet_opencl_check(instance, device, FACET_CAN_LIMIT_COMPUTE, error);

    if (status == FACET_OK)
        status = facet_kit_check_worker(worker, error);
    if (status != FACET_OK)
        return status;
    if (milli == 0 || milli > 1000)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "milli %" PRIu32 ": expected 1 to 1000", milli);
    pthread_mutex_lock(&instance->lock);
    status = set_limit(instance, device, &request, error);
    pthread_mutex_unlock(&instance->lock);
    return status;
}

static void describe_worker(const struct facet_device_info *info, const struct facet_opencl_holder *holder,
                            void *ret_item)
{
    struct facet_worker_limit *limit = ret_item;

    *limit = (struct facet_worker_limit){
        .size = sizeof *limit,
        .device = info->index,
        .compute_units = holder->length,
        .compute_milli = facet_opencl_milli(info, holder->length),
        .memory_bytes = holder->memory_bytes,
        .valid = (holder->memory_bytes > 0 ? FACET_WORKER_HAS_MEMORY : 0) |
                 (holder->length > 0 ? FACET_WORKER_HAS_COMPUTE : 0),
    };
    FACET_KIT_TEXT(limit->worker, holder->name);
    facet_opencl_holder_address(info, holder, limit->address);
}

/* The first check of get and clear. */
static enum facet_status check_worker(const struct facet_provider_instance *instance, uint32_t device,
                                      const char *worker, struct facet_error *error)
{
    enum facet_status status = facet_opencl_check(instance, device, FACET_CAN_LIMIT_COMPUTE, error);

    return status == FACET_OK ? facet_kit_check_worker(worker, error) : status;
}

static enum facet_status no_limit(const char *worker, struct facet_error *error)
{
    return facet_kit_fail(error, FACET_NOT_FOUND, "worker '%s' has no limit on the device", worker);
}

static enum facet_status opencl_get(struct facet_provider_instance *instance, uint32_t device, const char *worker,
                                    struct facet_worker_limit *ret_limit, struct facet_error *error)
{
    struct facet_worker_limit limit;
    enum facet_status status = check_worker(instance, device, worker, error);

    if (status == FACET_OK)
        status = facet_opencl_check_struct(ret_limit, error);
    if (status != FACET_OK)
        return status;
    pthread_mutex_lock(&instance->lock);
    const struct facet_opencl_holder *holder =
        facet_opencl_holder_find(&instance->devices[device], FACET_OPENCL_WORKER, worker);
    if (holder)
        describe_worker(&instance->infos[device], holder, &limit);
    pthread_mutex_unlock(&instance->lock);
    return holder ? facet_kit_struct(&limit, sizeof limit, ret_limit, error) : no_limit(worker, error);
}

static enum facet_status opencl_list(struct facet_provider_instance *instance, uint32_t device, void *items,
                                     uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                     struct facet_error *error)
{
    static const struct facet_opencl_listing workers = {FACET_OPENCL_WORKER, sizeof(struct facet_worker_limit),
                                                        describe_worker};
    enum facet_status status = facet_opencl_check(instance, device, FACET_CAN_LIMIT_COMPUTE, error);

    if (status != FACET_OK)
        return status;
    return facet_opencl_holder_list(instance, device, &workers, items, item_size, capacity, ret_count, error);
}

static enum facet_status opencl_clear(struct facet_provider_instance *instance, uint32_t device, const char *worker,
                                      struct facet_error *error)
{
    enum facet_status status = check_worker(instance, device, worker, error);

    if (status != FACET_OK)
        return status;
    pthread_mutex_lock(&instance->lock);
    struct facet_opencl_device *target = &instance->devices[device];
    struct facet_opencl_holder *holder = facet_opencl_holder_find(target, FACET_OPENCL_WORKER, worker);
    if (holder)
        facet_opencl_holder_remove(target, holder);
    pthread_mutex_unlock(&instance->lock);
    return holder ? FACET_OK : no_limit(worker, error);
}

const struct facet_limit_ops facet_opencl_limit_ops = {
    .size = sizeof facet_opencl_limit_ops,
    .set_memory = opencl_set_memory,
    .set_compute = opencl_set_compute,
    .get = opencl_get,
    .list = opencl_list,
    .clear = opencl_clear,
};
