/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HAMi's published control loop as an OpenCL layer: the peer that bench/share measures us against.
 *
 * THIS IS A RE-IMPLEMENTATION FROM ITS PUBLISHED DESCRIPTION, in our own words and code, for comparison only. It is
 * never installed and nothing links it.
 *
 * Owns: the loop. Each process has its own token bucket. A launch costs as many tokens as it has work-groups, and polls
 * every 10 ms while the bucket is below zero. Every 120 ms a watcher reads the process's utilization over the last
 * second, and changes the refill per tick by a step that grows with the square of the number of compute units.
 * Never: limits memory, or does anything else that HAMi does.
 *
 * The description uses NVML's utilization. Here it is the process's CPU time divided by the time of all compute units:
 * on a CPU device this is the share of the device, at a finer resolution than NVML's.
 *
 * Environment: HAMI_LOOP_PERCENT (1..99; anything else: no limit), HAMI_LOOP_UNITS and HAMI_LOOP_THREADS (the size of
 * the device in the step's formula; default: the device's own). If HAMI_LOOP_UNITS exceeds
 * the device's units, the cost of a launch grows by the same factor, as if the program filled the larger device.
 */
#include <CL/cl.h>
#include <CL/cl_icd.h>
#include <CL/cl_layer.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TICK_NS   UINT64_C(120000000)
#define NAP_NS    UINT64_C(10000000)
#define SECOND_NS UINT64_C(1000000000)
#define HISTORY   16u /* ticks; more than a second */

__attribute__((visibility("default"))) cl_int clGetLayerInfo(cl_layer_info name, size_t size, void *value,
                                                             size_t *ret_size);
__attribute__((visibility("default"))) cl_int clInitLayer(cl_uint count, const struct _cl_icd_dispatch *target,
                                                          cl_uint *ret_count,
                                                          const struct _cl_icd_dispatch **ret_layer);

static struct _cl_icd_dispatch layer;
static const struct _cl_icd_dispatch *next;
static pthread_once_t started = PTHREAD_ONCE_INIT;
static _Atomic int64_t bucket;

static struct loop {
    int64_t percent, units, threads, full, refill;
    uint64_t cpus; /* the device's real units; `units` may be set to another number */
    uint64_t cpu_ns[HISTORY], time_ns[HISTORY];
    unsigned ticks;
} loop;

static uint64_t read_clock(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

static void nap(uint64_t ns)
{
    struct timespec rest = {.tv_sec = (time_t)(ns / SECOND_NS), .tv_nsec = (long)(ns % SECOND_NS)};

    nanosleep(&rest, NULL);
}

static int64_t setting(const char *name, int64_t fallback)
{
    const char *text = getenv(name);

    return text ? strtoll(text, NULL, 10) : fallback;
}

/* The percent of the device used over the last second, or since the start. */
static int64_t utilization(void)
{
    unsigned now = loop.ticks % HISTORY, then = now;

    loop.cpu_ns[now] = read_clock(CLOCK_PROCESS_CPUTIME_ID);
    loop.time_ns[now] = read_clock(CLOCK_MONOTONIC);
    for (unsigned back = 1; back < HISTORY && back <= loop.ticks; back++) {
        then = (loop.ticks - back) % HISTORY;
        if (loop.time_ns[now] - loop.time_ns[then] >= SECOND_NS)
            break;
    }
    loop.ticks++;
    uint64_t passed = loop.time_ns[now] - loop.time_ns[then];
    return passed ? (int64_t)((loop.cpu_ns[now] - loop.cpu_ns[then]) * 100 / (passed * loop.cpus)) : 0;
}

/* The change of the refill: proportional to the gap to the limit, at least 5 points, and to the square of the units. */
static int64_t step_size(int64_t used)
{
    int64_t gap = llabs(loop.percent - used);

    gap = gap < 5 ? 5 : gap;
    int64_t step = loop.units * loop.units * loop.threads * gap / 2560;
    return gap > loop.percent / 2 ? step * gap * 2 / (loop.percent + 1) : step;
}

static void tick(void)
{
    int64_t used = utilization();

    if (used > 100)
        return;
    if (loop.refill == loop.full && atomic_load(&bucket) < 0) {
        loop.full *= 2;
        loop.refill = loop.full;
    }
    loop.refill += used < loop.percent ? step_size(used) : -step_size(used);
    loop.refill = loop.refill < 0 ? 0 : loop.refill > loop.full ? loop.full : loop.refill;
    int64_t tokens = atomic_load(&bucket), sum;
    do {
        sum = tokens + loop.refill > loop.full ? loop.full : tokens + loop.refill;
    } while (!atomic_compare_exchange_weak(&bucket, &tokens, sum));
}

static void *watch(void *unused)
{
    for (;;) {
        tick();
        nap(TICK_NS);
    }
    return unused;
}

static cl_device_id any_device(void)
{
    cl_platform_id platform;
    cl_device_id device = NULL;

    if (next->clGetPlatformIDs(1, &platform, NULL) == CL_SUCCESS)
        next->clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL);
    return device;
}

static void start(void)
{
    cl_device_id device = any_device();
    cl_uint units = 1;
    size_t threads = 1024;
    pthread_t id;

    loop.percent = setting("HAMI_LOOP_PERCENT", 100);
    if (device) {
        next->clGetDeviceInfo(device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(units), &units, NULL);
        next->clGetDeviceInfo(device, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof(threads), &threads, NULL);
    }
    loop.cpus = units;
    loop.units = setting("HAMI_LOOP_UNITS", units);
    loop.threads = setting("HAMI_LOOP_THREADS", (int64_t)threads);
    loop.full = loop.units * loop.threads * 32;
    if (loop.percent > 0 && loop.percent < 100 && pthread_create(&id, NULL, watch, NULL) == 0)
        pthread_detach(id);
    else
        loop.percent = 100;
}

static int64_t work_groups(cl_uint dimensions, const size_t *global, const size_t *local)
{
    int64_t groups = 1;

    for (cl_uint i = 0; i < dimensions; i++)
        groups *= (int64_t)(local && local[i] ? (global[i] + local[i] - 1) / local[i] : global[i]);
    return groups;
}

static void admit(int64_t cost)
{
    if (loop.percent >= 100)
        return;
    while (atomic_load(&bucket) < 0)
        nap(NAP_NS);
    atomic_fetch_sub(&bucket, cost * loop.units / (int64_t)loop.cpus);
}

static cl_int CL_API_CALL launch(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions, const size_t *offset,
                                 const size_t *global, const size_t *local, cl_uint wait_count, const cl_event *waits,
                                 cl_event *ret_event)
{
    pthread_once(&started, start);
    admit(work_groups(dimensions, global, local));
    return next->clEnqueueNDRangeKernel(queue, kernel, dimensions, offset, global, local, wait_count, waits, ret_event);
}

cl_int clGetLayerInfo(cl_layer_info name, size_t size, void *value, size_t *ret_size)
{
    const cl_layer_api_version version = CL_LAYER_API_VERSION_100;

    if (name != CL_LAYER_API_VERSION || (value && size < sizeof(version)))
        return CL_INVALID_VALUE;
    if (value)
        memcpy(value, &version, sizeof(version));
    if (ret_size)
        *ret_size = sizeof(version);
    return CL_SUCCESS;
}

cl_int clInitLayer(cl_uint count, const struct _cl_icd_dispatch *target, cl_uint *ret_count,
                   const struct _cl_icd_dispatch **ret_layer)
{
    const size_t entries = sizeof(layer) / sizeof(layer.clGetPlatformIDs);

    if (!target || !ret_count || !ret_layer || count < entries)
        return CL_INVALID_VALUE;
    next = target;
    layer.clEnqueueNDRangeKernel = launch;
    *ret_layer = &layer;
    *ret_count = (cl_uint)entries;
    return CL_SUCCESS;
}
