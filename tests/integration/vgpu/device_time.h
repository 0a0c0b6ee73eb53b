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

#define MEASURED_VGPUS           3u         /* the most vGPUs that are measured */
#define SETTLE_NS                (30 * MS)  /* of device time, until a change of shares shows */
#define WINDOW_NS                (150 * MS) /* of device time */
#define WINDOWS                  3          /* a part is wrong only if it is wrong in each window */
#define STEADY_PROCESSOR_PERCENT 75 /* percent of its processor's time: with less, parts that vary are not judged */
#define LEAST_PROCESSOR_PERCENT  25 /* percent of its processor's time: with less, no part is judged */
#define NOISE_PERCENT            10 /* parts vary if they differ by more */
#define ENDLESS_GROUPS           (UINT64_C(1) << 30)

/* The device time of the vGPUs 1 to `count`, and of their device. */
struct device_time {
    uint32_t count;
    uint64_t busy_ns[MEASURED_VGPUS];
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

static inline uint64_t device_time_sum(const struct device_time *times)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < times->count; i++)
        sum += times->busy_ns[i];
    return sum;
}

/* The device time that each vGPU uses from now on, until all of them together used `ns`. */
static inline struct device_time device_time_over(uint32_t count, uint64_t ns)
{
    const struct device_time before = device_time_now(count);
    struct device_time used = before;

    for (uint64_t waited = 0; waited < WAIT_NS && device_time_sum(&used) < device_time_sum(&before) + ns;
         waited += 10 * MS) {
        nap(10 * MS);
        used = device_time_now(count);
    }
    assert_true(device_time_sum(&used) >= device_time_sum(&before) + ns);
    for (uint32_t i = 0; i < count; i++)
        used.busy_ns[i] -= before.busy_ns[i];
    used.active_ns -= before.active_ns;
    used.wall_ns -= before.wall_ns;
    return used;
}

/* The percentage of the device's active time in which it had its processor; in the remaining time other
 * programs ran. */
static inline uint64_t processor_percent(const struct device_time *times)
{
    return times->active_ns > 0 ? device_time_sum(times) * 100 / times->active_ns : 0;
}

/*
 * Expects that vGPU `id` gets `least` to `most` percent of all vGPUs' device time in one of up to WINDOWS stretches.
 * The device must have one unit. If other programs kept the unit from its processor, the percentage depends on them,
 * and a message says that it was not judged.
 */
static inline void expect_percent_of(uint32_t count, uint32_t id, uint64_t least, uint64_t most, const char *phase)
{
    uint64_t percent[WINDOWS], lowest_processor = 100, lowest = 100, highest = 0;

    (void)device_time_over(count, SETTLE_NS);
    for (int i = 0; i < WINDOWS; i++) {
        struct device_time times = device_time_over(count, WINDOW_NS);
        uint64_t sum = device_time_sum(&times);

        percent[i] = sum > 0 ? times.busy_ns[id - 1] * 100 / sum : 0;
        if (percent[i] >= least && percent[i] <= most)
            return;
        lowest = percent[i] < lowest ? percent[i] : lowest;
        highest = percent[i] > highest ? percent[i] : highest;
        lowest_processor = processor_percent(&times) < lowest_processor ? processor_percent(&times) : lowest_processor;
    }
    if (lowest_processor < LEAST_PROCESSOR_PERCENT ||
        (lowest_processor < STEADY_PROCESSOR_PERCENT && highest - lowest > NOISE_PERCENT)) {
        print_message("# %s: not judged, as the unit had its processor for %" PRIu64 " %% of the time\n", phase,
                      lowest_processor);
        return;
    }
    fail_msg("%s: %" PRIu64 ", %" PRIu64 ", then %" PRIu64 " %% of the device time went to vGPU %u: %" PRIu64
             " to %" PRIu64 " expected; the unit had its processor for %" PRIu64 " %% at least",
             phase, percent[0], percent[1], percent[2], id, least, most, lowest_processor);
}

static inline void expect_percent_of_first(uint32_t count, uint64_t least, uint64_t most, const char *phase)
{
    expect_percent_of(count, 1, least, most, phase);
}

#endif
