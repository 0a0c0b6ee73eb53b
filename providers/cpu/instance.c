/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: opening and closing an instance, its numbers, and reports of work-groups that run for too long.
 * Never: starts a thread or takes memory of the device before a context is made: so listing devices costs little.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

#include "cpu.h"

#define NS_PER_S         UINT64_C(1000000000)
#define NS_PER_MS        UINT64_C(1000000)
#define WATCHDOG_MS      UINT64_C(10000) /* FACET_CPU_WATCHDOG: how long a work-group may take before it is reported */
#define WATCHDOG_MS_MOST FACET_VARIABLE_MS_MAX
#define END_AFTER_MS     UINT64_C(20) /* time for a work-group to end by itself, once its launch is cancelled */

uint64_t cpu_now_ns(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t cpu_number_next(struct facet_provider_instance *instance)
{
    pthread_mutex_lock(&instance->lock);
    uint64_t number = ++instance->number;
    pthread_mutex_unlock(&instance->lock);
    return number;
}

enum facet_status cpu_check_device(const struct facet_provider_instance *instance, uint32_t device,
                                   struct facet_error *error)
{
    CPU_REQUIRE(instance, error);
    return facet_kit_check_device(device, 1, error);
}

/* A work-group that runs for too long is reported as an event, and not interrupted. */
static void report_overlong(void *owner, const char *kernel, uint64_t running_ns)
{
    char message[128];

    snprintf(message, sizeof message, "kernel %.40s: a work-group has been running for %" PRIu64 " ms", kernel,
             running_ns / NS_PER_MS);
    cpu_event_add(owner, message, running_ns);
}

static enum facet_status open_executor(struct facet_provider_instance *instance, struct facet_error *error)
{
    struct cpu_executor_options options = {
        .units = instance->info.compute_units,
        .processors = cpu_processors(),
        .end_after_ns = END_AFTER_MS * NS_PER_MS,
        .overlong = report_overlong,
        .owner = instance,
    };
    uint64_t watchdog_ms = 0, most_ms = 0;
    enum facet_status status = cpu_setting_read("FACET_CPU_WATCHDOG", WATCHDOG_MS_MOST, &watchdog_ms, error);

    if (status == FACET_OK)
        status = cpu_setting_read("FACET_CPU_GROUP_LIMIT", WATCHDOG_MS_MOST, &most_ms, error);
    if (status != FACET_OK)
        return status;
    options.group_most_ns = most_ms * NS_PER_MS;
    options.watchdog_ns = (watchdog_ms ? watchdog_ms : WATCHDOG_MS) * NS_PER_MS;
    return cpu_executor_create(&options, &instance->executor, error);
}

/* Commits at most twice the device's memory: gaps between pages may make the file longer than its contents. */
static enum facet_status open_pool(struct facet_provider_instance *instance, struct facet_error *error)
{
    bool commit = false;
    enum facet_status status = cpu_switch_read("FACET_CPU_COMMIT", &commit, error);

    if (status == FACET_OK)
        status = cpu_pool_open(&instance->pool, commit ? 2 * instance->info.memory_bytes : 0, error);
    if (status == FACET_OK && instance->pool.userfault_fd >= 0)
        instance->info.capabilities |= FACET_CAN_MOVE_PAGES;
    return status;
}

static enum facet_status open_parts(struct facet_provider_instance *instance, struct facet_error *error)
{
    enum facet_status status = cpu_machine_describe(&instance->info, &instance->features, error);

    if (status == FACET_OK)
        status = open_executor(instance, error);
    if (status != FACET_OK)
        return status;
    status = open_pool(instance, error);
    if (status != FACET_OK)
        cpu_executor_destroy(instance->executor);
    return status;
}

enum facet_status cpu_open(struct facet_provider_instance **ret_instance, struct facet_error *error)
{
    CPU_REQUIRE(ret_instance, error);
    struct facet_provider_instance *instance = calloc(1, sizeof *instance);
    if (!instance)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for an instance");
    enum facet_status status = open_parts(instance, error);
    if (status != FACET_OK) {
        free(instance->features);
        free(instance);
        return status;
    }
    pthread_mutex_init(&instance->lock, NULL);
    pthread_mutex_init(&instance->math_lock, NULL);
    if (cpu_math_is_installed())
        instance->info.capabilities |= FACET_CAN_MATH;
    pthread_cond_init(&instance->zombie_ended, NULL);
    TAILQ_INIT(&instance->contexts);
    TAILQ_INIT(&instance->workers);
    *ret_instance = instance;
    return FACET_OK;
}

/* Waits CPU_GRACE_NS at most. False: a work-group still runs, so the memory that it may use must not be freed. */
static bool wait_for_zombies(struct facet_provider_instance *instance)
{
    struct timespec end;
    bool all_ended;

    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += (time_t)(CPU_GRACE_NS / NS_PER_S);
    pthread_mutex_lock(&instance->lock);
    while (instance->zombies > 0 && pthread_cond_timedwait(&instance->zombie_ended, &instance->lock, &end) == 0)
        ;
    all_ended = instance->zombies == 0;
    pthread_mutex_unlock(&instance->lock);
    return all_ended;
}

void cpu_stay_loaded(void)
{
    Dl_info place;

    if (dladdr((void *)(uintptr_t)&cpu_close, &place) && place.dli_fname)
        dlopen(place.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

static void free_workers(struct facet_provider_instance *instance)
{
    struct cpu_worker *worker;

    while ((worker = TAILQ_FIRST(&instance->workers))) {
        TAILQ_REMOVE(&instance->workers, worker, link);
        cpu_tenant_destroy(worker->tenant);
        free(worker);
    }
}

void cpu_close(struct facet_provider_instance *instance)
{
    struct cpu_context *context = NULL;

    if (!instance)
        return;
    while (TAILQ_FIRST(&instance->contexts) &&
           cpu_context_take(instance, TAILQ_FIRST(&instance->contexts)->number, &context, NULL) == FACET_OK) {
        cpu_context_end(context);
        cpu_context_drop(context);
    }
    if (!wait_for_zombies(instance))
        return; /* the instance leaks: a work-group still uses it */
    free_workers(instance);
    cpu_executor_destroy(instance->executor);
    cpu_math_close(instance);
    cpu_pool_close(&instance->pool);
    pthread_cond_destroy(&instance->zombie_ended);
    pthread_mutex_destroy(&instance->lock);
    free(instance->features);
    free(instance);
}
