/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: submitting, awaiting and cancelling tasks; the order of jobs that use the same buffers. Never: runs a job. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/sized.h"
#include "kernel/image.h"
#include "kernel/range.h"
#include "vgpu/balance/balancer.h"
#include "vgpu/driver.h"

#define ACCESS_BOTH (FACET_ARGUMENT_READS | FACET_ARGUMENT_WRITES)

/* ---- making a job ---- */

static enum facet_status refuse_argument(struct facet_error *error, const struct facet_host_kernel *kernel_info,
                                         uint32_t index, const char *expected)
{
    return facet_error_argument(
        error, FACET_INVALID_ARGUMENT, "arguments", "argument %" PRIu32 " (%.60s %.60s) of kernel '%.64s': expected %s",
        index, kernel_info->arguments[index].type, kernel_info->arguments[index].name, kernel_info->name, expected);
}

static enum facet_status check_argument(const struct facet_host_kernel *kernel_info, uint32_t index,
                                        const struct facet_balancer_argument *argument, struct facet_error *error)
{
    const struct facet_host_argument *declared = &kernel_info->arguments[index];

    switch (declared->kind) {
    case FACET_ARGUMENT_GLOBAL:
        return argument->value || argument->access > ACCESS_BOTH
                   ? refuse_argument(error, kernel_info, index,
                                     "a buffer or 0, no value, and an access of at most READS and WRITES")
                   : FACET_OK;
    case FACET_ARGUMENT_LOCAL:
        return argument->buffer || argument->value || argument->bytes == 0 || argument->bytes > INT32_MAX
                   ? refuse_argument(error, kernel_info, index, "1 to 2147483647 bytes of local memory")
                   : FACET_OK;
    case FACET_ARGUMENT_VALUE:
    case FACET_ARGUMENT_SAMPLER:
        return argument->buffer || !argument->value || argument->bytes != declared->bytes
                   ? refuse_argument(error, kernel_info, index, "a value of its declared size, and no buffer")
                   : FACET_OK;
    default:
        return refuse_argument(error, kernel_info, index, "no image argument: a balancer cannot pass images");
    }
}

static enum facet_status check_work(const struct facet_balancer_work *work,
                                    const struct facet_host_kernel **ret_kernel_info, uint64_t *ret_groups,
                                    struct facet_error *error)
{
    struct facet_grid grid;

    if (!work || work->size < sizeof *work || !work->image || !work->kernel || !work->range ||
        (work->count > 0 && !work->arguments) || work->priority > FACET_VGPU_PRIORITY(FACET_PRIORITY_HIGH))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "work",
                                    "work: expected its size, an image, a kernel's name, a range, arguments, and a "
                                    "priority of at most high");
    FACET_NEED_KNOWN("work", work, error);
    FACET_NEED_RESERVED("work", work, error);
    const struct facet_host_kernel *kernel_info = facet_image_find(work->image, work->kernel);
    if (!kernel_info)
        return facet_error_argument(error, FACET_NOT_FOUND, "kernel", "kernel '%.64s' is not in the image",
                                    work->kernel);
    if (work->range->size < sizeof *work->range)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "range", "range of size %" PRIu32 ": expected %zu",
                                    work->range->size, sizeof *work->range);
    FACET_NEED_KNOWN("range", work->range, error);
    enum facet_status status = facet_range_resolve(work->range, kernel_info, &grid, error);
    if (status == FACET_OK && work->count != kernel_info->argument_count)
        status = facet_error_argument(error, FACET_INVALID_ARGUMENT, "count",
                                      "count %" PRIu32 ": kernel '%.64s' has %" PRIu32 " arguments", work->count,
                                      kernel_info->name, kernel_info->argument_count);
    for (uint32_t i = 0; i < work->count && status == FACET_OK; i++)
        status = check_argument(kernel_info, i, &work->arguments[i], error);
    *ret_kernel_info = kernel_info;
    if (status == FACET_OK)
        *ret_groups = (uint64_t)grid.grid[0] * grid.grid[1] * grid.grid[2];
    return status;
}

static size_t value_bytes(const struct facet_balancer_argument *argument)
{
    return argument->value ? (size_t)(argument->bytes + 15) / 16 * 16 : 0;
}

/* Allocates one block for the job, its uses, its arguments, their values, and their kinds. */
static struct facet_job *new_job(const struct facet_balancer_work *work, const struct facet_host_kernel *kernel_info,
                                 uint64_t groups)
{
    size_t values = 0;

    for (uint32_t i = 0; i < work->count; i++)
        values += value_bytes(&work->arguments[i]);
    size_t head = (sizeof(struct facet_job) + 15) / 16 * 16;
    size_t uses = (sizeof(struct facet_job_use) * work->count + 15) / 16 * 16;
    size_t arguments = (sizeof(struct facet_balancer_argument) * work->count + 15) / 16 * 16;
    char *block = calloc(1, head + uses + arguments + values + sizeof(uint32_t) * work->count);
    struct facet_job *job = (struct facet_job *)(void *)block;

    if (!job)
        return NULL;
    char *value = block + head + uses + arguments;

    job->uses = (struct facet_job_use *)(void *)(block + head);
    job->arguments = (struct facet_balancer_argument *)(void *)(block + head + uses);
    job->kinds = (uint32_t *)(void *)(value + values);
    for (uint32_t i = 0; i < work->count; i++) {
        job->kinds[i] = kernel_info->arguments[i].kind;
        job->arguments[i] = work->arguments[i];
        if (!work->arguments[i].value)
            continue;
        job->arguments[i].value = memcpy(value, work->arguments[i].value, (size_t)work->arguments[i].bytes);
        value += value_bytes(&work->arguments[i]);
    }
    job->argument_count = work->count;
    job->image = facet_image_hold(work->image);
    job->kernel = kernel_info->name;
    FACET_SIZED_TAKE(&job->range, work->range);
    job->groups = groups;
    job->previous_member = FACET_BALANCE_NONE;
    return job;
}

static void fill_record(struct facet_job *job, const struct facet_balancer_work *work)
{
    job->record = (struct facet_balancer_task){
        .size = sizeof job->record,
        .status = FACET_EXECUTION_QUEUED,
        .priority = work->priority ? work->priority - 1 : FACET_PRIORITY_NORMAL,
        .member = FACET_BALANCER_NOWHERE,
        .queued_ns = facet_clock_now_ns(),
    };
    for (size_t i = 0; i + 1 < sizeof job->record.kernel && job->kernel[i]; i++)
        job->record.kernel[i] = job->kernel[i];
}

void facet_job_free(struct facet_job *job)
{
    if (!job)
        return;
    facet_image_destroy(job->image);
    free(job->edges);
    free(job->failure);
    free(job);
}

/* ---- the order of jobs that share buffers ---- */

/* A buffer that two arguments name is one use, with the access of both. */
static void add_use(struct facet_job *job, struct facet_buffer *buffer, uint32_t access)
{
    uint32_t at = 0;

    while (at < job->uses_count && job->uses[at].buffer != buffer)
        at++;
    if (at == job->uses_count) {
        job->uses[at] = (struct facet_job_use){.job = job, .buffer = buffer, .access = access};
        job->uses_count++;
    } else {
        job->uses[at].access |= access;
    }
}

/* With the lock held. */
static enum facet_status find_uses(struct facet_balancer *balancer, struct facet_job *job,
                                   const struct facet_host_kernel *kernel_info, struct facet_error *error)
{
    for (uint32_t i = 0; i < job->argument_count; i++) {
        const struct facet_balancer_argument *argument = &job->arguments[i];
        bool reads_only = kernel_info->arguments[i].access == FACET_ARGUMENT_READS;

        if (job->kinds[i] != FACET_ARGUMENT_GLOBAL || argument->buffer == 0)
            continue;
        struct facet_buffer *buffer = facet_buffer_find(balancer, argument->buffer, error);
        if (!buffer)
            return FACET_NOT_FOUND;
        if (argument->offset >= buffer->bytes)
            return facet_error_argument(error, FACET_OUT_OF_RANGE, "offset",
                                        "offset %" PRIu64 ": expected less than the buffer's %" PRIu64 " bytes",
                                        argument->offset, buffer->bytes);
        add_use(job, buffer, argument->access ? argument->access : reads_only ? FACET_ARGUMENT_READS : ACCESS_BOTH);
    }
    return FACET_OK;
}

static uint32_t count_edges(const struct facet_job *job)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < job->uses_count; i++) {
        count += job->uses[i].buffer->writer != NULL;
        if (job->uses[i].access & FACET_ARGUMENT_WRITES)
            for (const struct facet_job_use *reader = job->uses[i].buffer->readers; reader; reader = reader->next)
                count++;
    }
    return count;
}

static void add_dependency(struct facet_job *job, struct facet_job *earlier_job, struct facet_job_edge *edge)
{
    edge->dependent = job;
    edge->next = earlier_job->dependents;
    earlier_job->dependents = edge;
    job->unreleased++;
}

static void unlist_use(struct facet_job_use *use)
{
    if (!use->listed)
        return;
    if (use->prev)
        use->prev->next = use->next;
    else
        use->buffer->readers = use->next;
    if (use->next)
        use->next->prev = use->prev;
    use->listed = false;
}

static void list_reader(struct facet_job_use *use)
{
    use->prev = NULL;
    use->next = use->buffer->readers;
    if (use->next)
        use->next->prev = use;
    use->buffer->readers = use;
    use->listed = true;
}

/* Makes the job wait for the buffer's last writer and, if it writes, for the readers since. Later jobs wait for it. */
static struct facet_job_edge *follow_buffer(struct facet_job *job, struct facet_job_use *use,
                                            struct facet_job_edge *edge)
{
    struct facet_buffer *buffer = use->buffer;

    buffer->jobs++;
    if (buffer->writer)
        add_dependency(job, buffer->writer, edge++);
    if (!(use->access & FACET_ARGUMENT_WRITES)) {
        list_reader(use);
        return edge;
    }
    while (buffer->readers) {
        add_dependency(job, buffer->readers->job, edge++);
        unlist_use(buffer->readers);
    }
    buffer->writer = job;
    return edge;
}

enum facet_status facet_job_enter(struct facet_balancer *balancer, struct facet_job *job, struct facet_error *error)
{
    uint32_t count = count_edges(job);
    struct facet_job_edge *edge = count > 0 ? calloc(count, sizeof *edge) : NULL;

    if (count > 0 && !edge)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a task that waits for %" PRIu32 " others", count);
    job->edges = edge;
    for (uint32_t i = 0; i < job->uses_count; i++)
        edge = follow_buffer(job, &job->uses[i], edge);
    if (job->unreleased == 0) {
        job->place = FACET_JOB_READY;
        facet_job_list_append(&balancer->ready, job);
    }
    facet_balancer_place_ready(balancer);
    return FACET_OK;
}

/* ---- submitting ---- */

struct facet_job *facet_job_find(struct facet_balancer *balancer, uint64_t number)
{
    if (number < balancer->first_job || number >= balancer->next_job)
        return NULL;
    return balancer->jobs[number & (balancer->jobs_capacity - 1)];
}

static enum facet_status make_room_for_job(struct facet_balancer *balancer, struct facet_error *error)
{
    if (balancer->unfinished >= balancer->config.tasks)
        return facet_error_argument(error, FACET_QUOTA, "tasks",
                                    "%" PRIu32 " tasks are not over: expected less than the balancer's limit, %" PRIu32,
                                    balancer->unfinished, balancer->config.tasks);
    if (balancer->next_job - balancer->first_job < balancer->jobs_capacity)
        return FACET_OK;
    uint64_t room = balancer->jobs_capacity * 2;
    struct facet_job **jobs = calloc(room, sizeof *jobs);
    if (!jobs)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for %" PRIu64 " tasks", room);
    for (uint64_t number = balancer->first_job; number < balancer->next_job; number++)
        jobs[number & (room - 1)] = balancer->jobs[number & (balancer->jobs_capacity - 1)];
    free(balancer->jobs);
    balancer->jobs = jobs;
    balancer->jobs_capacity = room;
    return FACET_OK;
}

/* With the lock held. */
static enum facet_status enter_task(struct facet_balancer *balancer, struct facet_job *job,
                                    const struct facet_host_kernel *kernel_info, struct facet_error *error)
{
    enum facet_status status = find_uses(balancer, job, kernel_info, error);

    if (status == FACET_OK)
        status = make_room_for_job(balancer, error);
    if (status != FACET_OK)
        return status;
    job->record.task = balancer->next_job++; /* set before the job can end */
    balancer->jobs[job->record.task & (balancer->jobs_capacity - 1)] = job;
    balancer->unfinished++;
    status = facet_job_enter(balancer, job, error);
    if (status == FACET_OK)
        return FACET_OK;
    balancer->next_job--;
    balancer->unfinished--;
    return status;
}

enum facet_status facet_balancer_submit(struct facet_balancer *balancer, const struct facet_balancer_work *work,
                                        uint64_t *ret_task, struct facet_error *error)
{
    const struct facet_host_kernel *kernel_info = NULL;
    uint64_t groups = 0;

    FACET_NEED(balancer, error);
    enum facet_status status = check_work(work, &kernel_info, &groups, error);

    if (status != FACET_OK)
        return status;
    struct facet_job *job = new_job(work, kernel_info, groups);
    if (!job)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a task of kernel '%.64s'", work->kernel);
    fill_record(job, work);
    pthread_mutex_lock(&balancer->lock);
    status = enter_task(balancer, job, kernel_info, error);
    uint64_t task = job->record.task; /* once the lock is released, the job may be freed */
    pthread_mutex_unlock(&balancer->lock);
    if (status != FACET_OK)
        facet_job_free(job);
    else if (ret_task)
        *ret_task = task;
    return status;
}

/* ---- ending ---- */

static uint32_t execution_status(enum facet_status status)
{
    if (status == FACET_OK)
        return FACET_EXECUTION_COMPLETED;
    return status == FACET_BAD_STATE ? FACET_EXECUTION_CANCELLED : FACET_EXECUTION_FAILED;
}

static void unlist_job(struct facet_balancer *balancer, struct facet_job *job)
{
    if (job->place == FACET_JOB_QUEUED)
        facet_member_dequeue(balancer, job);
    else if (job->place == FACET_JOB_UNPLACED)
        facet_job_list_remove(&balancer->unplaced, job);
    else if (job->place == FACET_JOB_READY)
        facet_job_list_remove(&balancer->ready, job);
    job->place = FACET_JOB_HELD;
}

void facet_job_end(struct facet_balancer *balancer, struct facet_job *job, enum facet_status status,
                   const struct facet_error *failure)
{
    unlist_job(balancer, job);
    facet_job_leave_buffers(balancer, job, status);
    job->is_over = true;
    job->end_status = status;
    job->record.status = execution_status(status);
    job->record.failure = job->record.status == FACET_EXECUTION_FAILED ? status : FACET_OK;
    if (!job->record.end_ns)
        job->record.end_ns = facet_clock_now_ns();
    if (job->record.failure && failure && !job->of_host) {
        job->failure = malloc(sizeof *job->failure);
        if (job->failure)
            *job->failure = *failure;
    }
    if (job->unreleased == 0) {
        job->place = FACET_JOB_READY;
        facet_job_list_append(&balancer->ready, job);
    }
    pthread_cond_broadcast(&balancer->job_over);
}

static void forget_oldest(struct facet_balancer *balancer)
{
    while (balancer->next_job - balancer->first_job > (uint64_t)balancer->config.records + balancer->unfinished) {
        struct facet_job *job = facet_job_find(balancer, balancer->first_job);

        if (job->place != FACET_JOB_RELEASED || job->waiters > 0)
            return;
        balancer->first_job++;
        facet_job_free(job);
    }
}

/* With the lock held. May free the job. */
void facet_job_release(struct facet_balancer *balancer, struct facet_job *job)
{
    for (uint32_t i = 0; i < job->uses_count; i++) {
        struct facet_buffer *buffer = job->uses[i].buffer;

        unlist_use(&job->uses[i]);
        buffer->jobs--;
        if (buffer->writer == job)
            buffer->writer = NULL;
    }
    for (struct facet_job_edge *edge = job->dependents; edge; edge = edge->next) {
        if (--edge->dependent->unreleased > 0)
            continue;
        edge->dependent->place = FACET_JOB_READY;
        facet_job_list_append(&balancer->ready, edge->dependent);
    }
    job->dependents = NULL;
    job->place = FACET_JOB_RELEASED;
    facet_image_destroy(job->image);
    job->image = NULL;
    free(job->edges);
    job->edges = NULL;
    pthread_cond_broadcast(&balancer->job_over);
    if (job->of_host)
        return;
    balancer->unfinished--;
    forget_oldest(balancer);
}

/* ---- waiting and asking ---- */

static enum facet_status refuse_unknown_task(const struct facet_balancer *balancer, uint64_t task,
                                             struct facet_error *error)
{
    return facet_error_argument(error, FACET_NOT_FOUND, "task",
                                "task %" PRIu64 ": expected a task from %" PRIu64 " to %" PRIu64, task,
                                balancer->first_job, balancer->next_job - 1);
}

static enum facet_status report_result(const struct facet_job *job, struct facet_error *error)
{
    if (job->end_status == FACET_OK)
        return FACET_OK;
    if (job->end_status == FACET_BAD_STATE)
        return facet_error_set(error, FACET_BAD_STATE, "task %" PRIu64 " was cancelled", job->record.task);
    if (job->failure && error)
        *error = *job->failure;
    else
        facet_error_set(error, job->end_status, "%s", facet_status_text(job->end_status));
    facet_error_prefix(error, "task %" PRIu64, job->record.task);
    return job->end_status;
}

static enum facet_status refuse_unfinished(uint64_t task, struct facet_error *error)
{
    return facet_error_set(error, FACET_TIMEOUT, "task %" PRIu64 " is not over", task);
}

static uint64_t deadline_after(uint64_t timeout_ns)
{
    uint64_t now = facet_clock_now_ns();

    return timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX;
}

/* With the lock held. */
static enum facet_status wait_for_all(struct facet_balancer *balancer, uint64_t until_ns, struct facet_error *error)
{
    uint64_t last = balancer->next_job - 1;

    for (uint64_t number = balancer->first_job; number <= last;) {
        const struct facet_job *job = facet_job_find(balancer, number);

        if (!job || job->is_over)
            number++;
        else if (!facet_balancer_wait_until(balancer, &balancer->job_over, until_ns) &&
                 facet_clock_now_ns() >= until_ns)
            return refuse_unfinished(number, error);
    }
    return FACET_OK;
}

static enum facet_status wait_for_task(struct facet_balancer *balancer, uint64_t task, uint64_t until_ns,
                                       struct facet_error *error)
{
    struct facet_job *job = facet_job_find(balancer, task);

    if (!job)
        return refuse_unknown_task(balancer, task, error);
    job->waiters++;
    while (!job->is_over && facet_clock_now_ns() < until_ns)
        facet_balancer_wait_until(balancer, &balancer->job_over, until_ns);
    job->waiters--;
    enum facet_status status = job->is_over ? report_result(job, error) : refuse_unfinished(task, error);
    forget_oldest(balancer);
    return status;
}

enum facet_status facet_balancer_wait(struct facet_balancer *balancer, uint64_t task, uint64_t timeout_ns,
                                      struct facet_error *error)
{
    uint64_t until = deadline_after(timeout_ns);

    FACET_NEED(balancer, error);
    pthread_mutex_lock(&balancer->lock);
    enum facet_status status =
        task == FACET_BALANCER_ALL ? wait_for_all(balancer, until, error) : wait_for_task(balancer, task, until, error);
    pthread_mutex_unlock(&balancer->lock);
    return status;
}

enum facet_status facet_balancer_get_task(struct facet_balancer *balancer, uint64_t task,
                                          struct facet_balancer_task *ret_task, struct facet_error *error)
{
    FACET_NEED(balancer, error);
    FACET_VGPU_NEED_STRUCT(ret_task, error);
    uint32_t size = ret_task->size;

    pthread_mutex_lock(&balancer->lock);
    const struct facet_job *job = facet_job_find(balancer, task);
    enum facet_status status = job ? FACET_OK : refuse_unknown_task(balancer, task, error);
    if (job) {
        size = size < sizeof *ret_task ? size : sizeof *ret_task;
        memcpy(ret_task, &job->record, size);
        ret_task->size = size;
    }
    pthread_mutex_unlock(&balancer->lock);
    return status;
}

enum facet_status facet_balancer_cancel(struct facet_balancer *balancer, uint64_t task, struct facet_error *error)
{
    uint64_t execution = 0;
    uint32_t id = 0;

    FACET_NEED(balancer, error);
    pthread_mutex_lock(&balancer->lock);
    struct facet_job *job = facet_job_find(balancer, task);
    if (!job || job->is_over) {
        enum facet_status status =
            job ? facet_error_argument(error, FACET_NOT_FOUND, "task", "task %" PRIu64 " is over", task)
                : refuse_unknown_task(balancer, task, error);
        pthread_mutex_unlock(&balancer->lock);
        return status;
    }
    job->cancelled = true;
    if (job->place == FACET_JOB_TAKEN) {
        execution = job->record.execution;
        id = job->record.id;
        pthread_cond_broadcast(&balancer->buffer_moved);
    } else {
        facet_job_end(balancer, job, FACET_BAD_STATE, NULL);
        facet_balancer_place_ready(balancer);
    }
    pthread_mutex_unlock(&balancer->lock);
    if (execution) /* a failure is ignored: the launch may be over by now */
        (void)facet_vgpu_cancel(balancer->driver, id, execution, NULL);
    return FACET_OK;
}
