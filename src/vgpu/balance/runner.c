/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: running a task: a runner takes it, launches it on its stream, waits, and reports the result. Never: chooses a
 * member.
 */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "vgpu/balance/balancer.h"

/* ---- loaded kernels ---- */

void facet_runner_free_kernels(struct facet_runner *runner)
{
    for (uint32_t i = 0; i < FACET_RUNNER_KERNELS; i++)
        facet_kernel_destroy(runner->kernels[i].kernel);
}

/* The least recently used kernel makes room; its launches are over, because a runner waits for each. */
static enum facet_status find_kernel(struct facet_runner *runner, const struct facet_job *job,
                                     struct facet_kernel **ret_kernel, struct facet_error *error)
{
    uint32_t at = 0, oldest = 0;

    for (; at < FACET_RUNNER_KERNELS; at++) {
        if (runner->kernels[at].image == job->image && strcmp(runner->kernels[at].name, job->kernel) == 0)
            break;
        if (runner->kernels[at].last_use < runner->kernels[oldest].last_use)
            oldest = at;
    }
    if (at == FACET_RUNNER_KERNELS) {
        struct facet_kernel *kernel = NULL;
        struct facet_balancer *balancer = runner->balancer;
        enum facet_status status = facet_vgpu_load_kernel(balancer->driver, balancer->member[runner->member].id,
                                                          job->image, job->kernel, &kernel, error);

        if (status != FACET_OK)
            return status;
        at = oldest;
        facet_kernel_destroy(runner->kernels[at].kernel);
        runner->kernels[at].kernel = kernel;
        runner->kernels[at].image = job->image;
        runner->kernels[at].name = job->kernel;
    }
    runner->kernels[at].last_use = ++runner->kernel_uses;
    *ret_kernel = runner->kernels[at].kernel;
    return FACET_OK;
}

/* ---- launching ---- */

/* 0 for a null pointer, and for a buffer that was lost meanwhile: begin_launch() then refuses the lost member. */
static uint64_t address_of(struct facet_runner *runner, const struct facet_balancer_argument *argument)
{
    struct facet_balancer *balancer = runner->balancer;
    uint64_t address = 0;

    if (!argument->buffer)
        return 0;
    pthread_mutex_lock(&balancer->lock);
    const struct facet_buffer *buffer = facet_buffer_find(balancer, argument->buffer, NULL);
    if (buffer)
        address = buffer->copy[runner->member].address + argument->offset;
    pthread_mutex_unlock(&balancer->lock);
    return address;
}

static enum facet_status set_arguments(struct facet_runner *runner, const struct facet_job *job,
                                       struct facet_kernel *kernel, struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    for (uint32_t i = 0; i < job->argument_count && status == FACET_OK; i++) {
        const struct facet_balancer_argument *argument = &job->arguments[i];

        if (job->kinds[i] == FACET_ARGUMENT_GLOBAL)
            status = facet_kernel_set_memory(kernel, i, address_of(runner, argument), error);
        else if (job->kinds[i] == FACET_ARGUMENT_LOCAL)
            status = facet_kernel_set_local(kernel, i, (uint32_t)argument->bytes, error);
        else
            status = facet_kernel_set_value(kernel, i, argument->value, (size_t)argument->bytes, error);
    }
    return status;
}

/* Gives the stream the job's priority, so that the device prefers it among the jobs that the member runs at once. */
static enum facet_status set_priority(struct facet_runner *runner, const struct facet_job *job,
                                      struct facet_error *error)
{
    struct facet_balancer *balancer = runner->balancer;

    if (!(balancer->config.actions & FACET_BALANCER_PREEMPT) || runner->priority == job->record.priority)
        return FACET_OK;
    enum facet_status status = facet_vgpu_set_stream_priority(balancer->driver, balancer->member[runner->member].id,
                                                              runner->stream, job->record.priority, error);
    if (status == FACET_OK)
        runner->priority = job->record.priority;
    return status;
}

/* Sets `launched` before the launch: a failure that may come from the running job must not make it run twice. */
static enum facet_status begin_launch(struct facet_runner *runner, struct facet_job *job)
{
    struct facet_balancer *balancer = runner->balancer;

    pthread_mutex_lock(&balancer->lock);
    bool given_up = job->cancelled || balancer->closing, lost = balancer->member[runner->member].lost;
    job->launched = !given_up && !lost;
    pthread_mutex_unlock(&balancer->lock);
    if (lost)
        return FACET_DEVICE_LOST;
    return given_up ? FACET_BAD_STATE : FACET_OK;
}

static void end_launch(struct facet_runner *runner, struct facet_job *job, enum facet_status status, uint64_t execution)
{
    struct facet_balancer *balancer = runner->balancer;

    pthread_mutex_lock(&balancer->lock);
    bool given_up = job->cancelled || balancer->closing;
    if (status == FACET_OK) {
        job->record.execution = execution;
        job->record.status = FACET_EXECUTION_RUNNING;
    } else if (status != FACET_DEVICE_LOST) {
        job->launched = false; /* the launch was refused */
    }
    pthread_mutex_unlock(&balancer->lock);
    if (status == FACET_OK && given_up)
        (void)facet_vgpu_cancel(balancer->driver, balancer->member[runner->member].id, execution, NULL);
}

static enum facet_status launch_job(struct facet_runner *runner, struct facet_job *job, struct facet_error *error)
{
    struct facet_balancer *balancer = runner->balancer;
    struct facet_kernel *kernel = NULL;
    uint64_t execution = 0;
    enum facet_status status = find_kernel(runner, job, &kernel, error);

    if (status == FACET_OK)
        status = set_arguments(runner, job, kernel, error);
    if (status == FACET_OK)
        status = set_priority(runner, job, error);
    if (status == FACET_OK)
        status = begin_launch(runner, job);
    if (status != FACET_OK)
        return status;
    status = facet_vgpu_execute(balancer->driver, balancer->member[runner->member].id, runner->stream, kernel,
                                &job->range, &execution, error);
    end_launch(runner, job, status, execution);
    return status;
}

/* ---- waiting for a launch ---- */

static void sleep_for_interval(struct facet_balancer *balancer)
{
    pthread_mutex_lock(&balancer->lock);
    if (!balancer->closing)
        facet_balancer_wait_until(balancer, &balancer->buffer_moved,
                                  facet_clock_now_ns() + balancer->config.interval_ns);
    pthread_mutex_unlock(&balancer->lock);
}

static bool is_closing(struct facet_balancer *balancer)
{
    pthread_mutex_lock(&balancer->lock);
    bool closing = balancer->closing;
    pthread_mutex_unlock(&balancer->lock);
    return closing;
}

/* No job of a paused vGPU ends, so this retries until the vGPU is resumed, or until the balancer closes. */
static enum facet_status wait_for_stream(struct facet_runner *runner, struct facet_error *error)
{
    struct facet_balancer *balancer = runner->balancer;

    for (;;) {
        enum facet_status status = facet_vgpu_synchronize(balancer->driver, balancer->member[runner->member].id,
                                                          runner->stream, FACET_NS_PER_S, error);

        if (status != FACET_FROZEN && status != FACET_TIMEOUT)
            return status;
        if (status == FACET_FROZEN && is_closing(balancer))
            return FACET_BAD_STATE;
        if (status == FACET_FROZEN)
            sleep_for_interval(balancer);
    }
}

static void note_execution(struct facet_balancer *balancer, struct facet_job *job,
                           const struct facet_execution *execution_info)
{
    pthread_mutex_lock(&balancer->lock);
    job->record.start_ns = execution_info->start_ns;
    job->record.end_ns = execution_info->end_ns;
    job->record.busy_ns = execution_info->busy_ns;
    job->record.groups = execution_info->groups;
    job->record.preemptions = execution_info->preemptions;
    pthread_mutex_unlock(&balancer->lock);
}

static enum facet_status end_status(const struct facet_execution *execution_info, struct facet_error *error)
{
    if (execution_info->status == FACET_EXECUTION_CANCELLED)
        return FACET_BAD_STATE;
    if (execution_info->status != FACET_EXECUTION_FAILED)
        return FACET_OK;
    return facet_error_set(error, (enum facet_status)execution_info->failure, "kernel '%s' failed on the device: %s",
                           execution_info->kernel, facet_status_text((enum facet_status)execution_info->failure));
}

static bool vgpu_exists(struct facet_balancer *balancer, uint32_t id)
{
    uint32_t status = FACET_VGPU_DESTROYED;

    (void)facet_vgpu_get_status(balancer->driver, id, &status, NULL);
    return status != FACET_VGPU_DESTROYED;
}

static enum facet_status follow_job(struct facet_runner *runner, struct facet_job *job, struct facet_error *error)
{
    struct facet_balancer *balancer = runner->balancer;
    struct facet_execution execution_info = {.size = sizeof execution_info};
    enum facet_status found = wait_for_stream(runner, error);

    if (found == FACET_DEVICE_LOST || found == FACET_NOT_FOUND || found == FACET_BAD_STATE)
        return found;
    struct facet_error *reason = found == FACET_OK ? error : NULL;
    enum facet_status status = facet_vgpu_get_execution(balancer->driver, balancer->member[runner->member].id,
                                                        job->record.execution, &execution_info, reason);
    if (status == FACET_OK) {
        note_execution(balancer, job, &execution_info);
        status = end_status(&execution_info, reason);
    } else if (status == FACET_NOT_FOUND && vgpu_exists(balancer, balancer->member[runner->member].id)) {
        status = FACET_OK; /* the job is over; only the record of its times is gone */
    }
    return found == FACET_OK ? status : found;
}

/* ---- a runner ---- */

/* Takes the first job of the queue; an express runner takes the first express job. With the lock held. */
static struct facet_job *take_job(struct facet_runner *runner)
{
    struct facet_balancer *balancer = runner->balancer;
    struct facet_member *member = &balancer->member[runner->member];
    struct facet_job *job = member->queue.first;

    if (member->lost || member->paused)
        return NULL;
    while (job && runner->express && !job->express)
        job = job->next;
    if (!job)
        return NULL;
    facet_member_dequeue(balancer, job);
    job->place = FACET_JOB_TAKEN;
    runner->job = job;
    runner->taken_ns = facet_clock_now_ns();
    return job;
}

/* Returns the job to placement, which may choose another member. */
static void return_to_placement(struct facet_balancer *balancer, struct facet_job *job)
{
    facet_job_leave_buffers(balancer, job, FACET_BAD_STATE);
    job->express = false;
    job->record.migrations++;
    job->place = FACET_JOB_READY;
    facet_job_list_append(&balancer->ready, job);
}

/* With the lock held. */
static void finish_job(struct facet_runner *runner, struct facet_job *job, enum facet_status status, bool buffer_lost,
                       struct facet_error *error)
{
    struct facet_balancer *balancer = runner->balancer;
    struct facet_member *member = &balancer->member[runner->member];

    runner->job = NULL;
    balancer->release_count++;
    job->pinned = false;
    pthread_cond_broadcast(&balancer->buffer_moved);
    if (status == FACET_DEVICE_LOST && !buffer_lost)
        facet_member_lose(balancer, runner->member);
    if (status == FACET_DEVICE_LOST && !buffer_lost && !job->launched && !job->cancelled && !balancer->closing) {
        return_to_placement(balancer, job);
        return;
    }
    if (job->cancelled && !job->launched)
        status = FACET_BAD_STATE;
    member->over_total++;
    member->busy_ns += job->record.busy_ns;
    if (status == FACET_OK)
        facet_job_update_estimate(balancer, job);
    facet_job_end(balancer, job, status, error);
}

static void run_job(struct facet_runner *runner, struct facet_job *job)
{
    struct facet_error error = {0};
    bool buffer_lost = false;
    enum facet_status status = facet_job_bring_buffers(runner, job, &buffer_lost, &error);

    if (status == FACET_OK)
        status = launch_job(runner, job, &error);
    if (status == FACET_OK)
        status = follow_job(runner, job, &error);
    if (status == FACET_NOT_FOUND && !buffer_lost) /* the vGPU was destroyed */
        status = FACET_DEVICE_LOST;
    pthread_mutex_lock(&runner->balancer->lock);
    finish_job(runner, job, status, buffer_lost, &error);
    facet_balancer_place_ready(runner->balancer);
    pthread_mutex_unlock(&runner->balancer->lock);
}

void *facet_runner_main(void *argument)
{
    struct facet_runner *runner = argument;
    struct facet_balancer *balancer = runner->balancer;

    pthread_mutex_lock(&balancer->lock);
    while (!balancer->closing) {
        struct facet_job *job = take_job(runner);

        if (!job) {
            pthread_cond_wait(&balancer->member[runner->member].work, &balancer->lock);
            continue;
        }
        pthread_mutex_unlock(&balancer->lock);
        run_job(runner, job);
        pthread_mutex_lock(&balancer->lock);
    }
    pthread_mutex_unlock(&balancer->lock);
    return NULL;
}
