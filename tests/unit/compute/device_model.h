/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model of one device and its tenants, to drive a policy through simulated time.
 *
 * Owns: simulated kernels, completions and demands. Never: uses real time, threads or randomness.
 *
 * The device runs the launches in flight either one after the other in order of submission (serial), or all at once at
 * equal speed (processor sharing). An operating system shares a CPU device among tenants in the second way.
 */
#ifndef TEST_DEVICE_MODEL_H
#define TEST_DEVICE_MODEL_H

#include <string.h>

#include "compute/fair.h"

#define MODEL_TENANTS 16
#define MODEL_STEP_NS UINT64_C(10000)
#define MODEL_QUEUE   8 /* the most launches that a tenant has in flight */

struct model_tenant {
    uint64_t kernel_ns;                    /* length of its kernels, alone on the device */
    uint64_t gap_ns;                       /* host time between a completion and the next launch; 0 = always has work */
    uint64_t depth_ns;                     /* bound of the work in flight while leased; the policy has another bound */
    uint64_t reaction_ns;                  /* from an opened gate to the first launch */
    uint64_t active_from_ns, active_to_ns; /* active period; active_to_ns 0 = forever */

    int client;
    uint64_t left_ns[MODEL_QUEUE];    /* of each kernel in flight */
    uint64_t submission[MODEL_QUEUE]; /* of each kernel in flight, its place in the order of submission */
    uint32_t inflight;
    uint64_t opened_ns; /* when the gate was last seen to open; 0 = closed */
    uint64_t resume_ns, idle_since_ns, work_ns, kernels, waited_ns, longest_wait_ns, waiting_since;
};

struct model {
    struct facet_fair fair;
    struct model_tenant tenants[MODEL_TENANTS];
    uint32_t count;
    bool sharing; /* processor sharing instead of serial */
    uint64_t now_ns, deadline_ns, busy_ns, submitted;
    bool needs_step; /* a tenant began to wait, or ran out of work, since the last step */
};

static inline void model_init(struct model *model, const struct facet_fair_config *config)
{
    memset(model, 0, sizeof *model);
    model->now_ns = UINT64_C(1000000000);
    facet_fair_init(&model->fair, config, model->now_ns);
}

static inline struct model_tenant *model_add(struct model *model, const struct facet_limits *limits, uint64_t kernel_ns)
{
    struct model_tenant *tenant = &model->tenants[model->count++];

    model->deadline_ns = 0;
    *tenant = (struct model_tenant){.kernel_ns = kernel_ns, .depth_ns = UINT64_C(2000000)};
    tenant->client = facet_fair_add(&model->fair, limits);
    return tenant;
}

static inline bool model_active(const struct model *model, const struct model_tenant *tenant)
{
    uint64_t elapsed = model->now_ns - UINT64_C(1000000000);

    return elapsed >= tenant->active_from_ns && (!tenant->active_to_ns || elapsed < tenant->active_to_ns) &&
           model->now_ns >= tenant->resume_ns;
}

static inline void model_complete(struct model *model, struct model_tenant *tenant)
{
    tenant->inflight--;
    memmove(tenant->left_ns, tenant->left_ns + 1, tenant->inflight * sizeof tenant->left_ns[0]);
    memmove(tenant->submission, tenant->submission + 1, tenant->inflight * sizeof tenant->submission[0]);
    tenant->kernels++;
    tenant->resume_ns = tenant->gap_ns ? model->now_ns + tenant->gap_ns : 0;
    tenant->idle_since_ns = model->now_ns;
    if (!tenant->inflight) {
        model->needs_step = true;
    }
}

static inline void model_serve(struct model *model, struct model_tenant *tenant, uint64_t part_ns)
{
    uint64_t part = part_ns < tenant->left_ns[0] ? part_ns : tenant->left_ns[0];

    tenant->work_ns += part;
    tenant->left_ns[0] -= part;
    if (!tenant->left_ns[0])
        model_complete(model, tenant);
}

/* Runs the device for one step: the kernel submitted first gets all of it, or each tenant's first kernel an equal part.
 */
static inline void model_run_device(struct model *model)
{
    struct model_tenant *next = NULL;
    uint32_t busy = 0;

    for (uint32_t i = 0; i < model->count; i++) {
        struct model_tenant *tenant = &model->tenants[i];

        if (!tenant->inflight)
            continue;
        busy++;
        if (!next || tenant->submission[0] < next->submission[0])
            next = tenant;
    }
    model->busy_ns += busy ? MODEL_STEP_NS : 0;
    if (!model->sharing && next)
        model_serve(model, next, MODEL_STEP_NS);
    for (uint32_t i = 0; model->sharing && busy && i < model->count; i++)
        if (model->tenants[i].inflight)
            model_serve(model, &model->tenants[i], MODEL_STEP_NS / busy);
}

static inline bool model_may_launch(const struct model *model, const struct model_tenant *tenant)
{
    enum facet_fair_gate gate = model->fair.clients[tenant->client].gate;
    uint64_t depth_ns = model->fair.clients[tenant->client].depth_ns;

    if (!model_active(model, tenant) || gate == FACET_FAIR_CLOSED || tenant->inflight == MODEL_QUEUE ||
        (tenant->gap_ns && tenant->inflight) || model->now_ns < tenant->opened_ns + tenant->reaction_ns)
        return false;
    return gate == FACET_FAIR_OPEN || !tenant->inflight ||
           (tenant->inflight + 1) * tenant->kernel_ns <= (tenant->depth_ns < depth_ns ? tenant->depth_ns : depth_ns);
}

static inline bool model_waiting(const struct model *model, const struct model_tenant *tenant)
{
    return model_active(model, tenant) && !(tenant->gap_ns && tenant->inflight) &&
           (model->fair.clients[tenant->client].gate == FACET_FAIR_CLOSED ||
            model->now_ns < tenant->opened_ns + tenant->reaction_ns);
}

static inline void model_tell_demand(struct model *model)
{
    for (uint32_t i = 0; i < model->count; i++) {
        struct model_tenant *tenant = &model->tenants[i];

        struct facet_fair_client *client = &model->fair.clients[tenant->client];

        client->demand = (struct facet_fair_demand){.waiting = model_waiting(model, tenant),
                                                    .inflight = tenant->inflight,
                                                    .busy_ns = tenant->work_ns,
                                                    .idle_since_ns = tenant->idle_since_ns,
                                                    .inflight_ns = tenant->inflight * tenant->kernel_ns};
    }
}

static inline void model_note_waits(struct model *model, struct model_tenant *tenant)
{
    if (!model_waiting(model, tenant)) {
        tenant->waiting_since = 0;
        return;
    }
    if (!tenant->waiting_since) {
        tenant->waiting_since = model->now_ns;
        model->needs_step = true;
    }
    tenant->waited_ns += MODEL_STEP_NS;
    if (model->now_ns - tenant->waiting_since > tenant->longest_wait_ns)
        tenant->longest_wait_ns = model->now_ns - tenant->waiting_since;
}

static inline void model_note_gates(struct model *model)
{
    for (uint32_t i = 0; i < model->count; i++) {
        struct model_tenant *tenant = &model->tenants[i];

        if (model->fair.clients[tenant->client].gate == FACET_FAIR_CLOSED)
            tenant->opened_ns = 0;
        else if (!tenant->opened_ns)
            tenant->opened_ns = model->now_ns;
    }
}

/* Steps the policy as the scheduler does, with a second step at once when a gate was closed. */
static inline void model_step(struct model *model)
{
    model->needs_step = false;
    for (int i = 0; i < 2; i++) {
        model_tell_demand(model);
        model->deadline_ns = facet_fair_step(&model->fair, model->now_ns);
        model_note_gates(model);
    }
}

static inline void model_run(struct model *model, uint64_t duration_ns)
{
    for (uint64_t end = model->now_ns + duration_ns; model->now_ns < end; model->now_ns += MODEL_STEP_NS) {
        for (uint32_t i = 0; i < model->count; i++) {
            struct model_tenant *tenant = &model->tenants[i];

            while (model_may_launch(model, tenant)) {
                tenant->submission[tenant->inflight] = model->submitted++;
                tenant->left_ns[tenant->inflight++] = tenant->kernel_ns;
            }
            model_note_waits(model, tenant);
        }
        model_run_device(model);
        if (model->needs_step || model->now_ns >= model->deadline_ns)
            model_step(model);
    }
}

/* This tenant's part of all work done, in milli. */
static inline uint32_t model_share(const struct model *model, const struct model_tenant *tenant)
{
    uint64_t all = 0;

    for (uint32_t i = 0; i < model->count; i++)
        all += model->tenants[i].work_ns;
    return all ? (uint32_t)(tenant->work_ns * 1000 / all) : 0;
}

#endif
