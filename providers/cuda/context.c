/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: contexts, their users, and workers.
 * Never: makes a CUDA context for each: all of a device share its primary context.
 *
 * A CUDA context of its own costs hundreds of megabytes, and work of two of them takes turns on the device instead of
 * running side by side. What separates contexts here is this provider: it looks every address up before the driver
 * sees it. A kernel that faults takes the primary context with it, and so all of them.
 */
#include <stdlib.h>

#include "cuda.h"

static struct cuda_context *find(const struct facet_provider_instance *instance, uint64_t number)
{
    struct cuda_context *context = instance->contexts;

    while (context && context->number != number)
        context = context->next;
    return context && !context->closing ? context : NULL;
}

static enum facet_status no_context(uint64_t number, struct facet_error *error)
{
    return facet_kit_fail(error, FACET_NOT_FOUND, "there is no context %" PRIu64, number);
}

/* --- users --- */

static void drop_user(struct facet_provider_instance *instance, struct cuda_context *context)
{
    pthread_mutex_lock(&instance->context_lock);
    if (--context->users == 0)
        pthread_cond_broadcast(&instance->left);
    pthread_mutex_unlock(&instance->context_lock);
}

enum facet_status cuda_context_enter(struct facet_provider_instance *instance, uint64_t number, enum cuda_use use,
                                     struct cuda_context **ret_context, struct facet_error *error)
{
    pthread_mutex_lock(&instance->context_lock);
    struct cuda_context *context = find(instance, number);
    if (context)
        context->users++;
    pthread_mutex_unlock(&instance->context_lock);
    if (!context)
        return no_context(number, error);

    enum facet_status status = FACET_OK;
    if (use == CUDA_USE_TRANSFER || use == CUDA_USE_TAKE)
        status = cuda_executor_drain(instance, context, error);
    if (status == FACET_OK) {
        CUresult result = instance->driver.cuCtxPushCurrent_v2(instance->devices[context->device].primary);
        if (result != CUDA_SUCCESS)
            status = cuda_driver_fail(&instance->driver, error, "cuCtxPushCurrent", result);
    }
    if (status != FACET_OK) {
        drop_user(instance, context);
        return status;
    }
    if (use == CUDA_USE_READ || use == CUDA_USE_TRANSFER)
        pthread_rwlock_rdlock(&context->lock);
    else
        pthread_rwlock_wrlock(&context->lock);
    *ret_context = context;
    return FACET_OK;
}

void cuda_context_leave(struct facet_provider_instance *instance, struct cuda_context *context)
{
    CUcontext ours;

    pthread_rwlock_unlock(&context->lock);
    instance->driver.cuCtxPopCurrent_v2(&ours);
    drop_user(instance, context);
}

/* --- workers, under the instance's lock --- */

static struct cuda_worker *take_worker(struct cuda_device *device, const char *name)
{
    struct cuda_worker *worker = device->workers;

    while (worker && strcmp(worker->name, name) != 0)
        worker = worker->next;
    if (!worker) {
        worker = calloc(1, sizeof *worker);
        if (!worker)
            return NULL;
        FACET_KIT_TEXT(worker->name, name);
        worker->next = device->workers;
        device->workers = worker;
    }
    worker->contexts++;
    return worker;
}

void cuda_worker_drop(struct cuda_device *device, struct cuda_worker *worker)
{
    struct cuda_worker **place = &device->workers;

    if (worker->contexts || worker->used_bytes)
        return;
    while (*place != worker)
        place = &(*place)->next;
    *place = worker->next;
    free(worker);
}

void cuda_worker_charge(struct facet_provider_instance *instance, struct cuda_worker *worker, uint64_t bytes)
{
    pthread_mutex_lock(&instance->context_lock);
    worker->used_bytes += bytes;
    pthread_mutex_unlock(&instance->context_lock);
}

void cuda_worker_refund(struct facet_provider_instance *instance, struct cuda_worker *worker, uint64_t bytes)
{
    pthread_mutex_lock(&instance->context_lock);
    worker->used_bytes -= bytes;
    pthread_mutex_unlock(&instance->context_lock);
}

/* --- life --- */

static enum facet_status enter_list(struct facet_provider_instance *instance, struct cuda_context *context,
                                    const char *worker, struct facet_error *error)
{
    struct cuda_device *device = &instance->devices[context->device];

    if (!device->primary) {
        CUcontext primary;
        CUresult result = instance->driver.cuDevicePrimaryCtxRetain(&primary, device->ordinal);

        if (result != CUDA_SUCCESS)
            return cuda_driver_fail(&instance->driver, error, "cuDevicePrimaryCtxRetain", result);
        device->primary = primary;
    }
    context->worker = take_worker(device, worker);
    if (!context->worker)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a worker");
    context->number = ++instance->last_number;
    context->next = instance->contexts;
    instance->contexts = context;
    return FACET_OK;
}

enum facet_status cuda_context_create(struct facet_provider_instance *instance, uint32_t device,
                                      const char *partition_uuid, const char *worker, uint64_t *ret_context,
                                      struct facet_error *error)
{
    enum facet_status status = cuda_device_check(instance, device, FACET_CAN_MEMORY, error);

    if (status == FACET_OK)
        status = facet_kit_check_worker(worker, error);
    if (status != FACET_OK)
        return status;
    if (partition_uuid && *partition_uuid)
        return facet_kit_fail(error, FACET_NOT_FOUND, "partition '%.64s': the device has none of this uuid",
                              partition_uuid);
    if (!ret_context)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "ret_context: expected a place for it, not NULL");
    struct cuda_context *context = calloc(1, sizeof *context);
    if (!context)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a context");
    context->device = device;
    pthread_rwlock_init(&context->lock, NULL);

    pthread_mutex_lock(&instance->context_lock);
    status = enter_list(instance, context, worker, error);
    if (status == FACET_OK)
        *ret_context = context->number;
    pthread_mutex_unlock(&instance->context_lock);
    if (status != FACET_OK) {
        pthread_rwlock_destroy(&context->lock);
        free(context);
    }
    return status;
}

/* With the instance's lock, and nobody using it. The memory goes while the driver still has the context. */
static void close_context(struct facet_provider_instance *instance, struct cuda_context *context)
{
    struct cuda_device *device = &instance->devices[context->device];
    struct cuda_context **place = &instance->contexts;
    CUcontext ours;

    while (*place != context)
        place = &(*place)->next;
    *place = context->next;
    pthread_mutex_unlock(&instance->context_lock);

    bool current = instance->driver.cuCtxPushCurrent_v2(device->primary) == CUDA_SUCCESS;
    cuda_blocks_free(instance, context);
    cuda_reservations_free(instance, context);
    cuda_pages_orphan(instance, context);
    if (current)
        instance->driver.cuCtxPopCurrent_v2(&ours);

    pthread_mutex_lock(&instance->context_lock);
    context->worker->contexts--;
    cuda_worker_drop(device, context->worker);
    pthread_rwlock_destroy(&context->lock);
    free(context);
}

enum facet_status cuda_context_destroy(struct facet_provider_instance *instance, uint64_t number,
                                       struct facet_error *error)
{
    pthread_mutex_lock(&instance->context_lock);
    struct cuda_context *context = find(instance, number);
    if (context)
        context->closing = true;
    while (context && context->users)
        pthread_cond_wait(&instance->left, &instance->context_lock);
    pthread_mutex_unlock(&instance->context_lock);
    if (!context)
        return no_context(number, error);

    bool ended = cuda_executor_forget(instance, context);
    pthread_mutex_lock(&instance->context_lock);
    if (ended)
        close_context(instance, context);
    else
        context->closing = false;
    pthread_mutex_unlock(&instance->context_lock);
    return ended ? FACET_OK
                 : facet_kit_fail(error, FACET_TIMEOUT, "a launch of context %" PRIu64 " does not end", number);
}

bool cuda_contexts_free(struct facet_provider_instance *instance)
{
    while (instance->contexts) {
        if (!cuda_executor_forget(instance, instance->contexts))
            return false;
        pthread_mutex_lock(&instance->context_lock);
        close_context(instance, instance->contexts);
        pthread_mutex_unlock(&instance->context_lock);
    }
    for (uint32_t i = 0; i < instance->count; i++) {
        if (instance->devices[i].primary)
            instance->driver.cuDevicePrimaryCtxRelease_v2(instance->devices[i].ordinal);
    }
    return true;
}
