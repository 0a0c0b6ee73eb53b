/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs over random calls of several processes, some of which are killed at any moment: what is charged is what
 * the driver was asked for, whenever nobody is at it, and never more than the quota. Never: depends on how fast the
 * machine is: a processes' calls are counted, and a quiet point is waited for.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "machine.h"

#define WORKERS  4u
#define CALLS    250000u /* of each worker, in all its lives */
#define HELD     96u
#define FEW      6u
#define LIMIT    (768 * MIB)
#define PLACES   16u
#define PAGE     (2 * MIB)
#define QUIET_NS 20000000 /* between two quiet points */

/* Shared by the test and its workers. */
struct worker {
    _Atomic uint32_t calls;   /* so far, over all lives */
    _Atomic uint32_t at_rest; /* the number of the quiet point that it waits at */
    _Atomic bool done;
};

struct storm {
    _Atomic uint32_t rest; /* number of the quiet point that is wanted; 0: none */
    struct worker workers[WORKERS];
};
static struct storm *storm;

/* What one worker holds, of each kind. */
struct bag {
    CUdeviceptr pointers[HELD];
    CUarray arrays[HELD];
    CUmipmappedArray mipmapped[HELD];
    CUmemGenericAllocationHandle handles[HELD];
    CUmemoryPool pools[2];
    CUdeviceptr places; /* addresses of PLACES pages */
    bool mapped[PLACES];
    CUcontext second; /* comes and goes, with what was made in it */
    CUmodule modules[FEW];
    CUgraphExec graphs[FEW];
    CUdevResourceDesc part;
    CUgreenCtx green;
    uint64_t seed;
};

static uint64_t draw(struct bag *bag, uint64_t below)
{
    bag->seed ^= bag->seed << 13;
    bag->seed ^= bag->seed >> 7;
    bag->seed ^= bag->seed << 17;
    return bag->seed % below;
}

/* Small ones most often, as in programs; what is refused for want of memory is no failure. */
static uint64_t draw_size(struct bag *bag)
{
    return draw(bag, 10) ? 1 + draw(bag, 64 * KIB) : 1 + draw(bag, 24 * MIB);
}

static bool given(CUresult result)
{
    if (result != CUDA_ERROR_OUT_OF_MEMORY)
        CHECK_EQUAL(result, CUDA_SUCCESS);
    return result == CUDA_SUCCESS;
}

static CUresult take_pointer(struct bag *bag, CUdeviceptr *pointer)
{
    size_t pitch;

    switch (draw(bag, 8)) {
    case 0:
        return cuda.cuMemAllocPitch_v2(pointer, &pitch, 1 + draw(bag, 4000), 1 + draw(bag, 500), 4);
    case 1:
        return cuda.cuMemAllocManaged(pointer, draw_size(bag), CU_MEM_ATTACH_GLOBAL);
    case 2:
        return cuda.cuMemAllocAsync(pointer, draw_size(bag), NULL);
    case 3:
        return cuda.cuMemAllocFromPoolAsync(pointer, draw_size(bag), bag->pools[draw(bag, 2)], NULL);
    default:
        return cuda.cuMemAlloc_v2(pointer, draw_size(bag));
    }
}

static void do_pointer(struct bag *bag)
{
    CUdeviceptr *pointer = &bag->pointers[draw(bag, HELD)];

    if (*pointer) {
        CHECK_EQUAL(draw(bag, 2) ? cuda.cuMemFree_v2(*pointer) : cuda.cuMemFreeAsync_ptsz(*pointer, NULL),
                    CUDA_SUCCESS);
        *pointer = 0;
    } else if (!given(take_pointer(bag, pointer))) {
        *pointer = 0;
    }
}

static void do_array(struct bag *bag)
{
    CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = 1 + draw(bag, 600),
                                     .Height = draw(bag, 600),
                                     .Format = CU_AD_FORMAT_FLOAT,
                                     .NumChannels = 1u << draw(bag, 3)};
    uint64_t index = draw(bag, HELD);

    if (bag->arrays[index])
        CHECK_EQUAL(cuda.cuArrayDestroy(bag->arrays[index]), CUDA_SUCCESS);
    else if (given(cuda.cuArray3DCreate_v2(&bag->arrays[index], &shape)))
        return;
    bag->arrays[index] = NULL;
}

static void do_mipmapped(struct bag *bag)
{
    CUDA_ARRAY3D_DESCRIPTOR shape = {
        .Width = 1 + draw(bag, 300), .Height = 1 + draw(bag, 300), .Format = CU_AD_FORMAT_HALF, .NumChannels = 2};
    uint64_t index = draw(bag, HELD);

    if (bag->mipmapped[index])
        CHECK_EQUAL(cuda.cuMipmappedArrayDestroy(bag->mipmapped[index]), CUDA_SUCCESS);
    else if (given(cuda.cuMipmappedArrayCreate(&bag->mipmapped[index], &shape, 1 + (unsigned)draw(bag, 12))))
        return;
    bag->mipmapped[index] = NULL;
}

/* Handles of one page, mapped at places and let go in any order. */
static void do_virtual(struct bag *bag)
{
    CUmemAllocationProp shape = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    uint64_t index = draw(bag, PLACES), place = draw(bag, PLACES);
    CUdeviceptr address = bag->places + place * PAGE;

    if (draw(bag, 2) && bag->mapped[place]) {
        CHECK_EQUAL(cuda.cuMemUnmap(address, PAGE), CUDA_SUCCESS);
        bag->mapped[place] = false;
    } else if (!bag->handles[index]) {
        if (!given(cuda.cuMemCreate(&bag->handles[index], PAGE, &shape, 0)))
            bag->handles[index] = 0;
    } else if (draw(bag, 2) && !bag->mapped[place]) {
        bag->mapped[place] = given(cuda.cuMemMap(address, PAGE, 0, bag->handles[index], 0));
    } else {
        CHECK_EQUAL(cuda.cuMemRelease(bag->handles[index]), CUDA_SUCCESS);
        bag->handles[index] = 0;
    }
}

static void do_pool(struct bag *bag)
{
    uint64_t keep = draw(bag, 2) * 16 * MIB;
    CUmemoryPool pool = bag->pools[draw(bag, 2)];

    if (draw(bag, 2))
        CHECK_EQUAL(cuda.cuMemPoolTrimTo(pool, keep), CUDA_SUCCESS);
    else
        CHECK_EQUAL(cuda.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep), CUDA_SUCCESS);
}

/* What is made in it is freed by nobody: it goes with its context. */
static void do_context(struct bag *bag)
{
    CUdeviceptr left_behind;

    if (bag->second) {
        CHECK_EQUAL(cuda.cuCtxDestroy_v2(bag->second), CUDA_SUCCESS);
        bag->second = NULL;
    } else if (given(cuda.cuCtxCreate_v2(&bag->second, 0, 0))) {
        given(cuda.cuMemAlloc_v2(&left_behind, draw_size(bag)));
        CHECK_EQUAL(cuda.cuCtxPopCurrent_v2(NULL), CUDA_SUCCESS);
    } else {
        bag->second = NULL;
    }
}

/* What is loaded and refused would stay, uncharged, until it is unloaded. */
static void do_module(struct bag *bag)
{
    CUmodule *module = &bag->modules[draw(bag, FEW)];
    CUfunction function;

    if (!*module && !given(cuda.cuModuleLoadData(module, "FAKE-CUDA\n@global table 300000\nfirst 10\nsecond 10\n")))
        return;
    if (draw(bag, 2) && given(cuda.cuModuleGetFunction(&function, *module, draw(bag, 2) ? "first" : "second")))
        return;
    CHECK_EQUAL(cuda.cuModuleUnload(*module), CUDA_SUCCESS);
    *module = NULL;
}

static CUgraphExec make_graph(struct bag *bag)
{
    CUDA_MEM_ALLOC_NODE_PARAMS_v1 shape = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}},
        .bytesize = draw_size(bag),
    };
    CUgraphNode first, second;
    CUgraphExec executable;
    CUgraph graph;

    CHECK_EQUAL(cuda.cuGraphCreate(&graph, 0), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuGraphAddMemAllocNode(&first, graph, NULL, 0, &shape), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuGraphAddMemFreeNode(&second, graph, &first, 1, shape.dptr), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuGraphInstantiateWithFlags(&executable, graph, 0), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuGraphDestroy(graph), CUDA_SUCCESS);
    return executable;
}

static void do_graph(struct bag *bag)
{
    CUgraphExec *graph = &bag->graphs[draw(bag, FEW)];
    uint64_t what = draw(bag, 8);

    if (!*graph) {
        *graph = make_graph(bag);
    } else if (what < 4) {
        given(cuda.cuGraphLaunch(*graph, NULL));
    } else if (what < 6) {
        CHECK_EQUAL(cuda.cuGraphExecDestroy(*graph), CUDA_SUCCESS);
        *graph = NULL;
    } else {
        CHECK_EQUAL(cuda.cuDeviceGraphMemTrim(0), CUDA_SUCCESS);
    }
}

static void do_green(struct bag *bag)
{
    if (bag->green) {
        CHECK_EQUAL(cuda.cuGreenCtxDestroy(bag->green), CUDA_SUCCESS);
        bag->green = NULL;
    } else if (!given(cuda.cuGreenCtxCreate(&bag->green, bag->part, 0, CU_GREEN_CTX_DEFAULT_STREAM))) {
        bag->green = NULL;
    }
}

static void do_wrong(struct bag *bag)
{
    size_t is_free, total;

    CHECK_EQUAL(cuda.cuMemFree_v2((uintptr_t)bag), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuMemRelease(12345678), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuMemGetInfo_v2(&is_free, &total), CUDA_SUCCESS);
    CHECK(is_free <= total && total == LIMIT);
}

static void do_any(struct bag *bag)
{
    uint64_t kind = draw(bag, 1000);

    if (kind < 500)
        do_pointer(bag);
    else if (kind < 640)
        do_array(bag);
    else if (kind < 740)
        do_mipmapped(bag);
    else if (kind < 940)
        do_virtual(bag);
    else if (kind < 970)
        do_pool(bag);
    else if (kind < 972)
        do_context(bag);
    else if (kind < 974)
        do_green(bag);
    else if (kind < 980)
        do_module(bag);
    else if (kind < 990)
        do_graph(bag);
    else
        do_wrong(bag);
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

/* The pools' accounts are brought up to date, then nothing happens until the test has looked. */
static void rest(struct worker *self, uint32_t number)
{
    size_t is_free, total;

    CHECK_EQUAL(cuda.cuMemGetInfo_v2(&is_free, &total), CUDA_SUCCESS);
    atomic_store(&self->at_rest, number);
    while (atomic_load(&storm->rest) == number)
        nap();
}

static void prepare(struct bag *bag)
{
    CUmemPoolProps shape = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUdevResource whole;
    CUcontext context;

    role_open();
    CHECK_EQUAL(cuda.cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuCtxSetCurrent(context), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuDeviceGetDevResource(0, &whole, CU_DEV_RESOURCE_TYPE_SM), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuDevResourceGenerateDesc(&bag->part, &whole, 1), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemPoolCreate(&bag->pools[0], &shape), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuDeviceGetDefaultMemPool(&bag->pools[1], 0), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemAddressReserve(&bag->places, PLACES * PAGE, 0, 0, 0), CUDA_SUCCESS);
}

static void role_worker(void *argument)
{
    struct worker *self = argument;
    struct bag bag = {.seed = ((uint64_t)getpid() << 20) + 1};

    prepare(&bag);
    while (atomic_load(&self->calls) < CALLS) {
        uint32_t number = atomic_load(&storm->rest);

        if (number && atomic_load(&self->at_rest) != number)
            rest(self, number);
        do_any(&bag);
        atomic_fetch_add(&self->calls, 1);
    }
    atomic_store(&self->done, true);
    while (true) {
        uint32_t number = atomic_load(&storm->rest);
        if (number)
            rest(self, number);
        nap();
    }
}

/* To the byte: what was asked, and what contexts, green ones and modules took besides. */
static void check_accounts(void)
{
    facet_owner_reap(machine.segments[0].owner);
    uint64_t truth = fake_asked(0) + fake_held(0, FAKE_CONTEXT) + fake_held(0, FAKE_MODULE);
    assert_int_equal(machine_charged(0), truth);
    assert_true(truth <= LIMIT);
}

static void wait_for_rest(uint32_t number)
{
    for (uint32_t i = 0; i < WORKERS; i++)
        while (atomic_load(&storm->workers[i].at_rest) != number) {
            assert_true(machine_charged(0) <= LIMIT);
            nap();
        }
}

static void replace(pid_t pids[WORKERS], uint32_t index)
{
    int status;

    kill(pids[index], SIGKILL);
    assert_int_equal(waitpid(pids[index], &status, 0), pids[index]);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL); /* it had not failed before */
}

/* The new one makes its context while all others are at rest, and is waited for. */
static void start(pid_t pids[WORKERS], uint32_t index, uint32_t number)
{
    atomic_store(&storm->workers[index].at_rest, 0);
    pids[index] = machine_start(role_worker, &storm->workers[index], true);
    while (atomic_load(&storm->workers[index].at_rest) != number) {
        assert_int_equal(waitpid(pids[index], NULL, WNOHANG), 0);
        nap();
    }
}

static bool all_done(void)
{
    for (uint32_t i = 0; i < WORKERS; i++)
        if (!atomic_load(&storm->workers[i].done))
            return false;
    return true;
}

static void test_accounts_are_true_whoever_is_killed(void **state)
{
    pid_t pids[WORKERS];
    uint64_t seed = 99;
    uint32_t number = 1;

    storm = mmap(NULL, sizeof *storm, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(storm != MAP_FAILED);
    machine_make(1, &(uint64_t){LIMIT}, "1K");
    atomic_store(&storm->rest, number);
    for (uint32_t i = 0; i < WORKERS; i++)
        start(pids, i, number);
    do {
        check_accounts();
        atomic_store(&storm->rest, 0);
        nanosleep(&(struct timespec){.tv_nsec = QUIET_NS}, NULL);
        uint32_t victim = (uint32_t)((seed = seed * 6364136223846793005u + 1442695040888963407u) >> 33) % WORKERS;
        replace(pids, victim); /* in the middle of anything */
        atomic_store(&storm->workers[victim].at_rest, ++number);
        atomic_store(&storm->rest, number);
        wait_for_rest(number);
        check_accounts();
        start(pids, victim, number);
    } while (!all_done());
    check_accounts();
    for (uint32_t i = 0; i < WORKERS; i++)
        replace(pids, i);
    check_accounts();
    assert_int_equal(machine_charged(0), 0);
    machine_remove();
    munmap(storm, sizeof *storm);
}

/* ---- the quota, to the byte ---- */

/* The argument counts who has a context: the next one is started then, so that each is measured alone. */
static void role_greedy(void *argument)
{
    CUdeviceptr held[64] = {0};
    uint64_t seed = (uint64_t)getpid() * 77777 + 1;
    _Atomic uint32_t *ready = argument;

    role_open();
    role_enter(0);
    atomic_fetch_add(ready, 1);
    while (atomic_load(ready) < WORKERS)
        nap();
    for (uint32_t i = 0; i < 60000; i++) {
        CUdeviceptr *pointer = &held[(seed = seed * 6364136223846793005u + 1442695040888963407u) >> 58];
        uint64_t bytes = 1 + (seed >> 20) % (3 * MIB);

        if (*pointer) {
            CHECK_EQUAL(cuda.cuMemFree_v2(*pointer), CUDA_SUCCESS);
            *pointer = 0;
        } else if (!given(cuda.cuMemAlloc_v2(pointer, bytes))) {
            *pointer = 0;
        }
    }
}

/* The segment's own record of the highest sum ever granted, and what was refused: both happened. */
static void test_four_processes_never_get_a_byte_too_much(void **state)
{
    pid_t pids[WORKERS];

    _Atomic uint32_t *ready = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(ready != MAP_FAILED);
    machine_make(1, &(uint64_t){64 * MIB}, "1K");
    for (uint32_t i = 0; i < WORKERS; i++) {
        pids[i] = machine_start(role_greedy, ready, true);
        while (atomic_load(ready) <= i)
            nap();
    }
    for (uint32_t i = 0; i < WORKERS; i++)
        machine_wait(pids[i]);
    facet_owner_reap(machine.segments[0].owner);
    struct facet_usage_totals totals = test_segment_totals(&machine.segments[0]);
    assert_true(totals.memory_peak_bytes <= 64 * MIB);
    assert_true(totals.memory_peak_bytes > 60 * MIB);
    assert_true(totals.denied > 0);
    assert_int_equal(totals.memory_bytes, 0);
    machine_remove();
    munmap(ready, 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_four_processes_never_get_a_byte_too_much),
        cmocka_unit_test(test_accounts_are_true_whoever_is_killed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
