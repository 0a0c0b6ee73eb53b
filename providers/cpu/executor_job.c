/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: one job: its memory, claiming its work-groups, running them. Never: decides whose turn it is.
 *
 * A unit claims work-groups in batches that are expected to take BATCH_NS, so that claiming and reading the clock cost
 * next to nothing. Between two work-groups it checks whether it must leave. Where the kernel allows it, a batch runs in
 * rows: one call for many work-groups, whose loads and stores then follow each other.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/integer.h"
#include "executor_parts.h"
#include "provider_kit.h"

#define BATCH_NS  UINT64_C(20000)
#define SINGLE_NS UINT64_C(4000) /* work-groups of at least this time are timed one by one */
#define GROWTH    8u  /* most times that a batch is as large as the last: the first measured times are inexact */
#define ROW_STEP  16u /* rows are multiples of so many work-groups: then they are whole vectors for any group size */

static uint64_t round_up(uint64_t bytes, uint64_t step)
{
    return (bytes + step - 1) / step * step;
}

static uint64_t round_to_local_align(uint64_t bytes)
{
    return round_up(bytes, FACET_HOST_LOCAL_ALIGN);
}

enum facet_status cpu_job_new(struct cpu_stream *stream, uint32_t argument_bytes, struct cpu_job **ret_job,
                              struct facet_error *error)
{
    uint32_t units = stream->tenant->executor->options.units;
    uint64_t ranges_at = round_to_local_align(sizeof(struct cpu_job));
    uint64_t arguments_at = ranges_at + round_to_local_align(units * sizeof(struct cpu_group_range));
    uint64_t bytes = arguments_at + round_to_local_align(argument_bytes);
    struct cpu_job *job = aligned_alloc(FACET_HOST_LOCAL_ALIGN, bytes);

    if (!job)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a launch with %" PRIu32 " bytes of arguments",
                              argument_bytes);
    memset(job, 0, sizeof *job);
    job->stream = stream;
    job->phase_end = job->all_groups = 1;
    job->returned_ranges = (void *)((char *)job + ranges_at);
    job->arguments = (char *)job + arguments_at;
    job->record.size = sizeof job->record;
    *ret_job = job;
    return FACET_OK;
}

static bool has_unclaimed_groups(const struct cpu_job *job)
{
    return job->returned_count > 0 || atomic_load_explicit(&job->next, memory_order_relaxed) < job->phase_end;
}

bool cpu_job_has_more(const struct cpu_job *job)
{
    bool one_at_a_time = job->check || !job->kernel; /* a checker follows one work-group at a time */

    return !job->only_waits && !job->stopped && has_unclaimed_groups(job) && (!one_at_a_time || job->running == 0);
}

static bool is_awaited(const struct cpu_job *job)
{
    return job->awaited && job->awaited->state.completed < job->awaited_sequence;
}

bool cpu_job_is_over(const struct cpu_job *job)
{
    if (job->only_waits)
        return job->stopped || !is_awaited(job);
    return job->running == 0 && (job->stopped || !has_unclaimed_groups(job));
}

bool cpu_job_can_be_ended(const struct cpu_job *job)
{
    return job->kernel && !job->check && !job->phases;
}

/* No unit is in the job, so none claims meanwhile. Claims beyond the end of the phase have no effect. */
void cpu_job_open_next_phase(struct cpu_job *job)
{
    if (!job->phases || job->running > 0 || job->stopped || has_unclaimed_groups(job))
        return;
    while (job->phase + 1 < job->phases->count && !has_unclaimed_groups(job)) {
        atomic_store_explicit(&job->next, job->phase_end, memory_order_relaxed);
        job->phase_end = job->phases->ends[++job->phase];
    }
    atomic_store_explicit(&job->group_ns, 0, memory_order_relaxed);
}

/* ---- claiming ---- */

void cpu_job_take_range(struct cpu_job *job, struct cpu_group_range *ret_range)
{
    *ret_range = (struct cpu_group_range){0};
    if (job->returned_count > 0)
        *ret_range = job->returned_ranges[--job->returned_count];
}

/* Near the end of a job the batches become small, so that the units end together. */
static bool claim_groups(const struct cpu_unit *unit, struct cpu_job *job, uint64_t batch,
                         struct cpu_group_range *range)
{
    uint64_t next = atomic_load_explicit(&job->next, memory_order_relaxed);

    if (next >= job->phase_end)
        return false;
    uint64_t part = (job->phase_end - next) / (2 * (uint64_t)unit->executor->options.units);
    if (unit->executor->options.units > 1 && batch > part)
        batch = part > 0 ? part : 1;

    next = atomic_fetch_add_explicit(&job->next, batch, memory_order_relaxed);
    if (next >= job->phase_end)
        return false;
    *range = (struct cpu_group_range){next, facet_min_u64(next + batch, job->phase_end)};
    return true;
}

static uint64_t batch_of(uint64_t group_ns, uint64_t last)
{
    if (group_ns >= SINGLE_NS)
        return 1;
    return facet_min_u64(BATCH_NS / (group_ns > 0 ? group_ns : 1), last * GROWTH);
}

/* ---- running ---- */

static void set_group(struct facet_host_group *group, uint64_t index)
{
    group->group_id[0] = (uint32_t)(index % group->grid[0]);
    group->group_id[1] = (uint32_t)(index / group->grid[0] % group->grid[1]);
    group->group_id[2] = (uint32_t)(index / group->grid[0] / group->grid[1]);
}

static inline void next_group(struct facet_host_group *group, uint64_t ran)
{
    group->group_id[0] += (uint32_t)ran;
    if (group->group_id[0] < group->grid[0])
        return;
    group->group_id[0] = 0;
    if (++group->group_id[1] < group->grid[1])
        return;
    group->group_id[1] = 0;
    group->group_id[2]++;
}

/*
 * How many groups from this one on may run in one call. Together they have no more work-items than the largest group
 * may have, because no other job can run in between. They are whole vectors, if there are so many.
 */
static uint64_t row_length(const struct cpu_job *job, const struct facet_host_group *group, uint64_t most)
{
    if (!(job->kernel->flags & FACET_HOST_ROWS) || job->check)
        return 1;
    uint64_t length = facet_min_u64(most, group->grid[0] - group->group_id[0]), items = (uint64_t)group->group_size[0];

    items *= (uint64_t)group->group_size[1] * group->group_size[2];
    length = facet_min_u64(length, items < FACET_HOST_GROUP_MOST ? FACET_HOST_GROUP_MOST / items : 1);

    return length > ROW_STEP ? length - length % ROW_STEP : length;
}

static void run_row(const struct cpu_job *job, const struct facet_host_group *first, uint64_t length)
{
    struct facet_host_group row = *first;

    row.group_id[0] = 0;
    row.group_size[0] = first->group_size[0] * (uint32_t)length;
    row.offset[0] = first->offset[0] + first->group_id[0] * first->group_size[0];
    job->kernel->run(job->arguments, &row);
}

/* Runs work-groups from the front of the range, at most `most`, until the unit must leave the job. */
static uint64_t run_batch(struct cpu_unit *unit, const struct cpu_job *job, struct facet_host_group *group,
                          struct cpu_group_range *range, uint64_t most)
{
    uint64_t groups_begun = atomic_load_explicit(&unit->groups_begun, memory_order_relaxed);
    uint64_t index = range->begin, end = facet_min_u64(range->end, range->begin + most);

    set_group(group, index);
    while (index < end && !atomic_load_explicit(&unit->must_leave, memory_order_relaxed)) {
        atomic_store_explicit(&unit->groups_begun, ++groups_begun, memory_order_relaxed);
        if (job->check)
            job->check->barrier(group->check);
        uint64_t length = row_length(job, group, end - index);

        if (length > 1)
            run_row(job, group, length);
        else
            job->kernel->run(job->arguments, group);
        next_group(group, length);
        index += length;
    }
    uint64_t ran = index - range->begin;

    range->begin = index;
    return ran;
}

static void note_batch(struct cpu_job *job, struct cpu_turn *turn, uint64_t groups, uint64_t elapsed_ns)
{
    uint64_t each_ns = elapsed_ns / groups;

    turn->groups += groups;
    if (each_ns > turn->longest_ns)
        turn->longest_ns = each_ns;
    atomic_store_explicit(&job->group_ns, each_ns, memory_order_relaxed);
}

static void run_groups(struct cpu_unit *unit, struct cpu_job *job, struct facet_host_group *group,
                       struct cpu_turn *turn)
{
    uint64_t now = turn->begin_ns;
    uint64_t batch = atomic_load_explicit(&job->group_ns, memory_order_relaxed) > 0 ? BATCH_NS : 0;

    while (now < turn->until_ns && !atomic_load_explicit(&unit->must_leave, memory_order_relaxed)) {
        batch = batch > 0 ? batch_of(atomic_load_explicit(&job->group_ns, memory_order_relaxed), batch) : 1;
        if (turn->range.begin >= turn->range.end && !claim_groups(unit, job, batch, &turn->range))
            break;
        uint64_t ran = run_batch(unit, job, group, &turn->range, batch);
        uint64_t then = cpu_executor_now_ns(unit->executor);

        if (ran > 0)
            note_batch(job, turn, ran, then - now);
        now = then;
    }
}

/* Memory of a unit grows to the most that any of its jobs needed, and is never cleared. */
static bool grow_memory(void **memory, uint64_t *bytes, uint64_t needed)
{
    needed = round_up(needed > 0 ? needed : 1, FACET_HOST_VARIABLE_ALIGN);
    if (*bytes >= needed)
        return true;
    free(*memory);
    *memory = aligned_alloc(FACET_HOST_VARIABLE_ALIGN, needed);
    *bytes = *memory ? needed : 0;
    return *memory != NULL;
}

/* The watchdog may end the thread only here: the thread holds no lock, and `turn` has the range that it runs. */
static void run_endable(struct cpu_unit *unit, struct cpu_job *job, struct facet_host_group *group,
                        struct cpu_turn *turn)
{
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    atomic_store(&unit->endable, CPU_INSIDE);
    run_groups(unit, job, group, turn);
    if (atomic_exchange(&unit->endable, CPU_OUTSIDE) == CPU_ENDING)
        for (;;)
            pause();
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
}

static void run_launch(struct cpu_unit *unit, struct cpu_job *job, struct cpu_turn *turn)
{
    struct facet_host_group group = job->group;

    if (!grow_memory(&unit->local, &unit->local_bytes, job->local_bytes) ||
        !grow_memory(&unit->scratch, &unit->scratch_bytes, job->scratch_bytes)) {
        turn->status = FACET_NO_MEMORY;
        return;
    }
    group.local = unit->local;
    group.scratch = unit->scratch;
    if (cpu_job_can_be_ended(job))
        run_endable(unit, job, &group, turn);
    else
        run_groups(unit, job, &group, turn);
    if (job->phases && job->phases->status)
        turn->status = (enum facet_status)atomic_load(job->phases->status);
}

void cpu_job_run(struct cpu_unit *unit, struct cpu_job *job, struct cpu_turn *turn)
{
    if (job->kernel) {
        run_launch(unit, job, turn);
        return;
    }
    turn->status = job->work(job->work_owner);
}
