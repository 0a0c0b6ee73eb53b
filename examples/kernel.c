/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a kernel of its own on two virtual GPUs. The kernel is compiled from OpenCL C at run time, for the device that
 * the program found, and is launched on both vGPUs all the time. The first vGPU has three quarters of the device, the
 * second one quarter; the device time of each is measured.
 *
 * usage: kernel [SECONDS]        default 2; needs no accelerator, but the kernel compiler (docs/kernels.md)
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <facet/compute.h>
#include <facet/vgpu.h>

#define KIB             UINT64_C(1024)
#define MIB             (1024 * KIB)
#define VGPUS           2u
#define ITEMS           32768u /* work-items of a launch */
#define STEPS           20000u /* steps of each work-item */
#define CHECKED_STEP    61u    /* the host checks the result of every 61st item */
#define QUEUED_LAUNCHES 8u     /* launches queued or running, so that a vGPU is never idle */

/* Each item computes a sequence of random numbers, whose last number the host can check. */
static const char source[] = "kernel void shuffle(global uint *numbers, uint steps)\n"
                             "{\n"
                             "    uint number = get_global_id(0);\n"
                             "    for (uint i = 0; i < steps; i++)\n"
                             "        number = number * 1664525u + 1013904223u;\n"
                             "    numbers[get_global_id(0)] = number;\n"
                             "}\n";

static const struct facet_vgpu_config configs[VGPUS] = {
    {.size = sizeof configs[0], .id = 1, .name = "large", .memory_bytes = 64 * MIB, .request_milli = 750},
    {.size = sizeof configs[0], .id = 2, .name = "small", .memory_bytes = 64 * MIB, .request_milli = 250},
};

/* A vGPU's work, and its device time while both vGPUs worked. */
struct tenant {
    struct facet_driver *driver;
    uint32_t id;
    uint64_t numbers;
    struct facet_kernel *kernel;
    uint64_t launches, busy_ns;
};

static void must(enum facet_status status, const struct facet_error *error)
{
    if (status == FACET_OK)
        return;
    fprintf(stderr, "kernel: %s\n", error->message);
    exit(EXIT_FAILURE);
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Compiles for the device that the vGPUs are on. From the second run on, the image comes from the cache. */
static struct facet_image *compile(struct facet_driver *driver)
{
    struct facet_compile_options options = {.size = sizeof options, .name = "shuffle.cl"};
    struct facet_compile_statistics statistics = {.size = sizeof statistics};
    struct facet_compiler *compiler = NULL;
    struct facet_image *image = NULL;
    struct facet_error error;

    must(facet_vgpu_target(driver, configs[0].id, &options.target, &error), &error);
    must(facet_compiler_create(NULL, &compiler, &error), &error);
    must(facet_compile(compiler, source, strlen(source), &options, &image, &error), &error);
    facet_image_statistics(image, &statistics);
    printf("shuffle.cl for %s: %" PRIu64 " bytes of code, %s\n", facet_image_target(image), statistics.image_bytes,
           statistics.cache_hit ? "from the cache" : "compiled");
    facet_compiler_destroy(compiler);
    return image;
}

static void prepare(struct tenant *tenant, const struct facet_image *image)
{
    const uint32_t steps = STEPS;
    struct facet_error error;

    must(facet_vgpu_allocate(tenant->driver, tenant->id, ITEMS * sizeof(uint32_t), NULL, &tenant->numbers, &error),
         &error);
    must(facet_vgpu_load_kernel(tenant->driver, tenant->id, image, "shuffle", &tenant->kernel, &error), &error);
    must(facet_kernel_set_memory(tenant->kernel, 0, tenant->numbers, &error), &error);
    must(facet_kernel_set_value(tenant->kernel, 1, &steps, sizeof steps, &error), &error);
}

static struct facet_vgpu_info info_of(const struct tenant *tenant)
{
    struct facet_vgpu_info info = {.size = sizeof info};
    struct facet_error error;

    must(facet_vgpu_get_info(tenant->driver, tenant->id, &info, &error), &error);
    return info;
}

/* Queues launches until QUEUED_LAUNCHES of the tenant are queued or running. */
static void feed(struct tenant *tenant)
{
    const struct facet_range range = {.size = sizeof range, .dimensions = 1, .global = {ITEMS}};
    struct facet_vgpu_info info = info_of(tenant);
    struct facet_error error;

    for (uint32_t waiting = info.queued + info.running; waiting < QUEUED_LAUNCHES; waiting++) {
        must(facet_vgpu_execute(tenant->driver, tenant->id, 0, tenant->kernel, &range, NULL, &error), &error);
    }
}

/* Both tenants have work from the first reading of busy_ns to the last, so the difference shows each tenant's share. */
static void run_work(struct tenant *tenants, double seconds)
{
    const struct timespec pause = {.tv_nsec = 500000};
    uint64_t end_ns = now_ns() + (uint64_t)(seconds * 1e9);
    struct facet_vgpu_info begin[VGPUS];

    for (uint32_t i = 0; i < VGPUS; i++)
        feed(&tenants[i]);
    for (uint32_t i = 0; i < VGPUS; i++)
        begin[i] = info_of(&tenants[i]);
    while (now_ns() < end_ns) {
        for (uint32_t i = 0; i < VGPUS; i++)
            feed(&tenants[i]);
        nanosleep(&pause, NULL);
    }
    for (uint32_t i = 0; i < VGPUS; i++) {
        const struct facet_vgpu_info info = info_of(&tenants[i]);

        tenants[i].busy_ns = info.busy_ns - begin[i].busy_ns;
        tenants[i].launches = info.completed_total - begin[i].completed_total;
    }
}

static uint32_t count_wrong(const struct tenant *tenant)
{
    static uint32_t numbers[ITEMS];
    uint32_t wrong = 0;
    struct facet_error error;

    must(facet_vgpu_copy(tenant->driver, tenant->id, (uintptr_t)numbers, tenant->numbers, sizeof numbers,
                         FACET_COPY_TO_HOST, &error),
         &error);
    for (uint32_t item = 0; item < ITEMS; item += CHECKED_STEP) {
        uint32_t number = item;

        for (uint32_t i = 0; i < STEPS; i++)
            number = number * 1664525u + 1013904223u;
        wrong += numbers[item] != number;
    }
    return wrong;
}

static void print_results(const struct tenant *tenants)
{
    uint64_t total_busy_ns = tenants[0].busy_ns + tenants[1].busy_ns;

    printf("VGPU   ASKED   GOT  LAUNCHES  WRONG\n");
    for (uint32_t i = 0; i < VGPUS; i++)
        printf("%-5s  %2" PRIu32 ".0%% %4.1f%% %9" PRIu64 "  %" PRIu32 "\n", configs[i].name,
               configs[i].request_milli / 10,
               total_busy_ns ? 100.0 * (double)tenants[i].busy_ns / (double)total_busy_ns : 0, tenants[i].launches,
               count_wrong(&tenants[i]));
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 2;
    struct tenant tenants[VGPUS] = {0};
    struct facet_driver *driver = NULL;
    struct facet_error error;

    if (!(seconds > 0 && seconds <= 3600)) {
        fprintf(stderr, "kernel: SECONDS '%s': expected a number above 0, at most 3600\n", argv[1]);
        return 2;
    }
    must(facet_driver_open(NULL, &driver, &error), &error);
    for (uint32_t i = 0; i < VGPUS; i++)
        must(facet_vgpu_create(driver, &configs[i], NULL, &error), &error);
    struct facet_image *image = compile(driver);
    for (uint32_t i = 0; i < VGPUS; i++) {
        tenants[i] = (struct tenant){.driver = driver, .id = configs[i].id};
        prepare(&tenants[i], image);
    }
    facet_image_destroy(image);
    run_work(tenants, seconds);
    for (uint32_t i = 0; i < VGPUS; i++)
        must(facet_vgpu_synchronize(driver, tenants[i].id, FACET_STREAM_ALL, FACET_FOREVER, &error), &error);
    print_results(tenants);
    for (uint32_t i = 0; i < VGPUS; i++) {
        facet_kernel_destroy(tenants[i].kernel);
        must(facet_vgpu_free(driver, tenants[i].id, tenants[i].numbers, &error), &error);
        must(facet_vgpu_destroy(driver, tenants[i].id, &error), &error);
    }
    facet_driver_close(driver);
    return EXIT_SUCCESS;
}
