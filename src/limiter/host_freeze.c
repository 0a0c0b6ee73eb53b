/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: freezing and resuming through facet/limiter.h. Never: decides when a resource is
 * idle: owner_freeze.c does. */
#include "base/clock.h"
#include "limiter/host.h"

static enum facet_status enter_worker(struct facet_limiter *limiter, const char *id, uint32_t resources,
                                      struct facet_host_worker **ret_worker, struct facet_error *error)
{
    if (!resources || resources & ~FACET_FROZEN_RESOURCES)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "resources",
                                    "resources 0x%x: expected FACET_RESOURCE_MEMORY, FACET_RESOURCE_COMPUTE, or both",
                                    resources);
    return facet_host_lock_worker(limiter, id, ret_worker, error);
}

/* Sets the gate for the resources that are frozen now. */
static enum facet_status leave_worker(struct facet_limiter *limiter, struct facet_host_worker *worker)
{
    facet_host_set_gate(worker);
    facet_host_unlock(limiter);
    return FACET_OK;
}

enum facet_status facet_limiter_freeze(struct facet_limiter *limiter, const char *id, uint32_t resources,
                                       struct facet_error *error)
{
    struct facet_host_worker *worker;

    enum facet_status status = enter_worker(limiter, id, resources, &worker, error);
    if (status != FACET_OK)
        return status;
    facet_owner_set_frozen(worker->owner, facet_owner_frozen(worker->owner) | resources);
    return leave_worker(limiter, worker);
}

/* A resume by hand means that the worker is to run: it ends the automatic freeze as well. */
enum facet_status facet_limiter_resume(struct facet_limiter *limiter, const char *id, uint32_t resources,
                                       struct facet_error *error)
{
    struct facet_host_worker *worker;

    enum facet_status status = enter_worker(limiter, id, resources, &worker, error);
    if (status != FACET_OK)
        return status;
    facet_owner_set_frozen(worker->owner, facet_owner_frozen(worker->owner) & ~resources);
    facet_owner_note_use(worker->owner, resources, facet_clock_now_ns());
    return leave_worker(limiter, worker);
}

enum facet_status facet_limiter_auto_freeze(struct facet_limiter *limiter, const char *id, uint32_t resources,
                                            uint64_t idle_ns, struct facet_error *error)
{
    struct facet_host_worker *worker;

    enum facet_status status = enter_worker(limiter, id, resources, &worker, error);
    if (status != FACET_OK)
        return status;
    facet_owner_set_idle_freeze(worker->owner, resources, idle_ns);
    facet_host_maintain_worker(worker, facet_clock_now_ns());
    return leave_worker(limiter, worker);
}

enum facet_status facet_limiter_auto_resume(struct facet_limiter *limiter, const char *id, uint32_t resources,
                                            struct facet_error *error)
{
    struct facet_host_worker *worker;

    enum facet_status status = enter_worker(limiter, id, resources, &worker, error);
    if (status != FACET_OK)
        return status;
    facet_owner_note_use(worker->owner, resources, facet_clock_now_ns());
    return leave_worker(limiter, worker);
}
