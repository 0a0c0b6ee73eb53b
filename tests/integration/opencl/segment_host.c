/* SPDX-License-Identifier: Apache-2.0 */
/*
 * segment-host [-m BYTES] [-g open|leased|closed] LAYER COMMAND [ARGUMENT...]
 *
 * Runs a command in a vGPU of the first OpenCL device, without a daemon, and prints the vGPU's usage.
 *
 * Owns: the segment and its heartbeat while the command runs.
 * Never: schedules: the gate stays as -g sets it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "address.h"
#include "base/clock.h"
#include "limiter/tenant.h"
#include "segment.h"

static int wait_and_beat(struct test_segment *segment, pid_t pid)
{
    int status = 0;

    while (waitpid(pid, &status, WNOHANG) == 0) {
        test_segment_beat(segment);
        facet_owner_reap(segment->owner);
        usleep(20000);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void print_totals(const struct test_segment *segment)
{
    struct facet_usage_totals totals = test_segment_totals(segment);

    fprintf(stderr,
            "segment-host: held_bytes %llu peak_bytes %llu denied %llu launches %llu busy_ms %.3f throttled_ms %.3f "
            "inflight %u\n",
            (unsigned long long)totals.memory_bytes, (unsigned long long)totals.memory_peak_bytes,
            (unsigned long long)totals.denied, (unsigned long long)totals.launches,
            (double)totals.busy_ns / (double)FACET_NS_PER_MS, (double)totals.throttled_ns / (double)FACET_NS_PER_MS,
            totals.inflight);
}

static int run_command(struct test_segment *segment, const char *layer, char **command)
{
    pid_t pid = fork();

    if (pid == 0) {
        setenv(FACET_ENV_VGPU_DIR, segment->dir, 1);
        setenv("OPENCL_LAYERS", layer, 1);
        execvp(command[0], command);
        fprintf(stderr, "segment-host: %s: %s\n", command[0], strerror(errno));
        _exit(127);
    }
    int status = wait_and_beat(segment, pid);
    facet_owner_reap(segment->owner);
    print_totals(segment);
    return status;
}

int main(int argc, char **argv)
{
    uint64_t memory = UINT64_C(256) << 20;
    enum facet_gate gate = FACET_GATE_OPEN;
    struct test_segment segment;
    char address[256];
    int option;

    while ((option = getopt(argc, argv, "+m:g:")) != -1) {
        if (option == 'm')
            memory = strtoull(optarg, NULL, 0);
        else if (option == 'g')
            gate = optarg[0] == 'l' ? FACET_GATE_LEASED : optarg[0] == 'c' ? FACET_GATE_CLOSED : FACET_GATE_OPEN;
        else
            return 2;
    }
    if (argc - optind < 2) {
        fprintf(stderr, "usage: segment-host [-m BYTES] [-g open|leased|closed] LAYER COMMAND [ARGUMENT...]\n");
        return 2;
    }
    if (!test_device_address_apart(0, address)) {
        fprintf(stderr, "segment-host: no OpenCL device is found; install a driver and its ICD file\n");
        return 1;
    }
    if (!test_segment_make(&segment, address, memory))
        return 1;
    /* a leased gate lets launches through while at most 20 ms of work are in flight */
    facet_owner_set_gate(segment.owner, gate);
    facet_owner_set_depth(segment.owner, 20 * FACET_NS_PER_MS);
    int status = run_command(&segment, argv[optind], argv + optind + 1);
    test_segment_remove(&segment);
    return status;
}
