/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: creating and destroying the executor, its clock, and starting its threads. Never: chooses or runs work. */
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "executor_parts.h"
#include "provider_kit.h"

#define NS_PER_S UINT64_C(1000000000)
#define STACK_BYTES                                                                                                    \
    ((size_t)8 << 20) /* of a thread, whatever the process's limit: kernels keep some private memory there */

/* ---- time ---- */

static uint64_t real_now_ns(void *owner)
{
    struct timespec now;

    (void)owner;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t cpu_thread_ns(const struct cpu_executor *executor)
{
    struct timespec now;

    if (executor->options.now_ns != real_now_ns || clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) != 0)
        return 0;
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* A thread that is being ended may have no clock any more. */
uint64_t cpu_unit_processor_ns(const struct cpu_unit *unit)
{
    uint64_t begin_ns = atomic_load_explicit(&unit->begin_thread_ns, memory_order_relaxed);
    struct timespec now;
    clockid_t clock;

    if (atomic_load_explicit(&unit->endable, memory_order_relaxed) == CPU_ENDING)
        return unit->ended_processor_ns;
    if (begin_ns == 0 || pthread_getcpuclockid(unit->thread, &clock) != 0 || clock_gettime(clock, &now) != 0)
        return UINT64_MAX;
    uint64_t now_ns = (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;

    return now_ns > begin_ns ? now_ns - begin_ns : 0;
}

uint64_t cpu_deadline_ns(uint64_t timeout_ns)
{
    uint64_t now = real_now_ns(NULL);

    return timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX;
}

void cpu_condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

/*
 * The lock is held so briefly that a thread loses less by spinning than by sleeping: waking a thread takes ten times as
 * long as a whole short launch.
 */
static void init_lock(pthread_mutex_t *lock)
{
    pthread_mutexattr_t attributes;

    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

bool cpu_condition_wait(struct cpu_executor *executor, pthread_cond_t *condition, uint64_t deadline_ns)
{
    const struct timespec deadline = {.tv_sec = (time_t)(deadline_ns / NS_PER_S),
                                      .tv_nsec = (long)(deadline_ns % NS_PER_S)};

    if (deadline_ns == UINT64_MAX)
        return pthread_cond_wait(condition, &executor->lock) == 0;
    return pthread_cond_timedwait(condition, &executor->lock, &deadline) == 0;
}

/* ---- threads ---- */

/* The thread blocks all signals: they are handled on threads of the program. */
bool cpu_thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *argument)
{
    pthread_attr_t attributes;
    sigset_t all, before;

    if (pthread_attr_init(&attributes) != 0)
        return false;
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(thread, &attributes, run, argument) == 0;

    pthread_attr_destroy(&attributes);

    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started)
        pthread_setname_np(*thread, name);
    return started;
}

static void end_units(struct cpu_executor *executor)
{
    for (uint32_t i = 0; i < executor->units_started; i++)
        pthread_cond_signal(&executor->units[i].wake);
    for (uint32_t i = 0; i < executor->units_started; i++) {
        if (executor->units[i].thread_is_ended)
            continue;
        pthread_mutex_unlock(&executor->lock);
        pthread_join(executor->units[i].thread, NULL);
        pthread_mutex_lock(&executor->lock);
    }
}

/* ---- the executor ---- */

static void init_units(struct cpu_executor *executor)
{
    for (uint32_t i = 0; i < executor->options.units; i++) {
        executor->units[i].executor = executor;
        executor->units[i].index = i;
        cpu_condition_init(&executor->units[i].wake);
    }
}

enum facet_status cpu_executor_create(const struct cpu_executor_options *options, struct cpu_executor **ret_executor,
                                      struct facet_error *error)
{
    struct facet_pick_config config = facet_pick_defaults;

    if (options->units == 0 || options->units > CPU_UNITS_MOST)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "units %" PRIu32 ": expected 1 to %u", options->units,
                              CPU_UNITS_MOST);
    if (!facet_pick_policy_name((enum facet_pick_policy)options->policy))
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "policy %" PRIu32 ": expected an enum facet_pick_policy",
                              options->policy);
    size_t bytes = sizeof(struct cpu_executor) + options->units * sizeof(struct cpu_unit);
    struct cpu_executor *executor = aligned_alloc(CPU_LINE, (bytes + CPU_LINE - 1) / CPU_LINE * CPU_LINE);

    if (!executor)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for %" PRIu32 " compute units", options->units);
    memset(executor, 0, bytes);
    executor->options = *options;
    if (!executor->options.now_ns)
        executor->options.now_ns = real_now_ns;
    config.policy = (enum facet_pick_policy)options->policy;
    config.parallel = options->units;
    facet_pick_init(&executor->pick, &config);
    init_lock(&executor->lock);
    cpu_condition_init(&executor->watchdog_wake);
    SLIST_INIT(&executor->idle);
    SLIST_INIT(&executor->spinning);
    init_units(executor);
    *ret_executor = executor;
    return FACET_OK;
}

void cpu_executor_destroy(struct cpu_executor *executor)
{
    if (!executor)
        return;
    pthread_mutex_lock(&executor->lock);
    executor->closing = true;
    cpu_watchdog_end(executor); /* first: it joins threads, too */
    end_units(executor);
    pthread_mutex_unlock(&executor->lock);
    for (uint32_t i = 0; i < executor->options.units; i++) {
        pthread_cond_destroy(&executor->units[i].wake);
        free(executor->units[i].local);
        free(executor->units[i].scratch);
    }
    pthread_cond_destroy(&executor->watchdog_wake);
    pthread_mutex_destroy(&executor->lock);
    free(executor);
}

void cpu_executor_set_policy(struct cpu_executor *executor, uint32_t policy, bool preempt, uint64_t slice_ns)
{
    pthread_mutex_lock(&executor->lock);
    facet_pick_set_policy(&executor->pick, (enum facet_pick_policy)policy);
    executor->keeps_units = !preempt;
    executor->slice_ns = slice_ns;
    cpu_units_reconsider(executor);
    pthread_mutex_unlock(&executor->lock);
}

/* A turn that has not ended counts up to now. */
void cpu_executor_busy(struct cpu_executor *executor, uint64_t *ret_unit_ns, uint64_t *ret_busy_ns)
{
    pthread_mutex_lock(&executor->lock);
    uint64_t now = cpu_executor_now_ns(executor), unit_ns = executor->unit_ns, busy_ns = executor->busy_ns;

    for (uint32_t i = 0; i < executor->units_started; i++) {
        if (executor->units[i].job)
            unit_ns += now - executor->units[i].turn_start_ns;
    }
    if (executor->active > 0)
        busy_ns += now - executor->active_since_ns;
    pthread_mutex_unlock(&executor->lock);
    *ret_unit_ns = unit_ns;
    *ret_busy_ns = busy_ns;
}
