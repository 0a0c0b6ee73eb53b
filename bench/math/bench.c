/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: bench_math CASE THREADS ROUNDS MILLISECONDS PROVIDER
 *
 * Runs one operation through a session in this process, and with oneDNN alone on the same operands, in short
 * alternating rounds. Prints one line of JSON: medians in nanoseconds, and the median over rounds of oneDNN's time, by
 * its faster way, divided by Facet's.
 *
 * Owns: the rounds. Never: measures a way while another way's threads are still spinning.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <facet/session.h>

#include "bench.h"

#define WAYS          3 /* Facet, and two ways of oneDNN */
#define ROUNDS        201
#define WAIT_LIMIT_NS UINT64_C(120000000000)
#define REST_NS       20000000 /* OpenMP's threads spin for so long before they sleep */

static struct facet_session *session;
static const struct facet_provider *provider;
static struct facet_provider_instance *instance;
static uint64_t context, stream;
static struct facet_error error;

static void need_success(enum facet_status status, const char *what)
{
    if (status == FACET_OK)
        return;
    fprintf(stderr, "bench_math: %s: %s\n", what, error.message);
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void open_facet(const char *path, const char *threads)
{
    const struct facet_session_options options = {.size = sizeof options, .place = FACET_SESSION_IN_PROCESS};

    setenv("FACET_CPU_UNITS", threads, 1);
    need_success(facet_session_open(path, &options, &session, &error), "facet_session_open");
    provider = facet_session_provider(session);
    instance = facet_session_instance(session);
    need_success(provider->memory->create_context(instance, 0, NULL, "bench", &context, &error), "create_context");
    need_success(provider->execution->create_stream(instance, context, &stream, &error), "create_stream");
}

/* Fills the operands, whose addresses are valid in this process, with small numbers other than zero. */
static void fill_operands(struct bench_case *bench_case)
{
    for (int i = 0; i < 4; i++) {
        if (bench_case->bytes[i] == 0)
            continue;
        need_success(provider->memory->alloc(instance, context, bench_case->bytes[i], &bench_case->operands[i], &error),
                     "alloc");
        unsigned char *bytes = (unsigned char *)bench_case->operands[i];
        for (uint64_t j = 0; j < bench_case->bytes[i]; j++)
            bytes[j] = (unsigned char)(j * 7 % 31 + 1);
        for (uint64_t j = 0; bench_case->operation.type == FACET_MATH_F32 && j < bench_case->bytes[i] / 4; j++)
            ((float *)bytes)[j] = (float)(j % 13) * 0.1f - 0.5f;
        for (uint64_t j = 0; bench_case->operation.type == FACET_MATH_BF16 && j < bench_case->bytes[i] / 2; j++)
            ((uint16_t *)bytes)[j] = (uint16_t)(0x3f00 + j % 31);
    }
}

static void name_operands(struct bench_case *bench_case)
{
    uint64_t *operands = bench_case->operation.of.words;

    operands[0] = bench_case->operands[0];
    operands[1] = bench_case->operands[1];
    operands[2] =
        bench_case->operation.operation == FACET_MATH_ATTENTION ? bench_case->operands[2] : bench_case->operands[3];
    if (bench_case->operation.operation == FACET_MATH_ATTENTION)
        operands[3] = bench_case->operands[3];
}

/* Queues all runs, then waits for them, as streams are used. */
static uint64_t run_facet(const struct bench_case *bench_case, int times)
{
    uint64_t start = now_ns();

    for (int i = 0; i < times; i++)
        need_success(provider->math->run(instance, context, stream, &bench_case->operation, &error), "run");
    need_success(provider->execution->synchronize(instance, context, stream, WAIT_LIMIT_NS, &error), "synchronize");
    return now_ns() - start;
}

static uint64_t run_bare(struct bench_bare *bare, int times)
{
    uint64_t start = now_ns();

    for (int i = 0; i < times; i++)
        bench_bare_run(bare);
    return now_ns() - start;
}

/* Begins each round with a run that is not measured, because the other way has filled the caches. */
static double measure_case(const struct bench_case *bench_case, struct bench_bare *bare, int times)
{
    const struct timespec rest = {.tv_nsec = REST_NS};

    nanosleep(&rest, NULL);
    if (bare) {
        run_bare(bare, 1);
        return (double)run_bare(bare, times) / times;
    }
    run_facet(bench_case, 1);
    return (double)run_facet(bench_case, times) / times;
}

static int compare_times(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

static double median(const double *samples, int count)
{
    double sorted[ROUNDS];

    memcpy(sorted, samples, (size_t)count * sizeof sorted[0]);
    qsort(sorted, (size_t)count, sizeof sorted[0], compare_times);
    return (sorted[count / 2] + sorted[(count - 1) / 2]) / 2;
}

static char implementation[64];

static void read_implementation(void)
{
    struct facet_launch_record records[1024];
    uint32_t count = 0;

    need_success(
        provider->execution->records(instance, context, stream, 0, records, sizeof records[0], 1024, &count, &error),
        "records");
    if (count > 0)
        memcpy(implementation, records[count - 1].kernel, sizeof implementation);
}

static void print_case(const struct bench_case *bench_case, struct bench_bare *const *bare,
                       double samples[WAYS][ROUNDS], int rounds, const char *threads)
{
    double ratios[ROUNDS], facet = median(samples[0], rounds), ways[2];

    printf("{\"case\": \"%s\", \"threads\": %s, \"facet_ns\": %.0f, \"gflops\": %.1f, \"kernel\": \"%s\"",
           bench_case->name, threads, facet, 2 * bench_case->multiplications / facet, implementation);
    if (!bare[0] && !bare[1]) {
        printf(", \"bare_ns\": null}\n");
        return;
    }

    for (int way = 0; way < 2; way++)
        ways[way] = bare[way] ? median(samples[way + 1], rounds) : INFINITY;
    int best = ways[1] < ways[0];
    for (int i = 0; i < rounds; i++)
        ratios[i] = samples[best + 1][i] / samples[0][i];
    printf(", \"bare_ns\": %.0f, \"other_ns\": %.0f, \"way\": \"%s\", \"ratio\": %.4f, \"bare_gflops\": %.1f}\n",
           ways[best], isinf(ways[!best]) ? 0.0 : ways[!best], bench_bare_name(best), median(ratios, rounds),
           2 * bench_case->multiplications / ways[best]);
}

int main(int count, char **arguments)
{
    static double samples[WAYS][ROUNDS];
    struct bench_bare *bare[2];
    struct bench_case bench_case;

    if (count != 6 || !bench_case_find(arguments[1], &bench_case)) {
        fprintf(stderr, "usage: bench_math CASE THREADS ROUNDS MILLISECONDS PROVIDER\n");
        return 2;
    }
    int threads = atoi(arguments[2]), rounds = atoi(arguments[3]);
    rounds = rounds < 1 ? 1 : rounds < ROUNDS ? rounds : ROUNDS - 1;
    open_facet(arguments[5], arguments[2]);
    fill_operands(&bench_case);
    name_operands(&bench_case);
    for (int way = 0; way < 2; way++)
        bare[way] = bench_bare_open(&bench_case, way, threads);
    double once = measure_case(&bench_case, NULL, 1);
    int times = (int)fmax(1, atof(arguments[4]) * 1e6 / once);
    for (int i = 0; i < rounds; i++)
        for (int column = 0; column < WAYS; column++)
            if (column == 0 || bare[column - 1])
                samples[column][i] = measure_case(&bench_case, column == 0 ? NULL : bare[column - 1], times);
    read_implementation();
    print_case(&bench_case, bare, samples, rounds, arguments[2]);
    for (int way = 0; way < 2; way++)
        bench_bare_close(bare[way]);
    facet_session_close(session);
    return 0;
}
