/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three applications share a device. Each has a virtual GPU with a memory limit, a share of the device's time and
 * settings of its own, and all of them want the whole device at once.
 * (This follows Example 2 of the CUDA virtualization guide step by step; here the shares are measured.)
 *
 * usage: tenants [SECONDS]        default 2; needs no accelerator
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <facet/compute.h>
#include <facet/device.h>
#include <facet/vgpu.h>

#define MIB     (UINT64_C(1) << 20)
#define GIB     (UINT64_C(1) << 30)
#define TENANTS 3u
#define SIZE    384u /* each matrix has SIZE x SIZE elements */

static const struct facet_vgpu_config configs[TENANTS] = {
    {.size = sizeof configs[0],
     .id = 1,
     .name = "App1",
     .memory_bytes = 2 * GIB,
     .streams = 4,
     .request_milli = 400,
     .on = FACET_ON_MIXED_PRECISION},
    {.size = sizeof configs[0], .id = 2, .name = "App2", .memory_bytes = 1 * GIB, .streams = 2, .request_milli = 300},
    {.size = sizeof configs[0],
     .id = 3,
     .name = "App3",
     .memory_bytes = 1 * GIB,
     .streams = 2,
     .request_milli = 300,
     .off = FACET_OFF_TENSOR_CORES},
};

struct application {
    struct facet_driver *driver;
    uint32_t id, streams;
    uint64_t end_ns;
    pthread_barrier_t *start_barrier;
    pthread_t thread;
    uint64_t operations, busy_ns;
    bool refused;
};

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void must(enum facet_status status, const struct facet_error *error)
{
    if (status == FACET_OK)
        return;
    fprintf(stderr, "tenants: %s\n", error->message);
    exit(EXIT_FAILURE);
}

/* Queues matrix operations on all streams in turn, so that the device is never idle. */
static void run_work(struct application *application, uint64_t memory)
{
    const uint64_t bytes = SIZE * SIZE * sizeof(float);
    struct facet_error error;

    for (uint32_t stream = 0; now_ns() < application->end_ns; stream = (stream + 1) % application->streams) {
        const uint64_t address = memory + stream * 3 * bytes;
        const struct facet_math operation = {.size = sizeof operation,
                                             .operation = FACET_MATH_GEMM,
                                             .of.gemm = {.a = address,
                                                         .b = address + bytes,
                                                         .c = address + 2 * bytes,
                                                         .m = SIZE,
                                                         .n = SIZE,
                                                         .k = SIZE,
                                                         .alpha = 1}};

        must(facet_vgpu_synchronize(application->driver, application->id, stream, FACET_FOREVER, &error), &error);
        for (int i = 0; i < 4; i++)
            must(facet_vgpu_operate(application->driver, application->id, stream, &operation, NULL, &error), &error);
        application->operations += 4;
    }
}

static void *run_application(void *argument)
{
    struct application *application = argument;
    struct facet_driver *driver = application->driver;
    struct facet_vgpu_info info = {.size = sizeof info};
    struct facet_error error;
    uint64_t data = 0, extra = 0;

    must(facet_vgpu_allocate(driver, application->id, 512 * MIB, NULL, &data, &error), &error);
    must(facet_vgpu_fill(driver, application->id, data, 0, 16 * MIB, &error), &error);
    pthread_barrier_wait(application->start_barrier);
    run_work(application, data);
    must(facet_vgpu_get_info(driver, application->id, &info, &error), &error);
    application->busy_ns = info.busy_ns; /* while all applications worked */
    must(facet_vgpu_synchronize(driver, application->id, FACET_STREAM_ALL, FACET_FOREVER, &error), &error);
    application->refused = facet_vgpu_allocate(driver, application->id, 2 * GIB, NULL, &extra, &error) == FACET_QUOTA;
    must(facet_vgpu_free(driver, application->id, data, &error), &error);
    return NULL;
}

static void print_results(const struct application *applications)
{
    uint64_t total_busy_ns = 0;

    for (uint32_t i = 0; i < TENANTS; i++)
        total_busy_ns += applications[i].busy_ns;
    printf("TENANT  ASKED   GOT  OPERATIONS  2 GIB MORE\n");
    for (uint32_t i = 0; i < TENANTS; i++)
        printf("%-6s   %2" PRIu32 ".0%% %4.1f%% %11" PRIu64 "  %s\n", configs[i].name, configs[i].request_milli / 10,
               total_busy_ns ? 100.0 * (double)applications[i].busy_ns / (double)total_busy_ns : 0,
               applications[i].operations, applications[i].refused ? "refused" : "given");
}

/*
 * Chooses the first device with operations; a GPU lacks them without its vendor's library. If no device has them, the
 * driver chooses a device, and its error says what is missing.
 */
static const char *choose(char *id, size_t size)
{
    const uint64_t needed =
        FACET_CAN_MEMORY | FACET_CAN_MAP_MEMORY | FACET_CAN_SHARE_PAGES | FACET_CAN_EXECUTE | FACET_CAN_MATH;
    struct facet_device_list *list = NULL;
    bool found = false;

    if (facet_device_list_open(NULL, &list, NULL) != FACET_OK)
        return NULL;
    for (uint32_t i = 0; i < facet_device_list_count(list) && !found; i++) {
        found = (facet_device_list_info(list, i)->capabilities & needed) == needed &&
                facet_device_list_health(list, i) != FACET_HEALTH_FAILED;
        snprintf(id, size, "%s", facet_device_list_id(list, i));
    }
    facet_device_list_close(list);
    return found ? id : NULL;
}

int main(int argc, char **argv)
{
    char id[64];
    const char *const devices[] = {choose(id, sizeof id), NULL};
    const struct facet_driver_config config = {
        .size = sizeof config, .vgpus = 4, .devices = devices[0] ? devices : NULL};
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 2;
    struct application applications[TENANTS] = {0};
    struct facet_driver *driver = NULL;
    pthread_barrier_t start_barrier;
    struct facet_error error;

    if (seconds <= 0 || seconds > 3600) {
        fprintf(stderr, "tenants: SECONDS '%s': expected a number above 0, at most 3600\n", argv[1]);
        return 2;
    }
    must(facet_driver_open(&config, &driver, &error), &error);
    pthread_barrier_init(&start_barrier, NULL, TENANTS);
    for (uint32_t i = 0; i < TENANTS; i++)
        must(facet_vgpu_create(driver, &configs[i], NULL, &error), &error);
    for (uint32_t i = 0; i < TENANTS; i++) {
        applications[i] = (struct application){.driver = driver,
                                               .id = configs[i].id,
                                               .streams = configs[i].streams,
                                               .end_ns = now_ns() + (uint64_t)(seconds * 1e9),
                                               .start_barrier = &start_barrier};
        if (pthread_create(&applications[i].thread, NULL, run_application, &applications[i]) != 0) {
            fprintf(stderr, "tenants: could not start a thread for %s\n", configs[i].name);
            return EXIT_FAILURE;
        }
    }
    for (uint32_t i = 0; i < TENANTS; i++)
        pthread_join(applications[i].thread, NULL);
    print_results(applications);
    for (uint32_t i = 0; i < TENANTS; i++)
        must(facet_vgpu_destroy(driver, configs[i].id, &error), &error);
    facet_driver_close(driver);
    pthread_barrier_destroy(&start_barrier);
    return EXIT_SUCCESS;
}
