/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the roles of ends_role.h with HIP's calls. HIP has no contexts, so the roles reset the device instead. Never:
 * calls a function of Facet.
 */
#include "tests/integration/cuda/ends_role.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "client.h"

static bool launch_one(void)
{
    hipFunction_t function = client_function(ENDS_KERNEL);

    return function && client_launch(function, ENDS_BLOCKS, NULL) == hipSuccess;
}

static bool launch_until_reset(bool synchronizes)
{
    return client_load() && launch_one() && (!synchronizes || client.hipDeviceSynchronize() == hipSuccess) &&
           client.hipDeviceReset() == hipSuccess;
}

static bool launch_and_end(const char *name)
{
    if (strcmp(name, "worker") == 0 || strcmp(name, "killed") == 0)
        return launch_one();
    return launch_until_reset(strcmp(name, "unwaited") != 0);
}

/* ---- ways of waiting ---- */

static bool launch_into(const char *kernel, hipStream_t stream)
{
    hipFunction_t function = client_function(kernel);

    return function && client_launch(function, ENDS_BLOCKS, stream) == hipSuccess;
}

static bool wait_by_copy(bool with_direction)
{
    static void *memory;
    char byte;

    if (!memory && client.hipMalloc(&memory, 4096) != hipSuccess)
        return false;
    return (with_direction ? client.hipMemcpyDtoH(&byte, memory, 1)
                           : client.hipMemcpy(&byte, memory, 1, hipMemcpyDefault)) == hipSuccess;
}

static bool launch_between(hipEvent_t first, hipEvent_t event, hipStream_t stream)
{
    return client.hipEventRecord(first, stream) == hipSuccess && launch_into(ENDS_SHORT, stream) &&
           client.hipEventRecord(event, stream) == hipSuccess;
}

/* One call launches, and records both events. */
static bool launch_with_events(hipEvent_t first, hipEvent_t event, hipStream_t stream)
{
    hipFunction_t function = client_function(ENDS_SHORT);

    return function && client.hipExtModuleLaunchKernel(function, ENDS_BLOCKS * 32, 1, 1, 32, 1, 1, 0, stream, NULL,
                                                       NULL, first, event, 0) == hipSuccess;
}

static bool launch_and_wait_for_event(const char *way, hipStream_t stream)
{
    hipEvent_t event, first;
    float milliseconds;

    if (client.hipEventCreate(&event) != hipSuccess || client.hipEventCreate(&first) != hipSuccess ||
        !(way[1] == 'l' /* elapsed */ ? launch_with_events : launch_between)(first, event, stream))
        return false;
    if (way[1] == 'v') /* event */
        return launch_into(ENDS_KERNEL, stream) && client.hipEventSynchronize(event) == hipSuccess;
    if (way[0] == 'e') /* elapsed */
        while (client.hipEventElapsedTime(&milliseconds, first, event) != hipSuccess)
            usleep(100);
    while (client.hipEventQuery(event) != hipSuccess)
        usleep(100);
    return true;
}

/* Another stream waits for an event of `stream`, and the host waits for that other stream. */
static bool wait_by_other_stream(hipStream_t stream)
{
    static hipStream_t other;
    static hipEvent_t event;

    if (!other && (client.hipStreamCreateWithFlags(&other, hipStreamNonBlocking) != hipSuccess ||
                   client.hipEventCreate(&event) != hipSuccess))
        return false;
    return client.hipEventRecord(event, stream) == hipSuccess &&
           client.hipStreamWaitEvent(other, event, 0) == hipSuccess && client.hipStreamSynchronize(other) == hipSuccess;
}

static bool wait_for_stream(const char *way, hipStream_t stream)
{
    if (strcmp(way, "crossed") == 0)
        return wait_by_other_stream(stream);
    if (strcmp(way, "device") == 0)
        return client.hipDeviceSynchronize() == hipSuccess;
    if (strcmp(way, "copy") == 0 || strcmp(way, "any") == 0)
        return wait_by_copy(way[0] == 'c'); /* copy */
    while (strcmp(way, "query") == 0 && client.hipStreamQuery(stream) != hipSuccess)
        usleep(100);
    /* query has waited by now; joined waits by the legacy stream */
    return way[0] == 'q' || client.hipStreamSynchronize(way[0] == 'j' ? NULL : stream) == hipSuccess;
}

#define THREADS 4u

/* Launches in turn into the legacy stream, which all threads share, and into a stream of the thread's own, and waits
 * for each launch. */
static void *launch_and_wait(void *count)
{
    hipStream_t own_stream;
    bool done = client_enter(&own_stream) == 0;

    for (uintptr_t i = 0; done && i < (uintptr_t)count; i++) {
        hipStream_t stream = i % 2 ? own_stream : NULL;

        done = launch_into(ENDS_SHORT, stream) && client.hipStreamSynchronize(stream) == hipSuccess;
    }
    return done ? count : NULL;
}

static bool wait_in_threads(unsigned count)
{
    pthread_t threads[THREADS];
    uintptr_t each = count / THREADS;
    void *done = NULL;

    for (unsigned i = 0; i < THREADS; i++)
        /* NOLINTNEXTLINE(performance-no-int-to-ptr): a count */
        if (pthread_create(&threads[i], NULL, launch_and_wait, (void *)each) != 0)
            return false;
    for (unsigned i = 0; i < THREADS; i++)
        if (pthread_join(threads[i], &done) != 0 || (uintptr_t)done != each)
            return false;
    return true;
}

static bool launch_and_wait_often(const char *way, unsigned count)
{
    hipStream_t stream = NULL;
    bool by_event = strcmp(way, "event") == 0 || strcmp(way, "asked") == 0 || strcmp(way, "elapsed") == 0;

    if (strcmp(way, "threads") == 0)
        return wait_in_threads(count);
    if ((way[0] == 'o' /* own */ || strcmp(way, "crossed") == 0) &&
        client.hipStreamCreateWithFlags(&stream, hipStreamNonBlocking) != hipSuccess)
        return false;
    if (strcmp(way, "joined") == 0 && client.hipStreamCreateWithFlags(&stream, hipStreamDefault) != hipSuccess)
        return false;
    for (unsigned i = 1; i <= count; i++) {
        bool launched =
            by_event && i % 4 == 0 ? launch_and_wait_for_event(way, stream) : launch_into(ENDS_SHORT, stream);

        if (!launched || (i % 4 == 0 && !by_event && !wait_for_stream(way, stream)))
            return false;
    }
    return true;
}

int ends_role(const char *name, unsigned count)
{
    if (strncmp(name, "waited_", 7) == 0) {
        int status = launch_and_wait_often(name + 7, count) ? 0 : 1;

        if (status == 0 && strcmp(name + 7, "killed") == 0)
            raise(SIGKILL);
        _exit(status);
    }
    for (unsigned i = 0; i < count; i++)
        if (!launch_and_end(name))
            return 1;
    if (strcmp(name, "worker") == 0)
        _exit(client.hipDeviceSynchronize() == hipSuccess ? 0 : 1);
    if (strcmp(name, "killed") == 0) {
        usleep(ENDS_KERNEL_US * count * 19 / 20); /* 95 % of the launches' time */
        raise(SIGKILL);
    }
    return 0;
}
