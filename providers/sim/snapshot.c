/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the table `snapshot`: taking workers off a device and bringing them back, completely or not at all.
 * Never: holds the lock while it reads or writes. Meanwhile operations on contexts that leave return FACET_BUSY.
 *
 * A running kernel is stopped, and its progress is kept. Kernels change memory only when they complete, so the snapshot
 * never has memory that a kernel has half changed.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine.h"

/* The contexts that an operation is for. */
struct selection {
    bool process; /* all contexts on all devices */
    uint32_t device;
    const char *worker; /* "": every worker */
};

struct set {
    struct sim_context **contexts;
    uint32_t count;
};

static bool is_selected(const struct selection *selection, const struct sim_context *context)
{
    if (context->lost)
        return false;
    if (selection->process)
        return true;
    return context->device == selection->device &&
           (!selection->worker[0] || strcmp(selection->worker, context->account->worker) == 0);
}

static struct sim_parked *find_parked(const struct sim_engine *engine, const struct selection *selection)
{
    struct sim_parked *parked;

    LIST_FOREACH (parked, &engine->parked, link)
        if (parked->process == selection->process &&
            (parked->process ||
             (parked->device == selection->device && strcmp(parked->worker, selection->worker) == 0)))
            return parked;
    return NULL;
}

static void free_parked(struct sim_parked *parked)
{
    if (parked && parked->fd >= 0)
        close(parked->fd);
    free(parked);
}

bool sim_parked_has(const struct sim_engine *engine, uint64_t context)
{
    const struct sim_parked *parked;

    LIST_FOREACH (parked, &engine->parked, link)
        for (uint32_t i = 0; i < parked->count; i++)
            if (parked->contexts[i] == context)
                return true;
    return false;
}

void sim_snapshot_worker_returned(struct sim_engine *engine, uint32_t device, const char *worker)
{
    struct sim_parked *parked, *after;

    for (parked = LIST_FIRST(&engine->parked); parked; parked = after) {
        after = LIST_NEXT(parked, link);
        if (parked->fd >= 0 || parked->device != device || (parked->worker[0] && strcmp(parked->worker, worker) != 0))
            continue;
        LIST_REMOVE(parked, link);
        free_parked(parked);
    }
}

static const char *selection_name(const struct selection *selection)
{
    if (selection->process)
        return "this process";
    return selection->worker[0] ? selection->worker : "all workers";
}

/* --- off the device --- */

/* Lists the selected contexts. FACET_NOT_FOUND: there are none; FACET_BAD_STATE: they are off the device already. */
static enum facet_status select_contexts(const struct sim_engine *engine, const struct selection *selection,
                                         bool keep_in_memory, struct set *ret_set, struct facet_error *error)
{
    const struct sim_parked *parked = find_parked(engine, selection);
    struct sim_context *context;
    struct set set = {0};

    TAILQ_FOREACH (context, &engine->contexts, link)
        set.count += is_selected(selection, context);
    if (parked && (set.count == 0 || (keep_in_memory && parked->fd >= 0)))
        return facet_kit_fail(error, FACET_BAD_STATE, "%s: expected it on the device, but a snapshot took it off",
                              selection_name(selection));
    if (set.count == 0)
        return facet_kit_fail(error, FACET_NOT_FOUND, "%s has nothing on the device", selection_name(selection));
    TAILQ_FOREACH (context, &engine->contexts, link)
        if (is_selected(selection, context) && context->saving)
            return facet_kit_fail(error, FACET_BUSY, "%s is being saved: try again", selection_name(selection));
    set.contexts =
        calloc(set.count + 1, sizeof(struct sim_context *)); /* one more: calloc(0) may return NULL without a failure */
    if (!set.contexts)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a list of contexts");
    set.count = 0;
    TAILQ_FOREACH (context, &engine->contexts, link)
        if (is_selected(selection, context))
            set.contexts[set.count++] = context;
    *ret_set = set;
    return FACET_OK;
}

/* Makes the record of a worker off its device. If `fd` is -1, a new memory file holds its contexts. */
static enum facet_status new_parked(const struct selection *selection, const struct set *set, int fd,
                                    struct sim_parked **ret_parked, struct facet_error *error)
{
    struct sim_parked *parked = calloc(1, sizeof *parked + set->count * sizeof parked->contexts[0]);

    if (!parked)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a snapshot");
    for (; parked->count < set->count; parked->count++)
        parked->contexts[parked->count] = set->contexts[parked->count]->object.number;
    parked->process = selection->process;
    parked->device = selection->device;
    FACET_KIT_TEXT(parked->worker, selection->worker);
    parked->fd = -1;
    if (fd == -1) {
        parked->fd = memfd_create("facet-sim-snapshot", MFD_CLOEXEC);
        if (parked->fd < 0) {
            free(parked);
            return facet_kit_fail(error, FACET_NO_MEMORY, "no memory file for a snapshot: %s", strerror(errno));
        }
    }
    *ret_parked = parked;
    return FACET_OK;
}

/* Stops the streams of contexts that leave, or resumes those of contexts that stay. */
static void set_saving(struct facet_provider_instance *instance, const struct set *set, bool saving)
{
    struct sim_object *object;

    for (uint32_t i = 0; i < set->count; i++) {
        set->contexts[i]->saving = saving;
        TAILQ_FOREACH (object, &set->contexts[i]->objects, link) {
            if (object->kind != SIM_KIND_STREAM)
                continue;
            if (saving)
                sim_stream_stop(instance, (struct sim_stream *)object);
            else
                sim_stream_begin_next(instance, (struct sim_stream *)object);
        }
    }
    sim_clock_changed(instance);
}

static void remove_set(struct facet_provider_instance *instance, const struct set *set)
{
    for (uint32_t i = 0; i < set->count; i++) {
        sim_context_unlink(instance, set->contexts[i]);
        sim_context_free(set->contexts[i]);
    }
}

/* Saves with the lock released: contexts that leave do not change. */
static enum facet_status save_set(struct facet_provider_instance *instance, const struct selection *selection,
                                  const struct set *set, int fd, struct facet_error *error)
{
    set_saving(instance, set, true);
    pthread_mutex_unlock(&instance->lock);
    enum facet_status status = sim_save(instance, set->contexts, set->count, selection->worker, fd, error);
    pthread_mutex_lock(&instance->lock);
    sim_engine_advance(instance, sim_clock_now(instance));
    if (status == FACET_OK)
        remove_set(instance, set);
    else
        set_saving(instance, set, false);
    return status;
}

static enum facet_status take_workers_off(struct facet_provider_instance *instance, const struct selection *selection,
                                          int fd, struct facet_error *error)
{
    struct sim_engine *engine = instance->engine;
    struct sim_parked *parked = NULL;
    struct set set = {0};

    enum facet_status status = select_contexts(engine, selection, fd == -1, &set, error);
    if (status != FACET_OK)
        return status;
    status = new_parked(selection, &set, fd, &parked, error);
    if (status == FACET_OK)
        status = save_set(instance, selection, &set, fd == -1 ? parked->fd : fd, error);
    free(set.contexts);
    if (status != FACET_OK) {
        free_parked(parked);
        return status;
    }
    struct sim_parked *earlier = find_parked(engine, selection);
    if (earlier && earlier->fd >= 0) { /* an earlier snapshot in memory is kept: the new snapshot is in a file */
        free_parked(parked);
        return FACET_OK;
    }
    if (earlier) {
        LIST_REMOVE(earlier, link);
        free_parked(earlier);
    }
    LIST_INSERT_HEAD(&engine->parked, parked, link);
    return FACET_OK;
}

/* --- back on the device --- */

static uint64_t page_bytes_of(const struct sim_context *context)
{
    const struct sim_object *object;
    uint64_t bytes = 0;

    TAILQ_FOREACH (object, &context->objects, link)
        if (object->kind == SIM_KIND_PAGES)
            bytes += ((const struct sim_pages *)object)->bytes;
    return bytes;
}

static enum facet_status check_number(const struct sim_engine *engine, uint64_t number, struct facet_error *error)
{
    if (!sim_table_find(&engine->objects, number))
        return FACET_OK;
    return facet_kit_fail(error, FACET_BUSY, "number %" PRIu64 " is taken: expected it to be free", number);
}

/*
 * Checks whether a context may come back now, and makes room in the table, so that nothing fails after the context has
 * its account.
 */
static enum facet_status check_context(struct facet_provider_instance *instance, const struct sim_context *context,
                                       struct facet_error *error)
{
    const struct sim_object *object;
    size_t numbers = 1;

    enum facet_status status = check_number(instance->engine, context->object.number, error);
    TAILQ_FOREACH (object, &context->objects, link) {
        if (status == FACET_OK)
            status = check_number(instance->engine, object->number, error);
        numbers++;
    }
    if (status == FACET_OK)
        status = sim_check_device(instance, context->device, error);
    if (status == FACET_OK && !sim_table_reserve(&instance->engine->objects, numbers))
        status = facet_kit_fail(error, FACET_NO_MEMORY, "no memory for the table of numbers");
    return status;
}

/* Replaces the account that was read, which has only the names, by the worker's account in this instance. */
static enum facet_status join_account(struct facet_provider_instance *instance, struct sim_context *context,
                                      struct facet_error *error)
{
    struct sim_account *read = context->account;

    enum facet_status status =
        sim_account_enter(instance, context, read->partition_uuid, read->worker, page_bytes_of(context), error);
    if (status == FACET_QUOTA) /* the saved memory does not fit now */
        status = error ? (error->status = FACET_NO_SPACE) : FACET_NO_SPACE;
    if (status != FACET_OK)
        return status;
    free(read);
    for (size_t i = 0; i < context->space.reservations.count; i++)
        context->account->usage->reserved_bytes +=
            ((const struct sim_range *)context->space.reservations.entries[i].value)->bytes;
    return FACET_OK;
}

static void enter_number(struct sim_engine *engine, struct sim_object *object)
{
    sim_table_insert(&engine->objects, object->number, object);
    if (object->number >= engine->next_number)
        engine->next_number = object->number + 1;
}

static void link_context(struct facet_provider_instance *instance, struct sim_context *context)
{
    struct sim_engine *engine = instance->engine;
    struct sim_object *object;

    enter_number(engine, &context->object);
    TAILQ_FOREACH (object, &context->objects, link)
        enter_number(engine, object);
    TAILQ_INSERT_TAIL(&engine->contexts, context, link);
}

/* Links all contexts, or frees them and leaves everything as it was. */
static enum facet_status link_contexts(struct facet_provider_instance *instance, struct sim_contexts *contexts,
                                       struct set *ret_set, struct facet_error *error)
{
    enum facet_status status = FACET_OK;
    struct sim_context *context;
    uint64_t next_number = instance->engine->next_number;
    struct set set = {0};

    TAILQ_FOREACH (context, contexts, link)
        set.count++;
    set.contexts =
        calloc(set.count + 1, sizeof(struct sim_context *)); /* one more: calloc(0) may return NULL without a failure */
    if (!set.contexts)
        status = facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a list of contexts");
    for (set.count = 0; status == FACET_OK && (context = TAILQ_FIRST(contexts));) {
        status = check_context(instance, context, error);
        if (status == FACET_OK)
            status = join_account(instance, context, error);
        if (status != FACET_OK)
            break;
        TAILQ_REMOVE(contexts, context, link);
        link_context(instance, context);
        set.contexts[set.count++] = context;
    }
    if (status == FACET_OK) {
        *ret_set = set;
        return FACET_OK;
    }
    remove_set(instance, &set);
    instance->engine->next_number = next_number;
    free(set.contexts);
    return status;
}

static enum facet_status check_scope(const struct selection *selection, const char *scope, struct facet_error *error)
{
    if (strcmp(selection->worker, scope) == 0)
        return FACET_OK;
    return facet_kit_fail(error, FACET_UNSUPPORTED, "snapshot of %s: expected one of %s",
                          scope[0] ? scope
                                   : "all "
                                     "workers",
                          selection_name(selection));
}

/* Reads with the lock released, then brings everything back in one step. */
static enum facet_status bring_workers_back(struct facet_provider_instance *instance, const struct selection *selection,
                                            int fd, struct facet_error *error)
{
    struct sim_contexts contexts = TAILQ_HEAD_INITIALIZER(contexts);
    char scope[FACET_WORKER_SIZE];
    struct set set = {0};

    pthread_mutex_unlock(&instance->lock);
    enum facet_status status =
        sim_restore(instance, selection->process ? SIM_SAME_DEVICE : selection->device, fd, scope, &contexts, error);
    if (status == FACET_OK)
        status = check_scope(selection, scope, error);
    pthread_mutex_lock(&instance->lock);
    sim_engine_advance(instance, sim_clock_now(instance));
    if (status == FACET_OK)
        status = link_contexts(instance, &contexts, &set, error);
    sim_contexts_free(&contexts);
    if (status != FACET_OK)
        return status;
    set_saving(instance, &set, false);
    for (uint32_t i = 0; i < set.count; i++)
        sim_snapshot_worker_returned(instance->engine, set.contexts[i]->device, set.contexts[i]->account->worker);
    free(set.contexts);
    return FACET_OK;
}

/*
 * Brings a worker back from this process's memory. The snapshot is taken out of the list until that has succeeded or
 * failed, so that no other call brings it back, too.
 */
static enum facet_status bring_back_parked(struct facet_provider_instance *instance, const struct selection *selection,
                                           struct facet_error *error)
{
    struct sim_parked *parked = find_parked(instance->engine, selection);

    if (!parked || parked->fd < 0)
        return facet_kit_fail(error, FACET_NOT_FOUND, "%s: expected a snapshot of it in memory",
                              selection_name(selection));
    LIST_REMOVE(parked, link);
    enum facet_status status = FACET_OK;
    if (lseek(parked->fd, 0, SEEK_SET) < 0)
        status = facet_kit_fail(error, FACET_IO, "the snapshot cannot be read: %s", strerror(errno));
    if (status == FACET_OK)
        status = bring_workers_back(instance, selection, parked->fd, error);
    if (status == FACET_OK)
        free_parked(parked);
    else
        LIST_INSERT_HEAD(&instance->engine->parked, parked, link);
    return status;
}

/* --- the operations --- */

static enum facet_status check_arguments(struct facet_provider_instance *instance, const char *worker, int fd,
                                         struct facet_error *error)
{
    SIM_REQUIRE(instance, error);
    if (fd < -1)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "fd %d: expected a descriptor, or -1", fd);
    return worker ? facet_kit_check_worker(worker, error) : FACET_OK;
}

static enum facet_status snapshot_snapshot(struct facet_provider_instance *instance, uint32_t device,
                                           const char *worker, int fd, struct facet_error *error)
{
    const struct selection selection = {.device = device, .worker = worker ? worker : ""};

    enum facet_status status = check_arguments(instance, worker, fd, error);
    if (status != FACET_OK)
        return status;
    SIM_LOCK(instance);
    status = sim_engine_begin(instance, "snapshot.snapshot", device, error);
    return status == FACET_OK ? take_workers_off(instance, &selection, fd, error) : status;
}

static enum facet_status snapshot_resume(struct facet_provider_instance *instance, uint32_t device, const char *worker,
                                         int fd, struct facet_error *error)
{
    const struct selection selection = {.device = device, .worker = worker ? worker : ""};

    enum facet_status status = check_arguments(instance, worker, fd, error);
    if (status != FACET_OK)
        return status;
    SIM_LOCK(instance);
    status = sim_engine_begin(instance, "snapshot.resume", device, error);
    if (status != FACET_OK)
        return status;
    return fd == -1 ? bring_back_parked(instance, &selection, error)
                    : bring_workers_back(instance, &selection, fd, error);
}

/* Only this instance's own process has contexts here. */
static enum facet_status check_pids(struct facet_provider_instance *instance, const int32_t *pids, uint32_t count,
                                    struct facet_error *error)
{
    SIM_REQUIRE(instance, error);
    SIM_REQUIRE(pids, error);
    if (count == 0)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "count 0: expected at least one pid");
    for (uint32_t i = 0; i < count; i++)
        if (pids[i] != (int32_t)getpid())
            return facet_kit_fail(error, FACET_NOT_FOUND,
                                  "pid %" PRId32 ": expected a process with something on a "
                                  "device",
                                  pids[i]);
    return FACET_OK;
}

static enum facet_status snapshot_processes(struct facet_provider_instance *instance, const int32_t *pids,
                                            uint32_t count, struct facet_error *error)
{
    const struct selection selection = {.process = true, .worker = ""};

    enum facet_status status = check_pids(instance, pids, count, error);
    if (status != FACET_OK)
        return status;
    SIM_LOCK(instance);
    sim_engine_advance(instance, sim_clock_now(instance));
    return take_workers_off(instance, &selection, -1, error);
}

static enum facet_status snapshot_resume_processes(struct facet_provider_instance *instance, const int32_t *pids,
                                                   uint32_t count, struct facet_error *error)
{
    const struct selection selection = {.process = true, .worker = ""};

    enum facet_status status = check_pids(instance, pids, count, error);
    if (status != FACET_OK)
        return status;
    SIM_LOCK(instance);
    return bring_back_parked(instance, &selection, error);
}

const struct facet_snapshot_ops sim_snapshot_ops = {
    .size = sizeof sim_snapshot_ops,
    .snapshot = snapshot_snapshot,
    .resume = snapshot_resume,
    .snapshot_processes = snapshot_processes,
    .resume_processes = snapshot_resume_processes,
};
