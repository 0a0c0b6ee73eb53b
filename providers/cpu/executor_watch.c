/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the watchdog, a thread that reports work-groups that run for too long. Never: ends one: nothing can.
 *
 * A unit counts the work-groups that it begins; the watchdog looks whether the count of one that works still grows. So
 * watching costs a work-group one store. The thread begins with the first work and sleeps while there is none.
 */
#include <string.h>

#include "executor_parts.h"

#define LOOKS       4u /* in the time that is allowed */
#define SHORTEST_NS UINT64_C(100000)

struct overlong {
    char kernel[sizeof((struct facet_launch_record *)NULL)->kernel];
    uint64_t running_ns;
};

/* Whether the unit's work-group is to be reported now. */
static bool look_at(struct cpu_unit *unit, uint64_t now_ns, uint64_t allowed_ns, struct overlong *ret_overlong)
{
    uint64_t beat = atomic_load_explicit(&unit->beat, memory_order_relaxed);

    if (!unit->job || !unit->job->kernel || beat != unit->watched_beat || now_ns < unit->watched_since_ns) {
        unit->watched_beat = beat;
        unit->watched_since_ns = now_ns;
        unit->reported = false;
        return false;
    }
    if (unit->reported || now_ns - unit->watched_since_ns < allowed_ns)
        return false;
    unit->reported = true;
    ret_overlong->running_ns = now_ns - unit->watched_since_ns;
    memcpy(ret_overlong->kernel, unit->job->record.kernel, sizeof ret_overlong->kernel);
    return true;
}

static void look(struct cpu_executor *executor)
{
    struct overlong overlong;

    for (uint32_t i = 0; i < executor->started; i++) {
        if (!look_at(&executor->units[i], cpu_now_ns(executor), executor->options.watchdog_ns, &overlong))
            continue;
        pthread_mutex_unlock(&executor->lock);
        executor->options.overlong(executor->options.owner, overlong.kernel, overlong.running_ns);
        pthread_mutex_lock(&executor->lock);
    }
}

static void *watch(void *argument)
{
    struct cpu_executor *executor = argument;
    uint64_t step_ns = executor->options.watchdog_ns / LOOKS;

    if (step_ns < SHORTEST_NS)
        step_ns = SHORTEST_NS;
    pthread_mutex_lock(&executor->lock);
    while (!executor->closing) {
        executor->watching = executor->active > 0;
        cpu_condition_wait(executor, &executor->watch, executor->watching ? cpu_deadline_ns(step_ns) : UINT64_MAX);
        look(executor);
    }
    pthread_mutex_unlock(&executor->lock);
    return NULL;
}

/* Without a thread nothing is reported; the work goes on. */
void cpu_watchdog_wake(struct cpu_executor *executor)
{
    if (executor->options.watchdog_ns == 0 || !executor->options.overlong || executor->watching)
        return;
    if (!executor->watchdog_started)
        executor->watchdog_started = cpu_thread_start(&executor->watchdog, "facet-cpu-watch", watch, executor);
    executor->watching = true;
    pthread_cond_signal(&executor->watch);
}

void cpu_watchdog_end(struct cpu_executor *executor)
{
    if (!executor->watchdog_started)
        return;
    pthread_cond_signal(&executor->watch);
    pthread_mutex_unlock(&executor->lock);
    pthread_join(executor->watchdog, NULL);
    pthread_mutex_lock(&executor->lock);
}
