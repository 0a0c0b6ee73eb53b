/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the watchdog, a thread that reports work-groups that run for too long, and ends those whose launch was
 * cancelled or that take longer than they may. Never: ends a work-group that could hold a lock or another resource
 * (cpu_job_can_be_ended()).
 *
 * A unit counts the work-groups that it begins, and the watchdog checks whether the count of a working unit grows. So
 * watching costs a work-group one store. The watchdog's thread starts with the first work, and sleeps without work.
 *
 * A work-group never checks whether it should stop: the watchdog ends its unit's thread, by an asynchronous
 * cancellation that takes effect only while the thread is in an image's code. Then a new thread becomes the unit.
 */
#include <dlfcn.h>
#include <string.h>

#include "base/integer.h"
#include "executor_parts.h"

#define CHECKS      4u /* within the allowed time */
#define SHORTEST_NS UINT64_C(100000)
#define RETRY_NS    UINT64_C(5000000) /* to end a thread, or to start one in its place */

struct overlong {
    char kernel[sizeof((struct facet_launch_record *)NULL)->kernel];
    uint64_t running_ns;
};

/* ---- reporting ---- */

/* For how long the unit has been in its work-group, as of the last check. */
static uint64_t running_ns(struct cpu_unit *unit, uint64_t now_ns)
{
    uint64_t groups_begun = atomic_load_explicit(&unit->groups_begun, memory_order_relaxed);

    if (!unit->job || !unit->job->kernel)
        return 0;
    if (groups_begun == unit->watched_groups && now_ns >= unit->watched_since_ns)
        return now_ns - unit->watched_since_ns;
    unit->watched_groups = groups_begun;
    unit->watched_since_ns = now_ns;
    unit->watched_processor_ns = cpu_unit_processor_ns(unit);
    unit->reported = false;
    return 0;
}

/*
 * The part of the running time in which the unit had its processor. A work-group does not use up the time that it may
 * take while this process is stopped, or other processes have the processor.
 */
static uint64_t worked_ns(const struct cpu_unit *unit, uint64_t ran_ns)
{
    uint64_t had_ns = cpu_unit_processor_ns(unit);

    if (had_ns == UINT64_MAX || unit->watched_processor_ns == UINT64_MAX)
        return ran_ns;
    uint64_t worked_ns = had_ns > unit->watched_processor_ns ? had_ns - unit->watched_processor_ns : 0;
    return worked_ns < ran_ns ? worked_ns : ran_ns;
}

/* Whether the unit's work-group is to be reported now. */
static bool must_be_reported(struct cpu_unit *unit, uint64_t ran_ns, struct overlong *ret_overlong)
{
    const struct cpu_executor_options *options = &unit->executor->options;

    if (!options->overlong || options->watchdog_ns == 0 || unit->reported || ran_ns < options->watchdog_ns)
        return false;
    unit->reported = true;
    ret_overlong->running_ns = ran_ns;
    memcpy(ret_overlong->kernel, unit->job->record.kernel, sizeof ret_overlong->kernel);
    return true;
}

static void report_overlong(struct cpu_executor *executor, const struct overlong *overlong)
{
    pthread_mutex_unlock(&executor->lock);
    executor->options.overlong(executor->options.owner, overlong->kernel, overlong->running_ns);
    pthread_mutex_lock(&executor->lock);
}

/* ---- ending ---- */

/* The C library unwinds a cancelled thread's stack with libgcc_s, and aborts the process where that is missing. */
static bool can_end_threads(void)
{
#ifdef __SANITIZE_THREAD__
    return false; /* the sanitizer's runtime does not deliver a cancellation to code that was not instrumented */
#else
    static void *unwinder;

    if (!unwinder)
        unwinder = dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_LOCAL);
    return unwinder != NULL;
#endif
}

static bool must_be_ended(const struct cpu_unit *unit, uint64_t ran_ns)
{
    uint64_t most_ns = unit->executor->options.group_most_ns;

    if (!unit->job || !cpu_job_can_be_ended(unit->job))
        return false;
    return (unit->leave_by_ns > 0 && cpu_deadline_ns(0) >= unit->leave_by_ns) ||
           (most_ns > 0 && ran_ns >= most_ns && worked_ns(unit, ran_ns) >= most_ns);
}

/* Starts the unit again. It is retried while the machine has no room for a thread. */
static void restart_unit(struct cpu_unit *unit)
{
    unit->thread_is_ended = unit->executor->closing || !cpu_unit_start(unit);
}

/* Ends a unit's thread, but never on its way into or out of a work-group, where it holds the executor's resources. */
static void end_unit(struct cpu_unit *unit)
{
    struct cpu_executor *executor = unit->executor;
    int inside = CPU_INSIDE;

    unit->leave_by_ns = can_end_threads() ? cpu_deadline_ns(RETRY_NS) : 0;
    unit->ended_processor_ns = cpu_unit_processor_ns(unit);
    if (unit->leave_by_ns == 0 || !atomic_compare_exchange_strong(&unit->endable, &inside, CPU_ENDING))
        return;
    pthread_mutex_unlock(&executor->lock);
    pthread_cancel(unit->thread);
    pthread_join(unit->thread, NULL);
    pthread_mutex_lock(&executor->lock);
    atomic_store(&unit->endable, CPU_OUTSIDE);
    cpu_unit_account_ended(unit, unit->job->stopped ? FACET_OK : FACET_TIMEOUT);
    restart_unit(unit);
}

void cpu_watchdog_set_deadline(struct cpu_unit *unit)
{
    struct cpu_executor *executor = unit->executor;

    if (executor->options.end_after_ns == 0 || unit->leave_by_ns > 0 || !cpu_job_can_be_ended(unit->job))
        return;
    unit->leave_by_ns = cpu_deadline_ns(executor->options.end_after_ns);
    cpu_watchdog_wake(executor);
    pthread_cond_signal(&executor->watchdog_wake);
}

/* ---- watching ---- */

static void check_units(struct cpu_executor *executor)
{
    struct overlong overlong;

    for (uint32_t i = 0; i < executor->units_started; i++) {
        struct cpu_unit *unit = &executor->units[i];
        uint64_t ran_ns = running_ns(unit, cpu_executor_now_ns(executor));

        if (unit->thread_is_ended)
            restart_unit(unit);
        else if (must_be_ended(unit, ran_ns))
            end_unit(unit);
        else if (must_be_reported(unit, ran_ns, &overlong))
            report_overlong(executor, &overlong);
    }
}

/* The time of the next check, by cpu_deadline_ns(); UINT64_MAX: when `watchdog_wake` is signalled. */
static uint64_t next_check_ns(const struct cpu_executor *executor)
{
    const struct cpu_executor_options *options = &executor->options;
    uint64_t step_ns = UINT64_MAX, next = UINT64_MAX;

    if (options->overlong && options->watchdog_ns > 0)
        step_ns = options->watchdog_ns / CHECKS;
    if (options->group_most_ns > 0)
        step_ns = facet_min_u64(step_ns, options->group_most_ns / CHECKS);
    if (executor->watching && step_ns != UINT64_MAX)
        next = cpu_deadline_ns(step_ns > SHORTEST_NS ? step_ns : SHORTEST_NS);
    for (uint32_t i = 0; i < executor->units_started; i++) {
        const struct cpu_unit *unit = &executor->units[i];

        if (unit->thread_is_ended)
            next = facet_min_u64(next, cpu_deadline_ns(RETRY_NS));
        else if (unit->job && unit->leave_by_ns > 0)
            next = facet_min_u64(next, unit->leave_by_ns);
    }
    return next;
}

static void *watch_units(void *argument)
{
    struct cpu_executor *executor = argument;

    pthread_mutex_lock(&executor->lock);
    while (!executor->closing) {
        executor->watching = executor->active > 0;
        cpu_condition_wait(executor, &executor->watchdog_wake, next_check_ns(executor));
        check_units(executor);
    }
    pthread_mutex_unlock(&executor->lock);
    return NULL;
}

/* Without a thread nothing is reported; the work goes on. */
void cpu_watchdog_wake(struct cpu_executor *executor)
{
    const struct cpu_executor_options *options = &executor->options;

    if (executor->watching || ((options->watchdog_ns == 0 || !options->overlong) && options->group_most_ns == 0 &&
                               options->end_after_ns == 0))
        return;
    if (!executor->watchdog_started)
        executor->watchdog_started = cpu_thread_start(&executor->watchdog, "facet-cpu-watch", watch_units, executor);
    executor->watching = true;
    pthread_cond_signal(&executor->watchdog_wake);
}

void cpu_watchdog_end(struct cpu_executor *executor)
{
    if (!executor->watchdog_started)
        return;
    pthread_cond_signal(&executor->watchdog_wake);
    pthread_mutex_unlock(&executor->lock);
    pthread_join(executor->watchdog, NULL);
    pthread_mutex_lock(&executor->lock);
}
