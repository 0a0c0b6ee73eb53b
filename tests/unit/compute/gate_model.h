/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model of programs that launch through the gate, in virtual time: it measures each launch's wait.
 *
 * Owns: the device, which runs one kernel after the other in the order of submission; launching threads, the helpers
 * that report completions, the scheduler, and how long each takes to wake. Never: uses real time or random numbers that
 * differ from run to run.
 *
 * Time goes from event to event, while device_model.h advances it in steps of 10 us.
 */
#ifndef TEST_GATE_MODEL_H
#define TEST_GATE_MODEL_H

#include <string.h>

#include "compute/fair.h"

#define GATE_TENANTS  8
#define GATE_KERNELS  4
#define GATE_QUEUE    256u
#define GATE_WAITS_US 65536u
#define GATE_NEVER    UINT64_MAX
#define GATE_CHECK_NS UINT64_C(25000000) /* the scheduler's interval of looking for processes that died */

struct gate_tenant {
    uint64_t kernels_ns[GATE_KERNELS]; /* lengths of the kernels that it launches in turn; 0 ends the list */
    uint32_t launches_ahead;           /* the most launches that the program has in flight */
    int client;

    uint64_t end_ns[GATE_QUEUE], charged_ns[GATE_QUEUE]; /* of launches, by their number */
    uint64_t launched, reported;
    uint64_t next_run_ns; /* when its thread runs next; GATE_NEVER: it sleeps at the gate, or waits for depth */
    uint64_t report_ns;   /* when its helper runs next */
    uint64_t inflight_ns, idle_since_ns;
    uint64_t waiting_since_ns; /* 0 if the thread does not wait */
    bool waits_for_depth;
    bool lengths_unknown;                                   /* the length of its kernels is unknown */
    uint64_t stopped_ns;                                    /* when its process was stopped; 0 while it runs */
    uint64_t work_ns, forgotten_ns, waits, longest_wait_ns; /* forgotten_ns: work_ns at the last gate_model_forget() */
    uint32_t waits_us[GATE_WAITS_US];                       /* the number of launches for each length of wait */
};

struct gate_model {
    struct facet_fair fair;
    struct gate_tenant tenants[GATE_TENANTS];
    uint32_t count, random;
    uint64_t now_ns, busy_until_ns, step_ns, steps;
    uint64_t wake_least_ns, wake_most_ns; /* how long a thread takes to run once there is work */
};

static inline void gate_model_init(struct gate_model *model, const struct facet_fair_config *config)
{
    memset(model, 0, sizeof *model);
    model->now_ns = UINT64_C(1000000000);
    model->wake_least_ns = 20000;
    model->wake_most_ns = 100000;
    facet_fair_init(&model->fair, config, model->now_ns);
}

static inline struct gate_tenant *gate_model_add(struct gate_model *model, const struct facet_limits *limits,
                                                 const uint64_t *kernels_ns, uint32_t launches_ahead)
{
    struct gate_tenant *tenant = &model->tenants[model->count++];

    memcpy(tenant->kernels_ns, kernels_ns, sizeof tenant->kernels_ns);
    tenant->launches_ahead = launches_ahead;
    tenant->client = facet_fair_add(&model->fair, limits);
    tenant->next_run_ns = model->now_ns;
    tenant->report_ns = GATE_NEVER;
    return tenant;
}

/* The time at which a thread that is woken now begins to run. */
static inline uint64_t gate_wakes_ns(struct gate_model *model)
{
    model->random = model->random * 1664525u + 1013904223u;
    return model->now_ns + model->wake_least_ns +
           (uint64_t)(model->random >> 16) * (model->wake_most_ns - model->wake_least_ns) / 65536;
}

static inline uint64_t gate_min(uint64_t left, uint64_t right)
{
    return left < right ? left : right;
}

static inline void gate_wake_policy(struct gate_model *model)
{
    model->step_ns = gate_min(model->step_ns, gate_wakes_ns(model));
}

static inline uint64_t gate_kernel_ns(const struct gate_tenant *tenant, uint64_t number)
{
    uint32_t kernels = 0;

    while (kernels < GATE_KERNELS && tenant->kernels_ns[kernels])
        kernels++;
    return kernels ? tenant->kernels_ns[number % kernels] : 0;
}

static inline bool gate_admits(const struct gate_model *model, struct gate_tenant *tenant, uint64_t cost_ns)
{
    const struct facet_fair_client *client = &model->fair.clients[tenant->client];

    tenant->waits_for_depth = client->gate == FACET_FAIR_LEASED;
    return client->gate == FACET_FAIR_OPEN ||
           (client->gate == FACET_FAIR_LEASED &&
            (tenant->launched == tenant->reported || tenant->inflight_ns + cost_ns <= client->depth_ns ||
             tenant->inflight_ns <= client->depth_ns / 4));
}

static inline void gate_wait(struct gate_model *model, struct gate_tenant *tenant)
{
    tenant->next_run_ns = GATE_NEVER;
    if (!tenant->waiting_since_ns)
        tenant->waiting_since_ns = model->now_ns;
    if (!tenant->waits_for_depth)
        gate_wake_policy(model);
}

static inline void gate_note_wait(struct gate_model *model, struct gate_tenant *tenant)
{
    uint64_t waited_ns = tenant->waiting_since_ns ? model->now_ns - tenant->waiting_since_ns : 0;
    uint64_t waited_us = waited_ns / 1000;

    tenant->waits_us[waited_us < GATE_WAITS_US ? waited_us : GATE_WAITS_US - 1]++;
    tenant->longest_wait_ns = waited_ns > tenant->longest_wait_ns ? waited_ns : tenant->longest_wait_ns;
    tenant->waits++;
    tenant->waiting_since_ns = 0;
}

/* Launches once if the gate admits it; otherwise waits. */
static inline void gate_try_launch(struct gate_model *model, struct gate_tenant *tenant)
{
    uint64_t number = tenant->launched, cost_ns = gate_kernel_ns(tenant, number);

    if (!gate_admits(model, tenant, cost_ns)) {
        gate_wait(model, tenant);
        return;
    }
    gate_note_wait(model, tenant);
    uint64_t begin_ns = model->busy_until_ns > model->now_ns ? model->busy_until_ns : model->now_ns;
    model->busy_until_ns = begin_ns + cost_ns;
    tenant->end_ns[number % GATE_QUEUE] = model->busy_until_ns;
    tenant->charged_ns[number % GATE_QUEUE] = cost_ns;
    tenant->inflight_ns += cost_ns;
    tenant->launched++;
    tenant->next_run_ns = model->now_ns + 1000; /* the thread takes 1 us for a launch */
    if (tenant->report_ns == GATE_NEVER)
        tenant->report_ns = model->busy_until_ns + gate_wakes_ns(model) - model->now_ns;
    if (tenant->launched >= tenant->launches_ahead) {
        uint64_t end_ns = tenant->end_ns[(tenant->launched - tenant->launches_ahead) % GATE_QUEUE];

        if (end_ns > tenant->next_run_ns)
            tenant->next_run_ns = end_ns + gate_wakes_ns(model) - model->now_ns;
    }
}

/* Reports complete launches, and rings when none is left in flight. */
static inline void gate_report(struct gate_model *model, struct gate_tenant *tenant)
{
    tenant->report_ns = GATE_NEVER;
    for (; tenant->reported < tenant->launched; tenant->reported++) {
        uint32_t at = (uint32_t)(tenant->reported % GATE_QUEUE);

        if (tenant->end_ns[at] > model->now_ns) {
            tenant->report_ns = tenant->end_ns[at] + gate_wakes_ns(model) - model->now_ns;
            break;
        }
        tenant->idle_since_ns = tenant->end_ns[at];
        tenant->inflight_ns -= tenant->charged_ns[at];
        tenant->work_ns += tenant->charged_ns[at];
    }
    if (tenant->reported == tenant->launched)
        gate_wake_policy(model);
    if (tenant->next_run_ns == GATE_NEVER && tenant->waits_for_depth)
        tenant->next_run_ns = gate_wakes_ns(model);
}

/* The demand that the scheduler reads. A process that is not stopped gives a sign of life all the time. */
static inline struct facet_fair_demand gate_demand(const struct gate_model *model, const struct gate_tenant *tenant)
{
    struct facet_fair_demand demand = {.busy_ns = tenant->work_ns};

    facet_fair_demand_add(
        &demand,
        &(struct facet_fair_process){.waiting = tenant->waiting_since_ns != 0,
                                     .inflight = (uint32_t)(tenant->launched - tenant->reported),
                                     .inflight_ns = tenant->lengths_unknown ? 0 : tenant->inflight_ns,
                                     .idle_since_ns = tenant->idle_since_ns,
                                     .alive_ns = tenant->stopped_ns ? tenant->stopped_ns : model->now_ns},
        model->now_ns);
    return demand;
}

/* Steps as the scheduler does, again at once when a gate was changed. */
static inline void gate_step(struct gate_model *model)
{
    bool changed = true;

    for (int i = 0; i < 4 && changed; i++) {
        enum facet_fair_gate before[GATE_TENANTS];

        for (uint32_t j = 0; j < model->count; j++) {
            struct gate_tenant *tenant = &model->tenants[j];
            struct facet_fair_client *client = &model->fair.clients[tenant->client];

            before[j] = client->gate;
            client->demand = gate_demand(model, tenant);
        }
        model->steps++;
        model->step_ns = facet_fair_step(&model->fair, model->now_ns);
        changed = false;
        for (uint32_t j = 0; j < model->count; j++) {
            struct gate_tenant *tenant = &model->tenants[j];

            if (model->fair.clients[tenant->client].gate == before[j])
                continue;
            changed = true;
            if (tenant->next_run_ns == GATE_NEVER && !tenant->waits_for_depth)
                tenant->next_run_ns = gate_wakes_ns(model);
        }
    }
    if (model->step_ns != FACET_FAIR_NEVER) /* a timer wakes as late as anything else */
        model->step_ns += gate_wakes_ns(model) - model->now_ns;
    model->step_ns = gate_min(model->step_ns, model->now_ns + GATE_CHECK_NS);
}

/* Stops the tenant's threads; launches in flight run to their end. */
static inline void gate_stop(struct gate_model *model, struct gate_tenant *tenant)
{
    tenant->stopped_ns = model->now_ns;
}

static inline void gate_continue(struct gate_model *model, struct gate_tenant *tenant)
{
    tenant->stopped_ns = 0;
    if (tenant->next_run_ns == GATE_NEVER || tenant->next_run_ns < model->now_ns)
        tenant->next_run_ns = gate_wakes_ns(model);
    if (tenant->report_ns != GATE_NEVER)
        tenant->report_ns = gate_wakes_ns(model);
}

static inline uint64_t gate_next_ns(const struct gate_model *model)
{
    uint64_t next_ns = model->step_ns;

    for (uint32_t i = 0; i < model->count; i++)
        if (!model->tenants[i].stopped_ns)
            next_ns = gate_min(next_ns, gate_min(model->tenants[i].next_run_ns, model->tenants[i].report_ns));
    return next_ns;
}

static inline void gate_model_run(struct gate_model *model, uint64_t duration_ns)
{
    uint64_t until_ns = model->now_ns + duration_ns, next_ns;

    while ((next_ns = gate_next_ns(model)) < until_ns) {
        model->now_ns = next_ns > model->now_ns ? next_ns : model->now_ns;
        for (uint32_t i = 0; i < model->count; i++) {
            if (model->tenants[i].stopped_ns)
                continue;
            if (model->tenants[i].report_ns <= model->now_ns)
                gate_report(model, &model->tenants[i]);
            if (model->tenants[i].next_run_ns <= model->now_ns)
                gate_try_launch(model, &model->tenants[i]);
        }
        if (model->step_ns <= model->now_ns)
            gate_step(model);
    }
    model->now_ns = until_ns;
}

/* The wait that one launch in a hundred reaches or exceeds. */
static inline uint64_t gate_p99_ns(const struct gate_tenant *tenant)
{
    uint64_t left = tenant->waits / 100;

    for (uint32_t us = GATE_WAITS_US; us-- > 0;) {
        if (tenant->waits_us[us] > left)
            return us * UINT64_C(1000);
        left -= tenant->waits_us[us];
    }
    return 0;
}

/* Device time that was reported since the last gate_model_forget(). */
static inline uint64_t gate_work_ns(const struct gate_tenant *tenant)
{
    return tenant->work_ns - tenant->forgotten_ns;
}

/* Discards all measurements up to now. */
static inline void gate_model_forget(struct gate_model *model)
{
    for (uint32_t i = 0; i < model->count; i++) {
        struct gate_tenant *tenant = &model->tenants[i];

        memset(tenant->waits_us, 0, sizeof tenant->waits_us);
        tenant->waits = tenant->longest_wait_ns = 0;
        tenant->forgotten_ns = tenant->work_ns;
    }
}

#endif
