/* SPDX-License-Identifier: Apache-2.0 */
/*
 * limiter_host [-m BYTES] [-c LIMIT_MILLI] [-s SECONDS] DIR PID...
 *
 * A host that keeps a group of processes within one quota, with the public API alone. It creates a worker, registers
 * the processes, asks the limiter before they allocate and launch (in this example it invents their requests), and
 * sends heartbeats.
 *
 * Owns: one worker in the folder DIR, which it creates if it is missing.
 * Never: touches a device or the processes; it only keeps their accounts.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <facet/limiter.h>

#define MIB (INT64_C(1) << 20)
#define MS  1000000L

/* A heartbeat is due every 200 ms. */
#define BEAT_MS 200

static int complain(const struct facet_error *error)
{
    fprintf(stderr, "limiter_host: %s (%s)\n", error->message, facet_status_advice(error->status));
    return 1;
}

/* The requests of a process: a buffer, and a kernel of 30 ms in every interval. */
static int serve(struct facet_limiter *limiter, int32_t pid)
{
    struct facet_limiter_verdict memory = {.size = sizeof memory}, compute = {.size = sizeof compute};
    struct facet_error error;

    if (facet_limiter_memory_check(limiter, "example", pid, 16 * MIB, &memory, &error) != FACET_OK ||
        facet_limiter_compute_check(limiter, "example", pid, 30 * MS, &compute, &error) != FACET_OK)
        return error.status == FACET_NOT_FOUND ? 0 : complain(&error); /* not found: the process has ended */
    printf("  %" PRId32 ": 16 MiB %s, %" PRIu64 " bytes left; 30 ms %s", pid, memory.admitted ? "granted" : "refused",
           memory.available, compute.admitted ? "granted" : "refused");
    if (!compute.admitted)
        printf(", again in %.0f ms", (double)compute.wait_ns / (double)MS);
    printf("\n");
    return 0;
}

static int beat(struct facet_limiter *limiter)
{
    struct facet_limiter_state state = {.size = sizeof state};
    struct facet_error error;

    if (facet_limiter_worker_heartbeat(limiter, "example", &error) != FACET_OK ||
        facet_limiter_worker_state(limiter, "example", &state, &error) != FACET_OK)
        return complain(&error);
    printf("%u processes hold %" PRIu64 " of %" PRIu64 " bytes; %" PRIu64 " refused\n", state.processes,
           state.memory_bytes, state.memory_limit_bytes, state.denied);
    return 0;
}

static int run(struct facet_limiter *limiter, int count, char **pids, int seconds)
{
    const struct timespec interval = {.tv_nsec = BEAT_MS * MS};
    struct facet_error error;

    for (int i = 0; i < count; i++)
        if (facet_limiter_process_register(limiter, "example", (int32_t)strtol(pids[i], NULL, 10), &error) != FACET_OK)
            return complain(&error);
    for (int tick = 0; tick < seconds * 1000 / BEAT_MS; tick++) {
        if (beat(limiter))
            return 1;
        for (int i = 0; i < count; i++)
            if (serve(limiter, (int32_t)strtol(pids[i], NULL, 10)))
                return 1;
        nanosleep(&interval, NULL);
    }
    return 0;
}

static int host(const char *dir, const struct facet_limits *limits, int count, char **pids, int seconds)
{
    struct facet_limiter_worker worker = {.size = sizeof worker,
                                          .id = "example",
                                          .device_id = "example:0",
                                          .device_memory_bytes = UINT64_C(1) << 30,
                                          .limits = *limits};
    struct facet_limiter *limiter;
    struct facet_error error;

    if (facet_limiter_open(dir, &limiter, &error) != FACET_OK)
        return complain(&error);
    int result = facet_limiter_worker_create(limiter, &worker, &error) == FACET_OK ? run(limiter, count, pids, seconds)
                                                                                   : complain(&error);
    facet_limiter_worker_remove(limiter, "example", true, NULL);
    facet_limiter_close(limiter);
    return result;
}

int main(int argc, char **argv)
{
    struct facet_limits limits;
    int option, seconds = 3;

    facet_limits_init(&limits);
    limits.memory_bytes = 64 * MIB;
    limits.compute_limit_milli = 250;
    while ((option = getopt(argc, argv, "m:c:s:")) != -1) {
        if (option == 'm')
            limits.memory_bytes = strtoull(optarg, NULL, 10);
        else if (option == 'c')
            limits.compute_limit_milli = (uint32_t)strtoul(optarg, NULL, 10);
        else if (option == 's')
            seconds = atoi(optarg);
        else
            return 2;
    }
    if (argc - optind < 2) {
        fprintf(stderr, "usage: limiter_host [-m BYTES] [-c LIMIT_MILLI] [-s SECONDS] DIR PID...\n");
        return 2;
    }
    return host(argv[optind], &limits, argc - optind - 1, argv + optind + 1, seconds);
}
