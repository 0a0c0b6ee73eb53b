/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of the driver's calls on a GPU for the thread that makes them. bench/gpu/cost.py runs this program without
 * Facet and in a vGPU, and compares.
 *
 * Owns: the timed loops. Prints {"ns_per_call": ...}: the median of batches, so that a few batches that other programs
 * disturbed do not count.
 * Never: calls a function of Facet.
 *
 * usage: gpu-calls launch|pair|info MILLISECONDS LIVE
 * launch: launches an empty kernel; pair: allocates and frees 4 KiB; info: calls cuMemGetInfo. Meanwhile LIVE other
 * allocations of 4 KiB exist.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

#define BATCH                                                                                                          \
    64u /* calls that are timed together; few enough that a stream queues them all without making the caller wait */
#define MAX_BATCHES 65536u
#define WARM_UP     20u /* untimed batches */
#define BYTES       4096u

static CUfunction empty_kernel;
static uint64_t batches_ns[MAX_BATCHES];

static void call_launch(void)
{
    GPU(gpu.cuLaunchKernel(empty_kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
}

static void call_pair(void)
{
    CUdeviceptr pointer;

    GPU(gpu.cuMemAlloc_v2(&pointer, BYTES));
    GPU(gpu.cuMemFree_v2(pointer));
}

static void call_info(void)
{
    size_t free_bytes, total;

    GPU(gpu.cuMemGetInfo_v2(&free_bytes, &total));
}

static const struct loop {
    const char *name;
    void (*call)(void);
} loops[] = {{"launch", call_launch}, {"pair", call_pair}, {"info", call_info}};

/* The device is idle when a batch begins, so that the time is the call's and not the device's. */
static uint64_t run_batch(void (*call)(void))
{
    GPU(gpu.cuCtxSynchronize());
    uint64_t begun = gpu_now_ns();
    for (unsigned i = 0; i < BATCH; i++)
        call();
    return gpu_now_ns() - begun;
}

static int compare_times(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return a < b ? -1 : a > b;
}

static double median_ns(void (*call)(void), uint64_t milliseconds)
{
    unsigned count = 0;

    for (unsigned i = 0; i < WARM_UP; i++)
        run_batch(call);
    for (uint64_t end = gpu_now_ns() + milliseconds * 1000000u; !count || (count < MAX_BATCHES && gpu_now_ns() < end);)
        batches_ns[count++] = run_batch(call);
    qsort(batches_ns, count, sizeof *batches_ns, compare_times);
    uint64_t median_ns = batches_ns[count / 2];
    return (double)median_ns / BATCH;
}

int main(int argc, char **argv)
{
    const struct loop *loop = NULL;
    CUdeviceptr pointer;

    for (size_t i = 0; argc == 4 && i < sizeof loops / sizeof *loops; i++)
        if (strcmp(argv[1], loops[i].name) == 0)
            loop = &loops[i];
    if (!loop) {
        fputs("usage: gpu-calls launch|pair|info MILLISECONDS LIVE\n", stderr);
        return 2;
    }
    if (!gpu_open())
        return EXIT_FAILURE;
    gpu_enter();
    empty_kernel = gpu_empty();
    for (unsigned i = 0; i < (unsigned)atoi(argv[3]); i++)
        GPU(gpu.cuMemAlloc_v2(&pointer, BYTES));
    printf("{\"ns_per_call\": %.2f}\n", median_ns(loop->call, strtoull(argv[2], NULL, 10)));
    return EXIT_SUCCESS;
}
