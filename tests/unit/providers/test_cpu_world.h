/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cpu provider with two units and 64 MiB, for its tests.
 *
 * Owns: opening it, a context, images read from the build folder.
 * Never: reaches into the provider; asserts only results of the ABI.
 */
#ifndef TEST_CPU_WORLD_H
#define TEST_CPU_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include <facet/host_kernel.h>
#include <facet/provider.h>

#define WORLD_UNITS   2u
#define WORLD_MEMORY  (UINT64_C(64) << 20)
#define WORLD_WAIT_NS UINT64_C(20000000000) /* longer than anything here takes */

struct world {
    const struct facet_provider *provider;
    struct facet_provider_instance *instance;
    uint64_t context, stream, module;
    struct facet_error error;
};

#define OK(world, call)                                                                                                \
    do {                                                                                                               \
        (world)->error.message[0] = '\0';                                                                              \
        if ((call) != FACET_OK)                                                                                        \
            fail_msg("%s: %s", #call, (world)->error.message);                                                         \
    } while (0)

static inline void world_open(struct world *world)
{
    const struct facet_provider_host host = {.size = sizeof host,
                                             .abi_major = FACET_PROVIDER_ABI_MAJOR,
                                             .abi_minor = FACET_PROVIDER_ABI_MINOR,
                                             .error = &world->error};

    setenv("FACET_CPU_UNITS", "2", 1);
    setenv("FACET_CPU_MEMORY", "67108864", 1);
    memset(world, 0, sizeof *world);
    assert_int_equal(facet_provider_entry(&host, &world->provider), FACET_OK);
    OK(world, world->provider->device->open(&world->instance, &world->error));
}

static inline uint64_t world_context(struct world *world, const char *worker)
{
    uint64_t context = 0;

    OK(world, world->provider->memory->create_context(world->instance, 0, NULL, worker, &context, &world->error));
    return context;
}

static inline uint64_t world_stream(struct world *world, uint64_t context)
{
    uint64_t stream = 0;

    OK(world, world->provider->execution->create_stream(world->instance, context, &stream, &world->error));
    return stream;
}

static inline void world_begin(struct world *world)
{
    world_open(world);
    world->context = world_context(world, "w");
    world->stream = world_stream(world, world->context);
}

static inline void world_end(struct world *world)
{
    world->provider->device->close(world->instance);
}

static inline uint64_t world_alloc(struct world *world, uint64_t context, uint64_t bytes)
{
    uint64_t address = 0;

    OK(world, world->provider->memory->alloc(world->instance, context, bytes, &address, &world->error));
    return address;
}

static inline uint64_t world_used(struct world *world, uint64_t context)
{
    struct facet_memory_info info = {.size = sizeof info};

    OK(world, world->provider->memory->info(world->instance, context, &info, &world->error));
    return info.used_bytes;
}

/* Reads a file of the build folder; the caller frees it. */
static inline void *world_file(const char *name, size_t *ret_size)
{
    char path[1024];
    static unsigned char buffer[1 << 20];

    snprintf(path, sizeof path, "%s/%s", getenv("FACET_TEST_IMAGES"), name);
    FILE *file = fopen(path, "rbe");
    assert_non_null(file);
    *ret_size = fread(buffer, 1, sizeof buffer, file);
    fclose(file);
    void *copy = malloc(*ret_size);
    assert_non_null(copy);
    memcpy(copy, buffer, *ret_size);
    return copy;
}

static inline enum facet_status world_try_load(struct world *world, const char *name, uint64_t *ret_module)
{
    size_t size = 0;
    void *image = world_file(name, &size);
    enum facet_status status =
        world->provider->execution->load(world->instance, world->context, image, size, ret_module, &world->error);

    free(image);
    return status;
}

static inline void world_load(struct world *world, const char *name)
{
    OK(world, world_try_load(world, name, &world->module));
}

static inline struct facet_launch world_launch(const struct world *world, const char *kernel, uint32_t argument_bytes,
                                               uint32_t grid, uint32_t group)
{
    struct facet_launch launch = {.size = sizeof launch,
                                  .argument_bytes = argument_bytes,
                                  .module = world->module,
                                  .grid = {grid, 1, 1},
                                  .group = {group, 1, 1},
                                  .dimensions = 1};

    snprintf(launch.kernel, sizeof launch.kernel, "%s", kernel);
    return launch;
}

static inline enum facet_status world_run(struct world *world, const struct facet_launch *launch, const void *arguments)
{
    return world->provider->execution->launch(world->instance, world->context, world->stream, launch, arguments,
                                              &world->error);
}

static inline enum facet_status world_wait(struct world *world)
{
    return world->provider->execution->synchronize(world->instance, world->context, world->stream, WORLD_WAIT_NS,
                                                   &world->error);
}

/* Starts the kernel `spin`, and waits until it runs. The test can reach its gate, an address of this process. */
static inline void world_spin(struct world *world, uint64_t gate)
{
    const struct timespec pause = {.tv_nsec = 100000};
    struct facet_launch launch = world_launch(world, "spin", sizeof gate, 1, 1);

    OK(world, world_run(world, &launch, &gate));
    for (int i = 0; i < 100000 && !__atomic_load_n((uint32_t *)gate, __ATOMIC_ACQUIRE); i++)
        nanosleep(&pause, NULL);
    assert_int_equal(__atomic_load_n((uint32_t *)gate, __ATOMIC_ACQUIRE), 1);
}

/* Ends the kernel that world_spin() started. */
static inline void world_let_go(uint64_t gate)
{
    __atomic_store_n((uint32_t *)gate + 1, 1, __ATOMIC_RELEASE);
}

#endif
