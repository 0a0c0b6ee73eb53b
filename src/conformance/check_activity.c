/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether readings follow activity on the device.
 *
 * Owns: causing activity, and finding it in the readings of the device and of this process.
 * Never: expects that a reading changes by a certain amount or at once: a provider reads at its own pace.
 */
#include "conformance/activity.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "conformance/kernel.h"

enum { PAUSE_MS = 10, ATTEMPTS_MAX = 300 }; /* 3 s of readings, PAUSE_MS apart */

/* The most memory that is taken: enough to stand out from a runtime's own memory. */
#define MOST_BYTES (UINT64_C(64) << 20)

static void pause_briefly(void)
{
    const struct timespec pause = facet_ns_timespec(PAUSE_MS * FACET_NS_PER_MS);

    nanosleep(&pause, NULL);
}

static enum facet_status read_metrics(struct facet_check *check, struct facet_device_metrics *ret_metrics)
{
    memset(ret_metrics, 0, sizeof *ret_metrics);
    ret_metrics->size = sizeof *ret_metrics;
    return check->metrics_ops.device(check->instance, check->device, ret_metrics, &check->error);
}

void facet_check_activity_clock(struct facet_check *check)
{
    const struct facet_device_info *info = facet_check_info(check);
    struct facet_device_metrics now;

    if (!EXPECT_OK(check, "metrics.device: read for its clock", read_metrics(check, &now)))
        return;
    if (!(now.valid & FACET_METRIC_CLOCK) || !(info->valid & FACET_DEVICE_HAS_CLOCK)) {
        facet_check_skip(check, "metrics.device: the clock is at most the device's", "not both are measured");
        return;
    }
    EXPECT_TRUE(check, "metrics.device: the clock is at most the device's", now.clock_mhz <= info->clock_mhz,
                "expected: at most %" PRIu32 " MHz\ngot: %" PRIu32 " MHz", info->clock_mhz, now.clock_mhz);
}

/* Reads until a counter or level has risen above `before`, within seconds. */
static void expect_rise(struct facet_check *check, const char *text, uint64_t before,
                        uint64_t (*value_of)(const struct facet_device_metrics *metrics))
{
    struct facet_device_metrics now;
    uint64_t value = before;

    facet_check_begin(check, "%s", text);
    for (int i = 0; i < ATTEMPTS_MAX && value <= before && read_metrics(check, &now) == FACET_OK; i++) {
        value = value_of(&now);
        if (value <= before)
            pause_briefly();
    }
    facet_check_judge(check, value > before, "expected: above %" PRIu64 " within 3 s\ngot: %" PRIu64, before, value);
}

static uint64_t read_used_bytes(const struct facet_device_metrics *metrics)
{
    return metrics->memory_used_bytes;
}

static uint64_t read_busy_ns(const struct facet_device_metrics *metrics)
{
    return metrics->busy_ns;
}

/* Creates a context and allocates memory in it. */
static bool take_memory(struct facet_check *check, uint64_t *ret_context)
{
    uint64_t bytes = facet_check_info(check)->memory_bytes / 8, address;

    if (bytes == 0 || bytes > MOST_BYTES)
        bytes = MOST_BYTES;
    return facet_check_context(check, FACET_CHECK_WORKER, ret_context) &&
           EXPECT_OK(check, "memory.alloc: to be seen in readings",
                     check->memory_ops.alloc(check->instance, *ret_context, bytes, &address, &check->error));
}

void facet_check_activity_memory(struct facet_check *check)
{
    struct facet_device_metrics before;
    uint64_t context = 0;

    if (!EXPECT_OK(check, "metrics.device: read before an allocation", read_metrics(check, &before)))
        return;
    if (!(before.valid & FACET_METRIC_MEMORY_USED)) {
        facet_check_skip(check, "metrics.device: memory_used_bytes grows with an allocation", "it is not measured");
        return;
    }
    if (take_memory(check, &context))
        expect_rise(check, "metrics.device: memory_used_bytes grows with an allocation", before.memory_used_bytes,
                    read_used_bytes);
    if (context)
        facet_check_drop_context(check, context);
}

static void run_kernel_once(struct facet_check *check, uint64_t context)
{
    struct facet_check_kernel kernel = {0};
    struct facet_device_metrics before;
    uint64_t address = 0;

    if (!facet_check_kernel_open(check, context, &kernel) ||
        !EXPECT_OK(check, "memory.alloc: for a kernel to be seen in readings",
                   check->memory_ops.alloc(check->instance, context, sizeof(uint64_t), &address, &check->error)) ||
        !EXPECT_OK(check, "metrics.device: read before a kernel", read_metrics(check, &before)) ||
        !EXPECT_OK(check, "execution.launch: to be seen in readings",
                   facet_check_kernel_launch(check, &kernel, address, 1, 1)) ||
        !EXPECT_OK(check, "execution.synchronize: with what is to be seen in readings",
                   check->execution_ops.synchronize(check->instance, context, kernel.stream, FACET_CHECK_KERNEL_NS,
                                                    &check->error)))
        return;
    expect_rise(check, "metrics.device: busy_ns grows with a kernel", before.busy_ns, read_busy_ns);
}

void facet_check_activity_busy(struct facet_check *check)
{
    struct facet_device_metrics now;
    uint64_t context = 0;

    if (!EXPECT_OK(check, "metrics.device: read for its busy time", read_metrics(check, &now)))
        return;
    if (!(now.valid & FACET_METRIC_BUSY) || !facet_check_kernel_published(check)) {
        facet_check_skip(check, "metrics.device: busy_ns grows with a kernel",
                         now.valid & FACET_METRIC_BUSY ? "no property conformance_kernel is published"
                                                       : "it is not measured");
        return;
    }
    if (!facet_check_context(check, FACET_CHECK_WORKER, &context))
        return;
    run_kernel_once(check, context);
    facet_check_drop_context(check, context);
}

/*
 * Returns the process that started the provider's process `pid`, which is the last argument of that process's program
 * (session/child.c). -1: unknown.
 */
static int32_t find_starter(int32_t pid)
{
    char path[64], text[8192];

    snprintf(path, sizeof path, "/proc/%" PRId32 "/cmdline", pid);
    FACET_CLEANUP_FILE FILE *file = fopen(path, "re");
    size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    text[length] = '\0';
    const char *last = length > 1 ? memrchr(text, '\0', length - 1) : NULL;
    return last ? (int32_t)strtol(last + 1, NULL, 10) : -1;
}

/* Whether `pid` is the provider's process: this one, or the child that this one started for it. */
static bool is_provider_process(const struct facet_check *check, int32_t pid)
{
    return (check->isolated ? find_starter(pid) : pid) == (int32_t)getpid();
}

static enum facet_status call_processes(struct facet_check *check, const void *subject, void *items, uint32_t item_size,
                                        uint32_t capacity, uint32_t *ret_count)
{
    return check->metrics_ops.processes(check->instance, check->device, items, item_size, capacity, ret_count,
                                        &check->error);
}

enum sight { NOT_LISTED, WITHOUT_MEMORY, LISTED };

/* How the provider's process is listed. It may have an entry for each worker: one with memory is enough. */
static enum sight find_own_process(struct facet_check *check)
{
    const struct facet_check_list list = {"metrics.processes", sizeof(struct facet_process_metrics), true,
                                          call_processes, NULL};
    enum sight best = NOT_LISTED;
    uint32_t count = 0;
    FACET_CLEANUP_FREE struct facet_process_metrics *all = facet_check_fetch(check, &list, &count);

    for (uint32_t i = 0; i < count; i++) {
        if (!is_provider_process(check, all[i].pid))
            continue;
        bool shows = !(all[i].valid & FACET_PROCESS_HAS_MEMORY) || all[i].memory_used_bytes > 0;
        if (best != LISTED)
            best = shows ? LISTED : WITHOUT_MEMORY;
    }
    return best;
}

void facet_check_activity_process(struct facet_check *check)
{
    enum sight sight = NOT_LISTED;
    bool quiet = check->quiet;
    uint64_t context = 0;

    if (take_memory(check, &context)) {
        check->quiet = true; /* each reading is an assertion that was made before */
        for (int i = 0; i < ATTEMPTS_MAX && (sight = find_own_process(check)) != LISTED; i++)
            pause_briefly();
        check->quiet = quiet;
        EXPECT_TRUE(check, "metrics.processes: lists a process with memory on the device", sight != NOT_LISTED,
                    "expected: the pid of the provider's process within 3 s\ngot: no such process");
        EXPECT_TRUE(check, "metrics.processes: its memory is above 0 where it is measured", sight != WITHOUT_MEMORY,
                    "expected: some memory_used_bytes within 3 s\ngot: 0");
    }
    if (context)
        facet_check_drop_context(check, context);
}
