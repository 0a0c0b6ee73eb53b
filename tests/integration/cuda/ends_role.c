/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the roles of ends_role.h with CUDA's calls. Never: calls a function of Facet. */
#include "ends_role.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "client.h"

static bool launch_one(void)
{
    CUfunction function = client_function(ENDS_KERNEL);

    return function && client_launch(function, ENDS_BLOCKS, NULL) == CUDA_SUCCESS;
}

static bool launch_in_new_context(bool synchronizes)
{
    CUcontext context;

    return client.cuCtxCreate_v2(&context, 0, 0) == CUDA_SUCCESS &&
           client.cuModuleLoadData(&client.module, CLIENT_IMAGE) == CUDA_SUCCESS && launch_one() &&
           (!synchronizes || client.cuCtxSynchronize() == CUDA_SUCCESS) &&
           client.cuCtxDestroy_v2(context) == CUDA_SUCCESS;
}

static bool launch_in_primary_context(void)
{
    return client.cuDevicePrimaryCtxRetain(&client.context, 0) == CUDA_SUCCESS &&
           client.cuCtxSetCurrent(client.context) == CUDA_SUCCESS &&
           client.cuModuleLoadData(&client.module, CLIENT_IMAGE) == CUDA_SUCCESS && launch_one() &&
           client.cuCtxSynchronize() == CUDA_SUCCESS && client.cuDevicePrimaryCtxReset_v2(0) == CUDA_SUCCESS;
}

static bool launch_and_end(const char *name)
{
    if (strcmp(name, "resets") == 0)
        return launch_in_primary_context();
    if (strcmp(name, "contexts") == 0 || strcmp(name, "unwaited") == 0)
        return launch_in_new_context(name[0] == 'c'); /* contexts */
    return launch_one();
}

/* ---- ways of waiting ---- */

static bool launch_into(const char *kernel, CUstream stream)
{
    CUfunction function = client_function(kernel);

    return function && client_launch(function, ENDS_BLOCKS, stream) == CUDA_SUCCESS;
}

static bool wait_by_copy(bool with_direction)
{
    static CUdeviceptr memory;
    char byte;

    if (!memory && client.cuMemAlloc_v2(&memory, 4096) != CUDA_SUCCESS)
        return false;
    return (with_direction ? client.cuMemcpyDtoH_v2(&byte, memory, 1) : client.cuMemcpy((uintptr_t)&byte, memory, 1)) ==
           CUDA_SUCCESS;
}

static bool launch_and_wait_for_event(const char *way, CUstream stream)
{
    CUevent event, first;
    float milliseconds;

    if (client.cuEventCreate(&event, CU_EVENT_DEFAULT) != CUDA_SUCCESS ||
        client.cuEventCreate(&first, CU_EVENT_DEFAULT) != CUDA_SUCCESS ||
        client.cuEventRecord(first, stream) != CUDA_SUCCESS || !launch_into(ENDS_SHORT, stream) ||
        client.cuEventRecord(event, stream) != CUDA_SUCCESS)
        return false;
    if (way[1] == 'v') /* event */
        return launch_into(ENDS_KERNEL, stream) && client.cuEventSynchronize(event) == CUDA_SUCCESS;
    if (way[0] == 'e') /* elapsed */
        while (client.cuEventElapsedTime(&milliseconds, first, event) != CUDA_SUCCESS)
            usleep(100);
    while (client.cuEventQuery(event) != CUDA_SUCCESS)
        usleep(100);
    return true;
}

/* Another stream waits for an event of `stream`, and the host waits for that other stream. */
static bool wait_by_other_stream(CUstream stream)
{
    static CUstream other;
    static CUevent event;

    if (!other && (client.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS ||
                   client.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS))
        return false;
    return client.cuEventRecord(event, stream) == CUDA_SUCCESS &&
           client.cuStreamWaitEvent(other, event, 0) == CUDA_SUCCESS &&
           client.cuStreamSynchronize(other) == CUDA_SUCCESS;
}

static bool wait_for_stream(const char *way, CUstream stream)
{
    if (strcmp(way, "crossed") == 0)
        return wait_by_other_stream(stream);
    if (strcmp(way, "device") == 0)
        return client.cuCtxSynchronize() == CUDA_SUCCESS;
    if (strcmp(way, "copy") == 0 || strcmp(way, "any") == 0)
        return wait_by_copy(way[0] == 'c'); /* copy */
    while (strcmp(way, "query") == 0 && client.cuStreamQuery(stream) != CUDA_SUCCESS)
        usleep(100);
    /* query has waited by now; joined waits by the legacy stream */
    return way[0] == 'q' || client.cuStreamSynchronize(way[0] == 'j' ? NULL : stream) == CUDA_SUCCESS;
}

#define THREADS 4u

/* Launches in turn into the legacy stream, which all threads share, and into a stream of the thread's own, and waits
 * for each launch. */
static void *launch_and_wait(void *count)
{
    CUstream own_stream;
    bool done = client_enter(&own_stream) == 0;

    for (uintptr_t i = 0; done && i < (uintptr_t)count; i++) {
        CUstream stream = i % 2 ? own_stream : NULL;

        done = launch_into(ENDS_SHORT, stream) && client.cuStreamSynchronize(stream) == CUDA_SUCCESS;
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
    CUstream stream = NULL;
    bool by_event = strcmp(way, "event") == 0 || strcmp(way, "asked") == 0 || strcmp(way, "elapsed") == 0;

    if (strcmp(way, "threads") == 0)
        return wait_in_threads(count);
    if ((way[0] == 'o' /* own */ || strcmp(way, "crossed") == 0) &&
        client.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        return false;
    if (strcmp(way, "joined") == 0 && client.cuStreamCreate(&stream, CU_STREAM_DEFAULT) != CUDA_SUCCESS)
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
        _exit(client.cuCtxSynchronize() == CUDA_SUCCESS ? 0 : 1);
    if (strcmp(name, "killed") == 0) {
        usleep(ENDS_KERNEL_US * count * 19 / 20); /* 95 % of the launches' time */
        raise(SIGKILL);
    }
    return 0;
}
