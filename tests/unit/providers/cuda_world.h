/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the built cuda provider over the fake driver: opening it, a worker with a stream, launches.
 * Never: opens a real driver. Each test includes this file first, for all headers that it needs.
 */
#ifndef TEST_CUDA_WORLD_H
#define TEST_CUDA_WORLD_H

#include <time.h>

#include "tests/provider.h"

#define UNUSED __attribute__((unused))
#define MIB    (UINT64_C(1) << 20)
#define SECOND UINT64_C(1000000000)

UNUSED static const char kernels[] = ".version 7.0 .target sm_52 .address_size 64 "
                                     ".visible .entry spin_1000us() { ret; } .visible .entry spin_20000us() { ret; } "
                                     ".visible .entry spin_7000000us() { ret; }";

UNUSED static void set_driver(const char *path)
{
    setenv("FACET_CUDA_DRIVER", path, 1);
}

UNUSED static void set_fake_driver(const char *variable)
{
    assert_non_null(getenv(variable));
    set_driver(getenv(variable));
}

UNUSED static struct facet_provider_instance *open_fake(void)
{
    struct facet_provider_instance *instance = NULL;
    struct facet_error error = {0};

    set_fake_driver("FACET_TEST_CUDA");
    if (provider->device->open(&instance, &error) != FACET_OK)
        fail_msg("open: %s", error.message);
    return instance;
}

UNUSED static uint32_t list(struct facet_provider_instance *instance, struct facet_device_info infos[16])
{
    uint32_t count = 0;

    assert_int_equal(provider->device->list(instance, infos, sizeof infos[0], 16, &count, NULL), FACET_OK);
    return count;
}

UNUSED static uint64_t context_of(struct facet_provider_instance *instance, uint32_t device, const char *worker)
{
    struct facet_error error = {0};
    uint64_t context = 0;

    if (provider->memory->create_context(instance, device, NULL, worker, &context, &error) != FACET_OK)
        fail_msg("create_context: %s", error.message);
    return context;
}

UNUSED static uint64_t used(struct facet_provider_instance *instance, uint64_t context)
{
    struct facet_memory_info info = {.size = sizeof info};

    assert_int_equal(provider->memory->info(instance, context, &info, NULL), FACET_OK);
    return info.used_bytes;
}

struct world {
    struct facet_provider_instance *instance;
    uint64_t context, module, stream;
};

/* Creates a context of the worker on device 0 of an open instance, with a module and a stream. */
UNUSED static struct world enter_world(struct facet_provider_instance *instance, const char *worker)
{
    struct world world = {.instance = instance, .context = context_of(instance, 0, worker)};
    struct facet_error error = {0};

    if (provider->execution->load(world.instance, world.context, kernels, sizeof kernels - 1, &world.module, &error) !=
        FACET_OK)
        fail_msg("load: %s", error.message);
    assert_int_equal(provider->execution->create_stream(world.instance, world.context, &world.stream, NULL), FACET_OK);
    return world;
}

UNUSED static struct world open_world(void)
{
    return enter_world(open_fake(), "w");
}

/* Launches `groups` work-groups, each of which does what the kernel's name says. */
UNUSED static void launch_groups(const struct world *world, const char *kernel, uint32_t groups)
{
    struct facet_launch launch = {
        .size = sizeof launch, .module = world->module, .grid = {groups, 1, 1}, .group = {32, 1, 1}};

    snprintf(launch.kernel, sizeof launch.kernel, "%s", kernel);
    assert_int_equal(provider->execution->launch(world->instance, world->context, world->stream, &launch, NULL, NULL),
                     FACET_OK);
}

UNUSED static void launch(const struct world *world, const char *kernel)
{
    launch_groups(world, kernel, 1);
}

UNUSED static void wait_for(const struct world *world)
{
    assert_int_equal(
        provider->execution->synchronize(world->instance, world->context, world->stream, 60 * SECOND, NULL), FACET_OK);
}

UNUSED static struct facet_stream_state state_of(const struct world *world)
{
    struct facet_stream_state now = {.size = sizeof now};

    assert_int_equal(provider->execution->query(world->instance, world->context, world->stream, &now, NULL), FACET_OK);
    return now;
}

UNUSED static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

#endif
