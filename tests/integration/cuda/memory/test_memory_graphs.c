/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs that memory of graphs is charged while the driver holds it, and that a graph beyond the quota is refused
 * before the driver is called. Never: decides by wall-clock time. */
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>

#include "machine.h"

#define FEW_NODES  500u
#define MANY_NODES 4000u

/* The charge equals the memory that the driver holds for graphs. */
static void check_graph_bytes(int line, uint64_t bytes)
{
    uint64_t reserved;

    CHECK_EQUAL(cuda.cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &reserved), CUDA_SUCCESS);
    if (reserved != bytes || machine_charged(0) != MACHINE_CONTEXT + bytes)
        fprintf(stderr, "the check in line %d fails:\n", line);
    CHECK_EQUAL(reserved, bytes);
    CHECK_EQUAL(fake_used_of_kind(0, FAKE_POOL), bytes);
    CHECK_EQUAL(machine_charged(0), MACHINE_CONTEXT + bytes);
}
#define CHECK_GRAPH_BYTES(bytes) check_graph_bytes(__LINE__, bytes)

static CUstream enter_role(void)
{
    CUstream stream;

    role_open();
    role_enter(0);
    CHECK_EQUAL(cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    return stream;
}

static CUdeviceptr add_allocation(CUgraph graph, CUgraphNode *node, CUgraphNode *before, uint64_t bytes)
{
    CUDA_MEM_ALLOC_NODE_PARAMS_v1 parameters = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}},
        .bytesize = bytes,
    };

    CHECK_EQUAL(cuda.cuGraphAddMemAllocNode(node, graph, before, before != NULL, &parameters), CUDA_SUCCESS);
    return parameters.dptr;
}

static CUgraphExec instantiate_graph(CUgraph graph, unsigned long long flags)
{
    CUgraphExec executable;

    CHECK_EQUAL(cuda.cuGraphInstantiateWithFlags(&executable, graph, flags), CUDA_SUCCESS);
    return executable;
}

/* Captures `count` allocations, one after the other, each followed by its free if `freed`. */
static CUgraph capture_sequence(CUstream stream, uint32_t count, uint64_t bytes, bool freed)
{
    CUdeviceptr pointer;
    CUgraph graph;

    CHECK_EQUAL(cuda.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    for (uint32_t i = 0; i < count; i++) {
        CHECK_EQUAL(cuda.cuMemAllocAsync(&pointer, bytes, stream), CUDA_SUCCESS);
        if (freed)
            CHECK_EQUAL(cuda.cuMemFreeAsync(pointer, stream), CUDA_SUCCESS);
    }
    CHECK_EQUAL(cuda.cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    return graph;
}

static void role_launched_graph(void *argument)
{
    CUstream stream = enter_role();
    CUgraph graph = capture_sequence(stream, 1, 10 * MIB, true);
    CUgraphExec executable = instantiate_graph(graph, 0);

    CHECK_GRAPH_BYTES(0);
    CHECK_EQUAL(cuda.cuGraphLaunch(executable, stream), CUDA_SUCCESS);
    CHECK_GRAPH_BYTES(10 * MIB);
    CHECK_EQUAL(cuda.cuGraphLaunch_ptsz(executable, stream), CUDA_SUCCESS);
    CHECK_GRAPH_BYTES(10 * MIB);
    for (int form = 0; form < 2; form++) {
        CHECK_EQUAL(cuda.cuDeviceGraphMemTrim(0), CUDA_SUCCESS);
        CHECK_GRAPH_BYTES(0);
        CHECK_EQUAL((form ? cuda.cuGraphUpload_ptsz : cuda.cuGraphUpload)(executable, stream), CUDA_SUCCESS);
        CHECK_GRAPH_BYTES(10 * MIB);
    }
    CHECK_EQUAL(cuda.cuGraphExecDestroy(executable), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuGraphExecDestroy(executable), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuGraphDestroy(graph), CUDA_SUCCESS);
    CHECK_GRAPH_BYTES(10 * MIB); /* the driver still holds the memory */
    CHECK_EQUAL(cuda.cuDeviceGraphMemTrim(0), CUDA_SUCCESS);
    CHECK_GRAPH_BYTES(0);
}

static void test_memory_held_for_graphs_is_charged_until_it_is_trimmed(void **state)
{
    machine_run(role_launched_graph, GIB);
}

static void role_kept_graph_memory(void *argument)
{
    CUstream stream = enter_role();
    CUgraphNode node;
    CUgraph graph;

    CHECK_EQUAL(cuda.cuGraphCreate(&graph, 0), CUDA_SUCCESS);
    CUdeviceptr pointer = add_allocation(graph, &node, NULL, 6 * MIB);
    CUgraphExec executable = instantiate_graph(graph, 0),
                again = instantiate_graph(graph, 1); /* 1: a launch frees first */
    CHECK_EQUAL(cuda.cuGraphLaunch(executable, stream), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuGraphLaunch(executable, stream), CUDA_ERROR_INVALID_VALUE); /* its memory is still allocated */
    CHECK_EQUAL(cuda.cuDeviceGraphMemTrim(0), CUDA_SUCCESS);
    CHECK_GRAPH_BYTES(6 * MIB); /* the memory is in use, so it is not trimmed */
    CHECK_EQUAL(cuda.cuMemsetD8_v2(pointer, 1, 6 * MIB), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemFree_v2(pointer), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemFree_v2(pointer), CUDA_ERROR_INVALID_VALUE);
    CHECK_GRAPH_BYTES(6 * MIB);
    CHECK_EQUAL(cuda.cuGraphLaunch(again, stream), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuGraphLaunch(again, stream), CUDA_SUCCESS); /* this launch frees the memory of the one before */
    CHECK_GRAPH_BYTES(6 * MIB);
    CHECK_EQUAL(cuda.cuMemFreeAsync(pointer, stream), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuDeviceGraphMemTrim(0), CUDA_SUCCESS);
    CHECK_GRAPH_BYTES(0);
}

static void test_memory_that_outlives_its_graph_is_charged_until_it_is_freed(void **state)
{
    machine_run(role_kept_graph_memory, GIB);
}

static uint64_t most_used_bytes(void)
{
    uint64_t used;

    CHECK_EQUAL(cuda.cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &used), CUDA_SUCCESS);
    return used;
}

/* The quota leaves 100 MiB beside the context. */
static void role_graph_over_quota(void *argument)
{
    CUstream stream = enter_role();
    CUgraphExec large = instantiate_graph(capture_sequence(stream, 3, 40 * MIB, false), 0);
    CUgraphExec sequence = instantiate_graph(capture_sequence(stream, 8, 40 * MIB, true), 0);
    CUdeviceptr pointer;

    CHECK_EQUAL(cuda.cuGraphLaunch(large, stream), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQUAL(cuda.cuGraphUpload(large, stream), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQUAL(cuda.cuCtxSetCurrent(NULL), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuGraphLaunch(large, NULL),
                CUDA_ERROR_INVALID_CONTEXT); /* the context is checked before the size */
    CHECK_EQUAL(cuda.cuGraphUpload(large, NULL), CUDA_ERROR_INVALID_CONTEXT);
    role_enter(0);
    CHECK_EQUAL(most_used_bytes(), 0); /* the driver was not called */
    CHECK_GRAPH_BYTES(0);
    CHECK_EQUAL(cuda.cuGraphLaunch(sequence, stream), CUDA_SUCCESS); /* 320 MiB in sum, 40 MiB at a time */
    CHECK_GRAPH_BYTES(40 * MIB);
    CHECK_EQUAL(cuda.cuMemAlloc_v2(&pointer, 80 * MIB), CUDA_SUCCESS); /* unused memory of graphs makes room */
    CHECK_EQUAL(machine_charged(0), MACHINE_CONTEXT + 80 * MIB);
    CHECK_EQUAL(fake_used_of_kind(0, FAKE_POOL), 0);
}

/* A graph that is uploaded when it is instantiated must fit into the quota at that time. */
static void role_uploaded_graph(void *argument)
{
    CUstream stream = enter_role();
    CUDA_GRAPH_INSTANTIATE_PARAMS parameters = {.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD, .hUploadStream = stream};
    CUgraph large = capture_sequence(stream, 3, 40 * MIB, false),
            sequence = capture_sequence(stream, 8, 40 * MIB, true);
    CUgraphExec executable, again;

    CHECK_EQUAL(cuda.cuGraphInstantiateWithParams(&executable, large, &parameters), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQUAL(parameters.result_out, CUDA_GRAPH_INSTANTIATE_ERROR);
    CHECK_GRAPH_BYTES(0);
    CHECK_EQUAL(cuda.cuGraphInstantiateWithParams_ptsz(&executable, sequence, &parameters), CUDA_SUCCESS);
    CHECK_EQUAL(parameters.result_out, CUDA_GRAPH_INSTANTIATE_SUCCESS);
    CHECK_GRAPH_BYTES(40 * MIB);
    CHECK_EQUAL(cuda.cuGraphLaunch(executable, stream), CUDA_SUCCESS);
    CHECK_GRAPH_BYTES(40 * MIB);
    parameters.flags = 0;
    CHECK_EQUAL(cuda.cuGraphInstantiateWithParams(&again, large, &parameters), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuGraphInstantiateWithParams(&again, large, NULL), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuGraphExecDestroy(executable), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuDeviceGraphMemTrim(0), CUDA_SUCCESS);
    CHECK_GRAPH_BYTES(0);
}

static void test_a_graph_uploaded_at_instantiation_needs_room_before(void **state)
{
    machine_run(role_uploaded_graph, MACHINE_CONTEXT + 100 * MIB);
}

/* Unused graph memory makes room for pools, and unused memory of pools for graphs. */
static void role_trims_for_pools(void *argument)
{
    CUstream stream = enter_role();
    CUgraphExec sequence = instantiate_graph(capture_sequence(stream, 2, 90 * MIB, true), 0);
    CUdeviceptr pointer;
    CUmemoryPool pool;

    CHECK_EQUAL(cuda.cuGraphLaunch(sequence, stream), CUDA_SUCCESS);
    CHECK_GRAPH_BYTES(90 * MIB);
    CHECK_EQUAL(cuda.cuMemAllocAsync(&pointer, 64 * MIB, stream), CUDA_SUCCESS);
    CHECK_EQUAL(machine_charged(0), MACHINE_CONTEXT + 64 * MIB);
    CHECK_EQUAL(cuda.cuGraphLaunch(sequence, stream), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQUAL(machine_charged(0), MACHINE_CONTEXT + 64 * MIB);
    CHECK_EQUAL(cuda.cuMemFreeAsync(pointer, stream), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuGraphLaunch(sequence, stream),
                CUDA_SUCCESS); /* unused memory of the pool makes room for graphs */
    CHECK_EQUAL(cuda.cuDeviceGetDefaultMemPool(&pool, 0), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemPoolTrimTo(pool, 0), CUDA_SUCCESS);
    CHECK_GRAPH_BYTES(90 * MIB);
}

static void test_a_graph_that_does_not_fit_is_refused_before_the_driver_is_called(void **state)
{
    machine_run(role_graph_over_quota, MACHINE_CONTEXT + 100 * MIB);
    machine_run(role_trims_for_pools, MACHINE_CONTEXT + 100 * MIB);
}

/* Parallel nodes, whose order is unknown, are counted together. */
static void role_graph_shapes(void *argument)
{
    CUgraphNode nodes[4];
    CUgraph graph;
    CUstream stream = enter_role();

    CHECK_EQUAL(cuda.cuGraphCreate(&graph, 0), CUDA_SUCCESS);
    CUdeviceptr pointer = add_allocation(graph, &nodes[0], NULL, 60 * MIB);
    CHECK_EQUAL(cuda.cuGraphAddMemFreeNode(&nodes[1], graph, &nodes[0], 1, pointer), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuGraphLaunch(instantiate_graph(graph, 0), stream), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuDeviceGraphMemTrim(0), CUDA_SUCCESS);
    pointer = add_allocation(graph, &nodes[2], NULL, 60 * MIB);
    CHECK_EQUAL(cuda.cuGraphAddMemFreeNode(&nodes[3], graph, &nodes[2], 1, pointer), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuGraphLaunch(instantiate_graph(graph, 0), stream), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_GRAPH_BYTES(0);
}

static void test_only_nodes_in_sequence_count_as_reusing_memory(void **state)
{
    machine_run(role_graph_shapes, MACHINE_CONTEXT + 100 * MIB);
}

/* All `count` allocations exist at once before they are freed. */
static CUgraph capture_heap(CUstream stream, uint32_t count)
{
    static CUdeviceptr pointers[MANY_NODES];
    CUgraph graph;

    CHECK_EQUAL(cuda.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    for (uint32_t i = 0; i < count; i++)
        CHECK_EQUAL(cuda.cuMemAllocAsync(&pointers[i], 4096, stream), CUDA_SUCCESS);
    for (uint32_t i = 0; i < count; i++)
        CHECK_EQUAL(cuda.cuMemFreeAsync(pointers[count - 1 - i], stream), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    return graph;
}

static double time_of_instantiating(CUgraph graph)
{
    struct timespec begin, end;
    CUgraphExec executable;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    executable = instantiate_graph(graph, 0);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    CHECK_EQUAL(cuda.cuGraphExecDestroy(executable), CUDA_SUCCESS);
    return (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
}

static void role_large_graphs(void *argument)
{
    CUstream stream = enter_role();
    CUgraph few = capture_heap(stream, FEW_NODES), many = capture_heap(stream, MANY_NODES);
    double least_growth = 1000; /* more than any measured growth */

    for (int i = 0; i < 5; i++) {
        double growth = time_of_instantiating(many) / time_of_instantiating(few);

        least_growth = growth < least_growth ? growth : least_growth;
    }
    CHECK(least_growth < 24); /* the test explains this bound */
    CHECK_EQUAL(cuda.cuGraphLaunch(instantiate_graph(many, 0), stream), CUDA_SUCCESS);
    CHECK_GRAPH_BYTES(16 * MIB); /* 4000 blocks of 4 KiB, in steps of 2 MiB */
}

/* Eight times as many nodes may take up to 24 times as long. If each node were searched among all, they would take 64
 * times as long. */
static void test_the_time_to_instantiate_does_not_grow_with_the_square_of_the_nodes(void **state)
{
    machine_run(role_large_graphs, GIB);
}

static void *launch_all(void *argument)
{
    CUstream stream;

    role_enter(0);
    CHECK_EQUAL(cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    for (uint32_t i = 0; i < 200; i++) {
        CUgraph graph = capture_sequence(stream, 1 + i % 3, (1 + i % 7) * MIB, true);
        CUgraphExec executable = instantiate_graph(graph, 0);

        CHECK_EQUAL(cuda.cuGraphLaunch(executable, stream), CUDA_SUCCESS);
        if (i % 5 == 0)
            CHECK_EQUAL(cuda.cuDeviceGraphMemTrim(0), CUDA_SUCCESS);
        CHECK_EQUAL(cuda.cuGraphExecDestroy(executable), CUDA_SUCCESS);
        CHECK_EQUAL(cuda.cuGraphDestroy(graph), CUDA_SUCCESS);
    }
    return NULL;
}

static void role_launches_in_threads(void *argument)
{
    pthread_t threads[4];

    enter_role();
    for (uint32_t i = 0; i < 4; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, launch_all, NULL), 0);
    for (uint32_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQUAL(machine_charged(0), MACHINE_CONTEXT + fake_used_of_kind(0, FAKE_POOL));
    CHECK_EQUAL(cuda.cuDeviceGraphMemTrim(0), CUDA_SUCCESS);
    CHECK_GRAPH_BYTES(0);
}

static void test_charges_are_exact_after_threads_launch_graphs_at_once(void **state)
{
    machine_run(role_launches_in_threads, 2 * GIB);
}

static void role_fork(void *argument)
{
    CUstream stream = enter_role();
    CUgraphExec executable = instantiate_graph(capture_sequence(stream, 1, 8 * MIB, true), 0);
    int status = -1;

    CHECK_EQUAL(cuda.cuGraphLaunch(executable, stream), CUDA_SUCCESS);
    pid_t pid = fork();
    if (pid == 0) {
        CHECK(cuda.cuDeviceGraphMemTrim(0) != CUDA_SUCCESS);
        CHECK_EQUAL(machine_charged(0), MACHINE_CONTEXT + 8 * MIB);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK_EQUAL(status, 0);
    CHECK_GRAPH_BYTES(8 * MIB);
    CHECK_EQUAL(cuda.cuDeviceGraphMemTrim(0), CUDA_SUCCESS);
    CHECK_GRAPH_BYTES(0);
}

static void test_a_child_has_none_of_its_parents_graphs(void **state)
{
    machine_run(role_fork, GIB);
}

static void role_wrong_arguments(void *argument)
{
    CUstream stream = enter_role();
    CUgraphExec executable = NULL;

    instantiate_graph(capture_sequence(stream, 1, MIB, true),
                      0); /* once a graph allocates memory, the interposer looks up executables */
    CHECK_EQUAL(cuda.cuGraphInstantiateWithFlags(NULL, NULL, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuGraphInstantiate_v2(&executable, NULL, NULL, NULL, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuGraphLaunch(NULL, stream), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuGraphUpload(NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuGraphExecDestroy(NULL), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuDeviceGraphMemTrim(77), CUDA_ERROR_INVALID_DEVICE);
    CHECK_EQUAL(cuda.cuDeviceGraphMemTrim(-1), CUDA_ERROR_INVALID_DEVICE);
    CHECK_GRAPH_BYTES(0);
}

static void test_wrong_arguments_get_the_drivers_own_error(void **state)
{
    machine_run(role_wrong_arguments, GIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_held_for_graphs_is_charged_until_it_is_trimmed),
        cmocka_unit_test(test_a_graph_uploaded_at_instantiation_needs_room_before),
        cmocka_unit_test(test_memory_that_outlives_its_graph_is_charged_until_it_is_freed),
        cmocka_unit_test(test_a_graph_that_does_not_fit_is_refused_before_the_driver_is_called),
        cmocka_unit_test(test_only_nodes_in_sequence_count_as_reusing_memory),
        cmocka_unit_test(test_the_time_to_instantiate_does_not_grow_with_the_square_of_the_nodes),
        cmocka_unit_test(test_charges_are_exact_after_threads_launch_graphs_at_once),
        cmocka_unit_test(test_a_child_has_none_of_its_parents_graphs),
        cmocka_unit_test(test_wrong_arguments_get_the_drivers_own_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
