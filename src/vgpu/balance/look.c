/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: reading the load each interval, and carrying out the actions that src/compute proposes against imbalance.
 * Never: changes a vGPU's settings with the balancer's lock held, or leaves them changed.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "vgpu/balance/balancer.h"
#include "vgpu/driver.h"

/* The planned actions that must be carried out without the lock. */
struct deferred {
    struct facet_balance_action actions[FACET_BALANCER_PLAN_ACTIONS + FACET_BALANCER_MEMBERS];
    uint32_t count;
};

/* ---- settings of members ---- */

static enum facet_status read_settings(struct facet_balancer *balancer, struct facet_member *member,
                                       struct facet_error *error)
{
    struct facet_vgpu_info info = {.size = sizeof info};
    FACET_CLEANUP_VGPU struct facet_vgpu *vgpu = NULL;
    enum facet_status status = facet_vgpu_get_info(balancer->driver, member->id, &info, error);

    if (status == FACET_OK)
        status = facet_vgpu_take(balancer->driver, member->id, &vgpu, error);
    if (status != FACET_OK)
        return status;
    status = facet_vgpu_device_check(vgpu->device, error);
    /* A CPU device counts busy time for each of its units; any other device counts as one unit. */
    member->units_device = facet_vgpu_device_parallel(vgpu->device);
    member->units_least = vgpu->units_least && vgpu->units_least < member->units_device ? vgpu->units_least : 1;
    member->device = info.device;
    member->request_milli = info.request_milli;
    member->limit_milli = info.limit_milli;
    member->launches = info.launches;
    member->units_bound = info.units;
    member->units = info.units && info.units < member->units_device ? info.units : member->units_device;
    member->units_now = member->units;
    member->idle_since_ns = facet_clock_now_ns();
    member->runner_count = info.streams < balancer->config.depth ? info.streams : balancer->config.depth;
    if (balancer->config.actions & FACET_BALANCER_PREEMPT && info.streams > member->runner_count) {
        member->runners[member->runner_count].express = true;
        member->runner_count++;
    }
    return status;
}

/* Members without a request divide equally the part of their device that requests leave. */
static void set_default_share(struct facet_balancer *balancer, struct facet_member *member)
{
    uint32_t requested_milli = 0, without_request = 0;

    for (uint32_t i = 0; i < balancer->count; i++) {
        if (balancer->member[i].device != member->device)
            continue;
        requested_milli += balancer->member[i].request_milli;
        without_request += balancer->member[i].request_milli == 0;
    }
    uint32_t left = requested_milli < FACET_MILLI_WHOLE
                        ? (FACET_MILLI_WHOLE - requested_milli) / (without_request ? without_request : 1)
                        : 0;

    member->share_milli = member->request_milli ? member->request_milli : left ? left : 1;
    if (member->share_milli > member->limit_milli)
        member->share_milli = member->limit_milli;
    member->share_now_milli = member->share_milli;
}

enum facet_status facet_members_init(struct facet_balancer *balancer, struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    for (uint32_t i = 0; i < balancer->count && status == FACET_OK; i++)
        status = read_settings(balancer, &balancer->member[i], error);
    for (uint32_t i = 0; i < balancer->count && status == FACET_OK; i++) {
        struct facet_member *member = &balancer->member[i];

        set_default_share(balancer, member);
        for (uint32_t runner = 0; runner < member->runner_count; runner++) {
            member->runners[runner].balancer = balancer;
            member->runners[runner].member = i;
            member->runners[runner].stream = runner;
            member->runners[runner].priority = FACET_PRIORITY_NORMAL;
        }
    }
    return status;
}

void facet_members_restore(struct facet_balancer *balancer)
{
    for (uint32_t i = 0; i < balancer->count; i++) {
        const struct facet_member *member = &balancer->member[i];

        if (member->share_changed)
            (void)facet_vgpu_set_share(balancer->driver, member->id, member->request_milli, member->limit_milli, NULL);
        if (member->units_changed)
            (void)facet_vgpu_set_bounds(balancer->driver, member->id, member->units_bound, member->launches, NULL);
        for (uint32_t runner = 0; runner < member->runner_count; runner++)
            if (member->runners[runner].priority != FACET_PRIORITY_NORMAL)
                (void)facet_vgpu_set_stream_priority(balancer->driver, member->id, runner, FACET_PRIORITY_NORMAL, NULL);
    }
}

/* Reads the vGPU's state without the lock, then updates the member with the lock. */
static void refresh_member(struct facet_balancer *balancer, uint32_t index)
{
    struct facet_member *member = &balancer->member[index];
    struct facet_vgpu_info info = {.size = sizeof info};
    enum facet_status status = facet_vgpu_get_info(balancer->driver, member->id, &info, NULL);
    uint32_t own_jobs = 0;

    pthread_mutex_lock(&balancer->lock);
    for (uint32_t runner = 0; runner < member->runner_count; runner++)
        own_jobs += member->runners[runner].job != NULL;
    if (status == FACET_NOT_FOUND || (status == FACET_OK && info.status == FACET_VGPU_ERROR)) {
        facet_member_lose(balancer, index);
    } else if (status == FACET_OK) {
        bool was_paused = member->paused;

        member->paused = info.status == FACET_VGPU_PAUSED;
        member->memory_milli = info.memory_milli;
        member->utilization_milli = info.compute_milli;
        member->others_active = info.queued + info.running > own_jobs ? info.queued + info.running - own_jobs : 0;
        if (was_paused && !member->paused) {
            pthread_cond_broadcast(&member->work);
            pthread_cond_broadcast(&balancer->buffer_moved);
        }
    }
    pthread_mutex_unlock(&balancer->lock);
}

/* ---- describing: with the lock held ---- */

static void renew_expectations(struct facet_balancer *balancer, struct facet_member *member)
{
    member->waiting_ns = 0;
    for (struct facet_job *job = member->queue.first; job; job = job->next) {
        job->expected_ns = facet_job_expected_ns(balancer, job);
        member->waiting_ns += job->expected_ns;
    }
}

static void add_work(struct facet_balancer *balancer, struct facet_job *job, uint64_t left_ns, bool running,
                     uint32_t *count)
{
    bool movable = balancer->config.actions & FACET_BALANCER_MIGRATE || running;
    uint64_t *bytes = &balancer->plan_bytes[(size_t)*count * balancer->count];

    facet_job_count_bytes(balancer, job, bytes);
    balancer->plan_works[(*count)++] = (struct facet_balance_work){
        .id = job->record.task,
        .expected_ns = left_ns,
        .bytes_on = bytes,
        .priority = job->record.priority,
        .moves = movable ? job->moves : balancer->config.moves,
        .member = (int)job->record.member,
        .previous_member = job->previous_member,
        .running = running,
    };
}

/*
 * Collects jobs of each member while its part of the plan has room: the running jobs, the first waiting job, which
 * PREEMPT may admit, then the other waiting jobs, beginning with the last.
 */
static uint32_t gather_jobs(struct facet_balancer *balancer, uint64_t now_ns)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < balancer->count; i++) {
        const struct facet_member *member = &balancer->member[i];
        struct facet_job *first = member->queue.first;
        uint32_t end = (i + 1) * (FACET_BALANCER_PLAN_WORKS / balancer->count);

        for (uint32_t at = 0; at < member->runner_count && count < end; at++) {
            const struct facet_runner *runner = &member->runners[at];

            if (runner->job)
                add_work(balancer, runner->job,
                         facet_job_left_ns(runner->job, runner->taken_ns, now_ns, member->units_now), true, &count);
        }
        if (first && count < end)
            add_work(balancer, first, first->expected_ns, false, &count);
        for (struct facet_job *job = member->queue.last; job && job != first && count < end; job = job->prev)
            add_work(balancer, job, job->expected_ns, false, &count);
    }
    return count;
}

/* Sets the bounds of members so that the plan cannot change shares or units when that action is off. */
static void restrict_members(struct facet_balancer *balancer)
{
    for (uint32_t i = 0; i < balancer->count; i++) {
        struct facet_balance_member *member = &balancer->plan_members[i];

        if (!(balancer->config.actions & FACET_BALANCER_ADJUST_SHARE))
            member->request_milli = member->limit_milli = member->share_milli;
        if (balancer->config.actions & FACET_BALANCER_SCALE_UNITS)
            continue;
        member->units_most = member->units;
        member->units_least = 0;
    }
}

/* ---- carrying out actions ---- */

/* With the lock held. */
static void log_action(struct facet_balancer *balancer, struct facet_balancer_action action)
{
    action.size = sizeof action;
    action.number = ++balancer->logged_actions;
    action.time_ns = facet_clock_now_ns();
    balancer->log[action.number % balancer->config.log] = action;
}

static void migrate_job(struct facet_balancer *balancer, const struct facet_balance_action *action)
{
    struct facet_job *job = facet_job_find(balancer, action->work);
    uint32_t from = (uint32_t)action->member, to = (uint32_t)action->to;

    if (!job || job->place != FACET_JOB_QUEUED || job->record.member != from || job->express)
        return;
    facet_member_dequeue(balancer, job);
    job->record.migrations++;
    job->moves++;
    job->previous_member = (int)from;
    balancer->member[from].left_total++;
    balancer->member[to].arrived_total++;
    facet_member_enqueue(balancer, to, job);
    log_action(balancer, (struct facet_balancer_action){.action = FACET_BALANCER_MIGRATE,
                                                        .from = from,
                                                        .to = to,
                                                        .task = action->work,
                                                        .gain_ns = action->gain_ns});
}

/* Lets the express runner take the waiting job. Its stream has a higher priority, so the device preempts the running
 * job. */
static void admit_express(struct facet_balancer *balancer, const struct facet_balance_action *action)
{
    struct facet_member *member = &balancer->member[action->member];
    struct facet_job *running = facet_job_find(balancer, action->work);
    struct facet_job *waiting = facet_job_find(balancer, action->waiting);
    const struct facet_runner *last = &member->runners[member->runner_count - 1];

    if (!last->express || last->job || !running || running->place != FACET_JOB_TAKEN || !waiting ||
        waiting->place != FACET_JOB_QUEUED || waiting->record.member != (uint32_t)action->member)
        return;
    waiting->express = true;
    running->moves++;
    pthread_cond_broadcast(&member->work);
    log_action(balancer, (struct facet_balancer_action){.action = FACET_BALANCER_PREEMPT,
                                                        .from = (uint32_t)action->member,
                                                        .to = (uint32_t)action->member,
                                                        .task = action->work,
                                                        .waiting = action->waiting,
                                                        .gain_ns = action->gain_ns});
}

/*
 * A member that was scaled down and has work again gets its units back, even when all members wait equally long, so
 * that the plan finds no imbalance.
 */
static void give_units_back(struct facet_balancer *balancer, struct deferred *deferred)
{
    for (uint32_t i = 0; i < balancer->count; i++) {
        const struct facet_balance_member *member = &balancer->plan_members[i];

        if (!(balancer->config.actions & FACET_BALANCER_SCALE_UNITS) || member->lost ||
            member->units >= member->units_most || member->queue_length == 0)
            continue;
        deferred->actions[deferred->count++] = (struct facet_balance_action){.kind = FACET_BALANCE_SCALE_UNITS,
                                                                             .member = (int)i,
                                                                             .units = member->units_most,
                                                                             .gain_ns = FACET_BALANCE_NEVER};
    }
}

/* With the lock held. */
static void rebalance_members(struct facet_balancer *balancer, struct deferred *deferred)
{
    struct facet_balance_action actions[FACET_BALANCER_PLAN_ACTIONS];
    uint64_t now = facet_clock_now_ns();

    while (balancer->unplaced.first) {
        struct facet_job *job = balancer->unplaced.first;

        facet_job_list_remove(&balancer->unplaced, job);
        job->place = FACET_JOB_READY;
        facet_job_list_append(&balancer->ready, job);
    }
    facet_balancer_place_ready(balancer);
    for (uint32_t i = 0; i < balancer->count; i++)
        renew_expectations(balancer, &balancer->member[i]);
    balancer->balance.next_ns = 0; /* plan now: this thread keeps the interval */
    facet_balancer_describe(balancer, balancer->plan_members);
    restrict_members(balancer);
    uint32_t works = gather_jobs(balancer, now);
    uint32_t count = facet_balance_rebalance(&balancer->balance, now, balancer->plan_members, balancer->count,
                                             balancer->plan_works, works, actions, FACET_BALANCER_PLAN_ACTIONS);
    for (uint32_t i = 0; i < count; i++) {
        if (actions[i].kind == FACET_BALANCE_MIGRATE)
            migrate_job(balancer, &actions[i]);
        else if (actions[i].kind == FACET_BALANCE_PREEMPT)
            admit_express(balancer, &actions[i]);
        else
            deferred->actions[deferred->count++] = actions[i];
    }
    give_units_back(balancer, deferred);
}

static void adjust_share(struct facet_balancer *balancer, const struct facet_balance_action *action)
{
    struct facet_member *member = &balancer->member[action->member];
    enum facet_status status =
        facet_vgpu_set_share(balancer->driver, member->id, action->share_milli, member->limit_milli, NULL);

    pthread_mutex_lock(&balancer->lock);
    log_action(balancer, (struct facet_balancer_action){.action = FACET_BALANCER_ADJUST_SHARE,
                                                        .from = (uint32_t)action->member,
                                                        .to = (uint32_t)action->member,
                                                        .before_milli = member->share_now_milli,
                                                        .after_milli = action->share_milli,
                                                        .gain_ns = action->gain_ns,
                                                        .status = status});
    if (status == FACET_OK) {
        member->share_now_milli = action->share_milli;
        member->share_changed = true;
    }
    pthread_mutex_unlock(&balancer->lock);
}

static void scale_units(struct facet_balancer *balancer, const struct facet_balance_action *action)
{
    struct facet_member *member = &balancer->member[action->member];
    uint32_t units = action->units == member->units ? member->units_bound : action->units;
    enum facet_status status = facet_vgpu_set_bounds(balancer->driver, member->id, units, member->launches, NULL);

    pthread_mutex_lock(&balancer->lock);
    log_action(balancer, (struct facet_balancer_action){.action = FACET_BALANCER_SCALE_UNITS,
                                                        .from = (uint32_t)action->member,
                                                        .to = (uint32_t)action->member,
                                                        .before_units = member->units_now,
                                                        .after_units = action->units,
                                                        .gain_ns = action->gain_ns,
                                                        .status = status});
    if (status == FACET_OK) {
        member->units_now = action->units;
        member->units_changed = true;
    }
    pthread_mutex_unlock(&balancer->lock);
}

void *facet_balancer_ticker(void *argument)
{
    struct facet_balancer *balancer = argument;
    struct deferred deferred;

    pthread_mutex_lock(&balancer->lock);
    for (;;) {
        uint64_t until = facet_clock_now_ns() + balancer->config.interval_ns;

        while (!balancer->closing && facet_balancer_wait_until(balancer, &balancer->ticker_wake, until))
            ;
        if (balancer->closing)
            break;
        pthread_mutex_unlock(&balancer->lock);
        for (uint32_t i = 0; i < balancer->count; i++)
            refresh_member(balancer, i);
        deferred.count = 0;
        pthread_mutex_lock(&balancer->lock);
        rebalance_members(balancer, &deferred);
        pthread_mutex_unlock(&balancer->lock);
        for (uint32_t i = 0; i < deferred.count; i++)
            if (deferred.actions[i].kind == FACET_BALANCE_ADJUST_SHARE)
                adjust_share(balancer, &deferred.actions[i]);
            else
                scale_units(balancer, &deferred.actions[i]);
        pthread_mutex_lock(&balancer->lock);
    }
    pthread_mutex_unlock(&balancer->lock);
    return NULL;
}
