/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: tests of the effect of units on a real driver: a tenant's speed, its processors, its isolation from neighbours.
 * Never: asserts a time.
 *
 * The tests compare rates within one run, and take the best of a few rounds: other programs may slow a round down, but
 * nothing gives a tenant more than its units. The working threads and their processors, which other programs do not
 * change, are asserted exactly.
 */
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "tenant.h"

#define ROUNDS 8
#define GROUPS 128
#define ITEMS  (GROUPS * 16)
#define RUN_NS UINT64_C(600000000) /* for which a role launches */
#define TURNS  5000                /* of the kernel's loop: a launch takes some milliseconds */

static const char source[] = "__kernel void turn(__global uint *out, uint turns) {\n"
                             "    uint x = get_global_id(0);\n"
                             "    for (uint i = 0; i < turns; i++) x = x * 1664525u + (1013904223u ^ (x >> 7));\n"
                             "    out[get_global_id(0)] = x;\n"
                             "}\n";

static uint32_t all_units;
static cpu_set_t allowed; /* processors of this program */

/* --- the role: reports that it is ready, waits for the start, runs for a while, reports its rate and processors --- */

struct work {
    cl_kernel kernel;
    cl_mem output;
};

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static bool launch_work(const struct work *work)
{
    const size_t items = ITEMS, group = ITEMS / GROUPS;

    return clEnqueueNDRangeKernel(fixture.queue, work->kernel, 1, NULL, &items, &group, 0, NULL, NULL) == CL_SUCCESS &&
           clFinish(fixture.queue) == CL_SUCCESS;
}

static bool prepare_work(struct work *work)
{
    const cl_uint turns = TURNS;
    const char *text = source;
    cl_program program = clCreateProgramWithSource(fixture.context, 1, &text, NULL, NULL);

    if (clBuildProgram(program, 0, NULL, NULL, NULL, NULL) != CL_SUCCESS)
        return false;
    work->kernel = clCreateKernel(program, "turn", NULL);
    work->output = fixture_buffer(ITEMS * sizeof(cl_uint), NULL);
    return clSetKernelArg(work->kernel, 0, sizeof(cl_mem), &work->output) == CL_SUCCESS &&
           clSetKernelArg(work->kernel, 1, sizeof turns, &turns) == CL_SUCCESS && launch_work(work);
}

/* Compares the last item's number with the one that this function computes. */
static bool result_is_right(const struct work *work)
{
    cl_uint shown = 0, x = ITEMS - 1;

    for (cl_uint i = 0; i < TURNS; i++)
        x = x * 1664525u + (1013904223u ^ (x >> 7));
    return clEnqueueReadBuffer(fixture.queue, work->output, CL_TRUE, (ITEMS - 1) * sizeof shown, sizeof shown, &shown,
                               0, NULL, NULL) == CL_SUCCESS &&
           shown == x;
}

/* The time in user mode of one of this process's threads, in clock ticks. */
static unsigned long thread_ticks(int tid)
{
    char path[64], text[1024] = "";
    unsigned long ticks = 0;

    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = '\0';
    const char *rest = strrchr(text, ')');
    return rest && sscanf(rest, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu", &ticks) == 1 ? ticks : 0;
}

/* The busiest thread except the main one, and how many threads ran at least a quarter as long as it. */
struct thread_use {
    int busiest; /* its thread id */
    uint64_t working_count;
};

static struct thread_use find_thread_use(void)
{
    unsigned long ticks[256] = {0}, highest = 0;
    struct thread_use thread_use = {0};
    DIR *tasks = opendir("/proc/self/task");

    for (int i = 0; tasks && i < 256; i++) {
        struct dirent *task = readdir(tasks);
        int tid = task ? atoi(task->d_name) : 0;

        if (!task)
            break;
        ticks[i] = tid > 0 && tid != getpid() ? thread_ticks(tid) : 0;
        if (ticks[i] > highest) {
            highest = ticks[i];
            thread_use.busiest = tid;
        }
    }
    if (tasks)
        closedir(tasks);
    for (int i = 0; i < 256; i++)
        thread_use.working_count += highest > 0 && ticks[i] * 4 >= highest;
    return thread_use;
}

/* The processor that a thread is bound to; -1 if it may run on several. */
static int processor_of(int tid)
{
    cpu_set_t set;

    if (sched_getaffinity(tid, sizeof set, &set) != 0 || CPU_COUNT(&set) != 1)
        return -1;
    for (unsigned i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &set))
            return (int)i;
    return -1;
}

static bool write_word(uint64_t word)
{
    return write(TENANT_OUT, &word, sizeof word) == sizeof word;
}

static int role_work(void)
{
    struct work work;
    uint64_t launches = 0, spent;
    char byte;

    ROLE_CHECK(fixture_open() && prepare_work(&work));
    ROLE_CHECK(write_word(0) && read(TENANT_IN, &byte, 1) == 1);
    const uint64_t begin = now_ns();
    do {
        ROLE_CHECK(launch_work(&work));
        launches++;
        spent = now_ns() - begin;
    } while (spent < RUN_NS);
    ROLE_CHECK(result_is_right(&work));
    const struct thread_use thread_use = find_thread_use();
    ROLE_CHECK(write_word(launches * UINT64_C(1000000000000) / spent)); /* launches in 1000 s */
    /* the processor plus 1: 0 stands for a thread that is bound to none */
    ROLE_CHECK(write_word(thread_use.working_count) && write_word((uint64_t)(processor_of(thread_use.busiest) + 1)));
    return 0;
}

/* --- tests --- */

struct outcome {
    uint64_t rate;          /* launches in 1000 s */
    uint64_t working_count; /* threads that worked */
    int processor;          /* of the busiest thread; -1: it may run on several */
};

/* Runs tenants at these addresses at the same time. */
static void work_together(const char *const *addresses, int count, struct outcome *ret_outcomes)
{
    struct tenant tenants[2];

    for (int i = 0; i < count; i++)
        tenant_start(&tenants[i], addresses[i], "work");
    for (int i = 0; i < count; i++)
        tenant_read(&tenants[i]);
    for (int i = 0; i < count; i++)
        tenant_go(&tenants[i]);
    for (int i = 0; i < count; i++) {
        ret_outcomes[i].rate = tenant_read(&tenants[i]);
        ret_outcomes[i].working_count = tenant_read(&tenants[i]);
        ret_outcomes[i].processor = (int)tenant_read(&tenants[i]) - 1;
    }
    for (int i = 0; i < count; i++)
        assert_int_equal(tenant_end(&tenants[i]), 0);
}

static struct outcome work_alone(const char *address)
{
    struct outcome outcome;

    work_together(&address, 1, &outcome);
    assert_true(outcome.rate > 0);
    return outcome;
}

/* --- other programs' load, under which a ratio proves nothing --- */

/* The time, the processor time that the whole machine used, and the part of it that this test used. */
struct moment {
    uint64_t wall_ns, machine_ns, ours_ns;
};

/* Processor time of the whole machine that was not idle, including time that the hypervisor gave to others. */
static uint64_t machine_time(void)
{
    uint64_t user = 0, nice = 0, system = 0, idle = 0, wait = 0, interrupt = 0, soft = 0, steal = 0;
    FILE *file = fopen("/proc/stat", "r");

    assert_non_null(file);
    assert_int_equal(fscanf(file, "cpu %lu %lu %lu %lu %lu %lu %lu %lu", &user, &nice, &system, &idle, &wait,
                            &interrupt, &soft, &steal),
                     8);
    fclose(file);
    return (user + nice + system + interrupt + soft + steal) * (UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK));
}

static uint64_t spent_ns(int who)
{
    struct rusage usage;

    getrusage(who, &usage);
    return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * UINT64_C(1000000000) +
           (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000;
}

static struct moment moment_now(void)
{
    return (struct moment){now_ns(), machine_time(), spent_ns(RUSAGE_CHILDREN) + spent_ns(RUSAGE_SELF)};
}

/* Whether other programs used less than a fifth of a processor since `begin`. */
static bool others_were_quiet_since(const struct moment *begin)
{
    const struct moment end = moment_now();
    const uint64_t machine = end.machine_ns - begin->machine_ns, ours = end.ours_ns - begin->ours_ns;

    return machine < ours || (machine - ours) * 5 < end.wall_ns - begin->wall_ns;
}

/* Expects `holds`; a failure counts only if other programs were quiet in at least one round. */
static void judge_ratio(bool holds, int quiet_rounds)
{
    if (!holds && quiet_rounds == 0) {
        print_message("# other programs kept this machine busy in every round\n");
        skip();
    }
    assert_true(holds);
}

/* In one round at least, all units are more than 1.4 times as fast as half of them. */
static void half_the_units_are_half_as_fast(void **state)
{
    const uint32_t half = all_units / 2;
    double best = 0;
    int quiet_rounds = 0;

    for (int i = 0; i < ROUNDS && best <= 1.4; i++) {
        const struct moment begin = moment_now();
        double part = (double)work_alone(tenant_address(0, half)).rate;
        double whole = (double)work_alone(tenant_address(0, 0)).rate;

        best = whole / part > best ? whole / part : best;
        quiet_rounds += others_were_quiet_since(&begin);
        print_message("# round %d: all units are %.2f times as fast as half of them\n", i, whole / part);
    }
    judge_ratio(best > 1.4, quiet_rounds);
}

/* One unit has less than 0.8 of the whole device's speed in one round at least, even if all other units are free. */
static void one_unit_is_not_faster_than_its_share(void **state)
{
    double least = 100;
    int quiet_rounds = 0;

    for (int i = 0; i < ROUNDS && least >= 0.8; i++) {
        const struct moment begin = moment_now();
        double part = (double)work_alone(tenant_address(0, 1)).rate;
        double whole = (double)work_alone(tenant_address(0, 0)).rate;

        least = part / whole < least ? part / whole : least;
        quiet_rounds += others_were_quiet_since(&begin);
    }
    judge_ratio(least < 0.8, quiet_rounds);
}

/* With POCL_AFFINITY, PoCL binds a unit's thread to the processor of that number, so tenants share no processor. */
static void a_unit_is_a_processor(void **state)
{
    for (uint32_t unit = 0; unit < all_units && unit < 8 && CPU_ISSET(unit, &allowed); unit++) {
        struct outcome outcome = work_alone(tenant_address(unit, 1));

        assert_int_equal(outcome.working_count, 1);
        assert_int_equal(outcome.processor, unit);
    }
    assert_int_equal(work_alone(tenant_address(0, 2)).working_count, 2);
}

/* Two tenants with a unit each keep more than 0.65 of the speed that each has alone. */
static void neighbours_keep_their_speed(void **state)
{
    char first[256];
    double best = 0;
    int quiet_rounds = 0;

    snprintf(first, sizeof first, "%s", tenant_address(0, 1));
    const char *const both[] = {first, tenant_address(1, 1)};
    for (int i = 0; i < ROUNDS && best <= 0.65; i++) {
        const struct moment begin = moment_now();
        struct outcome together[2];
        double alone[] = {(double)work_alone(both[0]).rate, (double)work_alone(both[1]).rate};

        work_together(both, 2, together);
        double ratios[] = {(double)together[0].rate / alone[0], (double)together[1].rate / alone[1]};
        double worse = ratios[0] < ratios[1] ? ratios[0] : ratios[1];
        print_message("# round %d: the tenants have %.2f and %.2f of the speed that each has alone\n", i, ratios[0],
                      ratios[1]);
        best = worse > best ? worse : best;
        quiet_rounds += others_were_quiet_since(&begin);
    }
    judge_ratio(best > 0.65, quiet_rounds);
}

/* Two tenants on one unit together have less than 1.3 times the speed of one: neighbours_keep_their_speed can fail. */
static void tenants_of_one_unit_halve_each_other(void **state)
{
    char first[256];
    double least = 100;

    snprintf(first, sizeof first, "%s", tenant_address(0, 1));
    const char *const both[] = {first, first};
    for (int i = 0; i < ROUNDS && least >= 1.3; i++) {
        struct outcome together[2];
        double alone = (double)work_alone(first).rate;

        work_together(both, 2, together);
        double sum = ((double)together[0].rate + (double)together[1].rate) / alone;
        print_message("# round %d: both tenants together are %.2f times as fast as one alone\n", i, sum);
        least = sum < least ? sum : least;
    }
    assert_true(least < 1.3);
}

int main(int argc, char **argv)
{
    const char *driver = argc > 1 ? argv[1] : "pocl";

    if (argc > 2) {
        alarm(120);
        return role_work();
    }
    if (!tenant_begin(argv[0], driver, 2, &all_units))
        return 0;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || !CPU_ISSET(0, &allowed) || !CPU_ISSET(1, &allowed)) {
        printf("1..0 # SKIP needs processors 0 and 1\n");
        return 0;
    }
    setenv("POCL_AFFINITY", "1", 1);

    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_the_units_are_half_as_fast),
        cmocka_unit_test(one_unit_is_not_faster_than_its_share),
        cmocka_unit_test(a_unit_is_a_processor),
        cmocka_unit_test(neighbours_keep_their_speed),
        cmocka_unit_test(tenants_of_one_unit_halve_each_other),
    };
    return cmocka_run_group_tests_name("effect", tests, NULL, NULL);
}
