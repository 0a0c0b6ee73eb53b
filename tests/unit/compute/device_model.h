/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model of one device and its tenants, to drive a policy through simulated time.
 *
 * Owns: simulated kernels, completions and demands. Never: real time, threads or randomness.
 *
 * The device serves what is in flight: one kernel after the other in order of submission (serial), or all at once at
 * equal speed (processor sharing), which is how an operating system serves several tenants of a CPU device.
 */
#ifndef TEST_DEVICE_MODEL_H
#define TEST_DEVICE_MODEL_H

#include <string.h>

#include "compute/fair.h"

#define MODEL_TENANTS 16
#define MODEL_STEP_NS UINT64_C(10000)
#define MODEL_QUEUE   8

struct model_tenant {
    uint64_t kernel_ns;      /* length of its kernels, alone on the device */
    uint64_t gap_ns;         /* host time between a completion and the next launch; 0 = always has work */
    uint64_t depth_ns;       /* bound of what is in flight while leased */
    uint64_t from_ns, to_ns; /* active period; to_ns 0 = for ever */

    int client;
    uint64_t left_ns[MODEL_QUEUE]; /* of each kernel in flight */
    uint32_t inflight;
    uint64_t resume_ns, idle_since_ns, work_ns, kernels, waited_ns, longest_wait_ns, waiting_since;
};

struct model {
    struct facet_fair fair;
    struct model_tenant tenants[MODEL_TENANTS];
    uint32_t count;
    bool sharing; /* processor sharing instead of serial */
    uint64_t now_ns, deadline_ns, busy_ns;
    bool rung; /* a tenant began to wait, or ran out of work, since the last step */
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

    return elapsed >= tenant->from_ns && (!tenant->to_ns || elapsed < tenant->to_ns) &&
           model->now_ns >= tenant->resume_ns;
}

static inline void model_complete(struct model *model, struct model_tenant *tenant)
{
    tenant->inflight--;
    memmove(tenant->left_ns, tenant->left_ns + 1, tenant->inflight * sizeof tenant->left_ns[0]);
    tenant->kernels++;
    tenant->resume_ns = tenant->gap_ns ? model->now_ns + tenant->gap_ns : 0;
    if (!tenant->inflight) {
        tenant->idle_since_ns = model->now_ns;
        model->rung = true;
    }
}

/* Runs the device for one step: `part` of it for each tenant that has a kernel at the head of its queue. */
static inline void model_run_device(struct model *model)
{
    uint32_t busy = 0, served = 0;
    uint32_t first = (uint32_t)(model->now_ns / MODEL_STEP_NS) % (model->count ? model->count : 1);

    for (uint32_t i = 0; i < model->count; i++)
        busy += model->tenants[i].inflight != 0;
    model->busy_ns += busy ? MODEL_STEP_NS : 0;
    for (uint32_t i = 0; i < model->count; i++) {
        struct model_tenant *tenant = &model->tenants[(first + i) % model->count];
        uint64_t part = model->sharing ? MODEL_STEP_NS / (busy ? busy : 1) : MODEL_STEP_NS;

        if (!tenant->inflight || (!model->sharing && served++))
            continue;
        part = part < tenant->left_ns[0] ? part : tenant->left_ns[0];
        tenant->work_ns += part;
        tenant->left_ns[0] -= part;
        if (!tenant->left_ns[0])
            model_complete(model, tenant);
    }
}

static inline bool model_may_launch(const struct model *model, const struct model_tenant *tenant)
{
    enum facet_fair_gate gate = model->fair.clients[tenant->client].gate;

    if (!model_active(model, tenant) || gate == FACET_FAIR_CLOSED || tenant->inflight == MODEL_QUEUE ||
        (tenant->gap_ns && tenant->inflight))
        return false;
    return gate == FACET_FAIR_OPEN || !tenant->inflight ||
           (tenant->inflight + 1) * tenant->kernel_ns <= tenant->depth_ns;
}

static inline bool model_waiting(const struct model *model, const struct model_tenant *tenant)
{
    return model_active(model, tenant) && model->fair.clients[tenant->client].gate == FACET_FAIR_CLOSED &&
           !(tenant->gap_ns && tenant->inflight);
}

static inline void model_tell_demand(struct model *model)
{
    for (uint32_t i = 0; i < model->count; i++) {
        struct model_tenant *tenant = &model->tenants[i];

        model->fair.clients[tenant->client].demand = (struct facet_fair_demand){.waiting = model_waiting(model, tenant),
                                                                                .inflight = tenant->inflight,
                                                                                .busy_ns = tenant->work_ns,
                                                                                .idle_since_ns = tenant->idle_since_ns};
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
        model->rung = true;
    }
    tenant->waited_ns += MODEL_STEP_NS;
    if (model->now_ns - tenant->waiting_since > tenant->longest_wait_ns)
        tenant->longest_wait_ns = model->now_ns - tenant->waiting_since;
}

/* As the scheduler does: a step at a ring or a deadline, and a second look at once when a gate was closed. */
static inline void model_step(struct model *model)
{
    model->rung = false;
    for (int i = 0; i < 2; i++) {
        model_tell_demand(model);
        model->deadline_ns = facet_fair_step(&model->fair, model->now_ns);
    }
}

static inline void model_run(struct model *model, uint64_t duration_ns)
{
    for (uint64_t end = model->now_ns + duration_ns; model->now_ns < end; model->now_ns += MODEL_STEP_NS) {
        for (uint32_t i = 0; i < model->count; i++) {
            struct model_tenant *tenant = &model->tenants[i];

            while (model_may_launch(model, tenant))
                tenant->left_ns[tenant->inflight++] = tenant->kernel_ns;
            model_note_waits(model, tenant);
        }
        model_run_device(model);
        if (model->rung || model->now_ns >= model->deadline_ns)
            model_step(model);
    }
}

/* Milli of all work done that this tenant got. */
static inline uint32_t model_share(const struct model *model, const struct model_tenant *tenant)
{
    uint64_t all = 0;

    for (uint32_t i = 0; i < model->count; i++)
        all += model->tenants[i].work_ns;
    return all ? (uint32_t)(tenant->work_ns * 1000 / all) : 0;
}

#endif
