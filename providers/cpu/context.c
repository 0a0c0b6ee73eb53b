/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: creating and ending contexts, and their accounts.
 * Never: takes away memory that a work-group may still use. The executor ends most work-groups, but not those that may
 * hold a lock or another resource. The end of a context waits CPU_GRACE_NS for these. A work-group that runs longer
 * makes the context a zombie: it has no number any more, keeps its memory, and is freed when its last work-group ends.
 */
#include <stdlib.h>
#include <time.h>

#include "cpu.h"
#include "pool.h"

#define RETRY_NS UINT64_C(1000000000)

/* --- accounts --- */

enum facet_status cpu_account_charge(struct cpu_context *context, uint64_t bytes, struct facet_error *error)
{
    struct facet_provider_instance *instance = context->instance;
    struct cpu_worker *worker = context->worker;
    enum facet_status status = FACET_OK;

    pthread_mutex_lock(&instance->lock);
    bool limited = worker->valid & FACET_WORKER_HAS_MEMORY;
    uint64_t available = limited ? worker->memory_bytes - worker->used_bytes : cpu_memory_free(instance);
    if (bytes > available) {
        status =
            facet_kit_fail(error, limited ? FACET_QUOTA : FACET_NO_SPACE,
                           "bytes %" PRIu64 ": expected at most the %" PRIu64 " that are left %s %s", bytes, available,
                           limited ? "of the limit of worker" : "of", limited ? worker->name : "the device");
    } else {
        worker->used_bytes += bytes;
        context->used_bytes += bytes;
    }
    pthread_mutex_unlock(&instance->lock);
    return status;
}

void cpu_account_uncharge(struct cpu_context *context, uint64_t bytes)
{
    pthread_mutex_lock(&context->instance->lock);
    context->worker->used_bytes -= bytes;
    context->used_bytes -= bytes;
    pthread_mutex_unlock(&context->instance->lock);
}

void cpu_account_reserve(struct cpu_context *context, uint64_t bytes, bool more)
{
    uint64_t change = more ? bytes : UINT64_C(0) - bytes;

    pthread_mutex_lock(&context->instance->lock);
    context->worker->reserved_bytes += change;
    context->reserved_bytes += change;
    pthread_mutex_unlock(&context->instance->lock);
}

void cpu_account_share(struct cpu_context *context, uint64_t bytes)
{
    pthread_mutex_lock(&context->instance->lock);
    context->used_bytes -= bytes;
    context->worker->shared_pages++;
    pthread_mutex_unlock(&context->instance->lock);
}

static void uncharge_shared(struct facet_provider_instance *instance, struct cpu_worker *worker, uint64_t bytes)
{
    pthread_mutex_lock(&instance->lock);
    worker->used_bytes -= bytes;
    worker->shared_pages--;
    cpu_worker_settle(instance, worker);
    pthread_mutex_unlock(&instance->lock);
}

void cpu_account_free_pages(struct cpu_context *context, struct cpu_pages_list *unused)
{
    struct facet_provider_instance *instance = context->instance;
    struct cpu_pages *pages;

    while ((pages = TAILQ_FIRST(unused))) {
        uint64_t bytes = pages->extent->bytes;

        TAILQ_REMOVE(unused, pages, link);
        cpu_pool_give(&instance->pool, pages->extent);
        if (pages->worker)
            uncharge_shared(instance, pages->worker, bytes);
        else
            cpu_account_uncharge(context, bytes);
        free(pages);
    }
}

/* --- finding --- */

enum facet_status cpu_context_take(struct facet_provider_instance *instance, uint64_t number,
                                   struct cpu_context **ret_context, struct facet_error *error)
{
    struct cpu_context *context;

    CPU_REQUIRE(instance, error);
    pthread_mutex_lock(&instance->lock);
    TAILQ_FOREACH (context, &instance->contexts, link)
        if (context->number == number)
            break;
    if (context)
        context->references++;
    pthread_mutex_unlock(&instance->lock);
    if (!context)
        return facet_kit_fail(error, FACET_NOT_FOUND, "context %" PRIu64 ": expected one that exists", number);
    *ret_context = context;
    return FACET_OK;
}

/* --- making --- */

static struct cpu_context *new_context(struct facet_provider_instance *instance)
{
    struct cpu_context *context = calloc(1, sizeof *context);

    if (context && !cpu_space_open(&context->space, &instance->pool)) {
        free(context);
        return NULL;
    }
    if (!context)
        return NULL;
    context->instance = instance;
    context->references = 1;
    pthread_mutex_init(&context->lock, NULL);
    TAILQ_INIT(&context->queues);
    TAILQ_INIT(&context->modules);
    TAILQ_INIT(&context->launches);
    TAILQ_INIT(&context->deferred_frees);
    return context;
}

static void free_context(struct cpu_context *context)
{
    pthread_mutex_destroy(&context->lock);
    free(context);
}

/* Frees a context that is in no list yet. */
static void discard_context(struct cpu_context *context)
{
    struct cpu_pages_list none = TAILQ_HEAD_INITIALIZER(none);

    cpu_space_close(&context->space, &none);
    free_context(context);
}

/* With the instance's lock held. */
static enum facet_status list_context(struct facet_provider_instance *instance, struct cpu_context *context,
                                      const char *worker_name, struct facet_error *error)
{
    struct cpu_worker *worker = NULL;
    enum facet_status status = cpu_worker_get(instance, worker_name, &worker, error);

    if (status != FACET_OK)
        return status;
    context->tenant = worker->tenant;
    if (!worker->tenant)
        status = cpu_tenant_create(instance->executor, &context->tenant, error);
    if (status != FACET_OK) {
        cpu_worker_settle(instance, worker);
        return status;
    }
    context->worker = worker;
    context->number = ++instance->number;
    worker->contexts++;
    TAILQ_INSERT_TAIL(&instance->contexts, context, link);
    cpu_units_set_unlimited(instance);
    return FACET_OK;
}

enum facet_status cpu_context_create(struct facet_provider_instance *instance, const char *worker,
                                     uint64_t *ret_context, struct facet_error *error)
{
    struct cpu_context *context = new_context(instance);

    if (!context)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a context");
    pthread_mutex_lock(&instance->lock);
    enum facet_status status = list_context(instance, context, worker, error);
    uint64_t number = context->number;
    pthread_mutex_unlock(&instance->lock);
    if (status == FACET_OK)
        *ret_context = number;
    else
        discard_context(context);
    return status;
}

/* --- ending --- */

static void leave_worker(struct cpu_context *context)
{
    struct facet_provider_instance *instance = context->instance;
    struct cpu_worker *worker = context->worker;
    struct cpu_tenant *own_tenant = NULL;

    pthread_mutex_lock(&instance->lock);
    if (context->tenant != worker->tenant) {
        own_tenant = context->tenant;
        worker->ended_contexts_ns += cpu_tenant_busy_ns(own_tenant) - context->counted_ns;
    }
    worker->used_bytes -= context->used_bytes;
    worker->reserved_bytes -= context->reserved_bytes;
    worker->contexts--;
    cpu_worker_settle(instance, worker);
    pthread_mutex_unlock(&instance->lock);
    cpu_tenant_destroy(own_tenant);
}

/* Frees all of a context without references. Queues go first: the launches that they complete release memory. */
static void destroy_context(struct cpu_context *context)
{
    struct cpu_pages_list unused = TAILQ_HEAD_INITIALIZER(unused);
    struct cpu_queue *queue;
    struct cpu_module *module;

    while ((queue = TAILQ_FIRST(&context->queues))) {
        TAILQ_REMOVE(&context->queues, queue, link);
        cpu_stream_destroy(queue->stream);
        free(queue);
    }
    while ((module = TAILQ_FIRST(&context->modules))) {
        TAILQ_REMOVE(&context->modules, module, link);
        cpu_module_free(module);
    }
    cpu_deferred_free_run(context);
    cpu_space_close(&context->space, &unused);
    cpu_account_free_pages(context, &unused);
    leave_worker(context);
    free_context(context);
}

void cpu_context_drop(struct cpu_context *context)
{
    struct facet_provider_instance *instance = context->instance;

    pthread_mutex_lock(&instance->lock);
    bool last = --context->references == 0;
    pthread_mutex_unlock(&instance->lock);
    if (last)
        destroy_context(context);
}

/* The caller holds no lock: a cancelled job is reported complete at once, by a callback. */
static void cancel_queues(struct cpu_context *context)
{
    struct cpu_queue *queue;

    for (uint64_t after = 0; (queue = cpu_queue_next(context, after));) {
        after = queue->creation_number;
        cpu_stream_cancel(queue->stream);
        cpu_queue_drop(queue);
    }
}

static enum facet_status cancel_and_drain(struct cpu_context *context, uint64_t timeout_ns)
{
    cancel_queues(context);
    return cpu_context_drain(context, timeout_ns, NULL);
}

/* The main function of a thread that waits for a zombie's last work-group. */
static void *wait_for_end(void *argument)
{
    struct cpu_context *context = argument;
    struct facet_provider_instance *instance = context->instance;

    while (cancel_and_drain(context, RETRY_NS) == FACET_TIMEOUT)
        ;
    cpu_context_drop(context);
    pthread_mutex_lock(&instance->lock);
    instance->zombies--;
    pthread_cond_broadcast(&instance->zombie_ended);
    pthread_mutex_unlock(&instance->lock);
    return NULL;
}

/* Hands the list's reference to the context over to a thread. False: no thread could be started. */
static bool close_in_thread(struct cpu_context *context)
{
    struct facet_provider_instance *instance = context->instance;
    pthread_t thread;

    cpu_stay_loaded();
    pthread_mutex_lock(&instance->lock);
    instance->zombies++;
    pthread_mutex_unlock(&instance->lock);
    if (pthread_create(&thread, NULL, wait_for_end, context) == 0) {
        pthread_detach(thread);
        return true;
    }
    pthread_mutex_lock(&instance->lock);
    instance->zombies--;
    pthread_mutex_unlock(&instance->lock);
    return false;
}

/* With the instance's lock held. The device time of the context stays counted for its worker. */
static void unlist_context(struct cpu_context *context)
{
    TAILQ_REMOVE(&context->instance->contexts, context, link);
    if (context->tenant != context->worker->tenant) {
        context->counted_ns = cpu_tenant_busy_ns(context->tenant);
        context->worker->ended_contexts_ns += context->counted_ns;
    }
}

void cpu_context_end(struct cpu_context *context)
{
    struct facet_provider_instance *instance = context->instance;

    pthread_mutex_lock(&instance->lock);
    bool listed = context->number != 0;
    if (listed)
        unlist_context(context);
    context->number = 0; /* another thread that ends the context meanwhile finds it ended */
    pthread_mutex_unlock(&instance->lock);
    if (!listed)
        return;
    if (cancel_and_drain(context, CPU_GRACE_NS) != FACET_TIMEOUT || !close_in_thread(context))
        cpu_context_drop(context);
}

enum facet_status cpu_context_drain(struct cpu_context *context, uint64_t timeout_ns, struct facet_error *error)
{
    uint64_t now = cpu_now_ns(CLOCK_MONOTONIC), end = timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX;
    enum facet_status status = FACET_OK;
    struct cpu_queue *queue;

    for (uint64_t after = 0; status == FACET_OK && (queue = cpu_queue_next(context, after));) {
        now = cpu_now_ns(CLOCK_MONOTONIC);
        status = cpu_stream_wait(queue->stream, now < end ? end - now : 0);
        if (status == FACET_TIMEOUT)
            facet_kit_fail(error, status, "stream %" PRIu64 ": still at work after %" PRIu64 " ns",
                           queue->creation_number, timeout_ns);
        after = queue->creation_number;
        cpu_queue_drop(queue);
    }
    return status;
}
