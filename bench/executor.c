/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The costs of the cpu provider's executor: overhead of a work-group, latency of a launch, preemption of a long kernel,
 * shares over short windows.
 *
 * Owns: the measuring. Never: asserts a time.
 *
 * usage: bench_executor [UNITS]     default: the processors that may be used
 * Prints one JSON object. Kernels are C functions that spin, so that nothing but the executor is measured.
 */
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "executor.h"

#define US      UINT64_C(1000)
#define MS      UINT64_C(1000000)
#define SAMPLES 500u
#define WINDOWS 30u
#define FOREVER UINT64_MAX

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static void sleep_ns(uint64_t ns)
{
    const struct timespec length = {.tv_sec = (time_t)(ns / UINT64_C(1000000000)),
                                    .tv_nsec = (long)(ns % UINT64_C(1000000000))};

    nanosleep(&length, NULL);
}

static void must_succeed(enum facet_status status, const char *what)
{
    if (status == FACET_OK)
        return;
    fprintf(stderr, "bench_executor: %s failed with %d\n", what, status);
    exit(EXIT_FAILURE);
}

/* ---- kernels: the argument is how long a work-group spins, in nanoseconds ---- */

static void run_nothing(const void *arguments, const struct facet_host_group *group)
{
}

static void run_spin(const void *arguments, const struct facet_host_group *group)
{
    uint64_t end = now_ns() + *(const uint64_t *)arguments;

    while (now_ns() < end)
        ;
}

static const struct facet_host_kernel nothing = {.name = "nothing", .run = run_nothing};
static const struct facet_host_kernel spin = {.name = "spin", .run = run_spin, .argument_bytes = sizeof(uint64_t)};

static void launch_groups(struct cpu_stream *stream, const struct facet_host_kernel *kernel, uint64_t spin_ns,
                          uint32_t groups)
{
    const struct facet_launch request = {.size = sizeof request,
                                         .argument_bytes = sizeof spin_ns,
                                         .grid = {groups, 1, 1},
                                         .group = {1, 1, 1},
                                         .dimensions = 1};

    must_succeed(cpu_stream_launch(stream, kernel, &request, &spin_ns, NULL, NULL, NULL, NULL, NULL), "launch");
}

/* ---- a setup: an executor with two tenants of one stream each ---- */

struct setup {
    struct cpu_executor *executor;
    struct cpu_tenant *tenant[2];
    struct cpu_stream *stream[2];
};

static void open_setup(struct setup *setup, uint32_t units)
{
    const struct cpu_executor_options options = {.units = units};

    must_succeed(cpu_executor_create(&options, &setup->executor, NULL), "create");
    for (int i = 0; i < 2; i++) {
        must_succeed(cpu_tenant_create(setup->executor, &setup->tenant[i], NULL), "tenant");
        must_succeed(cpu_stream_create(setup->tenant[i], &setup->stream[i], NULL), "stream");
    }
}

static void close_setup(struct setup *setup)
{
    for (int i = 0; i < 2; i++)
        cpu_tenant_destroy(setup->tenant[i]);
    cpu_executor_destroy(setup->executor);
}

static int compare_times(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return (a > b) - (a < b);
}

static void print_samples(const char *name, uint64_t *samples, size_t count)
{
    qsort(samples, count, sizeof *samples, compare_times);
    printf("\"%s\": {\"p50_ns\": %" PRIu64 ", \"p99_ns\": %" PRIu64 ", \"most_ns\": %" PRIu64 "}", name,
           samples[count / 2], samples[count * 99 / 100], samples[count - 1]);
}

/* ---- cases ---- */

static void print_overhead(uint32_t units)
{
    const uint32_t groups = 1u << 20;
    uint64_t best = UINT64_MAX;
    struct setup setup;

    open_setup(&setup, units);
    for (int i = 0; i < 20; i++) {
        uint64_t start = now_ns();

        launch_groups(setup.stream[0], &nothing, 0, groups);
        must_succeed(cpu_stream_wait(setup.stream[0], FOREVER), "wait");
        uint64_t took = now_ns() - start;

        best = took < best ? took : best;
    }
    close_setup(&setup);
    printf("\"units_%" PRIu32 "\": %.2f", units, (double)best / groups);
}

struct ping {
    sem_t ping_sent, answer_sent;
    uint64_t sent_ns, latency_ns[SAMPLES];
};

static void *answer_pings(void *argument)
{
    struct ping *ping = argument;

    for (size_t i = 0; i < SAMPLES; i++) {
        sem_wait(&ping->ping_sent);
        ping->latency_ns[i] = now_ns() - ping->sent_ns;
        sem_post(&ping->answer_sent);
    }
    return NULL;
}

/* How long the operating system takes to wake a sleeping thread: no launch on an idle executor can be faster. */
static void bare_wake(void)
{
    static struct ping ping;
    pthread_t thread;

    sem_init(&ping.ping_sent, 0, 0);
    sem_init(&ping.answer_sent, 0, 0);
    if (pthread_create(&thread, NULL, answer_pings, &ping) != 0)
        exit(EXIT_FAILURE);
    for (size_t i = 0; i < SAMPLES; i++) {
        sleep_ns(MS);
        ping.sent_ns = now_ns();
        sem_post(&ping.ping_sent);
        sem_wait(&ping.answer_sent);
    }
    pthread_join(thread, NULL);
    print_samples("bare_wake", ping.latency_ns, SAMPLES);
}

/* Launches one work-group every `gap_ns` and prints how long it was queued. */
static void print_queued(const char *name, struct cpu_stream *stream, uint64_t gap_ns)
{
    static uint64_t samples[SAMPLES];
    struct facet_launch_record record;

    for (uint64_t i = 0; i < SAMPLES; i++) {
        sleep_ns(gap_ns);
        launch_groups(stream, &nothing, 0, 1);
        must_succeed(cpu_stream_wait(stream, FOREVER), "wait");
        if (cpu_stream_records(stream, i, &record, 1) != 1)
            exit(EXIT_FAILURE);
        samples[i] = record.start_ns - record.queued_ns;
    }
    print_samples(name, samples, SAMPLES);
}

static void idle_launch(uint32_t units)
{
    struct setup setup;

    open_setup(&setup, units);
    print_queued("idle_launch", setup.stream[0], MS);
    close_setup(&setup);
}

/* The time of one launch of one empty work-group, for a thread that launches and waits repeatedly. */
static void round_trip(uint32_t units)
{
    static uint64_t samples[SAMPLES];
    struct setup setup;

    open_setup(&setup, units);
    for (size_t i = 0; i < SAMPLES; i++) {
        uint64_t start = now_ns();

        launch_groups(setup.stream[0], &nothing, 0, 1);
        must_succeed(cpu_stream_wait(setup.stream[0], FOREVER), "wait");
        samples[i] = now_ns() - start;
    }
    close_setup(&setup);
    print_samples("round_trip", samples, SAMPLES);
}

/* The time per launch when many are queued behind each other. */
static void queued_launches(uint32_t units)
{
    struct setup setup;

    open_setup(&setup, units);
    uint64_t start = now_ns();

    for (uint32_t i = 0; i < 100 * SAMPLES; i++)
        launch_groups(setup.stream[0], &nothing, 0, 1);
    must_succeed(cpu_stream_wait(setup.stream[0], FOREVER), "wait");
    printf("\"queued_ns_per_launch\": %" PRIu64, (now_ns() - start) / (100 * SAMPLES));
    close_setup(&setup);
}

static void print_preemption(uint32_t units, uint64_t spin_ns)
{
    struct setup setup;
    char name[32];

    open_setup(&setup, units);
    cpu_tenant_set_share(setup.tenant[0], 0, 1000, FACET_PRIORITY_LOW);
    cpu_tenant_set_share(setup.tenant[1], 0, 1000, FACET_PRIORITY_HIGH);
    launch_groups(setup.stream[0], &spin, spin_ns, 1u << 30);
    snprintf(name, sizeof name, "group_%" PRIu64 "us", spin_ns / US);
    print_queued(name, setup.stream[1], 3 * MS);
    close_setup(&setup);
}

static void print_shares(uint32_t units, uint64_t spin_0_ns, uint64_t spin_1_ns)
{
    uint64_t before[2], after[2];
    double worst = 0, sum = 0;
    struct setup setup;

    open_setup(&setup, units);
    cpu_tenant_set_share(setup.tenant[0], 700, 1000, FACET_PRIORITY_NORMAL);
    cpu_tenant_set_share(setup.tenant[1], 300, 1000, FACET_PRIORITY_NORMAL);
    launch_groups(setup.stream[0], &spin, spin_0_ns, 1u << 30);
    launch_groups(setup.stream[1], &spin, spin_1_ns, 1u << 30);
    sleep_ns(20 * MS);
    for (int i = 0; i < 2; i++)
        before[i] = cpu_tenant_busy_ns(setup.tenant[i]);
    for (unsigned window = 0; window < WINDOWS; window++) {
        sleep_ns(100 * MS);
        for (int i = 0; i < 2; i++)
            after[i] = cpu_tenant_busy_ns(setup.tenant[i]);
        double had[2] = {(double)(after[0] - before[0]), (double)(after[1] - before[1])};
        double points = 100 * had[0] / (had[0] + had[1]) - 70;

        worst = points > worst ? points : -points > worst ? -points : worst;
        sum += points;
        memcpy(before, after, sizeof before);
    }
    close_setup(&setup);
    printf("{\"group_us\": [%" PRIu64 ", %" PRIu64 "], \"windows\": %u, \"mean_points_off\": %.3f, "
           "\"most_points_off\": %.3f}",
           spin_0_ns / US, spin_1_ns / US, WINDOWS, sum / WINDOWS, worst);
}

int main(int argc, char **argv)
{
    cpu_set_t usable;

    sched_getaffinity(0, sizeof usable, &usable);
    uint32_t units = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : (uint32_t)CPU_COUNT(&usable);

    printf("{\"units\": %" PRIu32 ",\n \"overhead_ns_per_group\": {", units);
    print_overhead(1);
    if (units > 1) {
        printf(", ");
        print_overhead(units);
    }
    printf("},\n \"launch\": {");
    bare_wake();
    printf(", ");
    idle_launch(units);
    printf(", ");
    round_trip(units);
    printf(", ");
    queued_launches(units);
    printf("},\n \"preemption\": {");
    print_preemption(units, 20 * US);
    printf(", ");
    print_preemption(units, 200 * US);
    printf(", ");
    print_preemption(units, MS);
    printf("},\n \"shares_70_30\": [");
    print_shares(units, 20 * US, 20 * US);
    printf(", ");
    print_shares(units, 200 * US, 20 * US);
    printf(", ");
    print_shares(units, 20 * US, 200 * US);
    printf("]}\n");
    return EXIT_SUCCESS;
}
