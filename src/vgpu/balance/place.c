/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the load of members, the expected duration of jobs, and the queues. Never: calls a device,
 * because the balancer's lock is held. */
#include <string.h>

#include "base/clock.h"
#include "vgpu/balance/balancer.h"

#define GUESS_NS (FACET_NS_PER_MS) /* the expected time of a task before any was measured */

/* ---- how long jobs take ---- */

static struct facet_rate *find_rate(struct facet_balancer *balancer, const struct facet_job *job)
{
    for (uint32_t i = 0; i < FACET_BALANCER_RATES; i++)
        if (balancer->rates[i].image == job->image && strcmp(balancer->rates[i].kernel, job->record.kernel) == 0)
            return &balancer->rates[i];
    return NULL;
}

uint64_t facet_job_expected_ns(struct facet_balancer *balancer, const struct facet_job *job)
{
    const struct facet_rate *rate = find_rate(balancer, job);
    uint64_t each = balancer->mean_ns ? balancer->mean_ns : GUESS_NS;

    if (!rate || rate->group_ns == 0)
        return each;
    return job->groups < FACET_BALANCE_NEVER / 2 / rate->group_ns ? job->groups * rate->group_ns
                                                                  : FACET_BALANCE_NEVER / 2;
}

/* A new value counts an eighth, so that one delayed task changes the mean little. */
static uint64_t update_mean(uint64_t mean, uint64_t value)
{
    return mean ? mean - mean / 8 + value / 8 : value;
}

void facet_job_update_estimate(struct facet_balancer *balancer, const struct facet_job *job)
{
    struct facet_rate *rate = find_rate(balancer, job);

    if (job->record.groups == 0 || job->record.busy_ns == 0)
        return;
    for (uint32_t i = 0; !rate && i < FACET_BALANCER_RATES; i++)
        if (!balancer->rates[i].image)
            rate = &balancer->rates[i];
    for (uint32_t i = 0; !rate && i < FACET_BALANCER_RATES; i++)
        if (balancer->rates[i].last_use + FACET_BALANCER_RATES <= balancer->rate_uses + 1)
            rate = &balancer->rates[i];
    balancer->mean_ns = update_mean(balancer->mean_ns, job->record.busy_ns);
    if (!rate)
        return;
    if (rate->image != job->image || strcmp(rate->kernel, job->record.kernel) != 0) {
        *rate = (struct facet_rate){.image = job->image};
        memcpy(rate->kernel, job->record.kernel, sizeof rate->kernel);
    }
    rate->last_use = ++balancer->rate_uses;
    rate->group_ns = update_mean(rate->group_ns, job->record.busy_ns / job->record.groups);
}

/* A job that has taken longer than expected, or has no estimate, is expected to take as long again. */
uint64_t facet_job_left_ns(const struct facet_job *job, uint64_t taken_ns, uint64_t now_ns, uint32_t units)
{
    uint64_t busy_units = job->groups < units ? job->groups : units;
    uint64_t elapsed = now_ns > taken_ns ? (now_ns - taken_ns) * (busy_units ? busy_units : 1) : 0;

    return job->expected_ns > elapsed ? job->expected_ns - elapsed : elapsed;
}

/* ---- load ---- */

/* A buffer's bytes are divided among the members that have a valid copy. */
void facet_job_count_bytes(const struct facet_balancer *balancer, const struct facet_job *job, uint64_t *ret_bytes)
{
    memset(ret_bytes, 0, balancer->count * sizeof *ret_bytes);
    for (uint32_t i = 0; i < job->uses_count; i++) {
        const struct facet_buffer *buffer = job->uses[i].buffer;
        uint32_t copies = 0;

        for (uint32_t at = 0; at < balancer->count; at++)
            copies += buffer->copy[at].valid;
        for (uint32_t at = 0; at < balancer->count && job->uses[i].access & FACET_ARGUMENT_READS; at++)
            if (buffer->copy[at].valid)
                ret_bytes[at] += buffer->bytes / copies;
    }
}

static void describe_member(struct facet_balancer *balancer, struct facet_member *member, uint64_t now_ns,
                            struct facet_balance_member *ret)
{
    uint32_t running = 0;
    bool full = member->runner_count > 0;

    ret->queued_ns = member->waiting_ns;
    for (uint32_t i = 0; i < member->runner_count; i++) {
        const struct facet_runner *runner = &member->runners[i];

        if (!runner->job) {
            full = full && runner->express;
            continue;
        }
        running++;
        ret->queued_ns += facet_job_left_ns(runner->job, runner->taken_ns, now_ns, member->units_now);
    }
    ret->queue_length = member->queue.length + running;
    ret->active_kernels = running + member->others_active;
    if (full && ret->active_kernels < member->units_now) /* no runner is free, so none of its units is available */
        ret->active_kernels = member->units_now;
    if (ret->queue_length + member->others_active > 0)
        member->idle_since_ns = 0;
    else if (!member->idle_since_ns)
        member->idle_since_ns = now_ns;
    ret->idle_ns = member->idle_since_ns ? now_ns - member->idle_since_ns : 0;
    ret->device = member->device;
    ret->paused = member->paused;
    ret->lost = member->lost;
    ret->utilization_milli = member->utilization_milli;
    ret->memory_milli = member->memory_milli;
    ret->weight = member->weight;
    ret->units = member->units_now;
    ret->units_least = member->units_least;
    ret->units_most = member->units;
    ret->share_milli = member->share_now_milli;
    ret->request_milli = member->share_milli;
    ret->limit_milli = member->limit_milli;
    (void)balancer;
}

void facet_balancer_describe(struct facet_balancer *balancer, struct facet_balance_member *ret_members)
{
    uint64_t now = facet_clock_now_ns();

    for (uint32_t i = 0; i < balancer->count; i++)
        describe_member(balancer, &balancer->member[i], now, &ret_members[i]);
}

/* ---- queues ---- */

static bool is_before(const struct facet_job *left, const struct facet_job *right)
{
    if (left->record.priority != right->record.priority)
        return left->record.priority > right->record.priority;
    return left->record.task < right->record.task;
}

static void insert_job(struct facet_job_list *list, struct facet_job *job)
{
    struct facet_job *before = list->last;

    while (before && is_before(job, before))
        before = before->prev;
    job->prev = before;
    job->next = before ? before->next : list->first;
    if (job->next)
        job->next->prev = job;
    else
        list->last = job;
    if (before)
        before->next = job;
    else
        list->first = job;
    list->length++;
}

void facet_member_enqueue(struct facet_balancer *balancer, uint32_t index, struct facet_job *job)
{
    struct facet_member *member = &balancer->member[index];

    job->place = FACET_JOB_QUEUED;
    job->record.member = index;
    job->record.id = member->id;
    job->expected_ns = job->record.expected_ns = facet_job_expected_ns(balancer, job);
    member->waiting_ns += job->expected_ns;
    insert_job(&member->queue, job);
    pthread_cond_broadcast(&member->work);
}

void facet_member_dequeue(struct facet_balancer *balancer, struct facet_job *job)
{
    struct facet_member *member = &balancer->member[job->record.member];

    facet_job_list_remove(&member->queue, job);
    member->waiting_ns -= job->expected_ns;
    job->place = FACET_JOB_HELD;
}

static void make_ready(struct facet_balancer *balancer, struct facet_job *job)
{
    job->place = FACET_JOB_READY;
    facet_job_list_append(&balancer->ready, job);
}

void facet_member_lose(struct facet_balancer *balancer, uint32_t index)
{
    struct facet_member *member = &balancer->member[index];

    if (member->lost)
        return;
    member->lost = true;
    facet_buffers_lose(balancer, index);
    while (member->queue.first) {
        struct facet_job *job = member->queue.first;

        facet_member_dequeue(balancer, job);
        job->express = false;
        job->record.migrations++;
        member->left_total++;
        make_ready(balancer, job);
    }
    pthread_cond_broadcast(&member->work);
    pthread_cond_broadcast(&balancer->buffer_moved);
}

/* ---- placing ---- */

/* Reads only state that is known without a call to the device. */
static void read_states(struct facet_balancer *balancer)
{
    for (uint32_t i = 0; i < balancer->count; i++) {
        struct facet_member *member = &balancer->member[i];
        uint32_t status = FACET_VGPU_DESTROYED;

        if (member->lost)
            continue;
        (void)facet_vgpu_get_status(balancer->driver, member->id, &status, NULL);
        member->paused = status == FACET_VGPU_PAUSED;
        if (status == FACET_VGPU_ERROR || status == FACET_VGPU_DESTROYED)
            facet_member_lose(balancer, i);
    }
}

static bool all_are_lost(const struct facet_balancer *balancer)
{
    for (uint32_t i = 0; i < balancer->count; i++)
        if (!balancer->member[i].lost)
            return false;
    return true;
}

/* The measured rate of a round trip; a direction without a measurement counts like the other. */
static uint64_t bytes_per_s(const struct facet_balancer *balancer)
{
    const struct facet_transfer *in = &balancer->copied_in,
                                *out = balancer->copied_out.bytes ? &balancer->copied_out : in;

    if (in->bytes == 0)
        in = out;
    if (in->bytes == 0)
        return 0;
    double seconds = (double)in->ns / (double)in->bytes + (double)out->ns / (double)out->bytes;
    return seconds > 0 ? (uint64_t)(1e9 / seconds) + 1 : UINT64_MAX;
}

static int choose_member(struct facet_balancer *balancer, const struct facet_job *job)
{
    struct facet_balance_work work = {.expected_ns = job->expected_ns, .bytes_on = balancer->bytes_on};

    balancer->balance.config.bytes_per_s = bytes_per_s(balancer);
    facet_balancer_describe(balancer, balancer->described);
    facet_job_count_bytes(balancer, job, balancer->bytes_on);
    int member = facet_balance_choose(&balancer->balance, balancer->described, balancer->count, &work);
    if (member != FACET_BALANCE_NONE || balancer->balance.config.strategy != FACET_BALANCE_WEIGHTED)
        return member;
    /* No member with a weight accepts jobs now, so a member without one may get the job. */
    balancer->balance.config.strategy = FACET_BALANCE_LEAST_LOADED;
    member = facet_balance_choose(&balancer->balance, balancer->described, balancer->count, &work);
    balancer->balance.config.strategy = FACET_BALANCE_WEIGHTED;
    return member;
}

static void place_job(struct facet_balancer *balancer, struct facet_job *job)
{
    struct facet_error why = {0};

    if (all_are_lost(balancer)) {
        facet_error_set(&why, FACET_DEVICE_LOST, "all members of the balancer are lost");
        facet_job_end(balancer, job, FACET_DEVICE_LOST, &why);
        return;
    }
    int member = choose_member(balancer, job);
    if (member != FACET_BALANCE_NONE) {
        facet_member_enqueue(balancer, (uint32_t)member, job);
        return;
    }
    job->place = FACET_JOB_UNPLACED;
    facet_job_list_append(&balancer->unplaced, job);
}

/* FACET_OK, or the error by which a buffer that the job reads was lost. */
static enum facet_status check_inputs(const struct facet_job *job)
{
    for (uint32_t i = 0; i < job->uses_count; i++)
        if (job->uses[i].access & FACET_ARGUMENT_READS && job->uses[i].buffer->lost_by != FACET_OK)
            return job->uses[i].buffer->lost_by;
    return FACET_OK;
}

static void place_ready_job(struct facet_balancer *balancer, struct facet_job *job)
{
    enum facet_status loss = check_inputs(job);
    struct facet_error why = {0};

    if (job->is_over) {
        facet_job_release(balancer, job);
    } else if (loss != FACET_OK) {
        facet_error_set(&why, loss, "a buffer that it reads is lost, or was to be written by a task that failed");
        facet_job_end(balancer, job, loss, &why);
    } else if (job->of_host) {
        job->place = FACET_JOB_TAKEN;
        pthread_cond_broadcast(&balancer->job_over);
    } else {
        place_job(balancer, job);
    }
}

void facet_balancer_place_ready(struct facet_balancer *balancer)
{
    if (balancer->ready.first)
        read_states(balancer);
    while (balancer->ready.first) {
        struct facet_job *job = balancer->ready.first;

        facet_job_list_remove(&balancer->ready, job);
        job->place = FACET_JOB_HELD;
        place_ready_job(balancer, job);
    }
}
