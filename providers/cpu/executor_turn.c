/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: turns: the work of each unit and the end of its turn, waking units that sleep, preempting units that others
 * need. Never: runs a work-group under the lock, or chooses the next tenant: src/compute/pick does.
 *
 * A turn ends when the job has no more work-groups, its time is over, or the unit is needed elsewhere. At its end the
 * tenant is charged the processor time of the thread. So a launch costs the same under any load, and a tenant does not
 * pay for the threads that another tenant wakes by submitting much. While other tenants wait, turns are short, so that
 * shares hold over short times. A tenant that arrives ends the long ones.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/integer.h"
#include "executor_parts.h"
#include "provider_kit.h"

#define SHORT_TURN_NS UINT64_C(50000)
#define LONG_TURN_NS  UINT64_C(1000000)
/* Each turn takes the executor's lock: with many units turns are longer, so that units do not wait for it. */
#define TURN_PER_UNIT_NS UINT64_C(1500)
/*
 * How long a unit that had work polls for more before it sleeps. A program that launches and waits, again and again,
 * then needs half the time (bench/executor): waking a thread on an idle processor takes as long as this.
 */
#define SPIN_NS UINT64_C(20000)
#define POLLS   512u /* between two yields: less than a microsecond */
#define WAKES   2u   /* polling units that are called by a thread that brings work, or by a unit that took work */
/* A thread that is descheduled is away for longer than this. */
#define THREAD_TIME_VALID_NS UINT64_C(50000)
/* How long a unit polls while a job runs that more work may follow: its next phase, or the next job of its stream. */
#define FOLLOW_UP_POLL_NS UINT64_C(500000)

/* ---- a tenant's demand ---- */

/* The stream whose job goes next: that with the highest priority, and of several the one that waited longest. */
static struct cpu_stream *next_stream(struct cpu_tenant *tenant)
{
    struct cpu_stream *stream, *best = NULL;

    TAILQ_FOREACH (stream, &tenant->streams, link) {
        if (!cpu_stream_is_claimable(stream))
            continue;
        if (!best || stream->priority > best->priority ||
            (stream->priority == best->priority && stream->turn < best->turn))
            best = stream;
    }
    return best;
}

static bool has_work(const struct cpu_tenant *tenant)
{
    const struct cpu_stream *stream;

    if (tenant->active > 0)
        return true;
    TAILQ_FOREACH (stream, &tenant->streams, link)
        if (!TAILQ_EMPTY(&stream->jobs))
            return true;
    return false;
}

uint32_t cpu_tenant_units_most(const struct cpu_tenant *tenant)
{
    bool bound = tenant->units_bound > 0 && tenant->units_bound < tenant->units_most;

    return bound ? tenant->units_bound : tenant->units_most;
}

static enum facet_pick_want want_of(struct cpu_tenant *tenant)
{
    if (tenant->paused || !has_work(tenant))
        return FACET_PICK_IDLE;
    return tenant->active < cpu_tenant_units_most(tenant) && next_stream(tenant) ? FACET_PICK_READY : FACET_PICK_SERVED;
}

void cpu_tenant_refresh(struct cpu_tenant *tenant)
{
    facet_pick_set_want(&tenant->executor->pick, tenant->entity, want_of(tenant));
}

static bool is_ready(const struct cpu_tenant *tenant)
{
    return tenant->executor->pick.entities[tenant->entity].want == FACET_PICK_READY;
}

/* ---- getting units ---- */

bool cpu_unit_start(struct cpu_unit *unit)
{
    char name[16]; /* the longest name of a thread */

    snprintf(name, sizeof name, "facet-cpu-%u", unit->index % 1000);
    return cpu_thread_start(&unit->thread, name, cpu_unit_main, unit);
}

static bool start_unit(struct cpu_executor *executor)
{
    if (executor->units_started == executor->options.units || executor->closing ||
        !cpu_unit_start(&executor->units[executor->units_started]))
        return false;
    executor->units_started++;
    return true;
}

enum facet_status cpu_units_begin(struct cpu_executor *executor, struct facet_error *error)
{
    if (executor->units_started == 0)
        start_unit(executor);
    if (executor->units_started == 0)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no thread for a compute unit: expected at least one to start");
    return FACET_OK;
}

static void preempt_unit(struct cpu_unit *unit)
{
    atomic_store_explicit(&unit->must_leave, true, memory_order_relaxed);
}

/* Whether a unit waits for work. */
static bool has_waiting_unit(const struct cpu_executor *executor)
{
    return executor->spinners > 0 || !SLIST_EMPTY(&executor->idle);
}

static void leave_spinning(struct cpu_unit *unit)
{
    if (!unit->spins)
        return;
    SLIST_REMOVE(&unit->executor->spinning, unit, cpu_unit, link);
    unit->executor->spinners--;
    unit->spins = false;
}

static bool wake_spinner(struct cpu_executor *executor)
{
    struct cpu_unit *unit = SLIST_FIRST(&executor->spinning);

    if (!unit)
        return false;
    leave_spinning(unit);
    preempt_unit(unit);
    return true;
}

static bool wake_unit(struct cpu_executor *executor)
{
    struct cpu_unit *unit = SLIST_FIRST(&executor->idle);

    if (wake_spinner(executor))
        return true;
    if (!unit)
        return false;
    SLIST_REMOVE_HEAD(&executor->idle, link);
    unit->idle = false;
    unit->is_waking = true;
    atomic_fetch_add_explicit(&executor->waking_units, 1, memory_order_relaxed);
    pthread_cond_signal(&unit->wake);
    return true;
}

/* Whether a unit should choose its work again because `tenant` has new work, the next of which is of `stream`. */
static bool must_choose_again(const struct cpu_unit *unit, const struct cpu_tenant *tenant,
                              const struct cpu_stream *stream)
{
    const struct cpu_stream *other = unit->job ? unit->job->stream : NULL;

    if (!other || tenant->executor->keeps_units)
        return false;
    if (other->tenant == tenant)
        return stream->priority > other->priority;
    return is_ready(tenant) &&
           (unit->long_turn || facet_pick_goes_before(&tenant->executor->pick, tenant->entity, other->tenant->entity));
}

static void interrupt_units(struct cpu_tenant *tenant)
{
    struct cpu_executor *executor = tenant->executor;
    const struct cpu_stream *stream = next_stream(tenant);

    for (uint32_t i = 0; stream && i < executor->units_started; i++) {
        if (must_choose_again(&executor->units[i], tenant, stream))
            preempt_unit(&executor->units[i]);
    }
}

/*
 * A unit that has got work wakes the next ones. So a launch costs its caller few wakes, and a small launch wakes few
 * units. A store calls a polling unit. WAKES of them are called: the caller may run on the processor of the first.
 */
static bool wake_next_units(struct cpu_executor *executor, uint64_t now_ns)
{
    bool awake = false;

    if (!has_waiting_unit(executor) && executor->units_started == executor->options.units)
        return false;
    if (!facet_pick_any_waits(&executor->pick, now_ns))
        return false;
    for (uint32_t i = 0; i < WAKES; i++)
        awake |= wake_spinner(executor);
    return awake || wake_unit(executor) || start_unit(executor);
}

/* Preempts a unit once for each arrival, and only when no unit sleeps. */
static void preempt_for_arrival(struct cpu_tenant *tenant, uint64_t now_ns)
{
    struct cpu_executor *executor = tenant->executor;

    if (!tenant->has_new_work || !is_ready(tenant)) {
        tenant->has_new_work = false;
        return;
    }
    if (has_waiting_unit(executor))
        return;
    tenant->has_new_work = false;
    if (facet_pick_is_open(&executor->pick, tenant->entity, now_ns))
        interrupt_units(tenant);
}

/* Makes sure that one unit is awake at `again_ns`, when a cap lets its tenant run again. */
static void ensure_unit_wakes_by(struct cpu_executor *executor, uint64_t again_ns)
{
    const struct cpu_unit *next = SLIST_FIRST(&executor->spinning);

    if (!next)
        next = SLIST_FIRST(&executor->idle);
    if (next && next->look_again_ns > again_ns)
        wake_unit(executor);
}

void cpu_tenant_arrive(struct cpu_tenant *tenant)
{
    uint64_t now = cpu_executor_now_ns(tenant->executor);
    uint64_t opens = facet_pick_opens_ns(&tenant->executor->pick, tenant->entity, now);

    cpu_tenant_refresh(tenant);
    tenant->has_new_work = true;
    if (!is_ready(tenant))
        interrupt_units(tenant); /* it has all units that it may have: a stream of higher priority takes one of them */
    else if (opens > now)
        ensure_unit_wakes_by(tenant->executor, opens);
    else if (!wake_next_units(tenant->executor, now))
        preempt_for_arrival(tenant, now);
}

void cpu_units_reconsider(struct cpu_executor *executor)
{
    for (uint32_t i = 0; i < executor->units_started && !executor->keeps_units; i++)
        preempt_unit(&executor->units[i]);
    wake_unit(executor);
}

void cpu_units_preempt(struct cpu_executor *executor, const struct cpu_tenant *tenant, const struct cpu_stream *stream)
{
    for (uint32_t i = 0; i < executor->units_started; i++) {
        const struct cpu_job *job = executor->units[i].job;

        if (!job || (job->stream != stream && (stream || job->stream->tenant != tenant)))
            continue;
        preempt_unit(&executor->units[i]);
        if (job->stopped)
            cpu_watchdog_set_deadline(&executor->units[i]);
    }
}

/* ---- a turn ---- */

static uint64_t turn_ns(const struct cpu_executor *executor, bool long_turn)
{
    if (!long_turn && executor->slice_ns > 0)
        return executor->slice_ns;
    return long_turn ? LONG_TURN_NS : facet_max_u64(SHORT_TURN_NS, TURN_PER_UNIT_NS * executor->options.units);
}

/* A turn ends when waiting tenants are due, its tenant reaches its cap, or another tenant's cap lets that one run. */
static uint64_t turn_end_ns(struct cpu_tenant *tenant, const struct cpu_unit *unit, uint64_t now_ns, uint64_t again_ns)
{
    struct cpu_executor *executor = tenant->executor;

    if (executor->keeps_units)
        return UINT64_MAX; /* the tenant may exceed its cap, and pays for that later */
    uint64_t budget_ns = facet_pick_budget_ns(&executor->pick, tenant->entity, now_ns);
    uint64_t length_ns =
        facet_min_u64(turn_ns(executor, unit->long_turn), facet_max_u64(budget_ns / (tenant->active + 1), 1));

    return facet_max_u64(facet_min_u64(now_ns + length_ns, again_ns), now_ns + 1);
}

static void count_active(struct cpu_executor *executor, uint64_t now_ns)
{
    if (executor->active++ == 0)
        executor->active_since_ns = now_ns;
    cpu_watchdog_wake(executor);
}

static void begin_turn(struct cpu_unit *unit, struct cpu_stream *stream, uint64_t now_ns, uint64_t again_ns)
{
    struct cpu_executor *executor = unit->executor;
    struct cpu_tenant *tenant = stream->tenant;
    struct cpu_job *job = TAILQ_FIRST(&stream->jobs);

    unit->job = job;
    unit->turn_start_ns = now_ns;
    unit->watched_groups =
        atomic_load_explicit(&unit->groups_begun, memory_order_relaxed); /* its earlier work is over */
    unit->watched_since_ns = now_ns;
    unit->watched_processor_ns = 0;
    unit->reported = false;
    unit->leave_by_ns = 0;
    unit->long_turn = executor->pick.ready <= 1; /* no other tenant has work */
    atomic_store_explicit(&unit->must_leave, false, memory_order_relaxed);
    atomic_store_explicit(&unit->begin_thread_ns, 0, memory_order_relaxed);
    unit->turn = (struct cpu_turn){.start_ns = now_ns, .until_ns = turn_end_ns(tenant, unit, now_ns, again_ns)};
    cpu_job_take_range(job, &unit->turn.range);
    if (!job->kernel)
        atomic_store_explicit(&job->next, 1, memory_order_relaxed);
    if (job->record.start_ns == 0) {
        job->record.start_ns = now_ns;
        stream->state.begun = job->record.sequence;
        tenant->launches_under_way++;
    }
    if (++job->running > job->record.units)
        job->record.units = job->running;
    stream->turn = ++executor->turns;
    tenant->active++;
    count_active(executor, now_ns);
}

static bool take_turn(struct cpu_unit *unit)
{
    struct cpu_executor *executor = unit->executor;
    uint64_t now_ns = cpu_executor_now_ns(executor);
    int entity;

    while ((entity = facet_pick_next(&executor->pick, now_ns, &unit->look_again_ns)) != FACET_PICK_NONE) {
        struct cpu_tenant *tenant = executor->tenants[entity];
        struct cpu_stream *stream = next_stream(tenant);

        if (stream)
            begin_turn(unit, stream, now_ns, unit->look_again_ns);
        cpu_tenant_refresh(tenant); /* the last of its work-groups may have been claimed without the lock */
        if (!stream)
            continue;
        wake_next_units(executor, now_ns);
        preempt_for_arrival(tenant, now_ns);
        ensure_unit_wakes_by(executor, unit->look_again_ns);
        return true;
    }
    return false;
}

static void account_turn(struct cpu_unit *unit, struct cpu_job *job, const struct cpu_turn *turn)
{
    struct cpu_executor *executor = unit->executor;
    struct cpu_tenant *tenant = job->stream->tenant;
    uint64_t wall_ns = turn->end_ns - turn->start_ns, spent_ns = facet_min_u64(turn->run_ns, turn->processor_ns);

    facet_pick_charge(&executor->pick, tenant->entity, spent_ns, turn->end_ns);
    tenant->busy_ns += spent_ns;
    executor->unit_ns += wall_ns;
    job->record.busy_ns += spent_ns;
    job->record.groups += turn->groups;
    job->record.longest_ns = facet_max_u64(job->record.longest_ns, facet_min_u64(turn->longest_ns, spent_ns));
    job->record.end_ns = facet_max_u64(job->record.end_ns, turn->end_ns);
    if (turn->status != FACET_OK && job->record.status == FACET_OK) {
        job->record.status = turn->status;
        job->stopped = true;
    }
}

/* Returns the job if it has more work for this unit: then the turn ended for another reason. NULL: it has none. */
static struct cpu_job *end_turn(struct cpu_unit *unit)
{
    struct cpu_executor *executor = unit->executor;
    const struct cpu_turn *turn = &unit->turn;
    struct cpu_job *job = unit->job;
    struct cpu_stream *stream = job->stream;
    struct cpu_tenant *tenant = stream->tenant;

    account_turn(unit, job, turn);
    if (turn->range.begin < turn->range.end)
        job->returned_ranges[job->returned_count++] = turn->range;
    unit->job = NULL;
    job->running--;
    tenant->active--;
    if (--executor->active == 0)
        executor->busy_ns += turn->end_ns - executor->active_since_ns;
    cpu_job_open_next_phase(job);
    bool goes_on = cpu_job_has_more(job);

    if (cpu_job_is_over(job))
        cpu_stream_settle(stream);
    cpu_tenant_refresh(tenant);
    if (tenant->active == 0)
        cpu_tenant_signal(tenant);
    return goes_on ? job : NULL;
}

void cpu_unit_account_ended(struct cpu_unit *unit, enum facet_status status)
{
    struct cpu_turn *turn = &unit->turn;

    turn->end_ns = cpu_executor_now_ns(unit->executor);
    turn->run_ns = turn->end_ns - turn->begin_ns;
    turn->processor_ns = unit->ended_processor_ns;
    turn->status = status;
    end_turn(unit);
}

/* ---- a unit ---- */

static void read_thread_time(struct cpu_unit *unit)
{
    unit->thread_time_ns = cpu_thread_ns(unit->executor);
    unit->thread_time_read_ns = cpu_executor_now_ns(unit->executor);
}

/*
 * The thread's processor time, and the time at which it was read; 0: unknown. Asking the kernel costs as much as a
 * small launch. While no other tenant waits, a reading is used for THREAD_TIME_VALID_NS: if the thread had been
 * descheduled since, more time would have passed.
 */
static uint64_t thread_ns(struct cpu_unit *unit, uint64_t *ret_now_ns)
{
    uint64_t now = cpu_executor_now_ns(unit->executor);

    if (unit->long_turn && now - unit->thread_time_read_ns < THREAD_TIME_VALID_NS) {
        *ret_now_ns = now;
        return unit->thread_time_ns > 0 ? unit->thread_time_ns + now - unit->thread_time_read_ns : 0;
    }
    read_thread_time(unit);
    *ret_now_ns = unit->thread_time_read_ns;
    return unit->thread_time_ns;
}

/*
 * Only the time from begin_ns on, for run_ns, is charged. Taking the lock and waking other units is not: that often
 * serves another tenant.
 */
static void run_turn(struct cpu_unit *unit)
{
    struct cpu_turn *turn = &unit->turn;
    uint64_t begin_ns = thread_ns(unit, &turn->begin_ns);

    atomic_store_explicit(&unit->begin_thread_ns, begin_ns, memory_order_relaxed);
    cpu_job_run(unit, unit->job, turn);
    turn->run_ns = cpu_executor_now_ns(unit->executor) - turn->begin_ns;
    turn->processor_ns = UINT64_MAX;
    if (begin_ns == 0 || (unit->long_turn && turn->run_ns < THREAD_TIME_VALID_NS))
        return;
    read_thread_time(unit);
    turn->processor_ns = unit->thread_time_ns > begin_ns ? unit->thread_time_ns - begin_ns : 0;
}

/* Whether a job runs that more work may follow, and there is a processor for a unit that polls for that work. */
static bool more_may_follow(const struct cpu_executor *executor)
{
    return executor->active > 0 && executor->jobs > 0 &&
           executor->active + executor->spinners < executor->options.processors;
}

/* Until when a unit that finds no work polls before it sleeps. That time is not charged. */
static uint64_t poll_until_ns(const struct cpu_unit *unit)
{
    const struct cpu_executor *executor = unit->executor;
    uint64_t until = more_may_follow(executor) ? unit->last_work_ns + FOLLOW_UP_POLL_NS : unit->last_work_ns + SPIN_NS;
    uint64_t now = cpu_executor_now_ns(executor);

    if (unit->look_again_ns == FACET_PICK_NEVER)
        return until;
    return facet_min_u64(until, cpu_deadline_ns(unit->look_again_ns > now ? unit->look_again_ns - now : 0));
}

/*
 * Releases the lock, and polls for new work. It yields at once and between polls: the thread that waited for the job
 * that has just ended may want this processor.
 */
static void spin_for_work(struct cpu_unit *unit, uint64_t until_ns)
{
    struct cpu_executor *executor = unit->executor;
    bool is_called = false;

    SLIST_INSERT_HEAD(&executor->spinning, unit, link);
    executor->spinners++;
    unit->spins = true;
    atomic_store_explicit(&unit->must_leave, false, memory_order_relaxed);
    pthread_mutex_unlock(&executor->lock);
    do {
        sched_yield();
        for (uint32_t i = 0; i < POLLS && !is_called; i++)
            is_called = atomic_load_explicit(&unit->must_leave, memory_order_relaxed);
    } while (!is_called && cpu_deadline_ns(0) < until_ns);
    pthread_mutex_lock(&executor->lock);
    leave_spinning(unit);
}

static void sleep_unit(struct cpu_unit *unit)
{
    struct cpu_executor *executor = unit->executor;
    uint64_t now = cpu_executor_now_ns(executor), deadline = UINT64_MAX;
    bool in_time = true;

    if (unit->look_again_ns != FACET_PICK_NEVER)
        deadline = cpu_deadline_ns(unit->look_again_ns > now ? unit->look_again_ns - now : 0);
    SLIST_INSERT_HEAD(&executor->idle, unit, link);
    unit->idle = true;
    while (unit->idle && in_time && !executor->closing)
        in_time = cpu_condition_wait(executor, &unit->wake, deadline);
    if (unit->idle)
        SLIST_REMOVE(&executor->idle, unit, cpu_unit, link);
    unit->idle = false;
    if (unit->is_waking)
        atomic_fetch_sub_explicit(&executor->waking_units, 1, memory_order_relaxed);
    unit->is_waking = false;
}

void *cpu_unit_main(void *argument)
{
    struct cpu_unit *unit = argument;
    struct cpu_executor *executor = unit->executor;
    struct cpu_job *left_job = NULL; /* the job that this unit has just left, while it holds the lock */

    /* The thread can be cancelled at any instruction, but only inside of cpu_job_run(), where that is allowed. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL); /* NOLINT(cert-pos47-c): ADR 26 */
    pthread_mutex_lock(&executor->lock);
    while (!executor->closing) {
        bool working = take_turn(unit);

        if (left_job && unit->job != left_job)
            left_job->record.preemptions++;
        left_job = NULL;
        if (!working) {
            uint64_t until = poll_until_ns(unit);

            if (cpu_deadline_ns(0) < until)
                spin_for_work(unit, until);
            else
                sleep_unit(unit);
            continue;
        }
        pthread_mutex_unlock(&executor->lock);
        run_turn(unit);
        pthread_mutex_lock(&executor->lock);
        /* Read under the lock, as in cpu_executor_busy(): so busy times never decrease. */
        unit->turn.end_ns = cpu_executor_now_ns(executor);
        left_job = end_turn(unit);
        unit->last_work_ns = cpu_deadline_ns(0);
    }
    pthread_mutex_unlock(&executor->lock);
    return NULL;
}
