/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the tenant's roles that launch kernels. Never: knows how Facet enforces a share. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "driver.h"
#include "tenant.h"

#define FIRST_STEPS UINT64_C(1000) /* with which calibration begins */
#define TRIALS      5u
#define WORDS       1024u
#define MOST_DEPTH  64u
#define MOST_BINS   1200u               /* two minutes */
#define BIN_NS      UINT64_C(100000000) /* 0.1 s */
#define SETTLE_NS   UINT64_C(200000000) /* in which the device's clock rises */

int role_store(char **arguments)
{
    static uint64_t words[WORDS];
    uint64_t count = WORDS, value = UINT64_C(0x5eedf00d5eedf00d), wrong = 0;
    CUdeviceptr memory;

    gpu_enter();
    GPU(gpu.cuMemAlloc_v2(&memory, sizeof words));
    void *kernel_arguments[] = {&memory, &count, &value};
    GPU(gpu.cuLaunchKernel(gpu_store(), 4, 1, 1, 64, 1, 1, 0, NULL, kernel_arguments, NULL));
    GPU(gpu.cuCtxSynchronize());
    GPU(gpu.cuMemcpyDtoH_v2(words, memory, sizeof words));
    for (unsigned i = 0; i < WORDS; i++)
        wrong += words[i] != value;
    printf("{\"words\": %u, \"wrong\": %llu}\n", WORDS, (unsigned long long)wrong);
    return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* The least time of a launch over some trials. */
static double milliseconds_of(CUfunction spin, CUdeviceptr out, uint64_t steps)
{
    CUevent begin, end;
    float best = 0, milliseconds;

    GPU(gpu.cuEventCreate(&begin, 0));
    GPU(gpu.cuEventCreate(&end, 0));
    for (unsigned i = 0; i < TRIALS; i++) {
        GPU(gpu.cuEventRecord(begin, NULL));
        gpu_launch_spin(spin, out, steps, NULL);
        GPU(gpu.cuEventRecord(end, NULL));
        GPU(gpu.cuEventSynchronize(end));
        GPU(gpu.cuEventElapsedTime(&milliseconds, begin, end));
        best = i && best < milliseconds ? best : milliseconds;
    }
    return (double)best;
}

static CUdeviceptr make_output(void)
{
    CUdeviceptr out;

    GPU(gpu.cuMemAlloc_v2(&out, gpu_spin_words() * sizeof(uint64_t)));
    return out;
}

/* Launches for SETTLE_NS first, so that the device's clock rises. Then calibrates in two rounds, because most of the
 * time of a short kernel is its launch. */
int role_calibrate(char **arguments)
{
    uint32_t microseconds = (uint32_t)atoi(arguments[0]);
    uint64_t steps = FIRST_STEPS;

    gpu_enter();
    CUfunction spin = gpu_spin(microseconds);
    CUdeviceptr out = make_output();
    for (uint64_t end = gpu_now_ns() + SETTLE_NS; gpu_now_ns() < end;)
        milliseconds_of(spin, out, steps);
    for (unsigned round = 0; round < 2; round++) {
        double took_us = milliseconds_of(spin, out, steps) * 1000.0;
        if (took_us > 0)
            steps = (uint64_t)((double)steps * microseconds / took_us) + 1;
    }
    printf("{\"steps\": %llu, \"us\": %.3f}\n", (unsigned long long)steps, milliseconds_of(spin, out, steps) * 1000.0);
    return EXIT_SUCCESS;
}

struct spin {
    CUevent events[MOST_DEPTH];
    unsigned depth;
    uint64_t launched, completed, start_ns;
    uint32_t bins[MOST_BINS];
};

/* Waits for the oldest launch and counts its completion. */
static void complete_one(struct spin *spin)
{
    GPU(gpu.cuEventSynchronize(spin->events[spin->completed++ % spin->depth]));
    uint64_t now = gpu_now_ns();
    uint64_t bin = now > spin->start_ns ? (now - spin->start_ns) / BIN_NS : MOST_BINS;
    if (bin < MOST_BINS)
        spin->bins[bin]++;
}

static void sleep_until(uint64_t when_ns)
{
    struct timespec when = {.tv_sec = (time_t)(when_ns / 1000000000u), .tv_nsec = (long)(when_ns % 1000000000u)};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL) != 0)
        ;
}

/* Whether every thread of the last kernel stored the right result. */
static bool is_right(CUdeviceptr out, uint64_t steps)
{
    uint64_t count = gpu_spin_words(), expected = gpu_spin_result(steps);
    uint64_t *words = calloc(count, sizeof *words);
    bool right = words;

    if (words)
        GPU(gpu.cuMemcpyDtoH_v2(words, out, count * sizeof *words));
    for (uint64_t i = 0; words && i < count; i++)
        right = right && words[i] == expected;
    free(words);
    return right;
}

static void print_spin(const struct spin *spin, uint64_t bins, bool right)
{
    printf("{\"kernels\": %llu, \"right\": %s, \"bins\": [", (unsigned long long)spin->completed,
           right ? "true" : "false");
    for (uint64_t i = 0; i < bins && i < MOST_BINS; i++)
        printf("%s%u", i ? ", " : "", spin->bins[i]);
    puts("]}");
}

int role_spin(char **arguments)
{
    static struct spin spin;
    uint64_t seconds = strtoull(arguments[0], NULL, 10), steps = strtoull(arguments[2], NULL, 10);
    CUstream stream;

    spin.depth = (unsigned)atoi(arguments[3]);
    spin.start_ns = strtoull(arguments[4], NULL, 10);
    if (!spin.depth || spin.depth > MOST_DEPTH)
        return 2;
    gpu_enter();
    CUfunction function = gpu_spin((uint32_t)atoi(arguments[1]));
    CUdeviceptr out = make_output();
    GPU(gpu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < spin.depth; i++)
        GPU(gpu.cuEventCreate(&spin.events[i], CU_EVENT_DISABLE_TIMING));
    sleep_until(spin.start_ns);
    while (gpu_now_ns() < spin.start_ns + seconds * UINT64_C(1000000000)) {
        if (spin.launched - spin.completed == spin.depth)
            complete_one(&spin);
        gpu_launch_spin(function, out, steps, stream);
        GPU(gpu.cuEventRecord(spin.events[spin.launched++ % spin.depth], stream));
    }
    while (spin.completed < spin.launched)
        complete_one(&spin);
    print_spin(&spin, seconds * 10, is_right(out, steps));
    return EXIT_SUCCESS;
}
