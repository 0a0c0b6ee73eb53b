/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tenant of high priority that launches now and then, alone and beside one of low priority that never rests.
 *
 * Prints {"rounds","alone_p50_us","alone_p99_us","beside_p50_us","beside_p99_us","ratio_p99"}: from a launch to its
 * end, as the device recorded it: queued to end. The two take turns in blocks, so that noise meets both alike.
 */
#include "common.h"

#define KERNEL_NS (2 * MS)
#define THINK_NS  (3 * MS)
#define BLOCK     25u /* launches */
#define AHEAD     8u  /* kernels of the other one that are queued */

static int compare(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return (a > b) - (a < b);
}

/* One launch and its latency. */
static uint64_t latency(const struct burner *burner, const struct burn *burn)
{
    struct facet_execution what = {.size = sizeof what};
    struct facet_error error;
    uint64_t execution = 0;

    burn_launch(burner, burn, 0, KERNEL_NS, &execution);
    must(facet_vgpu_synchronize(burner->driver, burn->id, 0, FACET_FOREVER, &error), &error, "synchronize");
    must(facet_vgpu_get_execution(burner->driver, burn->id, execution, &what, &error), &error, "execution");
    sleep_ns(THINK_NS);
    return what.end_ns - what.queued_ns;
}

/* Keeps the other one's queue filled. */
static void fill(const struct burner *burner, const struct burn *burn, const struct lengths *lengths, size_t *next)
{
    struct facet_stream_info info = {.size = sizeof info};
    struct facet_error error;

    must(facet_vgpu_query(burner->driver, burn->id, 0, &info, &error), &error, "query");
    for (uint64_t queued = info.launched - info.completed; queued < AHEAD; queued++) {
        burn_launch(burner, burn, 0, lengths->ns[*next] + 10 * MS, NULL);
        *next = (*next + 1) % lengths->count;
    }
}

static void make(struct burner *burner, uint32_t id, uint32_t priority, struct burn *ret_burn)
{
    const struct facet_vgpu_config config = {
        .size = sizeof config, .id = id, .memory_bytes = 16 * MIB, .priority = FACET_VGPU_PRIORITY(priority)};
    struct facet_error error;

    must(facet_vgpu_create(burner->driver, &config, NULL, &error), &error, "vGPU");
    burn_open(burner, id, 1, ret_burn);
}

static double percentile_us(const uint64_t *sorted, uint32_t count, uint32_t milli)
{
    uint64_t place = (uint64_t)(count - 1) * milli / 1000;

    return (double)sorted[place] / 1e3;
}

int priority_main(char **arguments)
{
    uint32_t blocks = (uint32_t)strtoul(arguments[0], NULL, 10), count = blocks * BLOCK;
    uint64_t *alone = calloc(count, sizeof *alone), *beside = calloc(count, sizeof *beside);
    const struct facet_driver_config config = {.size = sizeof config, .policy = FACET_SCHEDULE_PRIORITY};
    struct facet_error error;
    struct lengths lengths;
    struct burner burner;
    struct burn high, low;
    size_t next = 0;

    if (!alone || !beside || count == 0)
        die("priority", "expected a number of rounds, and memory for them");
    lengths_read(arguments[1], 1, &lengths);
    burner_open(&config, &burner);
    make(&burner, 1, FACET_PRIORITY_HIGH, &high);
    make(&burner, 2, FACET_PRIORITY_LOW, &low);
    for (uint32_t block = 0; block < blocks; block++) {
        for (uint32_t i = 0; i < BLOCK; i++)
            alone[block * BLOCK + i] = latency(&burner, &high);
        for (uint32_t i = 0; i < BLOCK; i++) {
            fill(&burner, &low, &lengths, &next);
            beside[block * BLOCK + i] = latency(&burner, &high);
        }
        must(facet_vgpu_synchronize(burner.driver, 2, 0, FACET_FOREVER, &error), &error, "synchronize");
    }
    qsort(alone, count, sizeof *alone, compare);
    qsort(beside, count, sizeof *beside, compare);
    printf("{\"rounds\":%u,\"alone_p50_us\":%.1f,\"alone_p99_us\":%.1f,\"beside_p50_us\":%.1f,\"beside_p99_us\":%.1f,"
           "\"ratio_p99\":%.3f}\n",
           count, percentile_us(alone, count, 500), percentile_us(alone, count, 990), percentile_us(beside, count, 500),
           percentile_us(beside, count, 990), percentile_us(beside, count, 990) / percentile_us(alone, count, 990));
    burn_close(&high);
    burn_close(&low);
    burner_close(&burner);
    free(alone);
    free(beside);
    free(lengths.ns);
    return EXIT_SUCCESS;
}
