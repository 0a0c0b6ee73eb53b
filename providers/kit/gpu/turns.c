/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: choosing the context that has the turn, by the device's policy. Never: calls the driver. */
#include "turns.h"

#include <stdlib.h>

#include "machine.h"
#include "provider_kit.h"

#define SUBMITTED_MOST 32u /* commands of a context at a time, so that other contexts do not wait long */

static const struct facet_pick_share initial_share = {
    .request_milli = 0,
    .limit_milli = FACET_MILLI_WHOLE,
    .priority = FACET_PRIORITY_NORMAL,
};

_Static_assert((int)FACET_SCHEDULE_FAIR == (int)FACET_PICK_FAIR &&
                   (int)FACET_SCHEDULE_ROUND_ROBIN == (int)FACET_PICK_ROUND_ROBIN &&
                   (int)FACET_SCHEDULE_PRIORITY == (int)FACET_PICK_PRIORITY &&
                   (int)FACET_SCHEDULE_FIFO == (int)FACET_PICK_FIFO,
               "the ABI's policies are those of src/compute/pick");

enum facet_status gpu_turns_begin(struct gpu_machine *machine, uint32_t device, struct gpu_turns **ret_turns,
                                  struct facet_error *error)
{
    struct facet_pick_config config = facet_pick_defaults;
    struct gpu_turns *turns = calloc(1, sizeof *turns);

    if (!turns)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for turns on the device");
    config.policy = machine->devices[device].policy;
    facet_pick_init(&turns->pick, &config);
    turns->slice_ns = machine->devices[device].slice_ns ? machine->devices[device].slice_ns : GPU_TURN_NS;
    turns->again_ns = FACET_PICK_NEVER;
    pthread_mutex_lock(&machine->executor.lock);
    LIST_INSERT_HEAD(&machine->executor.turns, turns, link);
    pthread_mutex_unlock(&machine->executor.lock);
    *ret_turns = turns;
    return FACET_OK;
}

void gpu_turns_end(struct gpu_machine *machine, struct gpu_turns **turns)
{
    if (!*turns)
        return;
    pthread_mutex_lock(&machine->executor.lock);
    LIST_REMOVE(*turns, link);
    pthread_mutex_unlock(&machine->executor.lock);
    free(*turns);
    *turns = NULL;
}

/* Called with the context lock and the executor's. */
static void set_policy(struct gpu_turns *turns, enum facet_pick_policy policy, uint64_t slice_ns)
{
    if (!turns)
        return;
    facet_pick_set_policy(&turns->pick, policy);
    turns->slice_ns = slice_ns;
}

void gpu_turns_set_policy(struct gpu_machine *machine, uint32_t device, enum facet_pick_policy policy,
                          uint64_t slice_ns)
{
    struct gpu_device *changed = &machine->devices[device];

    changed->policy = policy;
    changed->slice_ns = slice_ns;
    pthread_mutex_lock(&machine->executor.lock);
    set_policy(changed->turns, policy, slice_ns);
    for (struct gpu_worker *worker = changed->workers; worker; worker = worker->next)
        set_policy(worker->turns, policy, slice_ns);
    pthread_cond_signal(&machine->executor.work);
    pthread_mutex_unlock(&machine->executor.lock);
}

enum facet_status gpu_tenant_join(struct gpu_executor *executor, struct gpu_turns *turns, struct gpu_tenant *tenant,
                                  struct facet_error *error)
{
    int entity = facet_pick_add(&turns->pick, &initial_share, gpu_monotonic_ns());

    if (entity == FACET_PICK_NONE)
        return facet_kit_fail(error, FACET_NO_MEMORY, "contexts: expected at most %u at a time", FACET_PICK_ENTITIES);
    tenant->turns = turns;
    tenant->entity = entity;
    turns->tenants[entity] = tenant;
    TAILQ_INSERT_TAIL(&executor->tenants, tenant, link);
    return FACET_OK;
}

void gpu_tenant_leave(struct gpu_executor *executor, struct gpu_tenant *tenant)
{
    struct gpu_turns *turns = tenant->turns;

    if (!turns)
        return;
    facet_pick_remove(&turns->pick, tenant->entity);
    turns->tenants[tenant->entity] = NULL;
    if (turns->holder == tenant)
        turns->holder = NULL;
    if (turns->next == tenant)
        turns->next = NULL;
    TAILQ_REMOVE(&executor->tenants, tenant, link);
    tenant->turns = NULL;
}

/* --- commands to submit --- */

/* Whether a command waits for another stream that has not reached the awaited sequence. */
static bool waits_for_stream(const struct gpu_stream *stream)
{
    const struct gpu_command *command = TAILQ_FIRST(&stream->queued);
    const struct gpu_stream *awaited = command->awaited;

    if (!awaited)
        return false;
    const struct gpu_command *submitted = TAILQ_FIRST(&awaited->submitted), *queued = TAILQ_FIRST(&awaited->queued);
    return (awaited->submitting_sequence && awaited->submitting_sequence <= command->awaited_sequence) ||
           (submitted && submitted->sequence <= command->awaited_sequence) ||
           (queued && queued->sequence <= command->awaited_sequence);
}

/* Whether another stream of the context, with a higher priority, has a command to submit. */
static bool is_outranked(const struct gpu_executor *executor, const struct gpu_stream *stream)
{
    const struct gpu_stream *other;

    TAILQ_FOREACH (other, &executor->streams, link) {
        if (other->context == stream->context && other->priority > stream->priority && !TAILQ_EMPTY(&other->queued) &&
            !waits_for_stream(other))
            return true;
    }
    return false;
}

/* Commands of long or unknown duration are submitted one by one, so that a turn ends soon after its time is over. */
static bool has_room(const struct gpu_stream *stream)
{
    uint64_t expected_ns = stream->submitted_count * stream->last_ns;

    return stream->submitted_count == 0 || (stream->submitted_count < GPU_IN_DRIVER && stream->last_ns &&
                                            expected_ns < stream->context->tenant.turns->slice_ns);
}

/* Whether the stream has a command that may be submitted once there is room. */
static bool wants_turn(const struct gpu_executor *executor, const struct gpu_stream *stream)
{
    const struct gpu_tenant *tenant = &stream->context->tenant;

    return !TAILQ_EMPTY(&stream->queued) && !tenant->paused && !waits_for_stream(stream) &&
           !(tenant->has_priorities && is_outranked(executor, stream));
}

static bool is_ready(const struct gpu_executor *executor, const struct gpu_stream *stream)
{
    const struct gpu_tenant *tenant = &stream->context->tenant;
    bool bound = tenant->launches_most && tenant->launches_most < SUBMITTED_MOST;

    if (stream->submitted_count && gpu_stream_needs_move(stream))
        return false;
    return tenant->submitted_commands < (bound ? tenant->launches_most : SUBMITTED_MOST) && has_room(stream) &&
           wants_turn(executor, stream);
}

static enum facet_pick_want want_of(const struct gpu_tenant *tenant)
{
    if (tenant->wants_turn)
        return FACET_PICK_READY;
    return tenant->submitted_commands || (tenant->has_work && !tenant->paused) ? FACET_PICK_SERVED : FACET_PICK_IDLE;
}

static void refresh_tenants(struct gpu_executor *executor)
{
    struct gpu_stream *stream;
    struct gpu_tenant *tenant;

    TAILQ_FOREACH (tenant, &executor->tenants, link)
        tenant->has_work = tenant->wants_turn = tenant->ready = false;
    TAILQ_FOREACH (stream, &executor->streams, link) {
        tenant = &stream->context->tenant;
        tenant->has_work |= !gpu_stream_is_idle(stream);
        tenant->wants_turn |= wants_turn(executor, stream);
        tenant->ready |= is_ready(executor, stream);
    }
    TAILQ_FOREACH (tenant, &executor->tenants, link)
        facet_pick_set_want(&tenant->turns->pick, tenant->entity, want_of(tenant));
}

/* --- scheduling --- */

static void begin_turn(struct gpu_turns *turns, struct gpu_tenant *tenant, uint64_t now_ns)
{
    turns->holder = tenant;
    turns->next = NULL;
    turns->until_ns = now_ns + turns->slice_ns;
}

/* The holder goes on until its time is over, unless it has no commands, or its cap closes it. */
static bool keeps_turn(struct gpu_turns *turns, uint64_t now_ns)
{
    const struct gpu_tenant *holder = turns->holder;

    return holder && now_ns < turns->until_ns && (holder->ready || holder->submitted_commands) &&
           facet_pick_is_open(&turns->pick, holder->entity, now_ns);
}

static void choose_holder(struct gpu_turns *turns, uint64_t now_ns)
{
    turns->again_ns = FACET_PICK_NEVER;
    if (turns->next && turns->holder && turns->holder->submitted_commands)
        return;
    if (turns->next && turns->next->ready) {
        begin_turn(turns, turns->next, now_ns);
        return;
    }
    turns->next = NULL;
    if (keeps_turn(turns, now_ns))
        return;
    int entity = facet_pick_next(&turns->pick, now_ns, &turns->again_ns);
    if (entity == FACET_PICK_NONE)
        return;
    struct gpu_tenant *chosen = turns->tenants[entity];
    if (turns->holder && turns->holder != chosen && turns->holder->submitted_commands)
        turns->next = chosen;
    else
        begin_turn(turns, chosen, now_ns);
}

void gpu_turns_decide(struct gpu_executor *executor)
{
    uint64_t now = gpu_monotonic_ns();
    struct gpu_turns *turns;

    refresh_tenants(executor);
    LIST_FOREACH (turns, &executor->turns, link)
        choose_holder(turns, now);
}

bool gpu_turns_allow(const struct gpu_executor *executor, const struct gpu_stream *stream)
{
    struct gpu_tenant *tenant = &stream->context->tenant;

    return tenant->turns->holder == tenant && !tenant->turns->next && is_ready(executor, stream) &&
           facet_pick_is_open(&tenant->turns->pick, tenant->entity, gpu_monotonic_ns());
}

uint64_t gpu_turns_charge(struct gpu_tenant *tenant, uint64_t start_ns, uint64_t end_ns, uint64_t now_ns)
{
    struct gpu_turns *turns = tenant->turns;
    uint64_t from = start_ns > turns->last_end_ns ? start_ns : turns->last_end_ns;

    if (end_ns <= from)
        return 0;
    facet_pick_charge(&turns->pick, tenant->entity, end_ns - from, now_ns);
    turns->last_end_ns = end_ns;
    return end_ns - from;
}

uint64_t gpu_turns_again_ns(const struct gpu_executor *executor)
{
    const struct gpu_turns *turns;
    uint64_t again_ns = UINT64_MAX;

    LIST_FOREACH (turns, &executor->turns, link)
        again_ns = turns->again_ns < again_ns ? turns->again_ns : again_ns;
    return again_ns;
}
