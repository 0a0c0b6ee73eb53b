/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tenant of high priority that launches now and then, alone and beside a tenant of low priority that is always busy.
 *
 * Prints {"rounds","ratio_p99","own_ratio_p99","alone":{..},"beside":{..}}, each with
 * {"p50_us","p99_us","own","own_p50_us","own_p99_us"}: times from queuing a launch to its end, as the device recorded
 * them. Blocks of the two alternate, so that noise affects both alike. own: the number of launches during which other
 * programs did not keep the device's threads from their processors for long; own_...: the times of only those launches.
 */
#include "common.h"

#define KERNEL_NS (2 * MS)
#define THINK_NS  (3 * MS) /* from the end of a launch to the next launch */
#define BLOCK     25u      /* launches */
#define AHEAD     8u       /* how many kernels the tenant of low priority keeps queued */

/* The most time, summed over all units, for which their threads may wait for processors during an undisturbed
 * launch. It is not 0, since the thread that follows a launch takes a processor for a moment. */
#define WAITS_MOST_NS (KERNEL_NS / 5)

struct latencies {
    uint32_t count, undisturbed_count;
    uint64_t *all_ns, *undisturbed_ns;
};

static int compare_times(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return (a > b) - (a < b);
}

/* Launches once, and records the latency. */
static void measure_launch(const struct burner *burner, const struct burn *burn,
                           const struct processor_waits *processor_waits, struct latencies *latencies)
{
    struct facet_execution what = {.size = sizeof what};
    struct facet_error error;
    uint64_t execution = 0, waited = processor_waits_ns(processor_waits);

    burn_launch(burner, burn, 0, KERNEL_NS, &execution);
    must(facet_vgpu_synchronize(burner->driver, burn->id, 0, FACET_FOREVER, &error), &error, "synchronize");
    must(facet_vgpu_get_execution(burner->driver, burn->id, execution, &what, &error), &error, "execution");
    bool is_undisturbed = processor_waits_ns(processor_waits) - waited <= WAITS_MOST_NS;
    uint64_t took = what.end_ns - what.queued_ns;
    latencies->all_ns[latencies->count++] = took;
    if (is_undisturbed)
        latencies->undisturbed_ns[latencies->undisturbed_count++] = took;
    sleep_ns(THINK_NS);
}

/* Fills the queue of the tenant of low priority. */
static void fill_queue(const struct burner *burner, const struct burn *burn, const struct lengths *lengths,
                       size_t *next)
{
    struct facet_stream_info info = {.size = sizeof info};
    struct facet_error error;

    must(facet_vgpu_query(burner->driver, burn->id, 0, &info, &error), &error, "query");
    for (uint64_t queued = info.launched - info.completed; queued < AHEAD; queued++) {
        burn_launch(burner, burn, 0, lengths->ns[*next] + 10 * MS, NULL);
        *next = (*next + 1) % lengths->count;
    }
}

static void make_vgpu(struct burner *burner, uint32_t id, uint32_t priority, struct burn *ret_burn)
{
    const struct facet_vgpu_config config = {
        .size = sizeof config, .id = id, .memory_bytes = 16 * MIB, .priority = FACET_VGPU_PRIORITY(priority)};
    struct facet_error error;

    must(facet_vgpu_create(burner->driver, &config, NULL, &error), &error, "vGPU");
    burn_open(burner, id, 1, ret_burn);
}

static void latencies_open(uint32_t count, struct latencies *ret_latencies)
{
    *ret_latencies = (struct latencies){.all_ns = calloc(count, sizeof(uint64_t)),
                                        .undisturbed_ns = calloc(count, sizeof(uint64_t))};
    if (!ret_latencies->all_ns || !ret_latencies->undisturbed_ns || count == 0)
        die("priority", "expected a number of rounds, and memory for them");
}

static void latencies_close(struct latencies *latencies)
{
    free(latencies->all_ns);
    free(latencies->undisturbed_ns);
}

/* A percentile; 0 when there are no values. */
static double percentile_us(uint64_t *values, uint32_t count, uint32_t milli)
{
    if (count == 0)
        return 0;
    uint64_t place = (uint64_t)(count - 1) * milli / 1000;

    qsort(values, count, sizeof *values, compare_times);
    return (double)values[place] / 1e3;
}

static void show_one(const char *name, const struct latencies *latencies)
{
    printf(",\"%s\":{\"p50_us\":%.1f,\"p99_us\":%.1f,\"own\":%u,\"own_p50_us\":%.1f,\"own_p99_us\":%.1f}", name,
           percentile_us(latencies->all_ns, latencies->count, 500),
           percentile_us(latencies->all_ns, latencies->count, 990), latencies->undisturbed_count,
           percentile_us(latencies->undisturbed_ns, latencies->undisturbed_count, 500),
           percentile_us(latencies->undisturbed_ns, latencies->undisturbed_count, 990));
}

static double ratio(double left, double right)
{
    return right > 0 ? left / right : 0;
}

static void show_latencies(const struct latencies *alone, const struct latencies *beside)
{
    printf("{\"rounds\":%u,\"ratio_p99\":%.3f,\"own_ratio_p99\":%.3f", alone->count,
           ratio(percentile_us(beside->all_ns, beside->count, 990), percentile_us(alone->all_ns, alone->count, 990)),
           ratio(percentile_us(beside->undisturbed_ns, beside->undisturbed_count, 990),
                 percentile_us(alone->undisturbed_ns, alone->undisturbed_count, 990)));
    show_one("alone", alone);
    show_one("beside", beside);
    puts("}");
}

int priority_main(char **arguments)
{
    uint32_t blocks = (uint32_t)strtoul(arguments[0], NULL, 10);
    struct latencies alone, beside;
    struct processor_waits processor_waits;
    const struct facet_driver_config config = {.size = sizeof config, .policy = FACET_SCHEDULE_PRIORITY};
    struct facet_error error;
    struct lengths lengths;
    struct burner burner;
    struct burn high, low;
    size_t next = 0;

    latencies_open(blocks * BLOCK, &alone);
    latencies_open(blocks * BLOCK, &beside);
    lengths_read(arguments[1], 1, &lengths);
    burner_open(&config, &burner);
    make_vgpu(&burner, 1, FACET_PRIORITY_HIGH, &high);
    make_vgpu(&burner, 2, FACET_PRIORITY_LOW, &low);
    processor_waits_open(&processor_waits);
    for (uint32_t block = 0; block < blocks; block++) {
        for (uint32_t i = 0; i < BLOCK; i++)
            measure_launch(&burner, &high, &processor_waits, &alone);
        for (uint32_t i = 0; i < BLOCK; i++) {
            fill_queue(&burner, &low, &lengths, &next);
            measure_launch(&burner, &high, &processor_waits, &beside);
        }
        must(facet_vgpu_synchronize(burner.driver, 2, 0, FACET_FOREVER, &error), &error, "synchronize");
    }
    show_latencies(&alone, &beside);
    burn_close(&high);
    burn_close(&low);
    burner_close(&burner);
    latencies_close(&alone);
    latencies_close(&beside);
    free(lengths.ns);
    return EXIT_SUCCESS;
}
