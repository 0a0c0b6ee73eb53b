/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: two contexts of the provider `cpu` in this process, with some streams in each.
 * Never: knows how the contexts are used.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <facet/kernel.h>
#include <facet/session.h>

#include "share.h"

#define RECORDS       16u
#define WAIT_LIMIT_NS UINT64_C(120000000000)

struct queue {
    uint64_t stream, last_record;
    struct facet_kernel *kernel;
};

struct tenant {
    uint64_t context, progress;
    struct queue queues[SHARE_QUEUES];
};

struct facet_state {
    struct facet_session *session;
    const struct facet_provider *provider;
    struct facet_provider_instance *instance;
    struct tenant tenants[2];
};

static const char *const names[] = {"first", "second"};

static bool fail(struct share_machine *machine, const char *what, const struct facet_error *error)
{
    snprintf(machine->missing, sizeof machine->missing, "%s: %s", what, error->message);
    return false;
}

static bool compile(struct share_machine *machine, struct facet_image **ret_image)
{
    const struct facet_compile_options options = {.size = sizeof options, .target = "host", .name = "burn.cl"};
    struct facet_compiler *compiler;
    struct facet_error error = {0};

    if (facet_compiler_create(NULL, &compiler, &error) != FACET_OK)
        return fail(machine, "facet_compiler_create", &error);
    enum facet_status status =
        facet_compile(compiler, SHARE_SOURCE, sizeof SHARE_SOURCE - 1, &options, ret_image, &error);

    facet_compiler_destroy(compiler);
    return status == FACET_OK || fail(machine, "facet_compile", &error);
}

static bool make_memory(struct share_machine *machine, struct facet_state *state, struct tenant *tenant)
{
    const struct facet_memory_ops *ops = state->provider->memory;
    struct facet_error error = {0};

    if (ops->alloc(state->instance, tenant->context, 256, &tenant->progress, &error) != FACET_OK ||
        ops->fill(state->instance, tenant->context, tenant->progress, 0, 256, &error) != FACET_OK)
        return fail(machine, "memory", &error);
    return true;
}

static bool make_queue(struct share_machine *machine, struct facet_state *state, const struct facet_image *image,
                       const struct tenant *tenant, struct queue *queue)
{
    struct facet_error error = {0};

    if (state->provider->execution->create_stream(state->instance, tenant->context, &queue->stream, &error) != FACET_OK)
        return fail(machine, "create_stream", &error);
    if (facet_kernel_load(state->session, tenant->context, image, "burn", &queue->kernel, &error) != FACET_OK ||
        facet_kernel_set_memory(queue->kernel, 0, tenant->progress, &error) != FACET_OK ||
        facet_kernel_set_memory(queue->kernel, 1, tenant->progress + 128, &error) != FACET_OK)
        return fail(machine, "facet_kernel", &error);
    return true;
}

static bool make_tenant(struct share_machine *machine, struct facet_state *state, const struct facet_image *image,
                        struct tenant *tenant, const char *name)
{
    struct facet_error error = {0};

    if (state->provider->memory->create_context(state->instance, 0, NULL, name, &tenant->context, &error) != FACET_OK)
        return fail(machine, "create_context", &error);
    if (!make_memory(machine, state, tenant))
        return false;
    for (unsigned i = 0; i < SHARE_QUEUES; i++)
        if (!make_queue(machine, state, image, tenant, &tenant->queues[i]))
            return false;
    return true;
}

static bool take_record(struct share_machine *machine, struct facet_state *state, uint64_t context, struct queue *queue,
                        uint64_t *ret_waited_ns)
{
    struct facet_launch_record records[RECORDS] = {0};
    struct facet_error error = {0};
    uint32_t count = 0;

    if (state->provider->execution->records(state->instance, context, queue->stream, queue->last_record, records,
                                            sizeof *records, RECORDS, &count, &error) != FACET_OK)
        return fail(machine, "records", &error);
    for (uint32_t i = 0; i < count && i < RECORDS; i++) {
        queue->last_record = records[i].sequence;
        *ret_waited_ns = records[i].start_ns - records[i].queued_ns;
    }
    return true;
}

static bool run(struct share_machine *machine, unsigned tenant, unsigned number, uint32_t groups, uint32_t steps,
                uint64_t *ret_waited_ns)
{
    struct facet_state *state = machine->state;
    uint64_t context = state->tenants[tenant].context;
    struct queue *queue = &state->tenants[tenant].queues[number];
    const struct facet_range range = {.size = sizeof range, .dimensions = 1, .global = {groups}, .group = {1}};
    struct facet_error error = {0};

    if (facet_kernel_set_value(queue->kernel, 2, &steps, sizeof steps, &error) != FACET_OK ||
        facet_kernel_launch(queue->kernel, queue->stream, &range, &error) != FACET_OK)
        return fail(machine, "launch", &error);
    if (state->provider->execution->synchronize(state->instance, context, queue->stream, WAIT_LIMIT_NS, &error) !=
        FACET_OK)
        return fail(machine, "synchronize", &error);
    return take_record(machine, state, context, queue, ret_waited_ns);
}

/* Reads device memory directly, which `cpu` has in this process; the provider would wait for running launches. */
static uint32_t progress(struct share_machine *machine, unsigned number)
{
    const struct facet_state *state = machine->state;

    return atomic_load((_Atomic uint32_t *)(uintptr_t)state->tenants[number].progress);
}

static uint64_t charged_ns(struct share_machine *machine, unsigned number)
{
    const struct facet_state *state = machine->state;
    struct facet_process_metrics workers[4] = {{.size = sizeof *workers}};
    struct facet_error error = {0};
    uint32_t count = 0;

    if (state->provider->metrics->processes(state->instance, 0, workers, sizeof *workers, 4, &count, &error) !=
        FACET_OK)
        return 0;
    for (uint32_t i = 0; i < count && i < 4; i++)
        if (strcmp(workers[i].worker, names[number]) == 0)
            return workers[i].busy_ns;
    return 0;
}

static bool set_shares(struct share_machine *machine, const uint32_t *milli, const uint32_t *priorities)
{
    struct facet_state *state = machine->state;
    struct facet_error error = {0};

    for (unsigned i = 0; i < 2; i++)
        if (state->provider->execution->set_share(state->instance, state->tenants[i].context, milli[i], 1000,
                                                  priorities[i], &error) != FACET_OK)
            return fail(machine, "set_share", &error);
    return true;
}

static bool share(struct share_machine *machine, uint32_t first_milli, uint32_t second_milli)
{
    return set_shares(machine, (const uint32_t[]){first_milli, second_milli},
                      (const uint32_t[]){FACET_PRIORITY_NORMAL, FACET_PRIORITY_NORMAL});
}

static bool urgent(struct share_machine *machine)
{
    return set_shares(machine, (const uint32_t[]){0, 0}, (const uint32_t[]){FACET_PRIORITY_HIGH, FACET_PRIORITY_LOW});
}

static unsigned units_of(void)
{
    const char *text = getenv("FACET_CPU_UNITS");
    int units = text ? atoi(text) : 1;

    return units > 0 ? (unsigned)units : 1;
}

bool share_open_facet(struct share_machine *machine, const char *provider)
{
    const struct facet_session_options options = {.size = sizeof options, .place = FACET_SESSION_IN_PROCESS};
    struct facet_state *state = calloc(1, sizeof *state);
    struct facet_image *image = NULL;
    struct facet_error error = {0};

    if (!state)
        abort();
    *machine = (struct share_machine){.units = units_of(),
                                      .state = state,
                                      .run = run,
                                      .progress = progress,
                                      .charged_ns = charged_ns,
                                      .share = share,
                                      .urgent = urgent};
    if (!compile(machine, &image))
        return false;
    if (facet_session_open(provider, &options, &state->session, &error) != FACET_OK)
        return fail(machine, "facet_session_open", &error);
    state->provider = facet_session_provider(state->session);
    state->instance = facet_session_instance(state->session);
    return make_tenant(machine, state, image, &state->tenants[0], names[0]) &&
           make_tenant(machine, state, image, &state->tenants[1], names[1]);
}
