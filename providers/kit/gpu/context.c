/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: contexts, their users, and workers.
 * Never: makes a context of the driver for each of ours: all contexts of a device share the driver's primary context.
 *
 * A context of the driver costs hundreds of megabytes, and work of two of them is time-sliced instead of running side
 * by side. So this code keeps our contexts apart: it checks every address before the driver gets it. A kernel that
 * faults ends the primary context, and with it all of our contexts on the device.
 */
#include <stdlib.h>

#include "machine.h"
#include "provider_kit.h"

static struct gpu_context *find_context(const struct gpu_machine *machine, uint64_t number)
{
    struct gpu_context *context = machine->contexts;

    while (context && context->number != number)
        context = context->next;
    return context && !context->closing ? context : NULL;
}

static enum facet_status no_context(uint64_t number, struct facet_error *error)
{
    return facet_kit_fail(error, FACET_NOT_FOUND, "there is no context %" PRIu64, number);
}

/* --- users --- */

static void drop_user(struct gpu_machine *machine, struct gpu_context *context)
{
    pthread_mutex_lock(&machine->context_lock);
    if (--context->users == 0)
        pthread_cond_broadcast(&machine->user_left);
    pthread_mutex_unlock(&machine->context_lock);
}

enum facet_status gpu_context_enter(struct gpu_machine *machine, uint64_t number, enum gpu_use use,
                                    struct gpu_context **ret_context, struct facet_error *error)
{
    pthread_mutex_lock(&machine->context_lock);
    struct gpu_context *context = find_context(machine, number);
    if (context)
        context->users++;
    pthread_mutex_unlock(&machine->context_lock);
    if (!context)
        return no_context(number, error);

    enum facet_status status = FACET_OK;
    if (use == GPU_USE_TRANSFER || use == GPU_USE_REMOVE)
        status = gpu_executor_drain(machine, context, error);
    if (status == FACET_OK)
        status = gpu_device_enter(machine, context, error);
    if (status != FACET_OK) {
        drop_user(machine, context);
        return status;
    }
    if (use == GPU_USE_READ || use == GPU_USE_TRANSFER)
        pthread_rwlock_rdlock(&context->lock);
    else
        pthread_rwlock_wrlock(&context->lock);
    *ret_context = context;
    return FACET_OK;
}

void gpu_context_leave(struct gpu_machine *machine, struct gpu_context *context)
{
    pthread_rwlock_unlock(&context->lock);
    machine->driver->leave(machine);
    drop_user(machine, context);
}

/* --- workers, under the context lock --- */

struct gpu_worker *gpu_worker_find(const struct gpu_device *device, const char *name)
{
    struct gpu_worker *worker = device->workers;

    while (worker && strcmp(worker->name, name) != 0)
        worker = worker->next;
    return worker;
}

struct gpu_worker *gpu_worker_get(struct gpu_device *device, const char *name)
{
    struct gpu_worker *worker = gpu_worker_find(device, name);

    if (worker)
        return worker;
    worker = calloc(1, sizeof *worker);
    if (!worker)
        return NULL;
    FACET_KIT_TEXT(worker->name, name);
    worker->next = device->workers;
    device->workers = worker;
    return worker;
}

void gpu_worker_drop(struct gpu_device *device, struct gpu_worker *worker)
{
    struct gpu_worker **place = &device->workers;

    if (worker->contexts || worker->used_bytes || worker->valid)
        return;
    while (*place != worker)
        place = &(*place)->next;
    *place = worker->next;
    free(worker);
}

uint64_t gpu_memory_left(const struct gpu_machine *machine, uint32_t device)
{
    uint64_t device_bytes = machine->infos[device].memory_bytes, promised_bytes = 0;
    const struct gpu_worker *worker;

    for (worker = machine->devices[device].workers; worker; worker = worker->next)
        promised_bytes += worker->valid & FACET_WORKER_HAS_MEMORY ? worker->memory_bytes : worker->used_bytes;
    return promised_bytes < device_bytes ? device_bytes - promised_bytes : 0;
}

enum facet_status gpu_worker_charge(struct gpu_machine *machine, const struct gpu_context *context, uint64_t bytes,
                                    struct facet_error *error)
{
    struct gpu_worker *worker = context->worker;
    enum facet_status status = FACET_OK;

    pthread_mutex_lock(&machine->context_lock);
    bool limited = worker->valid & FACET_WORKER_HAS_MEMORY;
    uint64_t available =
        limited ? worker->memory_bytes - worker->used_bytes : gpu_memory_left(machine, context->device);
    if (bytes <= available)
        worker->used_bytes += bytes;
    else
        status = facet_kit_fail(error, limited ? FACET_QUOTA : FACET_NO_SPACE,
                                "%" PRIu64 " bytes: expected at most the %" PRIu64 " that worker %s may still have",
                                bytes, available, worker->name);
    pthread_mutex_unlock(&machine->context_lock);
    return status;
}

void gpu_worker_refund(struct gpu_machine *machine, struct gpu_worker *worker, uint64_t bytes)
{
    pthread_mutex_lock(&machine->context_lock);
    worker->used_bytes -= bytes;
    pthread_mutex_unlock(&machine->context_lock);
}

/* --- creation and end --- */

/* Joins the turns of the context's worker, or else those of the device. */
static enum facet_status join_turns(struct gpu_machine *machine, struct gpu_context *context, struct facet_error *error)
{
    struct gpu_device *device = &machine->devices[context->device];
    enum facet_status status = FACET_OK;

    if (!context->worker->turns && !device->turns)
        status = gpu_turns_begin(machine, context->device, &device->turns, error);
    if (status != FACET_OK)
        return status;
    pthread_mutex_lock(&machine->executor.lock);
    status = gpu_tenant_join(&machine->executor, context->worker->turns ? context->worker->turns : device->turns,
                             &context->tenant, error);
    pthread_mutex_unlock(&machine->executor.lock);
    return status;
}

static enum facet_status add_context(struct gpu_machine *machine, struct gpu_context *context, const char *worker,
                                     struct facet_error *error)
{
    struct gpu_device *device = &machine->devices[context->device];

    if (!device->retained) {
        enum facet_status status = machine->driver->retain(machine, context->device, error);

        if (status != FACET_OK)
            return status;
        device->retained = true;
    }
    context->worker = gpu_worker_get(device, worker);
    if (!context->worker)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a worker");
    enum facet_status status = join_turns(machine, context, error);
    if (status != FACET_OK) {
        gpu_worker_drop(device, context->worker);
        return status;
    }
    context->worker->contexts++;
    context->number = ++machine->last_number;
    context->next = machine->contexts;
    machine->contexts = context;
    return FACET_OK;
}

enum facet_status gpu_context_create(struct facet_provider_instance *instance, uint32_t device,
                                     const char *partition_uuid, const char *worker, uint64_t *ret_context,
                                     struct facet_error *error)
{
    struct gpu_machine *machine = gpu_machine_of(instance);
    enum facet_status status = gpu_device_check(machine, device, FACET_CAN_MEMORY, error);

    if (status == FACET_OK)
        status = facet_kit_check_worker(worker, error);
    if (status != FACET_OK)
        return status;
    if (partition_uuid && *partition_uuid)
        return facet_kit_fail(error, FACET_NOT_FOUND, "partition '%.64s': the device has none of this uuid",
                              partition_uuid);
    if (!ret_context)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "ret_context: expected an address, not NULL");
    struct gpu_context *context = calloc(1, sizeof *context);
    if (!context)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a context");
    context->device = device;
    pthread_rwlock_init(&context->lock, NULL);

    pthread_mutex_lock(&machine->context_lock);
    status = add_context(machine, context, worker, error);
    if (status == FACET_OK)
        *ret_context = context->number;
    pthread_mutex_unlock(&machine->context_lock);
    if (status != FACET_OK) {
        pthread_rwlock_destroy(&context->lock);
        free(context);
    }
    return status;
}

/* Called with the context lock and without users. The memory is freed while the driver still has the context. */
static void close_context(struct gpu_machine *machine, struct gpu_context *context)
{
    struct gpu_device *device = &machine->devices[context->device];
    struct gpu_context **place = &machine->contexts;

    while (*place != context)
        place = &(*place)->next;
    *place = context->next;
    pthread_mutex_unlock(&machine->context_lock);

    pthread_mutex_lock(&machine->executor.lock);
    gpu_tenant_leave(&machine->executor, &context->tenant);
    pthread_mutex_unlock(&machine->executor.lock);
    gpu_slice_drop(machine, context->device, context->bound);
    bool entered = gpu_device_enter(machine, context, NULL) == FACET_OK;
    gpu_blocks_free(machine, context);
    gpu_reservations_free(machine, context);
    gpu_pages_drop_owner(machine, context);
    if (entered)
        machine->driver->leave(machine);

    pthread_mutex_lock(&machine->context_lock);
    context->worker->contexts--;
    gpu_worker_drop(device, context->worker);
    pthread_rwlock_destroy(&context->lock);
    free(context);
}

enum facet_status gpu_context_destroy(struct facet_provider_instance *instance, uint64_t number,
                                      struct facet_error *error)
{
    struct gpu_machine *machine = gpu_machine_of(instance);
    pthread_mutex_lock(&machine->context_lock);
    struct gpu_context *context = find_context(machine, number);
    if (context)
        context->closing = true;
    while (context && context->users)
        pthread_cond_wait(&machine->user_left, &machine->context_lock);
    pthread_mutex_unlock(&machine->context_lock);
    if (!context)
        return no_context(number, error);

    bool ended = gpu_executor_forget(machine, context);
    pthread_mutex_lock(&machine->context_lock);
    if (ended)
        close_context(machine, context);
    else
        context->closing = false;
    pthread_mutex_unlock(&machine->context_lock);
    return ended
               ? FACET_OK
               : facet_kit_fail(error, FACET_TIMEOUT, "a launch of context %" PRIu64 " did not end within 5 s", number);
}

/* Called when the device has no context left. */
static void close_device(struct gpu_machine *machine, uint32_t index)
{
    struct gpu_device *device = &machine->devices[index];

    while (device->workers) {
        struct gpu_worker *worker = device->workers;

        gpu_worker_unlimit(machine, index, worker);
        device->workers = worker->next;
        free(worker);
    }
    gpu_turns_end(machine, &device->turns);
    if (device->retained)
        machine->driver->release(machine, index);
}

bool gpu_contexts_free(struct gpu_machine *machine)
{
    while (machine->contexts) {
        if (!gpu_executor_forget(machine, machine->contexts))
            return false;
        pthread_mutex_lock(&machine->context_lock);
        close_context(machine, machine->contexts);
        pthread_mutex_unlock(&machine->context_lock);
    }
    for (uint32_t i = 0; i < machine->count; i++)
        close_device(machine, i);
    return true;
}
