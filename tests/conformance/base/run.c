/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the queued work of the base device: all of it, when a caller asks for a result.
 *
 * Owns: the turns of contexts, which work of a context runs together, and running it. Never: returns while work is
 * still running.
 */
#include "base.h"

enum facet_status base_enqueue(struct facet_provider_instance *instance, struct base_stream *stream,
                               const struct base_queued_work *work, struct facet_error *error)
{
    if (stream->queued == BASE_QUEUE)
        base_run(instance);
    if (stream->queued == BASE_QUEUE)
        return facet_kit_fail(error, FACET_NO_SPACE, "the queue is full: %d launches wait", BASE_QUEUE);
    struct base_queued_work *place = &stream->queue[stream->queued++];
    *place = *work;
    place->sequence = ++stream->state.launched;
    place->queued_ns = base_now_ns();
    return FACET_OK;
}

static void name_of(const struct base_queued_work *work, struct facet_launch_record *record)
{
    if (work->kind == BASE_LAUNCH)
        FACET_KIT_TEXT(record->kernel, BASE_KERNEL);
    if (work->kind == BASE_MATH)
        snprintf(record->kernel, sizeof record->kernel, "%s plain", base_math_name(work->data.math.operation));
}

void base_finish(struct base_stream *stream, uint32_t index, enum facet_status status, uint32_t units)
{
    const struct base_queued_work *work = &stream->queue[index];
    struct facet_launch_record record = {.status = status,
                                         .sequence = work->sequence,
                                         .queued_ns = work->queued_ns,
                                         .start_ns = work->start_ns,
                                         .end_ns = base_now_ns(),
                                         .units = units};

    name_of(work, &record);
    if (work->begun && (work->kind == BASE_LAUNCH || work->kind == BASE_MATH)) {
        record.groups = work->groups;
        record.busy_ns = record.longest_ns = work->count + 1;
        stream->state.busy_ns += record.busy_ns;
    }
    stream->state.completed++;
    if (work->begun && status != FACET_OK && !stream->state.failed)
        stream->state.failed = (uint32_t)-status;
    base_append_record(stream, &record);
    stream->queued--;
    memmove(&stream->queue[index], &stream->queue[index + 1], (stream->queued - index) * sizeof stream->queue[0]);
}

static enum facet_status perform_work(struct facet_provider_instance *instance, uint64_t context,
                                      const struct base_queued_work *work)
{
    enum facet_status status = FACET_OK;

    switch (work->kind) {
    case BASE_LAUNCH:
        for (uint64_t i = 0; status == FACET_OK && i < work->count; i++)
            status = base_access_memory(instance, context, work->address + i * sizeof work->value, NULL, &work->value,
                                        sizeof work->value, NULL);
        return status;
    case BASE_QUEUED_WRITE:
        return base_access_memory(instance, context, work->address, NULL, &work->data, work->count, NULL);
    case BASE_COPY:
        return base_copy_or_fill(instance, context, work->address, &work->value, 0, work->count, NULL);
    case BASE_FILL:
        return base_copy_or_fill(instance, context, work->address, NULL, (int)work->value, work->count, NULL);
    case BASE_MATH:
        return base_math_perform(instance, context, &work->data.math);
    case BASE_WAIT:
        break;
    }
    return FACET_OK;
}

static bool is_wait_over(struct facet_provider_instance *instance, uint64_t context,
                         const struct base_queued_work *wait)
{
    const struct base_stream *other = base_find_stream(instance, context, wait->value);

    return !other || other->queued == 0 || other->queue[0].sequence > wait->count;
}

static bool may_start(struct facet_provider_instance *instance, const struct base_stream *stream)
{
    return stream->queued > 0 &&
           (stream->queue[0].kind != BASE_WAIT || is_wait_over(instance, stream->context, &stream->queue[0]));
}

/* The time at which the context's oldest launch that may begin was queued; 0: there is none. */
static uint64_t waiting_since(struct facet_provider_instance *instance, const struct base_context *context)
{
    uint64_t oldest = 0;

    if (!context->number || context->paused || context->is_saved)
        return 0;
    for (int i = 0; i < BASE_STREAMS; i++) {
        const struct base_stream *stream = &instance->streams[i];
        if (stream->context == context->number && may_start(instance, stream) &&
            (oldest == 0 || stream->queue[0].queued_ns < oldest))
            oldest = stream->queue[0].queued_ns;
    }
    return oldest;
}

/* Whether `one`, whose oldest launch was queued at `since`, is served before `best`. */
static bool is_served_before(const struct facet_provider_instance *instance, const struct base_context *one,
                             uint64_t since, const struct base_context *best, uint64_t best_since)
{
    if (instance->policy == FACET_SCHEDULE_FIFO)
        return since < best_since;
    if (instance->policy == FACET_SCHEDULE_PRIORITY && one->priority != best->priority)
        return one->priority > best->priority;
    return one->busy_ns < best->busy_ns;
}

/* The context whose turn it is; NULL when no context has work. With the policy round robin it is the next context with
 * work in the table, behind the context of the last turn. */
static struct base_context *pick_context(struct facet_provider_instance *instance)
{
    struct base_context *best = NULL;
    uint64_t best_since = 0;

    if (instance->policy == FACET_SCHEDULE_FIFO && instance->turn_index >= 0 &&
        waiting_since(instance, &instance->contexts[instance->turn_index]) > 0)
        return &instance->contexts[instance->turn_index];
    for (int i = 0; i < BASE_CONTEXTS; i++) {
        struct base_context *one = &instance->contexts[(instance->turn_index + 1 + i) % BASE_CONTEXTS];
        uint64_t since = waiting_since(instance, one);

        if (since == 0 || (best && instance->policy == FACET_SCHEDULE_ROUND_ROBIN) ||
            (best && !is_served_before(instance, one, since, best, best_since)))
            continue;
        best = one;
        best_since = since;
    }
    instance->turn_index = best ? (int)(best - instance->contexts) : -1;
    return best;
}

/* Runs one launch of each stream of the context together, as many as its bound of launches allows. */
static void run_round(struct facet_provider_instance *instance, struct base_context *context)
{
    uint32_t begun = 0;

    for (int i = 0; i < BASE_STREAMS; i++) {
        struct base_stream *stream = &instance->streams[i];
        if (stream->context != context->number || !may_start(instance, stream) ||
            (context->launches > 0 && begun == context->launches))
            continue;
        stream->queue[0].begun = true;
        stream->queue[0].start_ns = base_now_ns();
        begun++;
    }
    for (int i = 0; i < BASE_STREAMS; i++) {
        struct base_stream *stream = &instance->streams[i];
        if (stream->context != context->number || stream->queued == 0 || !stream->queue[0].begun)
            continue;
        uint64_t units = context->units ? context->units : BASE_SLICES, groups = stream->queue[0].groups;
        context->busy_ns += stream->queue[0].count + 1;
        instance->busy_ns += stream->queue[0].count + 1;
        enum facet_status status = perform_work(instance, context->number, &stream->queue[0]);
        base_finish(stream, 0, status, (uint32_t)(groups > units ? units : groups + !groups));
    }
}

void base_run(struct facet_provider_instance *instance)
{
    struct base_context *context;

    while ((context = pick_context(instance)))
        run_round(instance, context);
}
