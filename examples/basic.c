/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates one virtual GPU, allocates memory, multiplies two matrices, prints the memory and time that this took, and
 * destroys the vGPU. (This follows Example 1 of the CUDA virtualization guide step by step; here the matrices are
 * really multiplied.)
 *
 * usage: basic        needs no accelerator: without one it runs on this machine's processors
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <facet/compute.h>
#include <facet/device.h>
#include <facet/vgpu.h>

#define SIZE 256u /* each matrix has SIZE x SIZE elements */
#define MIB  (UINT64_C(1) << 20)

static void must(enum facet_status status, const struct facet_error *error)
{
    if (status == FACET_OK)
        return;
    fprintf(stderr, "basic: %s\n", error->message);
    exit(EXIT_FAILURE);
}

/* A is twice the identity matrix, and B counts from 0 to 999 again and again, so C must be twice B. */
static void fill(float *a, float *b)
{
    for (uint32_t i = 0; i < SIZE * SIZE; i++) {
        a[i] = i / SIZE == i % SIZE ? 2.0f : 0.0f;
        b[i] = (float)(i % 1000);
    }
}

static uint32_t count_wrong(const float *b, const float *c)
{
    uint32_t wrong = 0;

    for (uint32_t i = 0; i < SIZE * SIZE; i++)
        wrong += c[i] < 2 * b[i] || c[i] > 2 * b[i];
    return wrong;
}

static uint64_t multiply(struct facet_driver *driver, uint32_t id, uint64_t memory, struct facet_error *error)
{
    const uint64_t bytes = SIZE * SIZE * sizeof(float);
    const struct facet_math operation = {
        .size = sizeof operation,
        .operation = FACET_MATH_GEMM,
        .type = FACET_MATH_F32,
        .of.gemm = {
            .a = memory, .b = memory + bytes, .c = memory + 2 * bytes, .m = SIZE, .n = SIZE, .k = SIZE, .alpha = 1}};
    uint64_t execution = 0;

    must(facet_vgpu_operate(driver, id, 0, &operation, &execution, error), error);
    must(facet_vgpu_synchronize(driver, id, 0, FACET_FOREVER, error), error);
    return execution;
}

static void print_results(struct facet_driver *driver, uint32_t id, uint64_t execution, struct facet_error *error)
{
    struct facet_execution execution_info = {.size = sizeof execution_info};
    struct facet_vgpu_info info = {.size = sizeof info};

    must(facet_vgpu_get_execution(driver, id, execution, &execution_info, error), error);
    must(facet_vgpu_get_info(driver, id, &info, error), error);
    printf("%s: %s on stream %" PRIu32 ", %s: waited %" PRIu64 " us, took %" PRIu64 " us of %" PRIu32
           " compute units\n",
           info.name, execution_info.kernel, execution_info.stream, facet_execution_status_name(execution_info.status),
           (execution_info.start_ns - execution_info.queued_ns) / 1000, execution_info.busy_ns / 1000,
           execution_info.units);
    printf("%s: %s, %" PRIu64 " KiB in %" PRIu64 " allocation of at most %" PRIu64 " MiB\n", info.name,
           facet_vgpu_status_name(info.status), info.memory_allocated_bytes / 1024, info.allocations,
           info.memory_limit_bytes / MIB);
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

int main(void)
{
    static float a[SIZE * SIZE], b[SIZE * SIZE], c[SIZE * SIZE];
    char id[64];
    const char *const devices[] = {choose(id, sizeof id), NULL};
    const struct facet_driver_config config = {
        .size = sizeof config, .vgpus = 2, .devices = devices[0] ? devices : NULL};
    const struct facet_vgpu_config vgpu = {
        .size = sizeof vgpu, .id = 1, .name = "basic", .memory_bytes = 1024 * MIB, .streams = 2};
    struct facet_driver_device device = {.size = sizeof device};
    struct facet_driver *driver = NULL;
    struct facet_error error;
    uint64_t memory = 0;

    must(facet_driver_open(&config, &driver, &error), &error);
    facet_driver_get_device(driver, 0, &device);
    printf("device %s: %s, %" PRIu32 " compute units, %" PRIu64 " MiB\n", device.id, device.name, device.units,
           device.memory_bytes / MIB);
    must(facet_vgpu_create(driver, &vgpu, NULL, &error), &error);
    must(facet_vgpu_allocate(driver, 1, 1 * MIB, NULL, &memory, &error), &error);

    fill(a, b);
    must(facet_vgpu_copy(driver, 1, memory, (uintptr_t)a, sizeof a, FACET_COPY_TO_DEVICE, &error), &error);
    must(facet_vgpu_copy(driver, 1, memory + sizeof a, (uintptr_t)b, sizeof b, FACET_COPY_TO_DEVICE, &error), &error);
    uint64_t execution = multiply(driver, 1, memory, &error);
    must(facet_vgpu_copy(driver, 1, (uintptr_t)c, memory + 2 * sizeof a, sizeof c, FACET_COPY_TO_HOST, &error), &error);
    print_results(driver, 1, execution, &error);
    printf("%u x %u product: %" PRIu32 " elements wrong\n", SIZE, SIZE, count_wrong(b, c));

    must(facet_vgpu_free(driver, 1, memory, &error), &error);
    must(facet_vgpu_destroy(driver, 1, &error), &error);
    facet_driver_close(driver);
    return EXIT_SUCCESS;
}
