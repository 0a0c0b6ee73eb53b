/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of shares: the device time that each vGPU gets while kernels run, by the driver's counters.
 *
 * Owns: waiting until enough device time was used, reading it, and comparing a vGPU's part with the expected one.
 * Never: measures a part by wall-clock time: on a busy machine a stretch takes longer, but its proportions stay.
 */
#ifndef VGPU_DEVICE_TIME_H
#define VGPU_DEVICE_TIME_H

#include "world.h"

#include <facet/monitor.h>

#define MEASURED   3u         /* the most vGPUs that are measured */
#define SETTLE_NS  (30 * MS)  /* of device time, until a change of shares shows */
#define WINDOW_NS  (150 * MS) /* of device time */
#define WINDOWS    3          /* a part is wrong only if it is wrong in each of them */
#define HAD_MOSTLY 75         /* percent of its processor's time: with less, parts that vary are not judged */
#define HAD_LEAST  25         /* percent of its processor's time: with less, no part is judged */
#define NOISE      10         /* parts vary when they differ by more percent */
#define ENDLESS    (UINT64_C(1) << 30)

/* The device time of the vGPUs 1 to `count`, and of their device. */
struct device_time {
    uint32_t count;
    uint64_t busy_ns[MEASURED];
    uint64_t active_ns; /* the device had work */
    uint64_t wall_ns;
};

static inline uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 * MS + (uint64_t)now.tv_nsec;
}

/* The counters of vGPU `id` at the driver's first measurement after `after_ns`; `id` 0: those of the device. */
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

/* The device time that each vGPU gets from now on, until all of them together got `ns`. */
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

/* The percentage of its active time in which the device had its processor; other programs had it the rest. */
static inline uint64_t percent_had(const struct device_time *got)
{
    return got->active_ns > 0 ? device_time_sum(got) * 100 / got->active_ns : 0;
}

/*
 * Expects that vGPU `id` gets `least` to `most` percent of all vGPUs' device time in one of up to WINDOWS stretches.
 * For devices of one unit: if other programs kept the unit from its processor, the part depends on them. Then a message
 * says that the part was not judged.
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
