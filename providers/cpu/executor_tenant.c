/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: tenants: their shares and limits, pausing them, waiting for them. Never: measures time or orders jobs. */
#include <stdlib.h>

#include "executor_parts.h"
#include "provider_kit.h"

static const struct facet_pick_share initial_share = {
    .request_milli = 0,
    .limit_milli = FACET_MILLI_WHOLE,
    .priority = FACET_PRIORITY_NORMAL,
};

enum facet_status cpu_tenant_create(struct cpu_executor *executor, struct cpu_tenant **ret_tenant,
                                    struct facet_error *error)
{
    struct cpu_tenant *tenant = calloc(1, sizeof *tenant);

    if (!tenant)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a context's streams");
    tenant->executor = executor;
    tenant->units_most = executor->options.units;
    TAILQ_INIT(&tenant->streams);
    pthread_mutex_lock(&executor->lock);
    tenant->entity = facet_pick_add(&executor->pick, &initial_share, cpu_executor_now_ns(executor));
    if (tenant->entity != FACET_PICK_NONE)
        executor->tenants[tenant->entity] = tenant;
    pthread_mutex_unlock(&executor->lock);
    if (tenant->entity == FACET_PICK_NONE) {
        free(tenant);
        return facet_kit_fail(error, FACET_NO_MEMORY, "contexts: expected at most %u at a time", FACET_PICK_ENTITIES);
    }
    cpu_condition_init(&tenant->changed);
    *ret_tenant = tenant;
    return FACET_OK;
}

void cpu_tenant_signal(struct cpu_tenant *tenant)
{
    if (tenant->watchers > 0)
        pthread_cond_broadcast(&tenant->changed);
}

bool cpu_tenant_watch(struct cpu_tenant *tenant, uint64_t deadline_ns)
{
    tenant->watchers++;
    bool in_time = cpu_condition_wait(tenant->executor, &tenant->changed, deadline_ns);
    tenant->watchers--;
    return in_time;
}

/* Stops all streams before it waits for the first: so it waits for the longest work-group once, not per stream. */
static void release_streams(struct cpu_tenant *tenant)
{
    struct cpu_stream *stream;

    TAILQ_FOREACH (stream, &tenant->streams, link)
        cpu_stream_stop(stream);
    while ((stream = TAILQ_FIRST(&tenant->streams)))
        cpu_stream_release(stream);
}

void cpu_tenant_destroy(struct cpu_tenant *tenant)
{
    if (!tenant)
        return;
    struct cpu_executor *executor = tenant->executor;

    pthread_mutex_lock(&executor->lock);
    release_streams(tenant);
    while (tenant->active > 0)
        cpu_tenant_watch(tenant, UINT64_MAX);
    facet_pick_remove(&executor->pick, tenant->entity);
    executor->tenants[tenant->entity] = NULL;
    pthread_mutex_unlock(&executor->lock);
    pthread_cond_destroy(&tenant->changed);
    free(tenant);
}

void cpu_tenant_set_share(struct cpu_tenant *tenant, uint32_t request_milli, uint32_t limit_milli, uint32_t priority)
{
    struct cpu_executor *executor = tenant->executor;
    const struct facet_pick_share share = {request_milli, limit_milli, priority};

    pthread_mutex_lock(&executor->lock);
    facet_pick_set_share(&executor->pick, tenant->entity, &share, cpu_executor_now_ns(executor));
    cpu_units_reconsider(executor);
    pthread_mutex_unlock(&executor->lock);
}

void cpu_tenant_set_units(struct cpu_tenant *tenant, uint32_t units)
{
    struct cpu_executor *executor = tenant->executor;

    pthread_mutex_lock(&executor->lock);
    tenant->units_most = units < executor->options.units ? units : executor->options.units;
    if (tenant->active > tenant->units_most)
        cpu_units_preempt(executor, tenant, NULL);
    cpu_tenant_arrive(tenant);
    pthread_mutex_unlock(&executor->lock);
}

void cpu_tenant_set_bounds(struct cpu_tenant *tenant, uint32_t units, uint32_t launches)
{
    struct cpu_executor *executor = tenant->executor;

    pthread_mutex_lock(&executor->lock);
    tenant->units_bound = units;
    tenant->launches_most = launches;
    if (tenant->active > cpu_tenant_units_most(tenant))
        cpu_units_preempt(executor, tenant, NULL);
    cpu_tenant_arrive(tenant);
    pthread_mutex_unlock(&executor->lock);
}

/* Processor time of the unit in its present turn. */
static uint64_t processor_ns(const struct cpu_unit *unit, uint64_t now_ns)
{
    uint64_t elapsed_ns = now_ns - unit->turn_start_ns, used_ns = cpu_unit_processor_ns(unit);

    return used_ns < elapsed_ns ? used_ns : elapsed_ns;
}

/* Turns that have not ended count up to now. */
uint64_t cpu_tenant_busy_ns(struct cpu_tenant *tenant)
{
    struct cpu_executor *executor = tenant->executor;

    pthread_mutex_lock(&executor->lock);
    uint64_t now = cpu_executor_now_ns(executor), busy = tenant->busy_ns;

    for (uint32_t i = 0; i < executor->units_started; i++) {
        const struct cpu_unit *unit = &executor->units[i];

        if (unit->job && unit->job->stream->tenant == tenant)
            busy += processor_ns(unit, now);
    }
    if (busy > tenant->reported_ns)
        tenant->reported_ns = busy;
    busy = tenant->reported_ns;
    pthread_mutex_unlock(&executor->lock);
    return busy;
}

uint32_t cpu_tenant_units_active(struct cpu_tenant *tenant)
{
    pthread_mutex_lock(&tenant->executor->lock);
    uint32_t active = tenant->active;

    pthread_mutex_unlock(&tenant->executor->lock);
    return active;
}

enum facet_status cpu_tenant_pause(struct cpu_tenant *tenant, bool pause, uint64_t timeout_ns)
{
    struct cpu_executor *executor = tenant->executor;
    uint64_t deadline = cpu_deadline_ns(timeout_ns);
    bool in_time = true;

    pthread_mutex_lock(&executor->lock);
    tenant->paused = pause;
    if (pause)
        cpu_units_preempt(executor, tenant, NULL);
    cpu_tenant_arrive(tenant);
    cpu_tenant_signal(tenant);
    while (tenant->paused && tenant->active > 0 && in_time)
        in_time = cpu_tenant_watch(tenant, deadline) || tenant->active == 0;
    pthread_mutex_unlock(&executor->lock);
    return in_time ? FACET_OK : FACET_TIMEOUT;
}

static bool has_jobs(const struct cpu_tenant *tenant)
{
    const struct cpu_stream *stream;

    TAILQ_FOREACH (stream, &tenant->streams, link)
        if (!TAILQ_EMPTY(&stream->jobs))
            return true;
    return false;
}

enum facet_status cpu_tenant_wait(struct cpu_tenant *tenant, uint64_t timeout_ns)
{
    struct cpu_executor *executor = tenant->executor;
    uint64_t deadline = cpu_deadline_ns(timeout_ns);
    bool in_time = true;

    pthread_mutex_lock(&executor->lock);
    while (has_jobs(tenant) && in_time)
        in_time = !tenant->paused && (cpu_tenant_watch(tenant, deadline) || !has_jobs(tenant));
    pthread_mutex_unlock(&executor->lock);
    return in_time ? FACET_OK : FACET_TIMEOUT;
}
