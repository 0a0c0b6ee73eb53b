/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small simulated machine with round numbers and stepped time, for tests of the engine.
 *
 * It has two devices of 100 units. Each unit runs one work-group at 1000 MHz, so that one cycle takes one nanosecond.
 * With a bandwidth of 1 GB/s one byte takes one nanosecond, too. A device has 64 MiB in pages of 64 KiB, and slices 0
 * to 6, of which the template "3s" takes 3.
 *
 * Owns: the profile, the provider's tables, and one context to work with.
 * Never: reaches into the provider; asserts only results of the ABI.
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <facet/provider.h>

#define WORLD_UNITS  100u
#define WORLD_MEMORY (UINT64_C(64) << 20)
#define WORLD_PAGE   UINT64_C(65536)

struct world {
    const struct facet_provider *provider;
    struct facet_provider_instance *instance;
    uint64_t context, module, stream;
    struct facet_error error;
};

/* The settings that a test may change. */
struct world_setup {
    const char *clock; /* NULL: "stepped" */
    const char *faults;
    uint32_t limit_mw, limit_mc; /* 0: too high to be reached */
};

static const char world_image[] = "kernel fill cycles_per_group=1000 effect=fill\n"
                                  "kernel add cycles_per_group=1000 effect=add\n"
                                  "kernel copy cycles_per_group=1000 effect=copy\n"
                                  "kernel compute cycles_per_group=1000 tensor_milli=500\n"
                                  "kernel stream bytes_per_group=1000\n"
                                  "kernel recorded duration_ns=12345\n";

static char world_folder_path[64];

static inline void world_remove_folder(void)
{
    static const char *const names[] = {"profile.json", "faults.json", "snapshot",
                                        "trace.csv",    "trace.json",  "trace.profile.json"};
    char path[128];

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", world_folder_path, names[i]);
        unlink(path);
    }
    rmdir(world_folder_path);
}

static inline const char *world_folder(void)
{
    if (!world_folder_path[0]) {
        snprintf(world_folder_path, sizeof world_folder_path, "/tmp/facet-sim-XXXXXX");
        assert_non_null(mkdtemp(world_folder_path));
        atexit(world_remove_folder);
    }
    return world_folder_path;
}

/* Writes a file in the test's own folder, and names it to the provider in `variable`. */
static inline void world_file(const char *variable, const char *name, const char *text)
{
    char path[128];

    snprintf(path, sizeof path, "%s/%s", world_folder(), name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    setenv(variable, path, 1);
}

static inline void world_profile(const struct world_setup *setup)
{
    char text[4096];

    snprintf(text, sizeof text,
             "{\"format\": \"facet-sim-profile\", \"version\": 1, \"name\": \"tiny\", \"description\": \"for tests\","
             " \"modelled\": [], \"products\": {\"tiny\": {\"name\": \"Tiny\", \"kind\": \"gpu\", \"source\": [\"made "
             "up\"], \"modelled\": [], \"memory_bytes\": 67108864, \"compute_units\": 100, \"groups_per_unit\": 1,"
             " \"clock_mhz\": 1000, \"clock_low_mhz\": 500, \"bandwidth_mbps\": 1000, \"idle_mw\": 10000,"
             " \"peak_mw\": 110000, \"limit_mw\": %u, \"ambient_mc\": 30000, \"limit_mc\": %u,"
             " \"heat_mc_per_w\": 500, \"heat_time_ns\": 1000000000, \"page_bytes\": 65536, \"peak_gflops\": 1000,"
             " \"pcie_generation\": 4, \"pcie_width\": 16, \"max_workers\": 8, \"properties\": {},"
             " \"partitioning\": {\"compute_slices\": 7, \"first_units\": [0, 14, 28, 42, 56, 70, 84], \"templates\":"
             " [{\"id\": \"3s\", \"memory_bytes\": 16777216, \"compute_units\": 42, \"compute_slices\": 3,"
             " \"length\": 3, \"starts\": [0, 3], \"max_count\": 2}]}}},"
             " \"devices\": [{\"product\": \"tiny\", \"pci_address\": \"0000:01:00.0\"},"
             " {\"product\": \"tiny\", \"pci_address\": \"0000:02:00.0\"}],"
             " \"nodes\": [{\"kind\": \"socket\", \"name\": \"socket0\"}],"
             " \"links\": [{\"from\": [\"device0\"], \"to\": [\"device1\"], \"type\": \"nvlink\","
             " \"level\": \"single_switch\", \"lanes\": 1, \"bandwidth_mbps\": 1000, \"latency_ns\": 100},"
             " {\"from\": [\"device0\", \"device1\"], \"to\": [\"socket0\"], \"type\": \"pcie\","
             " \"level\": \"host_bridge\", \"lanes\": 1, \"bandwidth_mbps\": 1000, \"latency_ns\": 100}]}",
             setup->limit_mw ? setup->limit_mw : 200000u, setup->limit_mc ? setup->limit_mc : 100000u);
    world_file("FACET_SIM_PROFILE", "profile.json", text);
}

static inline const struct facet_provider *world_provider(void)
{
    struct facet_error error = {0};
    const struct facet_provider_host host = {sizeof host, FACET_PROVIDER_ABI_MAJOR, FACET_PROVIDER_ABI_MINOR, &error};
    const struct facet_provider *provider = NULL;

    assert_int_equal(facet_provider_entry(&host, &provider), FACET_OK);
    return provider;
}

#define OK(world, status)                                                                                              \
    do {                                                                                                               \
        if ((status) != FACET_OK)                                                                                      \
            fail_msg("%s:%d: %s: %s", __FILE__, __LINE__, #status, (world)->error.message);                            \
    } while (0)

/* A machine without a context. */
static inline void world_start(struct world *world, struct world_setup setup)
{
    *world = (struct world){.provider = world_provider()};
    world_profile(&setup);
    setenv("FACET_SIM_CLOCK", setup.clock ? setup.clock : "stepped", 1);
    unsetenv("FACET_SIM_STATE");
    if (setup.faults)
        world_file("FACET_SIM_FAULTS", "faults.json", setup.faults);
    else
        unsetenv("FACET_SIM_FAULTS");
    OK(world, world->provider->device->open(&world->instance, &world->error));
}

static inline void world_end(struct world *world)
{
    world->provider->device->close(world->instance);
    world->instance = NULL;
}

static inline uint64_t world_context(struct world *world, uint32_t device, const char *partition, const char *worker)
{
    uint64_t context = 0;

    OK(world,
       world->provider->memory->create_context(world->instance, device, partition, worker, &context, &world->error));
    return context;
}

static inline uint64_t world_module(struct world *world, uint64_t context)
{
    uint64_t module = 0;

    OK(world, world->provider->execution->load(world->instance, context, world_image, sizeof world_image - 1, &module,
                                               &world->error));
    return module;
}

static inline uint64_t world_stream(struct world *world, uint64_t context)
{
    uint64_t stream = 0;

    OK(world, world->provider->execution->create_stream(world->instance, context, &stream, &world->error));
    return stream;
}

/* Begins with worker "a" on device 0, with a module and a stream. */
static inline void world_begin(struct world *world)
{
    world_start(world, (struct world_setup){0});
    world->context = world_context(world, 0, NULL, "a");
    world->module = world_module(world, world->context);
    world->stream = world_stream(world, world->context);
}

static inline uint64_t world_alloc(struct world *world, uint64_t context, uint64_t bytes)
{
    uint64_t address = 0;

    OK(world, world->provider->memory->alloc(world->instance, context, bytes, &address, &world->error));
    return address;
}

static inline struct facet_launch world_request(uint64_t module, const char *kernel, uint32_t groups)
{
    struct facet_launch launch = {.size = sizeof launch, .module = module, .grid = {groups, 1, 1}, .group = {1, 1, 1}};

    snprintf(launch.kernel, sizeof launch.kernel, "%s", kernel);
    return launch;
}

/* Launches a kernel without arguments. */
static inline void world_launch(struct world *world, uint64_t context, uint64_t module, uint64_t stream,
                                const char *kernel, uint32_t groups)
{
    const struct facet_launch launch = world_request(module, kernel, groups);

    OK(world, world->provider->execution->launch(world->instance, context, stream, &launch, NULL, &world->error));
}

/* Launches one work-group of a kernel with an effect. */
static inline void world_effect(struct world *world, const char *kernel, uint64_t a, uint64_t b, uint64_t c)
{
    struct facet_launch launch = world_request(world->module, kernel, 1);
    const uint64_t arguments[3] = {a, b, c};

    launch.argument_bytes = sizeof arguments;
    OK(world, world->provider->execution->launch(world->instance, world->context, world->stream, &launch, arguments,
                                                 &world->error));
}

static inline void world_synchronize(struct world *world, uint64_t context, uint64_t stream)
{
    OK(world,
       world->provider->execution->synchronize(world->instance, context, stream, UINT64_C(10000000000), &world->error));
}

static inline struct facet_stream_state world_state(struct world *world, uint64_t context, uint64_t stream)
{
    struct facet_stream_state state = {.size = sizeof state};

    OK(world, world->provider->execution->query(world->instance, context, stream, &state, &world->error));
    return state;
}

static inline uint64_t world_word(struct world *world, uint64_t context, uint64_t address)
{
    uint64_t word = 0;

    OK(world, world->provider->memory->read(world->instance, context, address, sizeof word, &word, &world->error));
    return word;
}

static inline uint64_t world_used(struct world *world, uint64_t context)
{
    struct facet_memory_info info = {.size = sizeof info};

    OK(world, world->provider->memory->info(world->instance, context, &info, &world->error));
    return info.used_bytes;
}

static inline struct facet_device_metrics world_metrics(struct world *world, uint32_t device)
{
    struct facet_device_metrics metrics = {.size = sizeof metrics};

    OK(world, world->provider->metrics->device(world->instance, device, &metrics, &world->error));
    return metrics;
}

#endif
