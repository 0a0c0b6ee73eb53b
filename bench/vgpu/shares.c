/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants with shares replay kernels of mixed lengths, all at once, each with two streams that are never empty.
 *
 * Owns: each tenant's device time in every window of 100 ms, and of 1 s, as the driver's monitor measured it.
 * Never: counts the first and the last window, in which not all tenants run.
 *
 * Prints {"tenants","windows","error_100ms","worst_100ms","error_1s","jain","share":[...]}: errors in points: the mean,
 * over windows and tenants, of the distance from the request. jain: Jain's index of share / request over the whole run.
 */
#include <pthread.h>

#include "common.h"

#define TENANTS_MOST 8u
#define STREAMS      2u
#define AHEAD_NS     (4 * MS) /* the least work that is queued on a stream */
#define SAMPLES      4000u
#define WINDOW_NS    (100 * MS)
#define LONG         10u /* windows in a long window, of 1 s */

struct tenant {
    const struct burner *burner;
    struct burn burn;
    struct lengths lengths;
    uint32_t request_milli;
    uint64_t end_ns;
    pthread_t thread;
    struct facet_sample samples[SAMPLES];
    uint32_t count;
};

/* Waits for one of the two streams, and fills it again, while the other one works. */
static void *feed_streams(void *argument)
{
    struct tenant *tenant = argument;
    struct facet_error error;
    size_t next = 0;

    for (uint32_t stream = 0; now_ns() < tenant->end_ns; stream = (stream + 1) % STREAMS) {
        must(facet_vgpu_synchronize(tenant->burner->driver, tenant->burn.id, stream, FACET_FOREVER, &error), &error,
             "synchronize");
        for (uint64_t queued = 0; queued < AHEAD_NS; next = (next + 1) % tenant->lengths.count) {
            burn_launch(tenant->burner, &tenant->burn, stream, tenant->lengths.ns[next], NULL);
            queued += tenant->lengths.ns[next] + 1;
        }
    }
    return NULL;
}

static uint64_t busy_between(const struct tenant *tenant, uint32_t from, uint32_t to)
{
    return tenant->samples[to].values[FACET_SAMPLE_BUSY_NS] - tenant->samples[from].values[FACET_SAMPLE_BUSY_NS];
}

/* The distance from the request, in points, over windows of `length` samples: mean and worst. */
static double error_over(const struct tenant *tenants, uint32_t count, uint32_t length, double *ret_worst)
{
    uint32_t samples = tenants[0].count, asked = 0, windows = 0;
    double sum = 0, worst = 0;

    for (uint32_t i = 0; i < count; i++) {
        asked += tenants[i].request_milli;
        samples = tenants[i].count < samples ? tenants[i].count : samples;
    }
    for (uint32_t at = 1; at + length + 1 < samples; at += length, windows++) {
        uint64_t all = 0;

        for (uint32_t i = 0; i < count; i++)
            all += busy_between(&tenants[i], at, at + length);
        for (uint32_t i = 0; i < count && all > 0; i++) {
            double got = 100.0 * (double)busy_between(&tenants[i], at, at + length) / (double)all;
            double off = got - 100.0 * tenants[i].request_milli / asked;

            off = off < 0 ? -off : off;
            sum += off;
            worst = off > worst ? off : worst;
        }
    }
    if (ret_worst)
        *ret_worst = worst;
    return windows ? sum / windows / count : 0;
}

static double jain_index(const struct tenant *tenants, uint32_t count)
{
    double sum = 0, squares = 0;

    for (uint32_t i = 0; i < count; i++) {
        double part = (double)busy_between(&tenants[i], 1, tenants[i].count - 2) / tenants[i].request_milli;

        sum += part;
        squares += part * part;
    }
    return squares > 0 ? sum * sum / (count * squares) : 0;
}

static void show_tenants(const struct tenant *tenants, uint32_t count)
{
    double worst = 0, error_short = error_over(tenants, count, 1, &worst),
           error_long = error_over(tenants, count, LONG, NULL);
    uint64_t all = 0;

    for (uint32_t i = 0; i < count; i++)
        all += busy_between(&tenants[i], 1, tenants[i].count - 2);
    printf("{\"tenants\":%u,\"windows\":%u,\"error_100ms\":%.3f,\"worst_100ms\":%.3f,\"error_1s\":%.3f,\"jain\":%.5f,"
           "\"share\":[",
           count, tenants[0].count - 3, error_short, worst, error_long, jain_index(tenants, count));
    for (uint32_t i = 0; i < count; i++)
        printf("%s%.2f", i ? "," : "",
               all ? 100.0 * (double)busy_between(&tenants[i], 1, tenants[i].count - 2) / (double)all : 0);
    puts("]}");
}

static void open_tenant(struct burner *burner, struct tenant *tenant, uint32_t id)
{
    const struct facet_vgpu_config config = {.size = sizeof config,
                                             .id = id,
                                             .memory_bytes = 16 * MIB,
                                             .streams = STREAMS,
                                             .request_milli = tenant->request_milli};
    struct facet_error error;

    must(facet_vgpu_create(burner->driver, &config, NULL, &error), &error, "vGPU");
    tenant->burner = burner;
    burn_open(burner, id, STREAMS, &tenant->burn);
}

int shares_main(char **arguments)
{
    static struct tenant tenants[TENANTS_MOST];
    struct lengths lengths[TENANTS_MOST];
    const struct facet_driver_config config = {
        .size = sizeof config, .vgpus = TENANTS_MOST, .monitor_ns = WINDOW_NS, .history = SAMPLES};
    double seconds = strtod(arguments[0], NULL);
    struct facet_error error;
    struct burner burner;
    uint32_t count = 0;

    for (; arguments[2 + count] && count < TENANTS_MOST; count++)
        tenants[count].request_milli = (uint32_t)strtoul(arguments[2 + count], NULL, 10);
    lengths_read(arguments[1], count, lengths);
    burner_open(&config, &burner);
    for (uint32_t i = 0; i < count; i++) {
        tenants[i].lengths = lengths[i];
        open_tenant(&burner, &tenants[i], i + 1);
    }
    uint64_t start = now_ns();
    for (uint32_t i = 0; i < count; i++) {
        tenants[i].end_ns = start + (uint64_t)(seconds * 1e9);
        if (pthread_create(&tenants[i].thread, NULL, feed_streams, &tenants[i]) != 0)
            die("shares", "no thread");
    }
    sleep_ns((uint64_t)(seconds * 1e9));
    for (uint32_t i = 0; i < count; i++) {
        tenants[i].count = SAMPLES;
        must(facet_vgpu_get_history(burner.driver, i + 1, start, tenants[i].samples, &tenants[i].count, &error), &error,
             "history");
        if (tenants[i].count < 5)
            die("shares", "expected at least five windows; run for longer");
    }
    for (uint32_t i = 0; i < count; i++)
        pthread_join(tenants[i].thread, NULL);
    show_tenants(tenants, count);
    for (uint32_t i = 0; i < count; i++) {
        burn_close(&tenants[i].burn);
        free(lengths[i].ns);
    }
    burner_close(&burner);
    return EXIT_SUCCESS;
}
