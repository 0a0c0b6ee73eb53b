/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver on the device `cpu`, or of the provider FACET_TEST_PROVIDER, with kernels of kernels_image.c, for test_*.c
 * of this folder.
 *
 * Owns: opening and closing the driver, and short calls that make a launch. Never: asserts the subject of a test.
 *
 * FACET_TEST_PLACE=1 runs the provider in the test's own process, where sanitizers see both sides at once.
 */
#ifndef VGPU_WORLD_H
#define VGPU_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <facet/compute.h>
#include <facet/session.h>
#include <facet/vgpu.h>

#include "../../provider_process.h"

#define KIB     (UINT64_C(1) << 10)
#define MIB     (UINT64_C(1) << 20)
#define MS      UINT64_C(1000000)
#define WAIT_NS UINT64_C(30000000000)

static struct {
    struct facet_driver *driver;
    struct facet_image *image;
    struct facet_error error;
    char provider[4096];
    struct facet_memory_config memory;
} world;

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        enum facet_status ok_ = (call);                                                                                \
        if (ok_ != FACET_OK)                                                                                           \
            fail_msg("%s:%d: %s: %s", __FILE__, __LINE__, facet_status_name(ok_), world.error.message);                \
    } while (0)
#define REFUSED(status, call) assert_int_equal(call, status)
#define ERROR                 (&world.error)

static inline struct facet_driver_config world_config(void)
{
    const char *place = getenv("FACET_TEST_PLACE");

    const char *provider = getenv("FACET_TEST_PROVIDER");

    snprintf(world.provider, sizeof world.provider, "%s/facet-provider-%s.so", getenv("FACET_LIB_DIR"),
             provider ? provider : "cpu");
    /* A GPU's own pages are larger than this machine's. */
    world.memory = (struct facet_memory_config){.size = sizeof world.memory,
                                                .memory_bytes = 64 * MIB,
                                                .page_bytes = provider ? 2 * MIB : 64 * KIB,
                                                .chunk_bytes = provider ? 8 * MIB : MIB};
    return (struct facet_driver_config){.size = sizeof(struct facet_driver_config),
                                        .providers = world.provider,
                                        .place = place ? (uint32_t)atoi(place) : FACET_SESSION_CHILD,
                                        .monitor_ns = 10 * MS,
                                        .memory = &world.memory};
}

static inline void world_open(const struct facet_driver_config *config)
{
    OK(facet_driver_open(config, &world.driver, ERROR));
}

static inline void world_close(void)
{
    facet_driver_close(world.driver);
    world.driver = NULL;
}

/* A vGPU with number `id`, 16 MiB and two streams. */
static inline struct facet_vgpu_config vgpu_config(uint32_t id)
{
    return (struct facet_vgpu_config){
        .size = sizeof(struct facet_vgpu_config), .id = id, .memory_bytes = 16 * MIB, .streams = 2};
}

static inline void vgpu_make(uint32_t id)
{
    const struct facet_vgpu_config config = vgpu_config(id);

    OK(facet_vgpu_create(world.driver, &config, NULL, ERROR));
}

static inline struct facet_vgpu_info vgpu_info(uint32_t id)
{
    struct facet_vgpu_info info = {.size = sizeof info};

    OK(facet_vgpu_get_info(world.driver, id, &info, ERROR));
    return info;
}

static inline uint32_t vgpu_status(uint32_t id)
{
    uint32_t status = 0;

    OK(facet_vgpu_get_status(world.driver, id, &status, ERROR));
    return status;
}

static inline uint64_t vgpu_memory(uint32_t id, uint64_t bytes)
{
    uint64_t address = 0;

    OK(facet_vgpu_allocate(world.driver, id, bytes, NULL, &address, ERROR));
    OK(facet_vgpu_fill(world.driver, id, address, 0, bytes, ERROR));
    return address;
}

static inline uint64_t vgpu_word(uint32_t id, uint64_t address)
{
    uint64_t word = 0;

    OK(facet_vgpu_copy(world.driver, id, (uintptr_t)&word, address, sizeof word, FACET_COPY_TO_HOST, ERROR));
    return word;
}

static inline struct facet_kernel *vgpu_kernel(uint32_t id, const char *name, uint64_t address, uint64_t value)
{
    struct facet_kernel *kernel = NULL;

    OK(facet_vgpu_load_kernel(world.driver, id, world.image, name, &kernel, ERROR));
    OK(facet_kernel_set_memory(kernel, 0, address, ERROR));
    if (strcmp(name, "gate") != 0)
        OK(facet_kernel_set_value(kernel, 1, &value, sizeof value, ERROR));
    return kernel;
}

static inline uint64_t vgpu_launch(uint32_t id, uint32_t stream, struct facet_kernel *kernel, uint64_t groups)
{
    const struct facet_range range = {.size = sizeof range, .dimensions = 1, .global = {groups}, .group = {1}};
    uint64_t execution = 0;

    OK(facet_vgpu_execute(world.driver, id, stream, kernel, &range, &execution, ERROR));
    return execution;
}

static inline struct facet_execution vgpu_execution(uint32_t id, uint64_t execution)
{
    struct facet_execution what = {.size = sizeof what};

    OK(facet_vgpu_get_execution(world.driver, id, execution, &what, ERROR));
    return what;
}

static inline void vgpu_finish(uint32_t id)
{
    OK(facet_vgpu_synchronize(world.driver, id, FACET_STREAM_ALL, WAIT_NS, ERROR));
}

static inline void nap(uint64_t ns)
{
    nanosleep(&(struct timespec){.tv_sec = (time_t)(ns / (1000 * MS)), .tv_nsec = (long)(ns % (1000 * MS))}, NULL);
}

/* Polls, because the work may run in another process; false after WAIT_NS. */
static inline int wait_for_status(uint32_t id, uint64_t execution, uint32_t status)
{
    for (uint64_t waited = 0; waited < WAIT_NS; waited += MS) {
        if (vgpu_execution(id, execution).status == status)
            return 1;
        nap(MS);
    }
    return 0;
}

/* The provider's process: the youngest one of this program; 0 if there is none. */
static inline pid_t world_child(void)
{
    return provider_process(getpid());
}

/* Loads the image once for all tests of a program. */
static inline int world_load(void **state)
{
    static char bytes[1 << 20];
    char path[4096];

    (void)state;
    snprintf(path, sizeof path, "%s/test-vgpu-kernels.so", getenv("FACET_TEST_IMAGES"));
    FILE *file = fopen(path, "rb");
    size_t size = file ? fread(bytes, 1, sizeof bytes, file) : 0;

    if (file)
        fclose(file);
    OK(facet_image_parse(bytes, size, &world.image, ERROR));
    return 0;
}

static inline int world_unload(void **state)
{
    (void)state;
    facet_image_destroy(world.image);
    return 0;
}

static inline int world_set_up(void **state)
{
    const struct facet_driver_config config = world_config();

    (void)state;
    world_open(&config);
    return 0;
}

static inline int world_tear_down(void **state)
{
    (void)state;
    world_close();
    return 0;
}

#endif
