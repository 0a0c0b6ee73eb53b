/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: contexts, numbers, and the queries of the core. Never: moves bytes or time. */
#include "engine.h"
#include "machine.h"

#include <stdlib.h>
#include <unistd.h>

enum facet_status sim_engine_begin(struct facet_provider_instance *instance, const char *operation, uint32_t device,
                                   struct facet_error *error)
{
    if (operation)
        sim_fault_hit_operation(instance, device, operation);
    enum facet_status status = sim_check_device(instance, device, error);
    sim_engine_advance(instance, sim_clock_now(instance));
    return status;
}

/* --- the engine as a whole --- */

static enum facet_status open_loads(struct facet_provider_instance *instance, struct facet_error *error)
{
    struct sim_engine *engine = instance->engine;
    enum facet_status status = FACET_OK;
    uint32_t count = instance->machine->device_count;

    engine->loads = calloc(count ? count : 1, sizeof *engine->loads);
    if (!engine->loads)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for %" PRIu32 " devices", count);
    for (uint32_t i = 0; i < count && status == FACET_OK; i++) {
        status = sim_load_open(instance, i, &engine->loads[i], error);
        engine->device_count += status == FACET_OK;
    }
    return status;
}

enum facet_status sim_engine_open(struct facet_provider_instance *instance, struct facet_error *error)
{
    struct sim_engine *engine = calloc(1, sizeof *engine);

    if (!engine)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for the engine");
    engine->next_number = 1;
    TAILQ_INIT(&engine->contexts);
    LIST_INIT(&engine->accounts);
    LIST_INIT(&engine->parked);
    instance->engine = engine;
    enum facet_status status = open_loads(instance, error);
    if (status != FACET_OK)
        sim_engine_close(instance);
    return status;
}

void sim_engine_close(struct facet_provider_instance *instance)
{
    struct sim_engine *engine = instance->engine;
    struct sim_context *context;
    struct sim_parked *parked;

    if (!engine)
        return;
    while ((context = TAILQ_FIRST(&engine->contexts))) {
        sim_context_unlink(instance, context);
        sim_context_free(context);
    }
    while ((parked = LIST_FIRST(&engine->parked))) {
        LIST_REMOVE(parked, link);
        if (parked->fd >= 0)
            close(parked->fd);
        free(parked);
    }
    for (uint32_t i = 0; i < engine->device_count; i++)
        sim_load_close(&engine->loads[i]);
    free(engine->loads);
    sim_table_clear(&engine->objects);
    free(engine);
    instance->engine = NULL;
}

bool sim_engine_uses_device(const struct facet_provider_instance *instance, uint32_t device)
{
    const struct sim_context *context;

    TAILQ_FOREACH (context, &instance->engine->contexts, link)
        if (context->device == device && !context->lost)
            return true;
    return false;
}

bool sim_engine_uses_partition(const struct facet_provider_instance *instance, const char *uuid)
{
    const struct sim_context *context;

    TAILQ_FOREACH (context, &instance->engine->contexts, link)
        if (!context->lost && strcmp(context->account->partition_uuid, uuid) == 0)
            return true;
    return false;
}

bool sim_engine_uses_worker(const struct facet_provider_instance *instance, uint32_t device, const char *worker)
{
    const struct sim_context *context;

    TAILQ_FOREACH (context, &instance->engine->contexts, link)
        if (context->device == device && !context->lost && strcmp(context->account->worker, worker) == 0)
            return true;
    return false;
}

void sim_engine_advance(struct facet_provider_instance *instance, uint64_t now_ns)
{
    for (uint32_t i = 0; i < instance->engine->device_count; i++)
        sim_load_advance(instance, &instance->engine->loads[i], now_ns);
}

uint64_t sim_engine_next(const struct facet_provider_instance *instance)
{
    uint64_t next = SIM_NEVER;

    for (uint32_t i = 0; i < instance->engine->device_count; i++) {
        uint64_t device_next = sim_load_next(instance, &instance->engine->loads[i]);

        if (device_next < next)
            next = device_next;
    }
    return next;
}

/* --- numbers --- */

enum facet_status sim_context_find(struct facet_provider_instance *instance, const char *operation, uint64_t number,
                                   struct sim_context **ret_context, struct facet_error *error)
{
    struct sim_object *object = sim_table_find(&instance->engine->objects, number);

    if (!object && sim_parked_has(instance->engine, number))
        return facet_kit_fail(error, FACET_BAD_STATE, "context %" PRIu64 ": expected its worker on the device", number);
    if (!object || object->kind != SIM_KIND_CONTEXT)
        return facet_kit_fail(error, FACET_NOT_FOUND, "context %" PRIu64 ": expected one that exists", number);
    struct sim_context *context = object->context;
    /* A fault may lose the context, but its number stays until the host destroys it. */
    enum facet_status status = sim_engine_begin(instance, operation, context->device, error);
    if (context->saving)
        return facet_kit_fail(error, FACET_BUSY, "context %" PRIu64 " is being saved: try again", number);
    if (status == FACET_OK && context->lost)
        status = facet_kit_fail(error, FACET_DEVICE_LOST,
                                "context %" PRIu64 " was lost with its device: expected a new one", number);
    *ret_context = context;
    return status;
}

void *sim_object_find(const struct facet_provider_instance *instance, const struct sim_context *context,
                      enum sim_kind kind, uint64_t number)
{
    struct sim_object *object = sim_table_find(&instance->engine->objects, number);

    return object && object->kind == kind && object->context == context ? object : NULL;
}

enum facet_status sim_object_enter(struct facet_provider_instance *instance, struct sim_context *context,
                                   struct sim_object *object, enum sim_kind kind, struct facet_error *error)
{
    struct sim_engine *engine = instance->engine;

    if (!sim_table_reserve(&engine->objects, 1))
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for the table of numbers");
    object->kind = kind;
    object->number = engine->next_number++;
    object->context = context;
    sim_table_insert(&engine->objects, object->number, object);
    if (kind != SIM_KIND_CONTEXT)
        TAILQ_INSERT_TAIL(&context->objects, object, link);
    return FACET_OK;
}

static void free_object(struct sim_object *object)
{
    struct sim_context *context = object->context;
    struct sim_launch *launch;

    TAILQ_REMOVE(&context->objects, object, link);
    if (object->kind == SIM_KIND_PAGES) {
        struct sim_pages *pages = (struct sim_pages *)object;

        sim_space_free_extent(&context->space, pages->extent);
    } else if (object->kind == SIM_KIND_MODULE) {
        sim_module_free((struct sim_module *)object);
        return;
    } else {
        struct sim_stream *stream = (struct sim_stream *)object;

        while ((launch = TAILQ_FIRST(&stream->queue))) {
            TAILQ_REMOVE(&stream->queue, launch, queued);
            free(launch);
        }
    }
    free(object);
}

void sim_object_drop(struct facet_provider_instance *instance, struct sim_object *object)
{
    sim_table_remove(&instance->engine->objects, object->number);
    if (object->kind == SIM_KIND_PAGES)
        object->context->account->usage->used_bytes -= ((struct sim_pages *)object)->bytes;
    free_object(object);
}

/* --- contexts --- */

enum facet_status sim_context_refresh(struct facet_provider_instance *instance, struct sim_context *context,
                                      struct facet_error *error)
{
    const struct sim_account *account = context->account;

    return sim_share_of(instance, account->device, account->partition_uuid, account->worker, &context->share, error);
}

enum facet_status sim_context_new(uint32_t page_bytes, struct sim_context **ret_context, struct facet_error *error)
{
    struct sim_context *context = calloc(1, sizeof *context);

    if (!context)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a context");
    TAILQ_INIT(&context->objects);
    context->object.context = context;
    context->object.kind = SIM_KIND_CONTEXT;
    enum facet_status status = sim_space_open(&context->space, page_bytes, error);
    if (status == FACET_OK)
        *ret_context = context;
    else
        free(context);
    return status;
}

void sim_context_free(struct sim_context *context)
{
    struct sim_object *object;

    if (!context)
        return;
    while ((object = TAILQ_FIRST(&context->objects)))
        free_object(object);
    sim_space_close(&context->space);
    free(context->account); /* a context that was unlinked has none */
    free(context);
}

void sim_context_unlink(struct facet_provider_instance *instance, struct sim_context *context)
{
    struct sim_account *account = context->account;
    struct sim_object *object;

    TAILQ_FOREACH (object, &context->objects, link) {
        if (object->kind == SIM_KIND_STREAM)
            sim_stream_stop(instance, (struct sim_stream *)object);
        if (object->kind == SIM_KIND_PAGES)
            account->usage->used_bytes -= ((struct sim_pages *)object)->bytes;
        sim_table_remove(&instance->engine->objects, object->number);
    }
    for (size_t i = 0; i < context->space.reservations.count; i++)
        account->usage->reserved_bytes -= ((struct sim_range *)context->space.reservations.entries[i].value)->bytes;
    sim_table_remove(&instance->engine->objects, context->object.number);
    TAILQ_REMOVE(&instance->engine->contexts, context, link);
    sim_account_leave(context);
    sim_clock_changed(instance);
}

/* A lost context's memory is freed, but its numbers stay until the host destroys it. */
static void lose_context(struct facet_provider_instance *instance, struct sim_context *context)
{
    struct sim_object *object, *after;

    context->lost = true;
    context->account->usage->contexts--;
    for (object = TAILQ_FIRST(&context->objects); object; object = after) {
        after = TAILQ_NEXT(object, link);
        if (object->kind == SIM_KIND_STREAM)
            sim_stream_clear(instance, (struct sim_stream *)object, FACET_DEVICE_LOST);
        else if (object->kind == SIM_KIND_PAGES)
            sim_object_drop(instance, object);
    }
}

void sim_engine_lose(struct facet_provider_instance *instance, uint32_t device)
{
    struct sim_context *context;

    TAILQ_FOREACH (context, &instance->engine->contexts, link)
        if (context->device == device && !context->lost && !context->saving)
            lose_context(instance, context);
    sim_clock_changed(instance);
}

enum facet_status sim_pages_new(struct sim_context *context, uint64_t bytes, struct sim_pages **ret_pages,
                                struct facet_error *error)
{
    struct sim_pages *pages = calloc(1, sizeof *pages);

    if (!pages)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a page object");
    pages->bytes = bytes;
    enum facet_status status = sim_space_alloc_extent(&context->space, bytes, &pages->extent, error);
    if (status == FACET_OK)
        *ret_pages = pages;
    else
        free(pages);
    return status;
}
