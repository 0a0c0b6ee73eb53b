/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: workers: the limits promised to each, and its memory, units and time.
 * Never: lets workers without a limit have memory or units that another was promised.
 */
#include <stdlib.h>

#include "cpu.h"

struct cpu_worker *cpu_worker_find(struct facet_provider_instance *instance, const char *name)
{
    struct cpu_worker *worker;

    TAILQ_FOREACH (worker, &instance->workers, link)
        if (strcmp(worker->name, name) == 0)
            return worker;
    return NULL;
}

enum facet_status cpu_worker_get(struct facet_provider_instance *instance, const char *name,
                                 struct cpu_worker **ret_worker, struct facet_error *error)
{
    struct cpu_worker *worker = cpu_worker_find(instance, name);

    if (!worker) {
        worker = calloc(1, sizeof *worker);
        if (!worker)
            return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for worker %s", name);
        FACET_KIT_TEXT(worker->name, name);
        TAILQ_INSERT_TAIL(&instance->workers, worker, link);
    }
    *ret_worker = worker;
    return FACET_OK;
}

bool cpu_worker_is_used(const struct cpu_worker *worker)
{
    return worker->contexts > 0 || worker->shared_pages > 0;
}

void cpu_worker_settle(struct facet_provider_instance *instance, struct cpu_worker *worker)
{
    if (cpu_worker_is_used(worker) || worker->valid != 0)
        return;
    TAILQ_REMOVE(&instance->workers, worker, link);
    free(worker);
}

uint64_t cpu_memory_free(const struct facet_provider_instance *instance)
{
    const struct cpu_worker *worker;
    uint64_t promised = 0;

    TAILQ_FOREACH (worker, &instance->workers, link)
        promised += worker->valid & FACET_WORKER_HAS_MEMORY ? worker->memory_bytes : worker->used_bytes;
    return promised < instance->info.memory_bytes ? instance->info.memory_bytes - promised : 0;
}

uint64_t cpu_memory_used(const struct facet_provider_instance *instance)
{
    const struct cpu_worker *worker;
    uint64_t used = 0;

    TAILQ_FOREACH (worker, &instance->workers, link)
        used += worker->used_bytes;
    return used;
}

uint32_t cpu_units_free(const struct facet_provider_instance *instance)
{
    const struct cpu_worker *worker;
    uint32_t units = instance->info.compute_units;

    TAILQ_FOREACH (worker, &instance->workers, link)
        units -= worker->units;
    return units;
}

/* Even if limits take all units, workers without a limit may use one: the host has to keep them off the device. */
void cpu_units_set_unlimited(struct facet_provider_instance *instance)
{
    uint32_t units = cpu_units_free(instance);
    struct cpu_context *context;

    TAILQ_FOREACH (context, &instance->contexts, link)
        if (!context->worker->tenant)
            cpu_tenant_set_units(context->tenant, units > 0 ? units : 1);
}

uint64_t cpu_worker_busy_ns(const struct facet_provider_instance *instance, const struct cpu_worker *worker)
{
    const struct cpu_context *context;
    uint64_t busy_ns = worker->ended_contexts_ns;

    if (worker->tenant)
        return busy_ns + cpu_tenant_busy_ns(worker->tenant);
    TAILQ_FOREACH (context, &instance->contexts, link)
        if (context->worker == worker)
            busy_ns += cpu_tenant_busy_ns(context->tenant);
    return busy_ns;
}
