/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two tenants that want the same cores: run by bench/kernel.py, on Facet and on PoCL.
 *
 * Owns: the two tenants' work, the count of what each got in each 100 ms, the waits of urgent kernels.
 * Never: compares the runtimes.
 *
 * usage: bench_kernel_share fairness|preemption facet|pocl PROVIDER SECONDS
 *
 * fairness: one tenant submits kernels of 2 ms of work; the other, whose share is 30 of 100, kernels of one second.
 * Both always have work queued. Work-groups take 50 us, and each adds to a count in memory that this program reads.
 * preemption: kernels of one work-group and high priority, against a long kernel of low priority. FACET_CPU_UNITS and
 * POCL_MAX_PTHREAD_COUNT set the number of cores. Prints JSON on one line.
 */
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "share.h"

#define WINDOW_NS     UINT64_C(100000000)
#define SETTLE        3u /* windows left out at the start */
#define WINDOWS_MOST  1024u
#define SAMPLES_MOST  4096u
#define GROUP_NS      UINT64_C(50000)
#define SHORT_GROUPS  40u
#define SHORT_PERCENT 70.0
#define PAUSE_NS      UINT64_C(1000000)

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void sleep_ns(uint64_t duration)
{
    const struct timespec pause = {.tv_sec = (time_t)(duration / 1000000000u),
                                   .tv_nsec = (long)(duration % 1000000000u)};

    nanosleep(&pause, NULL);
}

struct tenant {
    struct share_machine *machine;
    unsigned number;
    uint32_t groups, steps;
    uint64_t longest_ns;
    bool failed;
};

/* One queue of a tenant, in which a kernel follows as soon as the previous one is done. */
struct client {
    const struct tenant *tenant;
    unsigned queue;
    _Atomic bool *stop;
    uint64_t longest_ns;
    bool failed;
    pthread_t thread;
};

static void *keep_busy(void *argument)
{
    struct client *client = argument;
    const struct tenant *tenant = client->tenant;

    while (!atomic_load(client->stop) && !client->failed) {
        uint64_t start = now_ns(), waited;

        client->failed = !tenant->machine->run(tenant->machine, tenant->number, client->queue, tenant->groups,
                                               tenant->steps, &waited);
        if (now_ns() - start > client->longest_ns)
            client->longest_ns = now_ns() - start;
    }
    return NULL;
}

static void clients_start(struct client *clients, const struct tenant *tenant, _Atomic bool *stop)
{
    for (unsigned i = 0; i < SHARE_QUEUES; i++) {
        clients[i] = (struct client){.tenant = tenant, .queue = i, .stop = stop};
        if (pthread_create(&clients[i].thread, NULL, keep_busy, &clients[i]) != 0)
            abort();
    }
}

/* Called after `stop` is set. False: a client failed. */
static bool clients_join(struct client *clients, struct tenant *tenant)
{
    for (unsigned i = 0; i < SHARE_QUEUES; i++) {
        pthread_join(clients[i].thread, NULL);
        tenant->failed = tenant->failed || clients[i].failed;
        if (clients[i].longest_ns > tenant->longest_ns)
            tenant->longest_ns = clients[i].longest_ns;
    }
    return !tenant->failed;
}

/* How many steps of a work-group take GROUP_NS on this machine; 0: a launch failed. */
static uint32_t calibrate_steps(struct share_machine *machine)
{
    const uint32_t steps = 200000, groups = 64;
    uint64_t best = UINT64_MAX, waited;

    for (unsigned i = 0; i < 5; i++) {
        uint64_t start = now_ns();

        if (!machine->run(machine, 0, 0, groups, steps, &waited))
            return 0;
        if (i > 0 && now_ns() - start < best)
            best = now_ns() - start;
    }
    return (uint32_t)((uint64_t)steps * groups * GROUP_NS / (best * machine->units));
}

/* ---- fairness ---- */

struct windows {
    double percent[WINDOWS_MOST]; /* the first tenant's part of the work that was done */
    double charged[WINDOWS_MOST]; /* its part of what was charged; 0: unknown */
    unsigned count;
};

static double percent_of(uint64_t part, uint64_t rest)
{
    return part + rest ? 100.0 * (double)part / (double)(part + rest) : 0;
}

static uint64_t charged_of(struct share_machine *machine, unsigned tenant)
{
    return machine->charged_ns ? machine->charged_ns(machine, tenant) : 0;
}

static void watch_windows(struct share_machine *machine, unsigned windows, struct windows *ret_windows)
{
    uint64_t next = now_ns();
    uint32_t before[2], done[2];
    uint64_t charged_before[2] = {0}, charged[2] = {0};

    for (unsigned i = 0; i < windows + SETTLE; i++) {
        for (unsigned k = 0; k < 2; k++) {
            before[k] = machine->progress(machine, k);
            charged_before[k] = charged_of(machine, k);
        }
        next += WINDOW_NS;
        sleep_ns(next > now_ns() ? next - now_ns() : 0);
        for (unsigned k = 0; k < 2; k++) {
            done[k] = machine->progress(machine, k) - before[k];
            charged[k] = charged_of(machine, k) - charged_before[k];
        }
        if (i < SETTLE)
            continue;
        ret_windows->charged[ret_windows->count] = percent_of(charged[0], charged[1]);
        ret_windows->percent[ret_windows->count++] = percent_of(done[0], done[1]);
    }
}

static void print_fairness(const struct windows *windows, const struct tenant *tenants)
{
    double sum = 0, worst = 0, charged = 0, charged_worst = 0;

    for (unsigned i = 0; i < windows->count; i++) {
        sum += windows->percent[i];
        worst = fmax(worst, fabs(windows->percent[i] - SHORT_PERCENT));
        charged += windows->charged[i];
        charged_worst = fmax(charged_worst, fabs(windows->charged[i] - SHORT_PERCENT));
    }
    if (charged > 0)
        printf(",\"charged_percent\":%.3f,\"charged_worst_points\":%.3f", charged / windows->count, charged_worst);
    printf(",\"short_percent\":%.3f,\"worst_window_points\":%.3f,\"windows\":%u,\"short_longest_ms\":%.3f,"
           "\"long_longest_ms\":%.3f",
           sum / windows->count, worst, windows->count, (double)tenants[0].longest_ns / 1e6,
           (double)tenants[1].longest_ns / 1e6);
}

static bool fairness(struct share_machine *machine, double seconds)
{
    struct windows windows = {0};
    _Atomic bool stop = false;
    uint32_t steps = calibrate_steps(machine), second = (uint32_t)(1000000000u / GROUP_NS * machine->units);
    struct tenant tenants[2] = {
        {.machine = machine, .number = 0, .groups = SHORT_GROUPS * machine->units, .steps = steps},
        {.machine = machine, .number = 1, .groups = second, .steps = steps},
    };
    struct client clients[2][SHARE_QUEUES];
    bool fine = true;

    if (!steps || !machine->share(machine, 700, 300))
        return false;
    for (unsigned i = 0; i < 2; i++)
        clients_start(clients[i], &tenants[i], &stop);
    watch_windows(machine, (unsigned)fmin(seconds * 10, WINDOWS_MOST), &windows);
    atomic_store(&stop, true);
    for (unsigned i = 0; i < 2; i++)
        fine = clients_join(clients[i], &tenants[i]) && fine;
    if (fine)
        print_fairness(&windows, tenants);
    return fine;
}

/* ---- preemption ---- */

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void print_preemption(uint64_t *waits, unsigned count, uint64_t group_ns)
{
    qsort(waits, count, sizeof *waits, by_value);
    uint64_t p50 = waits[count / 2], p99 = waits[count * 99 / 100];

    printf(",\"samples\":%u,\"group_us\":%.1f,\"p50_us\":%.1f,\"p99_us\":%.1f,\"most_us\":%.1f,"
           "\"p99_beyond_group_us\":%.1f",
           count, (double)group_ns / 1e3, (double)p50 / 1e3, (double)p99 / 1e3, (double)waits[count - 1] / 1e3,
           ((double)p99 - (double)group_ns) / 1e3);
}

static bool preemption(struct share_machine *machine, double seconds)
{
    static uint64_t waits[SAMPLES_MOST];
    _Atomic bool stop = false;
    uint32_t steps = calibrate_steps(machine), second = (uint32_t)(1000000000u / GROUP_NS * machine->units);
    struct tenant low = {.machine = machine, .number = 1, .groups = second, .steps = steps};
    struct client clients[SHARE_QUEUES];
    unsigned count = 0;
    bool fine = true;

    if (!steps || !machine->urgent(machine))
        return false;
    clients_start(clients, &low, &stop);
    sleep_ns(PAUSE_NS * 50);
    for (uint64_t end = now_ns() + (uint64_t)(seconds * 1e9);
         fine && count < SAMPLES_MOST && (now_ns() < end || count == 0);) {
        fine = machine->run(machine, 0, 0, 1, 1, &waits[count++]);
        sleep_ns(PAUSE_NS + GROUP_NS * (count % 16) / 16); /* at all phases of a running group */
    }
    atomic_store(&stop, true);
    fine = clients_join(clients, &low) && fine;
    if (fine)
        print_preemption(waits, count, GROUP_NS);
    return fine;
}

int main(int argc, char **argv)
{
    struct share_machine machine = {0};
    bool fine;

    if (argc != 5 || (strcmp(argv[1], "fairness") != 0 && strcmp(argv[1], "preemption") != 0) ||
        (strcmp(argv[2], "facet") != 0 && strcmp(argv[2], "pocl") != 0)) {
        fputs("usage: bench_kernel_share fairness|preemption facet|pocl PROVIDER SECONDS\n", stderr);
        return 2;
    }
    double seconds = atof(argv[4]);

    printf("{\"case\":\"%s\",\"way\":\"%s\"", argv[1], argv[2]);
    fine = argv[2][0] == 'f' ? share_open_facet(&machine, argv[3]) : share_open_pocl(&machine);
    if (fine)
        fine = argv[1][0] == 'f' ? fairness(&machine, fmax(seconds, 0.1)) : preemption(&machine, fmax(seconds, 0.1));
    for (char *at = machine.missing; *at; at++)
        *at = *at == '"' || *at == '\\' ? '\'' : *at;
    if (!fine)
        printf(",\"missing\":\"%s\"", machine.missing);
    puts("}");
    return fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
