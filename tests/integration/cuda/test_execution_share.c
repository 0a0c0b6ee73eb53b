/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: tests that compare programs' shares of a GPU with their requests, by the driver's own count of device time.
 * Never: fails because this machine is busy. A second thread measures how late the machine wakes a sleeping thread. If
 * that is too late, a case that misses its share is skipped with this figure as the reason. The program prints TAP
 * itself, so that it can give a reason.
 *
 * A fake device takes little processor time, so cases run side by side at first, each in a fake machine of its own. A
 * case that misses runs again alone.
 *
 * A sanitizer slows down the code between launches, by which shares differ. Under one, the cases run for a short time,
 * their programs have to succeed, and no share is compared.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "world.h"

#define TENANTS_MOST 4u
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
#define SHARES_ARE_COMPARED false
#define SETTLE_NS           (100 * FACET_NS_PER_MS)
#define MEASURE_NS          (300 * FACET_NS_PER_MS)
#define RUN_S               "0.6" /* how long a program launches: longer than settling and measuring */
#else
#define SHARES_ARE_COMPARED true
#define SETTLE_NS           (700 * FACET_NS_PER_MS) /* from the start of the programs to the measurement */
#define MEASURE_NS          (2 * FACET_NS_PER_S)
#define RUN_S               "3"
#endif
#define SHARE_TOLERANCE_MILLI  50 /* by which a share may differ from the wanted one */
#define REPORT_TOLERANCE_MILLI 25 /* by which the limiter's report may differ from the driver's count */
#define NAP_NS                 (200 * FACET_NS_PER_US)
#define LATE_NS                (100 * FACET_NS_PER_US) /* a nap is late above this: handing on wakes four threads */
#define LATE_PERCENT           1u /* the machine is busy if more than this percentage of naps is late */
#define ATTEMPTS               4  /* a faulty limiter misses in every attempt */
#define LANES                  3u /* processes that run cases side by side */

struct share_case {
    const char *name;
    uint32_t count, request_milli[TENANTS_MOST], limit_milli[TENANTS_MOST];
    const char *kernel, *blocks, *depth, *nodes; /* nodes of a graph; NULL: kernels */
};

/* ---- how busy the machine is ---- */

struct probe {
    _Atomic bool stop;
    uint32_t nap_count, late_count;
    pthread_t thread;
};

static void *probe_main(void *argument)
{
    const struct timespec nap = facet_ns_timespec(NAP_NS);
    struct probe *probe = argument;

    while (!atomic_load(&probe->stop)) {
        uint64_t begun_ns = facet_clock_now_ns();

        nanosleep(&nap, NULL);
        probe->nap_count++;
        probe->late_count += facet_clock_now_ns() - begun_ns > NAP_NS + LATE_NS;
    }
    return NULL;
}

static bool machine_is_busy(const struct probe *probe)
{
    return probe->late_count * 100 > probe->nap_count * LATE_PERCENT;
}

/* ---- a case ---- */

struct tenants {
    int vgpus[TENANTS_MOST];
    pid_t pids[TENANTS_MOST];
    uint64_t busy_ns[TENANTS_MOST], reported_ns[TENANTS_MOST];
};

static struct world world;

static bool start_tenants(const struct share_case *share, struct tenants *tenants)
{
    char *command[] = {getenv("FACET_TEST_BURN"),        (char[]){RUN_S},
                       (char *)(uintptr_t)share->kernel, (char *)(uintptr_t)share->blocks,
                       (char *)(uintptr_t)share->depth,  share->nodes ? (char[]){"graph"} : NULL,
                       (char *)(uintptr_t)share->nodes,  NULL};

    for (uint32_t i = 0; i < share->count; i++) {
        int vgpu = world_add(&world, share->request_milli[i], share->limit_milli[i]);

        tenants->vgpus[i] = vgpu;
        tenants->pids[i] = vgpu < 0 ? -1 : world_start(&world, vgpu, command);
        if (tenants->pids[i] < 0)
            return false;
    }
    return true;
}

static void sleep_ns(uint64_t ns)
{
    struct timespec left = facet_ns_timespec(ns);

    while (nanosleep(&left, &left) != 0)
        ;
}

/* Each tenant's share by the driver's count and by the limiter's report, in milli of the elapsed time. */
static void measure_tenants(const struct share_case *share, struct tenants *tenants, uint64_t *ret_used,
                            uint64_t *ret_reported)
{
    sleep_ns(SETTLE_NS);
    uint64_t begun_ns = facet_clock_now_ns();
    for (uint32_t i = 0; i < share->count; i++) {
        tenants->busy_ns[i] = driver_busy_ns(tenants->pids[i]);
        tenants->reported_ns[i] = world_totals(&world, tenants->vgpus[i]).busy_ns;
    }
    sleep_ns(MEASURE_NS);
    uint64_t took_ns = facet_clock_now_ns() - begun_ns;
    for (uint32_t i = 0; i < share->count; i++) {
        uint64_t reported_ns = world_totals(&world, tenants->vgpus[i]).busy_ns - tenants->reported_ns[i];

        ret_used[i] = (driver_busy_ns(tenants->pids[i]) - tenants->busy_ns[i]) * FACET_MILLI_WHOLE / took_ns;
        ret_reported[i] = reported_ns * FACET_MILLI_WHOLE / took_ns;
    }
}

enum outcome_kind {
    LIMITS_MET,
    SHARE_MISSED,
    LIMIT_EXCEEDED, /* or a program failed: a failure on any machine, however busy */
};

/*
 * A single program's share is compared with its limit. Shares of several programs are compared with each other, because
 * handing the device on costs some of its time (docs/adr/0003). A limit is never exceeded. The limiter's report equals
 * the share, because no process is charged for other processes' kernels.
 */
static enum outcome_kind judge_shares(const struct share_case *share, const uint64_t *used, const uint64_t *reported)
{
    enum outcome_kind outcome_kind = LIMITS_MET;
    uint64_t used_sum = 0;

    for (uint32_t i = 0; i < share->count; i++)
        used_sum += used[i];
    for (uint32_t i = 0; i < share->count; i++) {
        uint32_t limit = share->limit_milli[i], wanted = limit < FACET_MILLI_WHOLE ? limit : share->request_milli[i];
        uint64_t share_of_used = share->count > 1 && used_sum ? used[i] * FACET_MILLI_WHOLE / used_sum : used[i];

        printf(
            "# in milli: wanted %u, used %llu of the device, %llu of the time that all programs used; reported %llu\n",
            wanted, (unsigned long long)used[i], (unsigned long long)share_of_used, (unsigned long long)reported[i]);
        if (limit < FACET_MILLI_WHOLE && used[i] > limit + SHARE_TOLERANCE_MILLI)
            outcome_kind = LIMIT_EXCEEDED;
        else if (outcome_kind == LIMITS_MET &&
                 (share_of_used + SHARE_TOLERANCE_MILLI < wanted || share_of_used > wanted + SHARE_TOLERANCE_MILLI ||
                  reported[i] + REPORT_TOLERANCE_MILLI < used[i] || reported[i] > used[i] + REPORT_TOLERANCE_MILLI))
            outcome_kind = SHARE_MISSED;
    }
    return outcome_kind;
}

/* Waits for the programs and removes their vGPUs. Returns whether each program exited with 0. */
static bool end_tenants(const struct share_case *share, const struct tenants *tenants)
{
    bool all_succeeded = true;

    for (uint32_t i = 0; i < share->count; i++)
        all_succeeded = world_wait(tenants->pids[i]) == 0 && all_succeeded;
    world_clear(&world);
    return all_succeeded;
}

static enum outcome_kind attempt_case(const struct share_case *share, struct probe *probe)
{
    struct tenants tenants;
    uint64_t used[TENANTS_MOST], reported[TENANTS_MOST];

    *probe = (struct probe){.nap_count = 0};
    if (!start_tenants(share, &tenants) || pthread_create(&probe->thread, NULL, probe_main, probe) != 0) {
        printf("Bail out! %s could not be started\n", share->name);
        exit(1);
    }
    measure_tenants(share, &tenants, used, reported);
    atomic_store(&probe->stop, true);
    pthread_join(probe->thread, NULL);
    if (!end_tenants(share, &tenants))
        return LIMIT_EXCEEDED;
    return SHARES_ARE_COMPARED ? judge_shares(share, used, reported) : LIMITS_MET;
}

#define MIX "work_5us,work_100us,work_1000us"

static const struct share_case cases[] = {
    {"limit of 10 %", 1, {100}, {100}, "work_1000us", "1056", "8", NULL},
    {"limit of 30 %", 1, {300}, {300}, "work_1000us", "1056", "8", NULL},
    {"limit of 50 %", 1, {500}, {500}, "work_100us", "1056", "16", NULL},
    {"limit of 80 %", 1, {800}, {800}, "work_1000us", "1056", "8", NULL},
    {"limit of 30 %, few blocks", 1, {300}, {300}, "work_1000us", "8", "8", NULL},
    {"limit of 30 %, short kernels", 1, {300}, {300}, "work_5us", "1056", "64", NULL},
    {"limit of 30 %, long kernels, each waited for", 1, {300}, {300}, "work_20000us", "1056", "1", NULL},
    {"limit of 30 %, graphs", 1, {300}, {300}, "work_100us", "1056", "4", "10"},
    {"limit of 10 %, fills of less than 1 MiB", 1, {100}, {100}, "fill", "1048575", "64", NULL},
    {"limit of 30 %, fills of 64 KiB", 1, {300}, {300}, "fill", "65536", "64", NULL},
    {"guarantees of 30 and 70 %", 2, {300, 700}, {1000, 1000}, "work_1000us", "1056", "8", NULL},
    {"limits of 30 and 70 %", 2, {300, 700}, {300, 700}, "work_1000us", "1056", "8", NULL},
    {"guarantees of 30 and 70 %, graphs", 2, {300, 700}, {1000, 1000}, "work_100us", "1056", "4", "10"},
    {"guarantees of 30 and 70 %, short and long kernels", 2, {300, 700}, {1000, 1000}, MIX, "1056", "32", NULL},
    {"four guarantees of 25 %", 4, {250, 250, 250, 250}, {1000, 1000, 1000, 1000}, "work_1000us", "1056", "8", NULL},
};
#define CASES (sizeof cases / sizeof *cases)

/* Shared with the processes that fill them in. */
struct outcome {
    enum outcome_kind outcome_kind; /* LIMIT_EXCEEDED also when its process died */
    struct probe probe;
};

static struct outcome *outcomes;

/* Starts a process that runs every `step`-th case from `first` on. A process can join only one machine, so each lane is
 * a process with a machine of its own. */
static pid_t start_lane(size_t first, size_t step)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    if (!world_open(&world))
        exit(1);
    world.quiet = true;
    fake_state();
    for (size_t i = first; i < CASES; i += step) {
        outcomes[i].outcome_kind = attempt_case(&cases[i], &outcomes[i].probe);
        fflush(stdout);
    }
    world_close(&world);
    exit(0);
}

static void run_side_by_side(void)
{
    pid_t lanes[LANES];

    for (size_t i = 0; i < LANES; i++)
        lanes[i] = start_lane(i, LANES);
    for (size_t i = 0; i < LANES; i++)
        waitpid(lanes[i], NULL, 0);
}

static void run_alone(size_t number)
{
    outcomes[number].outcome_kind = LIMIT_EXCEEDED;
    waitpid(start_lane(number, CASES), NULL, 0);
}

/* Prints a line of TAP; false when the case failed. */
static bool print_outcome(size_t number)
{
    struct outcome *outcome = &outcomes[number];

    for (int i = 1; i < ATTEMPTS && outcome->outcome_kind == SHARE_MISSED; i++)
        run_alone(number);
    bool skipped = outcome->outcome_kind == SHARE_MISSED && machine_is_busy(&outcome->probe);
    printf("%sok %zu - %s", outcome->outcome_kind == LIMITS_MET || skipped ? "" : "not ", number + 1,
           cases[number].name);
    if (skipped)
        printf(" # SKIP this machine woke %u of %u naps late, too busy to tell", outcome->probe.late_count,
               outcome->probe.nap_count);
    printf("\n");
    fflush(stdout);
    return outcome->outcome_kind == LIMITS_MET || skipped;
}

int main(void)
{
    bool passed = true;

    outcomes = mmap(NULL, CASES * sizeof *outcomes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (outcomes == MAP_FAILED)
        return 1;
    for (size_t i = 0; i < CASES; i++)
        outcomes[i].outcome_kind = LIMIT_EXCEEDED;
    printf("1..%zu\n", CASES);
    run_side_by_side();
    for (size_t i = 0; i < CASES; i++)
        passed = print_outcome(i) && passed;
    return passed ? 0 : 1;
}
