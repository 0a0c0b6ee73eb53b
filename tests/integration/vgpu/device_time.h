/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device time of vGPUs over a stretch of time, by the device's own count, while kernels run on it: for tests of
 * shares.
 *
 * Owns: waiting until enough device time went by, and reading it. Never: asserts a test's result, or measures by a
 * watch: a machine with other things to do makes a stretch longer, and leaves its proportions.
 */
#ifndef VGPU_DEVICE_TIME_H
#define VGPU_DEVICE_TIME_H

#include "world.h"

#include <facet/monitor.h>

#define MEASURED   3u
#define SETTLE_NS  (30 * MS)  /* of device time, until a change shows */
#define WINDOW_NS  (150 * MS) /* of device time */
#define WINDOWS    3          /* a promise that is broken is broken in each */
#define HAD_MOSTLY 75
#define HAD_LEAST  25
#define NOISE      10
#define ENDLESS    (UINT64_C(1) << 30)

/* Of the vGPUs 1 to `count`, and of their device. */
struct device_time {
    uint32_t count;
    uint64_t busy_ns[MEASURED];
    uint64_t active_ns; /* with something on it */
    uint64_t wall_ns;
};

static inline uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 * MS + (uint64_t)now.tv_nsec;
}

/* Counters as they are at the driver's next measurement; `id` 0: the device's. */
static inline struct facet_sample sample_after(uint32_t id, uint64_t after_ns)
{
    struct facet_sample sample = {0};

    for (uint64_t waited = 0; waited < WAIT_NS; waited += MS) {
        uint32_t count = 1;

        if (id > 0)
            OK(facet_vgpu_get_history(world.driver, id, after_ns, &sample, &count, ERROR));
        else
            OK(facet_driver_get_history(world.driver, 0, after_ns, &sample, &count, ERROR));
        if (count == 1)
            return sample;
        nap(MS);
    }
    fail_msg("vGPU %u is not measured", id);
    return sample;
}

static inline struct device_time device_time_now(uint32_t count)
{
    struct device_time now = {.count = count};
    uint64_t after_ns = now_ns();

    for (uint32_t i = 0; i < count; i++)
        now.busy_ns[i] = sample_after(i + 1, after_ns).values[FACET_SAMPLE_BUSY_NS];
    struct facet_sample device = sample_after(0, after_ns);
    now.active_ns = device.values[FACET_SAMPLE_BUSY_NS];
    now.wall_ns = device.time_ns;
    return now;
}

static inline uint64_t device_time_sum(const struct device_time *time)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < time->count; i++)
        sum += time->busy_ns[i];
    return sum;
}

/* The device time of each from now on, until the sum is `ns`. */
static inline struct device_time device_time_over(uint32_t count, uint64_t ns)
{
    const struct device_time begin = device_time_now(count);
    struct device_time got = begin;

    for (uint64_t waited = 0; waited < WAIT_NS && device_time_sum(&got) < device_time_sum(&begin) + ns;
         waited += 10 * MS) {
        nap(10 * MS);
        got = device_time_now(count);
    }
    assert_true(device_time_sum(&got) >= device_time_sum(&begin) + ns);
    for (uint32_t i = 0; i < count; i++)
        got.busy_ns[i] -= begin.busy_ns[i];
    got.active_ns -= begin.active_ns;
    got.wall_ns -= begin.wall_ns;
    return got;
}

/* The processor time of the units while they worked, in percent: the rest went to other programs. */
static inline uint64_t percent_had(const struct device_time *got)
{
    return got->active_ns > 0 ? device_time_sum(got) * 100 / got->active_ns : 0;
}

/*
 * The percentage of the device time of all that vGPU `id` got, judged over up to WINDOWS stretches: `least` to `most`
 * in one of them. For devices of one unit: where that one did not have its processor, others decided, and it is said so
 * instead.
 */
static inline void expect_percent_of(uint32_t count, uint32_t id, uint64_t least, uint64_t most, const char *when)
{
    uint64_t percent[WINDOWS], had = 100, lowest = 100, highest = 0;

    (void)device_time_over(count, SETTLE_NS);
    for (int i = 0; i < WINDOWS; i++) {
        struct device_time got = device_time_over(count, WINDOW_NS);
        uint64_t sum = device_time_sum(&got);

        percent[i] = sum > 0 ? got.busy_ns[id - 1] * 100 / sum : 0;
        if (percent[i] >= least && percent[i] <= most)
            return;
        lowest = percent[i] < lowest ? percent[i] : lowest;
        highest = percent[i] > highest ? percent[i] : highest;
        had = percent_had(&got) < had ? percent_had(&got) : had;
    }
    if (had < HAD_LEAST || (had < HAD_MOSTLY && highest - lowest > NOISE)) {
        print_message("# %s: not judged, as the unit had its processor for %" PRIu64 " %% of the time\n", when, had);
        return;
    }
    fail_msg("%s: %" PRIu64 ", %" PRIu64 ", then %" PRIu64 " %% of the device time went to vGPU %u: %" PRIu64
             " to %" PRIu64 " expected; the unit had its processor for %" PRIu64 " %% at least",
             when, percent[0], percent[1], percent[2], id, least, most, had);
}

static inline void expect_percent_of_first(uint32_t count, uint64_t least, uint64_t most, const char *when)
{
    expect_percent_of(count, 1, least, most, when);
}

#endif
