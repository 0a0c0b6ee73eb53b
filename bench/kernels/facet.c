/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: a kernel of the set on Facet: compiled by its compiler, run by the provider `cpu` in this process.
 * Never: replaces an operation that the library or the provider lacks: it reports the operation's error as missing.
 */
#include <stdio.h>
#include <string.h>

#include <facet/kernel.h>
#include <facet/session.h>

#include "way.h"

#define RECORDS       16u
#define WAIT_LIMIT_NS UINT64_C(120000000000)

struct facet_way {
    const char *provider_path;
    struct facet_session *session;
    const struct facet_provider *provider;
    struct facet_provider_instance *instance;
    uint64_t context, stream, last_record;
    uint64_t memory[BENCH_ARGUMENTS_MOST];
    struct facet_kernel *kernel;
    const struct bench_kernel *bench_kernel;
};

static bool fail(struct bench_way *way, const char *operation, const struct facet_error *error)
{
    snprintf(way->missing, sizeof way->missing, "%s: %s", operation, error->message);
    return false;
}

static bool open_session(struct bench_way *way, struct facet_way *facet)
{
    const struct facet_session_options options = {.size = sizeof options, .place = FACET_SESSION_IN_PROCESS};
    struct facet_error error = {0};

    if (facet_session_open(facet->provider_path, &options, &facet->session, &error) != FACET_OK)
        return fail(way, "facet_session_open", &error);
    facet->provider = facet_session_provider(facet->session);
    facet->instance = facet_session_instance(facet->session);
    if (facet->provider->memory->create_context(facet->instance, 0, NULL, "bench", &facet->context, &error) != FACET_OK)
        return fail(way, "create_context", &error);
    if (facet->provider->execution->create_stream(facet->instance, facet->context, &facet->stream, &error) != FACET_OK)
        return fail(way, "create_stream", &error);
    return true;
}

static bool compile(struct bench_way *way, const struct bench_data *data, uint32_t cache_mode,
                    struct facet_image **ret_image, uint64_t *ret_ns)
{
    const struct facet_compiler_options how = {.size = sizeof how, .cache_mode = cache_mode};
    const char *const arguments[] = {"-cl-std=CL1.2", NULL}, *target = getenv("BENCH_TARGET");
    const struct facet_compile_options options = {
        .size = sizeof options, .target = target ? target : "host", .name = data->kernel->file, .arguments = arguments};
    struct facet_compiler *compiler;
    struct facet_error error = {0};
    uint64_t start = bench_now_ns();

    if (facet_compiler_create(&how, &compiler, &error) != FACET_OK)
        return fail(way, "facet_compiler_create", &error);
    enum facet_status status = facet_compile(compiler, data->source, data->source_bytes, &options, ret_image, &error);

    *ret_ns = bench_now_ns() - start;
    facet_compiler_destroy(compiler);
    return status == FACET_OK || fail(way, "facet_compile", &error);
}

/* Compiles only to measure the time. */
static bool compile_only(struct bench_way *way, const struct bench_data *data, uint32_t cache_mode, uint64_t *ret_ns)
{
    struct facet_image *image;

    if (!compile(way, data, cache_mode, &image, ret_ns))
        return false;
    facet_image_destroy(image);
    return true;
}

static bool make_memory(struct bench_way *way, struct facet_way *facet, const struct bench_data *data)
{
    const struct facet_memory_ops *ops = facet->provider->memory;
    struct facet_error error = {0};

    for (unsigned i = 0; i < BENCH_ARGUMENTS_MOST; i++) {
        const struct bench_argument *argument = &data->kernel->arguments[i];
        size_t bytes = bench_argument_bytes(argument);

        if (argument->kind < BENCH_IN)
            continue;
        if (ops->alloc(facet->instance, facet->context, bytes, &facet->memory[i], &error) != FACET_OK)
            return fail(way, "alloc", &error);
        if (ops->write(facet->instance, facet->context, facet->memory[i], data->input[i], bytes, &error) != FACET_OK)
            return fail(way, "write", &error);
    }
    return true;
}

static enum facet_status set_argument(const struct facet_way *facet, unsigned index,
                                      const struct bench_argument *argument, struct facet_error *error)
{
    if (argument->kind == BENCH_LOCAL)
        return facet_kernel_set_local(facet->kernel, index, (uint32_t)argument->count, error);
    if (argument->kind < BENCH_LOCAL)
        return facet_kernel_set_value(facet->kernel, index, &argument->value, sizeof argument->value, error);
    return facet_kernel_set_memory(facet->kernel, index, facet->memory[index], error);
}

static bool load(struct bench_way *way, struct facet_way *facet, const struct facet_image *image)
{
    const struct bench_kernel *bench_kernel = facet->bench_kernel;
    struct facet_error error = {0};

    facet_kernel_destroy(facet->kernel);
    facet->kernel = NULL;
    if (facet_kernel_load(facet->session, facet->context, image, bench_kernel->name, &facet->kernel, &error) !=
        FACET_OK)
        return fail(way, "facet_kernel_load", &error);
    for (unsigned i = 0; i < BENCH_ARGUMENTS_MOST && bench_kernel->arguments[i].kind != BENCH_NONE; i++)
        if (set_argument(facet, i, &bench_kernel->arguments[i], &error) != FACET_OK)
            return fail(way, "facet_kernel_set", &error);
    return true;
}

static bool queue(struct bench_way *way, const struct facet_way *facet)
{
    const struct bench_kernel *bench_kernel = facet->bench_kernel;
    struct facet_range range = {.size = sizeof range, .dimensions = bench_kernel->dimensions};
    struct facet_error error = {0};

    for (unsigned i = 0; i < bench_kernel->dimensions; i++) {
        range.global[i] = bench_kernel->global[i];
        range.group[i] = (uint32_t)bench_kernel->group[i];
    }
    if (facet_kernel_launch(facet->kernel, facet->stream, &range, &error) != FACET_OK)
        return fail(way, "facet_kernel_launch", &error);
    return true;
}

static bool wait(struct bench_way *way, const struct facet_way *facet)
{
    const struct facet_execution_ops *ops = facet->provider->execution;
    struct facet_stream_state state = {.size = sizeof state};
    struct facet_error error = {0};

    if (ops->synchronize(facet->instance, facet->context, facet->stream, WAIT_LIMIT_NS, &error) != FACET_OK)
        return fail(way, "synchronize", &error);
    if (ops->query(facet->instance, facet->context, facet->stream, &state, &error) != FACET_OK)
        return fail(way, "query", &error);
    if (state.failed == 0)
        return true;
    snprintf(way->missing, sizeof way->missing, "a launch failed with status -%u", state.failed);
    return false;
}

static bool launch(struct bench_way *way, uint64_t *ret_device_ns)
{
    struct facet_way *facet = way->state;
    struct facet_launch_record records[RECORDS] = {0};
    struct facet_error error = {0};
    uint32_t count = 0;

    if (!queue(way, facet) || !wait(way, facet))
        return false;
    if (facet->provider->execution->records(facet->instance, facet->context, facet->stream, facet->last_record, records,
                                            sizeof *records, RECORDS, &count, &error) != FACET_OK)
        return fail(way, "records", &error);
    *ret_device_ns = 0;
    for (uint32_t i = 0; i < count && i < RECORDS; i++) {
        facet->last_record = records[i].sequence;
        *ret_device_ns = records[i].end_ns - records[i].start_ns;
    }
    return true;
}

static bool build(struct bench_way *way, const struct bench_data *data)
{
    struct facet_way *facet = way->state;
    struct facet_image *image = NULL;
    uint64_t unused, start;

    facet->bench_kernel = data->kernel;
    if (!compile_only(way, data, FACET_CACHE_USE, &way->building.cold_ns) ||
        !compile_only(way, data, FACET_CACHE_BYPASS, &way->building.again_ns) ||
        !compile(way, data, FACET_CACHE_USE, &image, &way->building.warm_ns))
        return false;
    bool ready = open_session(way, facet) && make_memory(way, facet, data) && load(way, facet, image);

    facet_image_destroy(image);
    start = bench_now_ns();
    if (!ready || !launch(way, &unused))
        return false;
    way->building.first_launch_ns = bench_now_ns() - start;
    return true;
}

static bool read_memory(struct bench_way *way, unsigned argument, void *data, size_t bytes)
{
    struct facet_way *facet = way->state;
    struct facet_error error = {0};

    return facet->provider->memory->read(facet->instance, facet->context, facet->memory[argument], bytes, data,
                                         &error) == FACET_OK ||
           fail(way, "read", &error);
}

void bench_way_facet(struct bench_way *way, const char *provider)
{
    struct facet_way *facet = calloc(1, sizeof *facet);

    *way = (struct bench_way){.name = "facet", .build = build, .launch = launch, .read = read_memory, .state = facet};
    if (!facet)
        abort();
    facet->provider_path = provider;
}

bool bench_facet_hit(const struct bench_data *data, const char *provider, struct bench_building *ret_building,
                     char *ret_missing, size_t size)
{
    struct bench_building building = {0};
    struct facet_image *image = NULL;
    struct bench_way way;
    struct facet_way *facet;

    bench_way_facet(&way, provider);
    facet = way.state;
    facet->bench_kernel = data->kernel;
    bool done = open_session(&way, facet) && make_memory(&way, facet, data);

    uint64_t start = bench_now_ns();
    done = done && compile(&way, data, FACET_CACHE_READ_ONLY, &image, &building.warm_ns) && load(&way, facet, image) &&
           queue(&way, facet);
    building.hit_to_launch_ns = bench_now_ns() - start;
    done = done && wait(&way, facet);
    building.first_launch_ns = bench_now_ns() - start;
    if (done)
        *ret_building = building;
    else
        snprintf(ret_missing, size, "%s", way.missing);
    return done;
}
