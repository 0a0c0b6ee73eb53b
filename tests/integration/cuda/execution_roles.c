/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the roles of the tests of launches. Never: waits forever: an alarm ends a role that hangs. */
#include "execution_roles.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture_roles.h"
#include "client.h"
#include "counted.h"

#define OK(call) CHECK((call) == CUDA_SUCCESS)

/* How often the program, or the interposer in it, used a destroyed object of the fake driver. */
static uint32_t count_misuse(void)
{
    void *driver = dlopen(getenv("FACET_REAL_CUDA"), RTLD_NOW | RTLD_NOLOAD);
    _Atomic uint32_t *count = driver ? dlsym(driver, "fake_execution_misuse") : NULL;

    CHECK(count);
    return atomic_load(count);
}

static CUDA_LAUNCH_PARAMS launch_parameters(CUfunction function, CUstream stream)
{
    return (CUDA_LAUNCH_PARAMS){.function = function,
                                .gridDimX = 8,
                                .gridDimY = 1,
                                .gridDimZ = 1,
                                .blockDimX = 64,
                                .blockDimY = 1,
                                .blockDimZ = 1,
                                .hStream = stream};
}

static void role_each_form_of_launch_counts(void)
{
    CUfunction function = client_function("work_20us");
    CUlaunchConfig config = {
        .gridDimX = 8, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 64, .blockDimY = 1, .blockDimZ = 1};
    CUDA_LAUNCH_PARAMS launch;
    CUstream stream;

    OK(client.cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    config.hStream = stream;
    launch = launch_parameters(function, stream);
    OK(client.cuLaunchKernel(function, 8, 1, 1, 64, 1, 1, 0, stream, NULL, NULL));
    OK(client.cuLaunchKernel(function, 8, 1, 1, 64, 1, 1, 0, NULL, NULL, NULL));
    OK(client.cuLaunchKernel_ptsz(function, 8, 1, 1, 64, 1, 1, 0, NULL, NULL, NULL));
    OK(client.cuLaunchKernelEx(&config, function, NULL, NULL));
    OK(client.cuLaunchKernelEx_ptsz(&config, function, NULL, NULL));
    OK(client.cuLaunchCooperativeKernel(function, 8, 1, 1, 64, 1, 1, 0, stream, NULL));
    OK(client.cuLaunchCooperativeKernel_ptsz(function, 8, 1, 1, 64, 1, 1, 0, stream, NULL));
    OK(client.cuLaunchCooperativeKernelMultiDevice(&launch, 1, 0));
    OK(client.cuFuncSetBlockShape(function, 64, 1, 1));
    OK(client.cuLaunch(function));
    OK(client.cuLaunchGrid(function, 4, 2));
    OK(client.cuLaunchGridAsync(function, 4, 2, stream));
    CHECK_SETTLED(11); /* each call above, except cuFuncSetBlockShape */
    CHECK(own_vgpu_totals().busy_ns > 0);
}

/* A launch that the driver refuses is not in flight, costs nothing, and is not counted. */
static void role_refused_launches_do_not_count(void)
{
    CUfunction function = client_function("work_20us");

    CHECK(client.cuLaunchKernel(function, 0, 1, 1, 64, 1, 1, 0, NULL, NULL, NULL) == CUDA_ERROR_INVALID_VALUE);
    CHECK(client.cuLaunchKernel(function, 8, 1, 1, 4096, 1, 1, 0, NULL, NULL, NULL) == CUDA_ERROR_INVALID_VALUE);
    CHECK(client.cuLaunchKernelEx(NULL, function, NULL, NULL) == CUDA_ERROR_INVALID_VALUE);
    struct facet_usage_totals totals = own_vgpu_totals();
    CHECK(totals.inflight == 0 && totals.busy_ns == 0 && totals.launches == 0);
}

/* A transfer of 1 MiB or more counts as a launch. Smaller transfers count as one launch when their sum, with 64 KiB
 * added for each, reaches 1 MiB. The bytes arrive. */
static void role_large_transfers_count_as_launches(void)
{
    static unsigned char source[2 << 20], returned[2 << 20];
    CUdeviceptr memory;
    CUstream stream;

    memset(source, 7, sizeof source);
    OK(client.cuMemAlloc_v2(&memory, 16 << 20));
    OK(client.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(client.cuMemsetD8Async(memory, 0, 1 << 19, stream));
    CHECK(own_vgpu_totals().inflight == 0);
    for (int i = 0; i < 7; i++)
        OK(client.cuMemsetD8Async(memory, 0, 1, stream));
    OK(client.cuMemsetD8Async(memory, 0, 16 << 20, stream));
    OK(client.cuMemcpyHtoDAsync_v2(memory, source, sizeof source, stream));
    OK(client.cuMemcpyDtoHAsync_v2(returned, memory, sizeof returned, stream));
    CHECK(client.cuMemsetD8Async(memory + (15 << 20), 0, 2 << 20, stream) == CUDA_ERROR_INVALID_VALUE);
    OK(client.cuStreamSynchronize(stream));
    CHECK(memcmp(source, returned, sizeof source) == 0);
    CHECK(totals_become(is_idle, 0));
    CHECK_SETTLED(4); /* the eight small fills together, and three large transfers; the refused fill does not count */
}

/* A transfer of rows or of a box, a batch and a prefetch count by the sum of their bytes. */
static void role_transfers_of_each_shape_count_by_their_bytes(void)
{
    static unsigned char source[2 << 20], returned[2 << 20];
    CUdeviceptr memory;

    memset(source, 9, sizeof source);
    OK(client.cuMemAlloc_v2(&memory, 16 << 20));
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = source,
                          .srcPitch = 2048,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = memory,
                          .dstPitch = 4096,
                          .WidthInBytes = 2048,
                          .Height = 1024};
    CUDA_MEMCPY3D box = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                         .srcDevice = memory,
                         .srcPitch = 4096,
                         .srcHeight = 512,
                         .dstMemoryType = CU_MEMORYTYPE_HOST,
                         .dstHost = returned,
                         .dstPitch = 2048,
                         .dstHeight = 512,
                         .WidthInBytes = 2048,
                         .Height = 512,
                         .Depth = 2};
    CUdeviceptr from[] = {memory, memory + (1 << 20)}, to[] = {memory + (8 << 20), memory + (9 << 20)};
    size_t sizes[] = {1 << 19, 1 << 19};

    OK(client.cuMemcpy2DAsync_v2(&rows, NULL));
    OK(client.cuMemcpy3DAsync_v2(&box, NULL));
    OK(client.cuMemcpyBatchAsync(to, from, sizes, 2, NULL, NULL, 0, NULL, NULL)); /* 1 MiB in two entries */
    OK(client.cuMemcpyBatchAsync_v2(to, from, sizes, 2, NULL, NULL, 0, NULL));
    OK(client.cuMemPrefetchAsync(memory, 4 << 20, 0, NULL));
    OK(client.cuMemPrefetchAsync_v2(memory, 4 << 20, (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, 0}, 0, NULL));
    OK(client.cuMemcpy2DAsync_v2_ptsz(&rows, NULL));
    OK(client.cuMemsetD8_v2(memory + (8 << 20), 3, 2 << 20)); /* a call that takes no stream */
    OK(client.cuMemcpyDtoD_v2_ptds(memory + (8 << 20), memory, 2 << 20));
    OK(client.cuMemsetD8_v2(memory + (8 << 20), 3, 1 << 10));
    CHECK(client.cuMemcpy2DAsync_v2(NULL, NULL) == CUDA_ERROR_INVALID_VALUE);
    CHECK(client.cuMemcpy3DAsync_v2(NULL, NULL) == CUDA_ERROR_INVALID_VALUE);
    CHECK(client.cuMemcpyBatchAsync_v2(NULL, NULL, NULL, 7, NULL, NULL, 0, NULL) == CUDA_ERROR_INVALID_VALUE);
    OK(client.cuCtxSynchronize());
    CHECK(memcmp(source, returned, sizeof source) == 0);
    CHECK(totals_become(is_idle, 0));
    CHECK_SETTLED(9); /* the last fill is too small, and three calls were refused */
}

static CUgraphExec graph_of(CUfunction function, int nodes)
{
    CUDA_KERNEL_NODE_PARAMS_v2 parameters = {
        .func = function, .gridDimX = 8, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 64, .blockDimY = 1, .blockDimZ = 1};
    CUgraphExec executable;
    CUgraphNode node;
    CUgraph graph;

    OK(client.cuGraphCreate(&graph, 0));
    for (int i = 0; i < nodes; i++)
        OK(client.cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &parameters));
    OK(client.cuGraphInstantiateWithFlags(&executable, graph, 0));
    OK(client.cuGraphDestroy(graph));
    return executable;
}

/* A graph counts as one launch, with the device time of all its nodes. */
static void role_a_graph_counts_as_one_launch(void)
{
    CUgraphExec executable = graph_of(client_function("work_100us"), 10);
    CUstream stream;

    OK(client.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 5; i++)
        OK(client.cuGraphLaunch(executable, stream));
    OK(client.cuGraphLaunch_ptsz(executable, stream));
    CHECK_SETTLED(6);
    CHECK(driver_launches(getpid()) == 60);
    CHECK(own_vgpu_totals().busy_ns >= driver_busy_ns(getpid()) * 95 / 100);
}

struct order {
    _Atomic int next;
    int wrong;
};

struct step {
    struct order *order;
    int expected;
};

static void check_step_order(void *argument)
{
    struct step *step = argument;

    if (atomic_fetch_add(&step->order->next, 1) != step->expected)
        step->order->wrong++;
}

/* A stream's work runs in order, also if launches are measured by events. */
static void role_a_streams_work_keeps_its_order(void)
{
    CUfunction function = client_function("work_3000us");
    struct order order = {0};
    struct step steps[20];
    CUevent before, after;
    CUstream stream;
    float milliseconds;

    OK(client.cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    OK(client.cuEventCreate(&before, CU_EVENT_DEFAULT));
    OK(client.cuEventCreate(&after, CU_EVENT_DEFAULT));
    OK(client.cuEventRecord(before, stream));
    for (int i = 0; i < 20; i++) {
        steps[i] = (struct step){&order, i};
        OK(client_launch(function, 8, stream));
        OK(client.cuLaunchHostFunc(stream, check_step_order, &steps[i]));
    }
    OK(client.cuEventRecord(after, stream));
    OK(client.cuStreamSynchronize(stream));
    CHECK(atomic_load(&order.next) == 20 && order.wrong == 0);
    OK(client.cuEventElapsedTime(&milliseconds, before, after));
    CHECK(milliseconds >= 60.0F);
    CHECK_SETTLED(20);
}

/* Whether the reported device time is within 7 % of the time that the driver spent on launches in batches, with and
 * without pauses between the batches. */
static bool reported_time_is_true(uint64_t *count)
{
    CUfunction functions[] = {client_function("work_50us"), client_function("work_150us"), client_function("work_7us")};
    CUstream streams[2];
    uint64_t launched = 0, driver_before = driver_busy_ns(getpid()), reported_before = own_vgpu_totals().busy_ns;

    for (int i = 0; i < 2; i++)
        OK(client.cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    for (int round = 0; round < 40; round++) {
        for (int i = 0; i < 60; i++, launched++)
            OK(client_launch(functions[i % 3], 8, streams[round / 20]));
        OK(client.cuStreamSynchronize(streams[round / 20]));
        usleep((useconds_t)(round % 3) * 2000);
    }
    *count += launched;
    CHECK_SETTLED(*count);
    uint64_t spent = driver_busy_ns(getpid()) - driver_before, reported = own_vgpu_totals().busy_ns - reported_before;
    fprintf(stderr, "# driver %.3f ms, reported %.3f ms\n", (double)spent / 1e6, (double)reported / 1e6);
    return reported > spent * 93 / 100 && reported < spent * 107 / 100;
}

/* A process that is delayed between an event and its launch reports too much, so the role has three attempts. */
static void role_reported_time_is_true(void)
{
    uint64_t count = 0;
    bool is_true = false;

    for (int i = 0; i < 3 && !is_true; i++)
        is_true = reported_time_is_true(&count);
    CHECK(is_true);
}

/* Thousands of streams are created, and destroyed while work is in flight in them. */
static void role_streams_may_end_with_work_in_flight(void)
{
    CUfunction function = client_function("work_30us");
    uint64_t count = 0;

    for (int i = 0; i < 2000; i++) {
        CUstream stream;

        OK(client.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        for (int j = 0; j < 1 + i % 3; j++, count++)
            OK(client_launch(function, 8, stream));
        OK(client.cuStreamDestroy_v2(stream));
    }
    CHECK_SETTLED(count);
    CHECK(count_misuse() == 0);
}

/* Created contexts and the primary context end with work in flight. */
static void role_contexts_may_end_with_work_in_flight(void)
{
    CUfunction function = client_function("work_20000us");
    CUcontext context;
    CUstream stream;
    CUmodule module;

    OK(client.cuCtxCreate_v2(&context, 0, 0));
    OK(client.cuModuleLoadData(&module, CLIENT_IMAGE));
    OK(client.cuModuleGetFunction(&function, module, "work_20000us"));
    OK(client.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 3; i++)
        OK(client_launch(function, 8, stream));
    OK(client_launch(function, 8, NULL));
    OK(client.cuCtxDestroy_v2(context));
    CHECK_SETTLED(4);
    OK(client.cuCtxSetCurrent(client.context));
    function = client_function("work_20000us");
    OK(client_launch(function, 8, NULL));
    OK(client.cuDevicePrimaryCtxReset_v2(0));
    CHECK_SETTLED(5);
    OK(client.cuDevicePrimaryCtxRetain(&client.context, 0));
    OK(client.cuCtxSetCurrent(client.context));
    OK(client.cuModuleLoadData(&client.module, CLIENT_IMAGE));
    OK(client_launch(client_function("work_10us"), 8, NULL));
    CHECK_SETTLED(6);
    CHECK(count_misuse() == 0);
}

static void *launch_and_leave(void *argument)
{
    CUfunction function = client_function("work_10us");
    CUstream stream = argument;

    OK(client.cuCtxSetCurrent(client.context));
    for (int i = 0; i < 500; i++)
        OK(i % 2 ? client_launch(function, 8, stream)
                 : client.cuLaunchKernel_ptsz(function, 8, 1, 1, 64, 1, 1, 0, NULL, NULL, NULL));
    return NULL;
}

/* Threads launch into a shared stream and into their own per-thread streams, and end with work in flight. */
static void role_threads_may_end_with_work_in_flight(void)
{
    CUstream stream;
    pthread_t threads[8];

    OK(client.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 8; i++)
            CHECK(pthread_create(&threads[i], NULL, launch_and_leave, stream) == 0);
        for (int i = 0; i < 8; i++)
            pthread_join(threads[i], NULL);
    }
    CHECK_SETTLED(3 * 8 * 500);
    CHECK(count_misuse() == 0);
}

/* The number of this process's shards with launches in flight; *ret_used is how many shards it ever used. The process
 * is the only one in its vGPU. */
static unsigned shards_in_flight(uint32_t *ret_used)
{
    struct facet_error error;
    void *address;
    size_t size;
    unsigned count = 0;
    int folder = open(getenv(FACET_ENV_VGPU_DIR), O_PATH | O_DIRECTORY | O_CLOEXEC), fd;

    CHECK(facet_segment_map(folder, "usage", false, sizeof(struct facet_usage), &address, &size, &fd, &error) ==
          FACET_OK);
    const struct facet_slot *slot = ((const struct facet_usage *)address)->slots;
    for (uint32_t i = 0; i < FACET_SLOT_SHARDS; i++)
        count += facet_inflight_count(atomic_load(&slot->shards[i].inflight)) != 0;
    *ret_used = atomic_load(&slot->shards_used);
    munmap(address, size);
    close(folder);
    close(fd);
    return count;
}

static pthread_barrier_t launched, checked;

static void *launch_and_wait_for_check(void *unused)
{
    CUfunction function = client_function("work_200000us");
    CUstream stream;

    OK(client.cuCtxSetCurrent(client.context));
    OK(client.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(client_launch(function, 8, stream));
    pthread_barrier_wait(&launched);
    pthread_barrier_wait(&checked);
    return unused;
}

/* Threads that launch at the same time count in shards of their own; later threads use the shards of threads that
 * ended. */
static void role_threads_count_in_shards_of_their_own(void)
{
    uint32_t used;
    pthread_t threads[3];

    pthread_barrier_init(&launched, NULL, 4);
    pthread_barrier_init(&checked, NULL, 4);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 3; i++)
            CHECK(pthread_create(&threads[i], NULL, launch_and_wait_for_check, NULL) == 0);
        pthread_barrier_wait(&launched);
        CHECK(shards_in_flight(&used) == 3 && used == 3);
        pthread_barrier_wait(&checked);
        for (int i = 0; i < 3; i++)
            pthread_join(threads[i], NULL);
    }
    CHECK_SETTLED(6);
}

/* A child of fork() cannot use the driver, with or without the interposer. The parent launches before and after the
 * fork. */
static void role_a_child_of_fork_cannot_launch(void)
{
    CUfunction function = client_function("work_5000us");
    int status;

    OK(client_launch(function, 8, NULL));
    pid_t pid = fork();
    if (pid == 0)
        _exit(client_launch(function, 8, NULL) == CUDA_SUCCESS ? 1 : 0);
    OK(client_launch(function, 8, NULL));
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK_SETTLED(2);
}

/* After the device is lost every call fails, and no launch stays in flight. */
static void role_no_launch_stays_in_flight_on_a_lost_device(void)
{
    CUfunction function = client_function("work_5000us");

    for (int i = 0; i < 3; i++)
        OK(client_launch(function, 8, NULL));
    atomic_store(&fake_state()->devices[0].lost, 1);
    CHECK(client_launch(function, 8, NULL) != CUDA_SUCCESS);
    CHECK(totals_become(is_idle, 0));
    atomic_store(&fake_state()->devices[0].lost, 0);
}

/* Ends with work in flight, like a program that crashes or does not wait. */
static void role_exit(void)
{
    CUfunction function = client_function("work_100000us");

    for (int i = 0; i < 5; i++)
        OK(client_launch(function, 8, NULL));
}

static void role_hang(void)
{
    role_exit();
    for (;;)
        pause();
}

static void *launch_one(void *argument)
{
    OK(client.cuCtxSetCurrent(client.context));
    OK(client_launch(argument, 8, NULL));
    return NULL;
}

/* A frozen vGPU's launch waits; the parent thaws it. */
static void role_waits(void)
{
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, launch_one, client_function("work_10us")) == 0);
    CHECK(totals_become(one_launch_waits, 0));
    CHECK(driver_launches(getpid()) == 0);
    pthread_join(thread, NULL);
    CHECK_SETTLED(1);
}

int execution_role(const char *name)
{
#define ROLE(role)                                                                                                     \
    if (strcmp(name, #role) == 0) {                                                                                    \
        role_##role();                                                                                                 \
        return 0;                                                                                                      \
    }
    ROLES(ROLE)
    ROLE(exit)
    ROLE(hang)
    ROLE(waits)
#undef ROLE
    return 2;
}
