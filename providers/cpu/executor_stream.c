/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: streams: the order of their jobs, reporting how each ended, waiting, cancelling. Never: chooses units.
 *
 * A job stays at the head of its stream until its `done` has returned. So owners are notified in order, the next job
 * begins after the call, and a thread that waited for the job returns after it.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "executor_parts.h"
#include "provider_kit.h"

#define POLL_NS UINT64_C(500000)
#define POLLS   64u /* between two yields: some hundred nanoseconds */
/* A woken unit arrives sooner, unless it waits for a processor. */
#define WAKING_NS UINT64_C(10000)

enum facet_status cpu_stream_create(struct cpu_tenant *tenant, struct cpu_stream **ret_stream,
                                    struct facet_error *error)
{
    struct cpu_stream *stream = calloc(1, sizeof *stream);

    if (!stream)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a stream");
    stream->tenant = tenant;
    stream->priority = FACET_PRIORITY_NORMAL;
    stream->state.size = sizeof stream->state;
    stream->wake_sequence = UINT64_MAX;
    TAILQ_INIT(&stream->jobs);
    pthread_mutex_lock(&tenant->executor->lock);
    TAILQ_INSERT_TAIL(&tenant->streams, stream, link);
    pthread_mutex_unlock(&tenant->executor->lock);
    *ret_stream = stream;
    return FACET_OK;
}

/* Jobs anywhere in the tenant's streams that wait for the destroyed stream wait no more. */
static void forget_awaited(struct cpu_tenant *tenant, const struct cpu_stream *destroyed)
{
    struct cpu_stream *stream;
    struct cpu_job *job;

    TAILQ_FOREACH (stream, &tenant->streams, link)
        TAILQ_FOREACH (job, &stream->jobs, link)
            if (job->awaited == destroyed)
                job->awaited = NULL;
}

void cpu_stream_release(struct cpu_stream *stream)
{
    struct cpu_tenant *tenant = stream->tenant;

    cpu_stream_stop(stream);
    while (!TAILQ_EMPTY(&stream->jobs))
        cpu_tenant_watch(tenant, UINT64_MAX);
    TAILQ_REMOVE(&tenant->streams, stream, link);
    forget_awaited(tenant, stream);
    free(stream->records);
    free(stream);
}

void cpu_stream_destroy(struct cpu_stream *stream)
{
    if (!stream)
        return;
    struct cpu_executor *executor = stream->tenant->executor;

    pthread_mutex_lock(&executor->lock);
    cpu_stream_release(stream);
    pthread_mutex_unlock(&executor->lock);
}

void cpu_stream_set_priority(struct cpu_stream *stream, uint32_t priority)
{
    struct cpu_executor *executor = stream->tenant->executor;

    pthread_mutex_lock(&executor->lock);
    stream->priority = priority;
    cpu_units_reconsider(executor);
    pthread_mutex_unlock(&executor->lock);
}

bool cpu_stream_is_claimable(const struct cpu_stream *stream)
{
    const struct cpu_job *job = TAILQ_FIRST(&stream->jobs);
    const struct cpu_tenant *tenant = stream->tenant;

    if (!job || !cpu_job_has_more(job))
        return false;
    return job->record.start_ns != 0 || tenant->launches_most == 0 ||
           tenant->launches_under_way < tenant->launches_most;
}

/* ---- the end of a job ---- */

static void make_record(struct cpu_job *job)
{
    struct cpu_stream *stream = job->stream;
    struct facet_launch_record *record = &job->record;
    bool is_complete = job->kernel ? record->groups == job->all_groups : record->start_ns != 0;

    if (record->start_ns != 0)
        stream->tenant->launches_under_way--;
    if (job->only_waits && !job->stopped) {
        record->start_ns = record->end_ns = cpu_executor_now_ns(stream->tenant->executor);
        is_complete = true;
    }
    stream->state.begun = record->sequence; /* jobs of a stream begin in order */

    if (record->status == FACET_OK && !is_complete)
        record->status = FACET_BAD_STATE; /* cancelled */
    else if (record->status != FACET_OK && stream->state.failed == 0)
        stream->state.failed = (uint32_t)-record->status;
    if (record->end_ns == 0)
        record->end_ns = cpu_executor_now_ns(stream->tenant->executor);
    stream->state.busy_ns += record->busy_ns;
    cpu_record_keep(stream, record);
}

static bool is_settled(const struct cpu_stream *stream)
{
    const struct cpu_job *job = TAILQ_FIRST(&stream->jobs);

    return stream->is_calling_done || !job || !cpu_job_is_over(job);
}

static void wake_waiters(struct cpu_stream *stream)
{
    if (stream->state.completed < stream->wake_sequence) {
        cpu_tenant_signal(stream->tenant);
        return;
    }
    stream->wake_sequence = UINT64_MAX; /* threads that wait for more set it again */
    pthread_cond_broadcast(&stream->tenant->changed);
}

static bool remove_finished_jobs(struct cpu_stream *stream)
{
    struct cpu_executor *executor = stream->tenant->executor;
    struct cpu_job *job;
    bool any = !is_settled(stream);

    if (stream->is_calling_done)
        return false;
    while ((job = TAILQ_FIRST(&stream->jobs)) && cpu_job_is_over(job)) {
        stream->is_calling_done = true;
        make_record(job);
        pthread_mutex_unlock(&executor->lock);
        if (job->done)
            job->done(job->done_owner);
        pthread_mutex_lock(&executor->lock);
        stream->is_calling_done = false;
        TAILQ_REMOVE(&stream->jobs, job, link);
        stream->tenant->waiting -= job->only_waits;
        executor->jobs--;
        atomic_store_explicit(&stream->completed, ++stream->state.completed, memory_order_release);
        free(job);
    }
    wake_waiters(stream);
    return any;
}

/* Begins at the first stream each time: the list may change during a call of `done`. */
static struct cpu_stream *first_unsettled(struct cpu_tenant *tenant)
{
    struct cpu_stream *stream;

    TAILQ_FOREACH (stream, &tenant->streams, link)
        if (!is_settled(stream))
            return stream;
    return NULL;
}

/* Settles the tenant's other streams, too, whose jobs may wait for a job that ends here. */
void cpu_stream_settle(struct cpu_stream *stream)
{
    struct cpu_tenant *tenant = stream->tenant;
    bool any = remove_finished_jobs(stream);

    while (any && tenant->waiting > 0 && (stream = first_unsettled(tenant)))
        remove_finished_jobs(stream);
}

void cpu_stream_stop(struct cpu_stream *stream)
{
    struct cpu_job *job;

    TAILQ_FOREACH (job, &stream->jobs, link)
        job->stopped = true;
    cpu_units_preempt(stream->tenant->executor, stream->tenant, stream);
    cpu_stream_settle(stream);
    cpu_tenant_arrive(stream->tenant); /* for work that was queued meanwhile */
}

void cpu_stream_cancel(struct cpu_stream *stream)
{
    struct cpu_executor *executor = stream->tenant->executor;

    pthread_mutex_lock(&executor->lock);
    cpu_stream_stop(stream);
    pthread_mutex_unlock(&executor->lock);
}

bool cpu_stream_cancel_one(struct cpu_stream *stream, uint64_t sequence)
{
    struct cpu_executor *executor = stream->tenant->executor;
    struct cpu_job *job;

    pthread_mutex_lock(&executor->lock);
    TAILQ_FOREACH (job, &stream->jobs, link)
        if (job->record.sequence == sequence)
            break;
    bool found = job && !cpu_job_is_over(job);

    if (found) {
        job->stopped = true;
        cpu_units_preempt(executor, stream->tenant, stream);
        cpu_stream_settle(stream);
        cpu_tenant_arrive(stream->tenant);
    }
    pthread_mutex_unlock(&executor->lock);
    return found;
}

/* ---- queueing ---- */

static enum facet_status queue_job(struct cpu_job *job, struct facet_error *error)
{
    struct cpu_stream *stream = job->stream;
    struct cpu_tenant *tenant = stream->tenant;

    pthread_mutex_lock(&tenant->executor->lock);
    enum facet_status status = cpu_units_begin(tenant->executor, error);

    if (status == FACET_OK) {
        bool first = TAILQ_EMPTY(&stream->jobs);

        job->record.sequence = ++stream->state.launched;
        tenant->waiting += job->only_waits;
        tenant->executor->jobs++;
        job->record.queued_ns = cpu_executor_now_ns(tenant->executor);
        TAILQ_INSERT_TAIL(&stream->jobs, job, link);
        if (first && job->only_waits)
            cpu_stream_settle(stream);
        else if (first)
            cpu_tenant_arrive(tenant);
    }
    pthread_mutex_unlock(&tenant->executor->lock);
    if (status != FACET_OK)
        free(job);
    return status;
}

static void describe_job(struct cpu_job *job, const struct facet_host_kernel *kernel, const struct facet_launch *launch)
{
    uint64_t items = (uint64_t)launch->group[0] * launch->group[1] * launch->group[2];

    job->kernel = kernel;
    job->phase_end = job->all_groups = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
    job->local_bytes = (uint64_t)kernel->local_bytes + launch->local_bytes;
    job->scratch_bytes = facet_host_scratch_bytes(kernel, (uint32_t)items);
    memcpy(job->group.grid, launch->grid, sizeof job->group.grid);
    memcpy(job->group.group_size, launch->group, sizeof job->group.group_size);
    memcpy(job->group.offset, launch->offset, sizeof job->group.offset);
    job->group.global_size_x = launch->grid[0] * launch->group[0];
    job->group.dimensions = launch->dimensions > 0 ? launch->dimensions : 3;
    memcpy(job->record.kernel, launch->kernel, sizeof job->record.kernel);
}

enum facet_status cpu_stream_launch(struct cpu_stream *stream, const struct facet_host_kernel *kernel,
                                    const struct facet_launch *launch, const void *arguments,
                                    const struct facet_host_check *check, void *check_owner, cpu_done_func done,
                                    void *owner, struct facet_error *error)
{
    struct cpu_job *job = NULL;
    enum facet_status status = cpu_job_new(stream, launch->argument_bytes, &job, error);

    if (status != FACET_OK)
        return status;
    describe_job(job, kernel, launch);
    if (launch->argument_bytes > 0)
        memcpy((void *)job->arguments, arguments, launch->argument_bytes);
    job->check = check;
    job->group.check = check_owner;
    job->done = done;
    job->done_owner = owner;
    return queue_job(job, error);
}

enum facet_status cpu_stream_launch_phases(struct cpu_stream *stream, const struct facet_host_kernel *kernel,
                                           const struct facet_launch *launch, const void *arguments,
                                           const struct cpu_phases *phases, cpu_done_func done, void *owner,
                                           struct facet_error *error)
{
    struct cpu_job *job = NULL;
    enum facet_status status = cpu_job_new(stream, launch->argument_bytes, &job, error);

    if (status != FACET_OK)
        return status;
    describe_job(job, kernel, launch);
    if (launch->argument_bytes > 0)
        memcpy((void *)job->arguments, arguments, launch->argument_bytes);
    job->phases = phases;
    job->phase_end = phases->ends[0];
    job->done = done;
    job->done_owner = owner;
    return queue_job(job, error);
}

enum facet_status cpu_stream_call(struct cpu_stream *stream, cpu_work_func work, cpu_done_func done, void *owner,
                                  struct facet_error *error)
{
    struct cpu_job *job = NULL;
    enum facet_status status = cpu_job_new(stream, 0, &job, error);

    if (status != FACET_OK)
        return status;
    job->work = work;
    job->work_owner = owner;
    job->done = done;
    job->done_owner = owner;
    return queue_job(job, error);
}

enum facet_status cpu_stream_await(struct cpu_stream *stream, struct cpu_stream *other, struct facet_error *error)
{
    struct cpu_job *job = NULL;
    enum facet_status status = cpu_job_new(stream, 0, &job, error);

    if (status != FACET_OK)
        return status;
    pthread_mutex_lock(&stream->tenant->executor->lock);
    job->only_waits = true;
    job->awaited = other != stream ? other : NULL;
    job->awaited_sequence = other->state.launched;
    pthread_mutex_unlock(&stream->tenant->executor->lock);
    return queue_job(job, error);
}

/* ---- polling ---- */

/*
 * Sleeping and waking takes tens of microseconds, as long as a short launch. So the thread polls for the end first, and
 * yields to every thread that wants its processor. But a woken unit may wait for another processor that is busy, and
 * the kernel moves it only to a processor that is idle: if a unit takes long to wake, this thread sleeps.
 */
static void poll_completion(struct cpu_stream *stream, uint64_t target, uint64_t deadline)
{
    struct cpu_executor *executor = stream->tenant->executor;
    uint64_t now = cpu_deadline_ns(0), until = cpu_deadline_ns(POLL_NS), waking_since = now;

    pthread_mutex_unlock(&executor->lock);
    for (until = until < deadline ? until : deadline; now < until && now - waking_since < WAKING_NS;
         now = cpu_deadline_ns(0)) {
        for (uint32_t i = 0; i < POLLS; i++)
            if (atomic_load_explicit(&stream->completed, memory_order_acquire) >= target)
                until = 0;
        if (until > 0)
            sched_yield();
        if (atomic_load_explicit(&executor->waking_units, memory_order_relaxed) == 0)
            waking_since = now;
    }
    pthread_mutex_lock(&executor->lock);
}

enum facet_status cpu_stream_wait(struct cpu_stream *stream, uint64_t timeout_ns)
{
    struct cpu_tenant *tenant = stream->tenant;
    uint64_t deadline = cpu_deadline_ns(timeout_ns), target;
    bool in_time = true;

    pthread_mutex_lock(&tenant->executor->lock);
    target = stream->state.launched;
    if (stream->state.completed < target)
        poll_completion(stream, target, deadline);
    while (stream->state.completed < target && in_time) {
        stream->wake_sequence = stream->wake_sequence < target ? stream->wake_sequence : target;
        in_time = cpu_condition_wait(tenant->executor, &tenant->changed, deadline) || stream->state.completed >= target;
    }
    pthread_mutex_unlock(&tenant->executor->lock);
    return in_time ? FACET_OK : FACET_TIMEOUT;
}

void cpu_stream_state(struct cpu_stream *stream, struct facet_stream_state *ret_state)
{
    pthread_mutex_lock(&stream->tenant->executor->lock);
    *ret_state = stream->state;
    pthread_mutex_unlock(&stream->tenant->executor->lock);
}
