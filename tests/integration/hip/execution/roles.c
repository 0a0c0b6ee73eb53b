/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the roles of the tests of launches. Never: waits forever: an alarm ends a role that hangs. */
#include "roles.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"
#include "tests/integration/cuda/counted.h"

#define OK(call) CHECK((call) == hipSuccess)

static hipStream_t new_stream(void)
{
    hipStream_t stream;

    OK(client.hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    return stream;
}

/* ---- kinds of launches ---- */

static const dim3 grid = {8, 1, 1}, block = {64, 1, 1};

static void launch_symbols(hipStream_t stream)
{
    hipLaunchConfig_t config = {.gridDim = grid, .blockDim = block, .stream = stream};
    hipEvent_t start, stop;
    float milliseconds;

    OK(client.hipEventCreate(&start));
    OK(client.hipEventCreate(&stop));
    OK(client.hipLaunchKernel(&client_symbol, grid, block, NULL, 0, stream));
    OK(client.hipLaunchKernel(&client_symbol, grid, block, NULL, 0, NULL));
    OK(client.hipLaunchKernel_spt(&client_symbol, grid, block, NULL, 0, NULL));
    OK(client.hipLaunchCooperativeKernel(&client_symbol, grid, block, NULL, 0, stream));
    OK(client.hipLaunchCooperativeKernel_spt(&client_symbol, grid, block, NULL, 0, NULL));
    OK(client.hipExtLaunchKernel(&client_symbol, grid, block, NULL, 0, stream, start, stop, 0));
    OK(client.hipLaunchKernelExC(&config, &client_symbol, NULL));
    OK(client.hipConfigureCall(grid, block, 0, stream));
    OK(client.hipLaunchByPtr(&client_symbol));
    client.CLIENT_GGL_LAUNCH((uintptr_t)&client_symbol, &grid, &block, 0, stream, NULL);
    OK(client.hipEventSynchronize(stop));
    OK(client.hipEventElapsedTime(&milliseconds, start, stop)); /* the interposer leaves the program's events alone */
}

static void launch_functions(hipStream_t stream)
{
    hipFunction_t function = client_function("work_20us");
    HIP_LAUNCH_CONFIG config = {.gridDimX = 8,
                                .gridDimY = 1,
                                .gridDimZ = 1,
                                .blockDimX = 64,
                                .blockDimY = 1,
                                .blockDimZ = 1,
                                .hStream = stream};

    OK(client.hipModuleLaunchKernel(function, 8, 1, 1, 64, 1, 1, 0, stream, NULL, NULL));
    OK(client.hipModuleLaunchKernel(function, 8, 1, 1, 64, 1, 1, 0, hipStreamPerThread, NULL, NULL));
    OK(client.hipModuleLaunchCooperativeKernel(function, 8, 1, 1, 64, 1, 1, 0, stream, NULL));
    OK(client.hipDrvLaunchKernelEx(&config, function, NULL, NULL));
    OK(client.hipExtModuleLaunchKernel(function, 512, 1, 1, 64, 1, 1, 0, stream, NULL, NULL, NULL, NULL, 0));
    OK(client.CLIENT_EXT_LAUNCH(function, 512, 1, 1, 64, 1, 1, 0, stream, NULL, NULL, NULL, NULL, 0));
    OK(client.CLIENT_HCC_LAUNCH(function, 512, 1, 1, 64, 1, 1, 0, stream, NULL, NULL, NULL, NULL));
}

static void role_each_form_of_launch_counts(void)
{
    hipStream_t stream;

    OK(client.hipStreamCreate(&stream));
    launch_symbols(stream);
    launch_functions(stream);
    CHECK_SETTLED(16); /* nine of symbols, seven of functions */
    CHECK(driver_launches(getpid()) == 16);
    CHECK(own_vgpu_totals().busy_ns > 0);
}

/* One call makes several launches, and each counts. */
static void role_each_launch_of_a_call_counts(void)
{
    hipFunction_t function = client_function("work_20us");
    hipStream_t streams[] = {new_stream(), new_stream()};
    hipLaunchParams launches[2];
    hipFunctionLaunchParams functions[2];

    for (int i = 0; i < 2; i++) {
        launches[i] = (hipLaunchParams){
            .func = (void *)(uintptr_t)&client_symbol, .gridDim = grid, .blockDim = block, .stream = streams[i]};
        functions[i] = (hipFunctionLaunchParams){.function = function,
                                                 .gridDimX = 8,
                                                 .gridDimY = 1,
                                                 .gridDimZ = 1,
                                                 .blockDimX = 64,
                                                 .blockDimY = 1,
                                                 .blockDimZ = 1,
                                                 .hStream = streams[i]};
    }
    OK(client.hipLaunchCooperativeKernelMultiDevice(launches, 2, 0));
    OK(client.hipExtLaunchMultiKernelMultiDevice(launches, 2, 0));
    OK(client.hipModuleLaunchCooperativeKernelMultiDevice(functions, 2, 0));
    CHECK(client.hipLaunchCooperativeKernelMultiDevice(launches, 0, 0) == hipErrorInvalidValue);
    CHECK(client.hipLaunchCooperativeKernelMultiDevice(NULL, 2, 0) == hipErrorInvalidValue);
    CHECK_SETTLED(6);
    CHECK(driver_launches(getpid()) == 6);
}

/* Launches by functions that hipGetProcAddress returns count as well. */
static void role_launches_through_a_lookup_count(void)
{
    __typeof__(client.hipLaunchKernel) launch = NULL, per_thread = NULL;
    hipDriverProcAddressQueryResult found;

    OK(client.hipGetProcAddress("hipLaunchKernel", (void **)&launch, 70200000, 0, &found));
    CHECK(launch);
    OK(client.hipGetProcAddress("hipLaunchKernel_spt", (void **)&per_thread, 70200000, 0, &found));
    OK(launch(&client_symbol, grid, block, NULL, 0, NULL));
    OK(per_thread(&client_symbol, grid, block, NULL, 0, NULL));
    CHECK_SETTLED(2);
}

/* A launch that the runtime refuses is not in flight and costs no device time. */
static void role_refused_launches_cost_nothing(void)
{
    hipFunction_t function = client_function("work_20us");

    CHECK(client.hipModuleLaunchKernel(function, 0, 1, 1, 64, 1, 1, 0, NULL, NULL, NULL) != hipSuccess);
    CHECK(client.hipModuleLaunchKernel(function, 8, 1, 1, 4096, 1, 1, 0, NULL, NULL, NULL) != hipSuccess);
    CHECK(client.hipDrvLaunchKernelEx(NULL, function, NULL, NULL) != hipSuccess);
    CHECK(client.hipLaunchKernel(&grid, grid, block, NULL, 0, NULL) == hipErrorInvalidDeviceFunction);
    CHECK(client.hipGetLastError() == hipErrorInvalidDeviceFunction);
    CHECK(client.hipLaunchKernel(&grid, grid, block, NULL, 0, NULL) == hipErrorInvalidDeviceFunction);
    CHECK(client.hipPeekAtLastError() == hipErrorInvalidDeviceFunction);
    CHECK(client.hipExtGetLastError() == hipErrorInvalidDeviceFunction);
    CHECK(client.hipExtGetLastError() == hipSuccess); /* the call that returns the error clears it */
    struct facet_usage_totals totals = own_vgpu_totals();
    CHECK(totals.inflight == 0 && totals.busy_ns == 0);
}

/* A transfer of 1 MiB or more counts as a launch. Smaller transfers count as one launch when their sum, with 64 KiB
 * added for each, reaches 1 MiB. The bytes arrive. */
static void role_large_transfers_count_as_launches(void)
{
    static unsigned char source[2 << 20], returned[2 << 20];
    hipStream_t stream = new_stream();
    void *memory;

    memset(source, 7, sizeof source);
    OK(client.hipMalloc(&memory, 16 << 20));
    OK(client.hipMemsetAsync(memory, 0, 1 << 19, stream));
    CHECK(own_vgpu_totals().inflight == 0);
    for (int i = 0; i < 7; i++)
        OK(client.hipMemsetAsync(memory, 0, 1, stream));
    OK(client.hipMemsetAsync(memory, 0, 16 << 20, stream));
    OK(client.hipMemset2DAsync_spt(memory, 4096, 0, 4096, 1024, stream));
    OK(client.hipMemcpyAsync(memory, source, sizeof source, hipMemcpyHostToDevice, stream));
    OK(client.hipMemcpyDtoHAsync(returned, memory, sizeof returned, stream));
    OK(client.hipStreamSynchronize(stream));
    CHECK(memcmp(source, returned, sizeof source) == 0);
    CHECK_SETTLED(5); /* the eight small fills together, and four large transfers */
}

/* Two batches of 1 MiB, in entries of half that size. */
static void copy_batches(unsigned char *memory, hipStream_t stream)
{
    void *from[] = {memory, memory + (1 << 20)}, *to[] = {memory + (8 << 20), memory + (9 << 20)};
    size_t sizes[] = {1 << 19, 1 << 19};
    hipMemcpy3DBatchOp boxes[2] = {{.extent = {2048, 256, 1}}};

    boxes[0].src.type = boxes[0].dst.type = hipMemcpyOperandTypePointer;
    boxes[0].src.op.ptr.ptr = memory;
    boxes[0].dst.op.ptr.ptr = memory + (8 << 20);
    boxes[0].src.op.ptr.rowLength = boxes[0].dst.op.ptr.rowLength = 2048;
    boxes[0].src.op.ptr.layerHeight = boxes[0].dst.op.ptr.layerHeight = 256;
    boxes[1] = boxes[0];
    OK(client.hipMemcpyBatchAsync(to, from, sizes, 2, NULL, NULL, 0, NULL, stream));
    OK(client.hipMemcpy3DBatchAsync(2, boxes, NULL, 0, stream));
}

static void copy_arrays(unsigned char *memory, hipStream_t stream)
{
    const hipChannelFormatDesc bytes = {.x = 8, .f = hipChannelFormatKindUnsigned};
    hipArray_t array;

    OK(client.hipMallocArray(&array, &bytes, 2048, 1024, 0));
    OK(client.hipMemcpy2DToArrayAsync(array, 0, 0, memory, 4096, 2048, 1024, hipMemcpyDeviceToDevice, stream));
    OK(client.hipMemcpy2DFromArrayAsync(memory, 4096, array, 0, 0, 2048, 1024, hipMemcpyDeviceToDevice, stream));
}

/* Copies of rows, boxes, batches and arrays, and prefetches count by the sum of their bytes. So do calls that take no
 * stream. */
static void role_transfers_of_each_shape_count_by_their_bytes(void)
{
    static unsigned char source[2 << 20], returned[2 << 20];
    hipStream_t stream = new_stream();
    void *memory;

    memset(source, 9, sizeof source);
    OK(client.hipMalloc(&memory, 16 << 20));
    OK(client.hipMemcpy2DAsync(memory, 4096, source, 2048, 2048, 255, hipMemcpyHostToDevice, stream));
    OK(client.hipMemset(memory, 1, 1 << 10));
    OK(client.hipMemcpy(returned, source, sizeof returned, hipMemcpyHostToHost));
    CHECK(own_vgpu_totals().inflight == 0 && own_vgpu_totals().busy_ns == 0);
    OK(client.hipMemcpy2DAsync(memory, 4096, source, 2048, 2048, 1024, hipMemcpyHostToDevice, stream));
    hipMemcpy3DParms box = {.srcPtr = {.ptr = memory, .pitch = 4096, .ysize = 512},
                            .dstPtr = {.ptr = returned, .pitch = 2048, .ysize = 512},
                            .extent = {2048, 512, 2},
                            .kind = hipMemcpyDeviceToHost};
    memset(returned, 0, sizeof returned);
    OK(client.hipMemcpy3DAsync(&box, stream));
    copy_batches(memory, stream);
    copy_arrays(memory, stream);
    OK(client.hipMemPrefetchAsync(memory, 4 << 20, 0, stream));
    OK(client.hipMemPrefetchAsync_v2(memory, 4 << 20, (hipMemLocation){hipMemLocationTypeDevice, 0}, 0, stream));
    OK(client.hipMemcpy2DAsync_spt(memory, 4096, source, 2048, 2048, 1024, hipMemcpyHostToDevice, NULL));
    OK(client.hipMemset((char *)memory + (8 << 20), 3, 2 << 20));
    OK(client.hipMemcpyDtoD((char *)memory + (8 << 20), memory, 2 << 20));
    OK(client.hipMemcpy2D(memory, 4096, source, 2048, 2048, 1024, hipMemcpyHostToDevice));
    CHECK(client.hipMemcpy3DAsync(NULL, stream) != hipSuccess);
    CHECK(client.hipMemcpyBatchAsync(NULL, NULL, NULL, 7, NULL, NULL, 0, NULL, stream) != hipSuccess);
    CHECK(client.hipMemcpy3DBatchAsync(7, NULL, NULL, 0, stream) != hipSuccess);
    OK(client.hipDeviceSynchronize());
    CHECK(memcmp(source, returned, sizeof source) == 0);
    CHECK_SETTLED(12); /* small and refused transfers, and the copy within the host, do not count */
}

static hipGraphExec_t graph_of(hipFunction_t function, int nodes)
{
    hipKernelNodeParams parameters = {.func = function, .gridDim = grid, .blockDim = block};
    hipGraphExec_t executable;
    hipGraphNode_t node;
    hipGraph_t graph;

    OK(client.hipGraphCreate(&graph, 0));
    for (int i = 0; i < nodes; i++)
        OK(client.hipGraphAddKernelNode(&node, graph, NULL, 0, &parameters));
    OK(client.hipGraphInstantiate(&executable, graph, NULL, NULL, 0));
    OK(client.hipGraphDestroy(graph));
    return executable;
}

/* A graph counts as one launch, with the device time of all its nodes. */
static void role_a_graph_counts_as_one_launch(void)
{
    hipGraphExec_t executable = graph_of(client_function("work_100us"), 10);
    hipStream_t stream = new_stream();

    for (int i = 0; i < 5; i++)
        OK(client.hipGraphLaunch(executable, stream));
    OK(client.hipGraphLaunch_spt(executable, stream));
    CHECK_SETTLED(6);
    CHECK(driver_launches(getpid()) == 60);
    CHECK(own_vgpu_totals().busy_ns >= driver_busy_ns(getpid()) * 95 / 100);
}

/* Many launches, some of them measured by events, while streams are captured in every mode: each graph holds exactly
 * the captured launches. */
static void role_captured_launches_do_not_count(void)
{
    hipFunction_t function = client_function("work_2us");
    hipStream_t stream = new_stream(), other = new_stream();
    hipGraphExec_t executable;
    uint64_t outside = 0;
    hipGraph_t graph;

    for (int round = 0; round < 30; round++) {
        for (int i = 0; i < 300; i++, outside++)
            OK(client_launch(function, 8, i % 2 ? stream : other));
        OK(client.hipStreamBeginCapture(stream, round % 3));
        for (int i = 0; i < 50; i++)
            OK(client_launch(function, 8, stream));
        for (int i = 0; i < 50; i++, outside++)
            OK(client_launch(function, 8, other));
        usleep((useconds_t)(round % 4) * 5000); /* lets the interposer's helper thread run during the capture */
        OK(client.hipStreamEndCapture(stream, &graph));
        OK(client.hipGraphInstantiate(&executable, graph, NULL, NULL, 0));
        OK(client.hipGraphDestroy(graph));
        OK(client.hipGraphLaunch(executable, other));
    }
    CHECK_SETTLED(outside + 30);
    CHECK(driver_launches(getpid()) == outside + 30 * 50);
}

/* Captured work does not count as a launch, whichever call begins and ends the capture: form 0 captures a created
 * stream into a given graph, form 1 the per-thread default stream. */
static void role_each_form_of_capture_is_recognised(void)
{
    hipStream_t stream = new_stream(), other = new_stream();
    hipFunction_t function = client_function("work_2us");
    hipGraph_t into, graph;

    OK(client.hipGraphCreate(&into, 0));
    for (int form = 0; form < 2; form++) {
        OK(form ? client.hipStreamBeginCapture_spt(NULL, 0)
                : client.hipStreamBeginCaptureToGraph(stream, into, NULL, NULL, 0, 0));
        for (int i = 0; i < 3; i++)
            OK(form ? client.hipLaunchKernel_spt(&client_symbol, grid, block, NULL, 0, NULL)
                    : client_launch(function, 8, stream));
        OK(client_launch(function, 8, other));
        usleep(10000); /* lets the interposer's helper thread run during the capture */
        OK(form ? client.hipStreamEndCapture_spt(NULL, &graph) : client.hipStreamEndCapture(stream, &graph));
        CHECK((graph == into) == (form == 0));
    }
    CHECK_SETTLED(2); /* for each of the two forms, one launch into the other stream */
    CHECK(driver_launches(getpid()) == 2);
}

/* ---- order and time ---- */

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
    hipFunction_t function = client_function("work_3000us");
    struct order order = {0};
    struct step steps[20];
    hipStream_t stream = new_stream();

    for (int i = 0; i < 20; i++) {
        steps[i] = (struct step){&order, i};
        OK(client_launch(function, 8, stream));
        OK(client.hipLaunchHostFunc(stream, check_step_order, &steps[i]));
    }
    OK(client.hipStreamSynchronize(stream));
    CHECK(atomic_load(&order.next) == 20 && order.wrong == 0);
    CHECK_SETTLED(20);
}

/* Whether the reported device time is within 7 % of the time that the device spent on launches in batches, with and
 * without pauses between the batches. */
static bool reported_time_is_true(uint64_t *count)
{
    hipFunction_t functions[] = {client_function("work_50us"), client_function("work_150us"),
                                 client_function("work_7us")};
    hipStream_t streams[] = {new_stream(), NULL};
    uint64_t launched = 0, driver_before = driver_busy_ns(getpid()), reported_before = own_vgpu_totals().busy_ns;

    for (int round = 0; round < 40; round++) {
        for (int i = 0; i < 60; i++, launched++)
            OK(client_launch(functions[i % 3], 8, streams[round / 20]));
        OK(client.hipStreamSynchronize(streams[round / 20]));
        usleep((useconds_t)(round % 3) * 2000);
    }
    *count += launched;
    CHECK_SETTLED(*count);
    uint64_t spent = driver_busy_ns(getpid()) - driver_before, reported = own_vgpu_totals().busy_ns - reported_before;
    fprintf(stderr, "# device %.3f ms, reported %.3f ms\n", (double)spent / 1e6, (double)reported / 1e6);
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

/* ---- objects that end ---- */

/* Thousands of streams are created, and destroyed while work is in flight in them. */
static void role_streams_may_end_with_work_in_flight(void)
{
    hipFunction_t function = client_function("work_30us");
    uint64_t count = 0;

    for (int i = 0; i < 2000; i++) {
        hipStream_t stream = new_stream();

        for (int j = 0; j < 1 + i % 3; j++, count++)
            OK(client_launch(function, 8, stream));
        OK(client.hipStreamDestroy(stream));
    }
    CHECK_SETTLED(count);
}

/* A device is reset with work in flight, and used again. */
static void role_a_device_may_be_reset_with_work_in_flight(void)
{
    hipFunction_t function = client_function("work_20000us");
    hipStream_t stream = new_stream();

    for (int i = 0; i < 3; i++)
        OK(client_launch(function, 8, stream));
    OK(client_launch(function, 8, NULL));
    OK(client.hipDeviceReset());
    CHECK_SETTLED(4);
    CHECK(client_load());
    OK(client_launch(client_function("work_10us"), 8, new_stream()));
    OK(client_launch(client_function("work_10us"), 8, NULL));
    CHECK_SETTLED(6);
}

static void *launch_and_leave(void *argument)
{
    hipFunction_t function = client_function("work_10us");

    for (int i = 0; i < 500; i++)
        OK(client_launch(function, 8, i % 2 ? argument : hipStreamPerThread));
    return NULL;
}

/* Threads launch into a shared stream and into their per-thread streams, and end with work in flight. */
static void role_threads_may_end_with_work_in_flight(void)
{
    hipStream_t stream = new_stream();
    pthread_t threads[8];

    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 8; i++)
            CHECK(pthread_create(&threads[i], NULL, launch_and_leave, stream) == 0);
        for (int i = 0; i < 8; i++)
            pthread_join(threads[i], NULL);
    }
    CHECK_SETTLED(3 * 8 * 500);
}

/* A child of fork() cannot use the runtime, with or without the interposer. The parent launches before and after the
 * fork. */
static void role_a_child_of_fork_cannot_launch(void)
{
    hipFunction_t function = client_function("work_5000us");
    int status;

    OK(client_launch(function, 8, NULL));
    pid_t pid = fork();
    if (pid == 0)
        _exit(client_launch(function, 8, NULL) == hipSuccess ? 1 : 0);
    OK(client_launch(function, 8, NULL));
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK_SETTLED(2);
}

/* After the device is lost every call fails, and no launch stays in flight. */
static void role_no_launch_stays_in_flight_on_a_lost_device(void)
{
    hipFunction_t function = client_function("work_5000us");

    for (int i = 0; i < 3; i++)
        OK(client_launch(function, 8, NULL));
    atomic_store(&fake_state()->devices[0].lost, 1);
    CHECK(client_launch(function, 8, NULL) != hipSuccess);
    CHECK(totals_become(is_idle, 0));
    atomic_store(&fake_state()->devices[0].lost, 0);
}

/* ---- roles that the test freezes, kills or waits for ---- */

/* Ends with work in flight, like a program that crashes or does not wait. */
static void role_exit(void)
{
    hipFunction_t function = client_function("work_100000us");

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

/* Launches until the role's vGPU is destroyed. From then on a launch is refused, and a program that only queries the
 * last error is told the refusal. */
static void role_outlives(void)
{
    hipFunction_t function = client_function("work_10us");
    hipError_t result = hipSuccess;

    for (int i = 0; i < 2000 && result == hipSuccess; i++) {
        result = client_launch(function, 8, NULL);
        usleep(5000);
    }
    CHECK(result == hipErrorNotInitialized);
    CHECK(client.hipPeekAtLastError() == hipErrorNotInitialized);
    CHECK(client.hipGetLastError() == hipErrorNotInitialized);
    CHECK(client.hipGetLastError() == hipSuccess);
    client.CLIENT_GGL_LAUNCH((uintptr_t)&client_symbol, &grid, &block, 0, NULL, NULL);
    CHECK(client.hipGetLastError() == hipErrorNotInitialized);
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
    ROLE(outlives)
#undef ROLE
    return 2;
}
