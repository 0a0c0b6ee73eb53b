/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs in vGPUs of a fake GPU, with the daemon's scheduler: cuda-host SECONDS VGPU[,VGPU...] COMMAND... The program
 * hip-host is the same code, linked with HIP's world_vendor (world.h).
 *
 * A VGPU is "bare" (no vGPU: the driver alone), "REQUEST:LIMIT" in milli, "swap:MIB" (oversubscribed, with that much
 * memory), or "+" (another process in the vGPU before it). For each VGPU one process runs COMMAND; its output is passed
 * on. With SECONDS above 0, it prints a line each second: for each process the device time of that second in milli,
 * as the driver counts it (got_milli) and as the limiter reported it for the process's vGPU (told_milli):
 * {"second": N, "pids": [...], "got_milli": [...], "told_milli": [...]}
 *
 * Owns: the machine and the processes. Never: decides whether the figures are good.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "world.h"

#define TENANTS  8u
#define START_NS (500 * FACET_NS_PER_MS) /* by then the scheduler has seen all processes */

struct tenant {
    int vgpu;
    pid_t pid;
    uint64_t busy_ns, reported_ns; /* totals at the end of the last second */
};

static void sleep_until(uint64_t when_ns)
{
    struct timespec when = facet_ns_timespec(when_ns);

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL) != 0)
        ;
}

static uint64_t reported_ns(struct world *world, const struct tenant *tenant)
{
    return tenant->vgpu < 0 ? 0 : world_totals(world, tenant->vgpu).busy_ns;
}

/* Prints times of one second: a millisecond is 1 milli of the device. */
static void print_list(const char *name, const uint64_t *values, unsigned count)
{
    printf("\"%s\": [", name);
    for (unsigned i = 0; i < count; i++)
        printf("%s%.1f", i ? ", " : "", (double)values[i] / (double)FACET_NS_PER_MS);
    printf("]");
}

static void print_pids(const struct tenant *tenants, unsigned count)
{
    printf("\"pids\": [");
    for (unsigned i = 0; i < count; i++)
        printf("%s%d", i ? ", " : "", (int)tenants[i].pid);
    printf("], ");
}

static void watch_tenants(struct world *world, struct tenant *tenants, unsigned count, unsigned seconds)
{
    uint64_t used[TENANTS], reported[TENANTS], begun_ns = facet_clock_now_ns() + START_NS;

    for (unsigned second = 0; second <= seconds; second++) {
        sleep_until(begun_ns + second * FACET_NS_PER_S);
        for (unsigned i = 0; i < count; i++) {
            uint64_t busy_ns = driver_busy_ns(tenants[i].pid), now_reported_ns = reported_ns(world, &tenants[i]);

            used[i] = busy_ns - tenants[i].busy_ns;
            reported[i] = now_reported_ns - tenants[i].reported_ns;
            tenants[i].busy_ns = busy_ns;
            tenants[i].reported_ns = now_reported_ns;
        }
        if (!second)
            continue;
        printf("{\"second\": %u, ", second);
        print_pids(tenants, count);
        print_list("got_milli", used, count);
        printf(", ");
        print_list("told_milli", reported, count);
        printf("}\n");
        fflush(stdout);
    }
}

/* The number of the vGPU that an item of the list names, -1 for "bare", -2 if the item is invalid. `previous` is the
 * number of the item before it. */
static int vgpu_of(struct world *world, const char *item, int previous)
{
    unsigned request, limit, mebibytes;

    if (strcmp(item, "bare") == 0)
        return -1;
    if (strcmp(item, "+") == 0)
        return previous;
    if (sscanf(item, "swap:%u", &mebibytes) == 1)
        return world_add_oversubscribed(world, (uint64_t)mebibytes << 20, 0);
    return sscanf(item, "%u:%u", &request, &limit) == 2 ? world_add(world, request, limit) : -2;
}

/* Starts a process for each item of the list. Prints which item is refused and returns false; the processes before it
 * run. */
static bool start_tenants(struct world *world, char *list, char *const command[], struct tenant *tenants,
                          unsigned *ret_count)
{
    unsigned count = 0;
    int vgpu = -2;

    *ret_count = 0;
    for (char *item = strtok(list, ","); item; item = strtok(NULL, ",")) {
        if (count == TENANTS) {
            fprintf(stderr, "host: VGPU '%s': expected at most %u\n", item, TENANTS);
            return false;
        }
        vgpu = vgpu_of(world, item, vgpu);
        if (vgpu < -1) {
            fprintf(stderr, "host: VGPU '%s': expected bare, REQUEST:LIMIT, swap:MIB, or + after another\n", item);
            return false;
        }
        tenants[count] = (struct tenant){.vgpu = vgpu, .pid = world_start(world, vgpu, command)};
        *ret_count = ++count;
    }
    return count > 0;
}

int main(int argc, char **argv)
{
    struct tenant tenants[TENANTS];
    struct world world;
    int status = 0;

    if (argc < 4) {
        fprintf(stderr, "usage: host SECONDS VGPU[,VGPU...] COMMAND...\n");
        return 2;
    }
    if (!world_open(&world))
        return 1;
    fake_state(); /* made here, so that all processes share one machine */
    unsigned count;
    bool started = start_tenants(&world, argv[2], argv + 3, tenants, &count);
    if (started && atoi(argv[1]) > 0)
        watch_tenants(&world, tenants, count, (unsigned)atoi(argv[1]));
    for (unsigned i = 0; i < count; i++)
        status |= world_wait(tenants[i].pid);
    world_close(&world);
    return started && !status ? 0 : 1;
}
