/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs that memory of graphs is charged while the runtime holds it, and that a graph beyond the quota is
 * refused before the runtime is called. Never: measures time. */
#include <sys/wait.h>

#include "machine.h"

/* The charge equals the memory that the runtime holds for graphs. */
static void check_graph_bytes(int line, uint64_t bytes)
{
    uint64_t reserved;

    CHECK_EQUAL(hip.hipDeviceGetGraphMemAttribute(0, hipGraphMemAttrReservedMemCurrent, &reserved), hipSuccess);
    if (reserved != bytes || machine_charged(0) != MACHINE_BEGIN + bytes)
        fprintf(stderr, "the check in line %d fails:\n", line);
    CHECK_EQUAL(reserved, bytes);
    CHECK_EQUAL(fake_used_of_kind(0, FAKE_POOL), bytes);
    CHECK_EQUAL(machine_charged(0), MACHINE_BEGIN + bytes);
}
#define CHECK_GRAPH_BYTES(bytes) check_graph_bytes(__LINE__, bytes)

static hipStream_t enter_role(void)
{
    hipStream_t stream;

    role_open();
    CHECK_EQUAL(hip.hipStreamCreate(&stream), hipSuccess);
    return stream;
}

static hipError_t add_allocation(hipGraph_t graph, hipGraphNode_t *node, hipGraphNode_t *before, uint64_t bytes,
                                 void **pointer)
{
    hipMemAllocNodeParams parameters = {
        .poolProps = {.allocType = hipMemAllocationTypePinned, .location = {.type = hipMemLocationTypeDevice}},
        .bytesize = bytes};
    hipError_t result = hip.hipGraphAddMemAllocNode(node, graph, before, before != NULL, &parameters);

    *pointer = parameters.dptr;
    return result;
}

static hipGraphExec_t instantiate_graph(hipGraph_t graph, unsigned long long flags)
{
    hipGraphExec_t executable;

    CHECK_EQUAL(hip.hipGraphInstantiateWithFlags(&executable, graph, flags), hipSuccess);
    return executable;
}

/* Captures `count` allocations, one after the other, each followed by its free if `freed`. */
static hipGraph_t capture_sequence(hipStream_t stream, uint32_t count, uint64_t bytes, bool freed)
{
    hipGraph_t graph;
    void *pointer;

    CHECK_EQUAL(hip.hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal), hipSuccess);
    for (uint32_t i = 0; i < count; i++) {
        CHECK_EQUAL(hip.hipMallocAsync(&pointer, bytes, stream), hipSuccess);
        if (freed)
            CHECK_EQUAL(hip.hipFreeAsync(pointer, stream), hipSuccess);
    }
    CHECK_EQUAL(hip.hipStreamEndCapture(stream, &graph), hipSuccess);
    return graph;
}

static void role_launched_graph(void *argument)
{
    hipStream_t stream = enter_role();
    hipGraph_t graph = capture_sequence(stream, 1, 10 * MIB, true);
    hipGraphExec_t executable = instantiate_graph(graph, 0);

    CHECK_GRAPH_BYTES(0);
    CHECK_EQUAL(hip.hipGraphLaunch(executable, stream), hipSuccess);
    CHECK_GRAPH_BYTES(10 * MIB);
    CHECK_EQUAL(hip.hipGraphLaunch_spt(executable, stream), hipSuccess);
    CHECK_EQUAL(hip.hipGraphUpload(executable, stream), hipSuccess);
    CHECK_GRAPH_BYTES(10 * MIB);
    CHECK_EQUAL(hip.hipGraphExecDestroy(executable), hipSuccess);
    CHECK(hip.hipGraphExecDestroy(executable) != hipSuccess);
    CHECK_EQUAL(hip.hipGraphDestroy(graph), hipSuccess);
    CHECK_GRAPH_BYTES(10 * MIB); /* the runtime still holds the memory */
    CHECK_EQUAL(hip.hipDeviceGraphMemTrim(0), hipSuccess);
    CHECK_GRAPH_BYTES(0);
}

static void test_memory_held_for_graphs_is_charged_until_it_is_trimmed(void **state)
{
    machine_run(role_launched_graph, GIB);
}

static void role_kept_graph_memory(void *argument)
{
    hipStream_t stream = enter_role();
    hipGraphNode_t node;
    hipGraph_t graph;
    void *pointer;

    CHECK_EQUAL(hip.hipGraphCreate(&graph, 0), hipSuccess);
    CHECK_EQUAL(add_allocation(graph, &node, NULL, 6 * MIB, &pointer), hipSuccess);
    hipGraphExec_t executable = instantiate_graph(graph, 0);
    CHECK_EQUAL(hip.hipGraphLaunch(executable, stream), hipSuccess);
    CHECK_EQUAL(hip.hipDeviceGraphMemTrim(0), hipSuccess);
    CHECK_GRAPH_BYTES(6 * MIB); /* the memory is in use, so it is not trimmed */
    CHECK_EQUAL(hip.hipMemset(pointer, 1, 6 * MIB), hipSuccess);
    CHECK_EQUAL(hip.hipFree(pointer), hipSuccess);
    CHECK(hip.hipFree(pointer) != hipSuccess);
    CHECK_GRAPH_BYTES(6 * MIB);
    CHECK_EQUAL(hip.hipDeviceGraphMemTrim(0), hipSuccess);
    CHECK_GRAPH_BYTES(0);
    CHECK_EQUAL(hip.hipGraphLaunch(executable, stream), hipSuccess);
    CHECK_EQUAL(hip.hipDeviceReset(), hipSuccess);
    CHECK_EQUAL(machine_charged(0), fake_used(0));
}

static void test_memory_that_outlives_its_graph_is_charged_until_it_is_freed(void **state)
{
    machine_run(role_kept_graph_memory, GIB);
}

/* The quota leaves 100 MiB beside the device's beginning. */
static void role_graph_over_quota(void *argument)
{
    hipStream_t stream = enter_role();
    hipGraphExec_t large = instantiate_graph(capture_sequence(stream, 3, 40 * MIB, false), 0);
    hipGraphExec_t sequence = instantiate_graph(capture_sequence(stream, 8, 40 * MIB, true), 0);
    uint64_t used;
    void *pointer;

    CHECK_EQUAL(hip.hipGraphLaunch(large, stream), hipErrorOutOfMemory);
    CHECK_EQUAL(hip.hipGraphUpload(large, stream), hipErrorOutOfMemory);
    CHECK_EQUAL(hip.hipDeviceGetGraphMemAttribute(0, hipGraphMemAttrUsedMemHigh, &used), hipSuccess);
    CHECK_EQUAL(used, 0); /* the runtime was not called */
    CHECK_GRAPH_BYTES(0);
    CHECK_EQUAL(hip.hipGraphLaunch(sequence, stream), hipSuccess); /* 320 MiB in sum, 40 MiB at a time */
    CHECK_GRAPH_BYTES(40 * MIB);
    CHECK_EQUAL(hip.hipMalloc(&pointer, 80 * MIB), hipSuccess); /* unused memory of graphs makes room */
    CHECK_EQUAL(machine_charged(0), MACHINE_BEGIN + 80 * MIB);
    CHECK_EQUAL(fake_used_of_kind(0, FAKE_POOL), 0);
}

/* A node or a captured allocation that exceeds the quota is refused: some runtimes would allocate it at once. */
static void role_nodes_over_quota(void *argument)
{
    hipGraphNodeParams any = {.type = hipGraphNodeTypeMemAlloc,
                              .alloc = {.poolProps = {.allocType = hipMemAllocationTypePinned,
                                                      .location = {.type = hipMemLocationTypeDevice}},
                                        .bytesize = 200 * MIB}};
    hipStream_t stream = enter_role();
    hipGraphNode_t nodes[4];
    hipGraph_t graph;
    void *pointer;

    CHECK_EQUAL(hip.hipGraphCreate(&graph, 0), hipSuccess);
    CHECK_EQUAL(add_allocation(graph, &nodes[0], NULL, 200 * MIB, &pointer), hipErrorOutOfMemory);
    CHECK_EQUAL(hip.hipGraphAddNode(&nodes[0], graph, NULL, 0, &any), hipErrorOutOfMemory);
    CHECK_GRAPH_BYTES(0);
    CHECK_EQUAL(hip.hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal), hipSuccess);
    CHECK_EQUAL(hip.hipMallocAsync(&pointer, 200 * MIB, stream), hipErrorOutOfMemory);
    CHECK_EQUAL(hip.hipStreamEndCapture(stream, &graph), hipSuccess);
    CHECK_GRAPH_BYTES(0);
    /* Parallel nodes, whose order is unknown, are counted together. */
    CHECK_EQUAL(hip.hipGraphCreate(&graph, 0), hipSuccess);
    CHECK_EQUAL(add_allocation(graph, &nodes[0], NULL, 60 * MIB, &pointer), hipSuccess);
    CHECK_EQUAL(hip.hipGraphAddMemFreeNode(&nodes[1], graph, &nodes[0], 1, pointer), hipSuccess);
    CHECK_EQUAL(hip.hipGraphLaunch(instantiate_graph(graph, 0), stream), hipSuccess);
    CHECK_EQUAL(hip.hipDeviceGraphMemTrim(0), hipSuccess);
    CHECK_EQUAL(add_allocation(graph, &nodes[2], NULL, 60 * MIB, &pointer), hipSuccess);
    CHECK_EQUAL(hip.hipGraphAddMemFreeNode(&nodes[3], graph, &nodes[2], 1, pointer), hipSuccess);
    CHECK_EQUAL(hip.hipGraphLaunch(instantiate_graph(graph, 0), stream), hipErrorOutOfMemory);
    CHECK_GRAPH_BYTES(0);
}

static void test_a_graph_that_does_not_fit_is_refused_before_the_runtime_is_called(void **state)
{
    machine_run(role_graph_over_quota, MACHINE_BEGIN + 100 * MIB);
    machine_run(role_nodes_over_quota, MACHINE_BEGIN + 100 * MIB);
}

/* Unused graph memory makes room for pools, and unused memory of pools for graphs. */
static void role_trims_for_pools(void *argument)
{
    hipStream_t stream = enter_role();
    hipGraphExec_t sequence = instantiate_graph(capture_sequence(stream, 2, 90 * MIB, true), 0);
    void *pointer;

    CHECK_EQUAL(hip.hipGraphLaunch(sequence, stream), hipSuccess);
    CHECK_GRAPH_BYTES(90 * MIB);
    CHECK_EQUAL(hip.hipMallocAsync(&pointer, 64 * MIB, stream), hipSuccess);
    CHECK_EQUAL(machine_charged(0), MACHINE_BEGIN + 64 * MIB);
    CHECK_EQUAL(hip.hipGraphLaunch(sequence, stream), hipErrorOutOfMemory);
    CHECK_EQUAL(hip.hipFreeAsync(pointer, stream), hipSuccess);
    CHECK_EQUAL(hip.hipStreamSynchronize(stream), hipSuccess);
    CHECK_EQUAL(hip.hipGraphLaunch(sequence, stream), hipSuccess);
    CHECK_EQUAL(machine_charged(0), MACHINE_BEGIN + fake_used_of_kind(0, FAKE_POOL));
}

static void test_graphs_and_pools_make_room_for_each_other(void **state)
{
    machine_run(role_trims_for_pools, MACHINE_BEGIN + 100 * MIB);
}

static void role_fork(void *argument)
{
    hipStream_t stream = enter_role();
    hipGraphExec_t executable = instantiate_graph(capture_sequence(stream, 1, 8 * MIB, true), 0);
    int status = -1;

    CHECK_EQUAL(hip.hipGraphLaunch(executable, stream), hipSuccess);
    pid_t pid = fork();
    if (pid == 0) {
        CHECK(hip.hipDeviceGraphMemTrim(0) != hipSuccess);
        CHECK_EQUAL(machine_charged(0), MACHINE_BEGIN + 8 * MIB);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK_EQUAL(status, 0);
    CHECK_EQUAL(hip.hipDeviceGraphMemTrim(0), hipSuccess);
    CHECK_GRAPH_BYTES(0);
}

static void test_a_child_has_none_of_its_parents_graphs(void **state)
{
    machine_run(role_fork, GIB);
}

/* The quota leaves 100 MiB beside the device's beginning. */
static void role_uploaded_graph(void *argument)
{
    hipStream_t stream = enter_role();
    hipGraphInstantiateParams parameters = {.flags = hipGraphInstantiateFlagUpload, .uploadStream = stream};
    hipGraph_t large = capture_sequence(stream, 3, 40 * MIB, false),
               sequence = capture_sequence(stream, 8, 40 * MIB, true);
    hipGraphExec_t executable;

    CHECK_EQUAL(hip.hipGraphInstantiateWithParams(&executable, large, &parameters), hipErrorOutOfMemory);
    CHECK_EQUAL(parameters.result_out, hipGraphInstantiateError);
    CHECK_GRAPH_BYTES(0);
    CHECK_EQUAL(hip.hipGraphInstantiateWithParams(&executable, sequence, &parameters), hipSuccess);
    CHECK_GRAPH_BYTES(40 * MIB);
    CHECK(hip.hipGraphInstantiateWithParams(&executable, sequence, NULL) != hipSuccess);
    CHECK_EQUAL(hip.hipGraphExecDestroy(executable), hipSuccess);
    CHECK_EQUAL(hip.hipDeviceGraphMemTrim(0), hipSuccess);
    CHECK_GRAPH_BYTES(0);
}

static void test_a_graph_uploaded_at_instantiation_needs_room_before(void **state)
{
    machine_run(role_uploaded_graph, MACHINE_BEGIN + 100 * MIB);
}

static void role_wrong_arguments(void *argument)
{
    hipStream_t stream = enter_role();
    hipGraphExec_t executable = NULL;
    hipGraphNode_t node;

    instantiate_graph(capture_sequence(stream, 1, MIB, true),
                      0); /* once a graph allocates memory, the interposer looks up executables */
    CHECK(hip.hipGraphInstantiateWithFlags(NULL, NULL, 0) != hipSuccess);
    CHECK(hip.hipGraphInstantiate(&executable, NULL, NULL, NULL, 0) != hipSuccess);
    CHECK(hip.hipGraphLaunch(NULL, stream) != hipSuccess);
    CHECK(hip.hipGraphUpload(NULL, NULL) != hipSuccess);
    CHECK(hip.hipGraphExecDestroy(NULL) != hipSuccess);
    CHECK(hip.hipGraphAddMemAllocNode(&node, NULL, NULL, 0, NULL) != hipSuccess);
    CHECK(hip.hipGraphAddNode(&node, NULL, NULL, 0, NULL) != hipSuccess);
    CHECK(hip.hipDeviceGraphMemTrim(77) != hipSuccess);
    CHECK(hip.hipDeviceGraphMemTrim(-1) != hipSuccess);
    CHECK_GRAPH_BYTES(0);
}

static void test_wrong_arguments_get_the_runtimes_own_error(void **state)
{
    machine_run(role_wrong_arguments, GIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_held_for_graphs_is_charged_until_it_is_trimmed),
        cmocka_unit_test(test_a_graph_uploaded_at_instantiation_needs_room_before),
        cmocka_unit_test(test_memory_that_outlives_its_graph_is_charged_until_it_is_freed),
        cmocka_unit_test(test_a_graph_that_does_not_fit_is_refused_before_the_runtime_is_called),
        cmocka_unit_test(test_graphs_and_pools_make_room_for_each_other),
        cmocka_unit_test(test_a_child_has_none_of_its_parents_graphs),
        cmocka_unit_test(test_wrong_arguments_get_the_runtimes_own_error),
    };

    return cmocka_run_group_tests_name("hip/graphs", tests, NULL, NULL);
}
