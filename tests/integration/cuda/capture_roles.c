/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the roles that launch into captures. Never: waits forever: an alarm ends a role that hangs. */
#include "capture_roles.h"

#include <unistd.h>

#include "client.h"
#include "counted.h"

#define OK(call) CHECK((call) == CUDA_SUCCESS)

/* Many launches, some of them measured by events, while streams are captured in every mode: each graph holds exactly
 * the captured launches. */
void role_captured_launches_do_not_count(void)
{
    static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                                CU_STREAM_CAPTURE_MODE_RELAXED};
    CUfunction function = client_function("work_2us");
    uint64_t outside = 0;
    CUstream stream, other;
    CUgraph graph;
    size_t nodes;

    OK(client.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(client.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    for (int round = 0; round < 30; round++) {
        for (int i = 0; i < 500; i++, outside++)
            OK(client_launch(function, 8, i % 2 ? stream : other));
        OK(client.cuStreamBeginCapture_v2(stream, modes[round % 3]));
        for (int i = 0; i < 200; i++)
            OK(client_launch(function, 8, stream));
        for (int i = 0; i < 50; i++, outside++)
            OK(client_launch(function, 8, other));
        usleep((useconds_t)(round % 4) * 5000); /* lets the interposer's helper thread run during the capture */
        OK(client.cuStreamEndCapture(stream, &graph));
        OK(client.cuGraphGetNodes(graph, NULL, &nodes));
        CHECK(nodes == 200);
        OK(client.cuGraphDestroy(graph));
    }
    CHECK_SETTLED(outside);
    CHECK(driver_launches(getpid()) == outside);
}

static CUresult begin_capture(int form, CUstream stream, CUgraph into)
{
    switch (form) {
    case 0:
        return client.cuStreamBeginCapture(stream);
    case 1:
        return client.cuStreamBeginCaptureToGraph(stream, into, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL);
    case 2:
        return client.cuStreamBeginCapture_ptsz(NULL);
    case 3:
        return client.cuStreamBeginCapture_v2_ptsz(NULL, CU_STREAM_CAPTURE_MODE_RELAXED);
    default:
        return client.cuStreamBeginCaptureToGraph_ptsz(NULL, into, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL);
    }
}

/* Captured work does not count as a launch, whichever of the five forms of call begins the capture: forms 0 and 1
 * capture a created stream, the others the per-thread default stream. */
void role_each_form_of_capture_is_recognised(void)
{
    CUfunction function = client_function("work_2us");
    CUstream stream, other;
    CUgraph into, graph;
    size_t nodes;

    OK(client.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(client.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    for (int form = 0; form < 5; form++) {
        bool per_thread = form > 1;

        OK(client.cuGraphCreate(&into, 0));
        OK(begin_capture(form, stream, into));
        for (int i = 0; i < 3; i++)
            OK(per_thread ? client.cuLaunchKernel_ptsz(function, 8, 1, 1, 64, 1, 1, 0, NULL, NULL, NULL)
                          : client_launch(function, 8, stream));
        OK(client_launch(function, 8, other));
        usleep(10000);
        OK(per_thread ? client.cuStreamEndCapture_ptsz(NULL, &graph) : client.cuStreamEndCapture(stream, &graph));
        OK(client.cuGraphGetNodes(graph, NULL, &nodes));
        CHECK(nodes == 3 && (graph == into) == (form == 1 || form == 4));
    }
    OK(client_launch(function, 8, stream));
    OK(client.cuStreamDestroy(stream));
    CHECK_SETTLED(6); /* for each of the five forms one launch into the other stream, and one launch after the loop */
    CHECK(driver_launches(getpid()) == 6);
}

/* A capture that forks into another stream and joins again, and a graph made of it. */
void role_a_capture_may_fork_and_join(void)
{
    CUfunction function = client_function("work_10us");
    CUstream origin, branch;
    CUgraphExec executable;
    CUevent fork_event, join_event;
    CUgraph graph;
    size_t nodes;

    OK(client.cuStreamCreate(&origin, CU_STREAM_NON_BLOCKING));
    OK(client.cuStreamCreate(&branch, CU_STREAM_NON_BLOCKING));
    OK(client.cuEventCreate(&fork_event, CU_EVENT_DISABLE_TIMING));
    OK(client.cuEventCreate(&join_event, CU_EVENT_DISABLE_TIMING));
    OK(client_launch(function, 8, branch));
    OK(client.cuStreamBeginCapture_v2(origin, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(client_launch(function, 8, origin));
    OK(client.cuEventRecord(fork_event, origin));
    OK(client.cuStreamWaitEvent(branch, fork_event, 0));
    OK(client_launch(function, 8, branch));
    OK(client.cuEventRecord(join_event, branch));
    OK(client.cuStreamWaitEvent(origin, join_event, 0));
    OK(client_launch(function, 8, origin));
    usleep(30000);
    OK(client.cuStreamEndCapture(origin, &graph));
    OK(client.cuGraphGetNodes(graph, NULL, &nodes));
    CHECK(nodes == 3);
    OK(client.cuGraphInstantiateWithFlags(&executable, graph, 0));
    OK(client.cuGraphLaunch(executable, branch));
    CHECK_SETTLED(2); /* the launch before the capture, and the graph */
}

/* A capture that fails has ended, too: later launches are counted again. */
void role_a_capture_that_fails_has_ended(void)
{
    CUfunction function = client_function("work_10us");
    CUstream stream, other;
    CUgraph graph;

    OK(client.cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    OK(client.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(client.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK(client.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) != CUDA_SUCCESS);
    CHECK(client.cuStreamSynchronize(stream) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK(client.cuStreamEndCapture(other, &graph) != CUDA_SUCCESS);
    CHECK(client_launch(function, 8, stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CHECK(client.cuStreamEndCapture(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    OK(client.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(client.cuStreamDestroy_v2(stream));
    for (int i = 0; i < 3; i++)
        OK(client_launch(function, 8, other));
    CHECK_SETTLED(3);
}
