/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: CUDA's calls of tests/integration/cuda/storm.h, of each kind. Never: judges an account. */
#include "machine.h"

#include "../storm.h"

#define HELD   96u
#define PLACES 16u
#define PAGE   (2 * MIB)
#define FEW    6u

/* The objects that one worker holds, of each kind. */
struct storm_bag {
    CUdeviceptr pointers[HELD];
    CUarray arrays[HELD];
    CUmipmappedArray mipmapped[HELD];
    CUmemGenericAllocationHandle handles[HELD];
    CUmemoryPool pools[2];
    CUdeviceptr places; /* addresses of PLACES pages */
    bool mapped[PLACES];
    CUcontext second; /* comes and goes, with the objects made in it */
    CUmodule modules[FEW];
    CUgraphExec graphs[FEW];
    CUdevResourceDesc part;
    CUgreenCtx green;
};

/* A refusal for want of memory is no failure. */
static bool was_given(CUresult result)
{
    if (result != CUDA_ERROR_OUT_OF_MEMORY)
        CHECK_EQUAL(result, CUDA_SUCCESS);
    return result == CUDA_SUCCESS;
}

static CUresult take_pointer(struct storm_bag *bag, CUdeviceptr *pointer)
{
    size_t pitch;

    switch (storm_draw(8)) {
    case 0:
        return cuda.cuMemAllocPitch_v2(pointer, &pitch, 1 + storm_draw(4000), 1 + storm_draw(500), 4);
    case 1:
        return cuda.cuMemAllocManaged(pointer, storm_draw_size(), CU_MEM_ATTACH_GLOBAL);
    case 2:
        return cuda.cuMemAllocAsync(pointer, storm_draw_size(), NULL);
    case 3:
        return cuda.cuMemAllocFromPoolAsync(pointer, storm_draw_size(), bag->pools[storm_draw(2)], NULL);
    default:
        return cuda.cuMemAlloc_v2(pointer, storm_draw_size());
    }
}

static void do_pointer(struct storm_bag *bag)
{
    CUdeviceptr *pointer = &bag->pointers[storm_draw(HELD)];

    if (*pointer) {
        CHECK_EQUAL(storm_draw(2) ? cuda.cuMemFree_v2(*pointer) : cuda.cuMemFreeAsync_ptsz(*pointer, NULL),
                    CUDA_SUCCESS);
        *pointer = 0;
    } else if (!was_given(take_pointer(bag, pointer))) {
        *pointer = 0;
    }
}

static void do_array(struct storm_bag *bag)
{
    CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = 1 + storm_draw(600),
                                     .Height = storm_draw(600),
                                     .Format = CU_AD_FORMAT_FLOAT,
                                     .NumChannels = 1u << storm_draw(3)};
    uint64_t index = storm_draw(HELD);

    if (bag->arrays[index])
        CHECK_EQUAL(cuda.cuArrayDestroy(bag->arrays[index]), CUDA_SUCCESS);
    else if (was_given(cuda.cuArray3DCreate_v2(&bag->arrays[index], &shape)))
        return;
    bag->arrays[index] = NULL;
}

static void do_mipmapped(struct storm_bag *bag)
{
    CUDA_ARRAY3D_DESCRIPTOR shape = {
        .Width = 1 + storm_draw(300), .Height = 1 + storm_draw(300), .Format = CU_AD_FORMAT_HALF, .NumChannels = 2};
    uint64_t index = storm_draw(HELD);

    if (bag->mipmapped[index])
        CHECK_EQUAL(cuda.cuMipmappedArrayDestroy(bag->mipmapped[index]), CUDA_SUCCESS);
    else if (was_given(cuda.cuMipmappedArrayCreate(&bag->mipmapped[index], &shape, 1 + (unsigned)storm_draw(12))))
        return;
    bag->mipmapped[index] = NULL;
}

/* Handles of one page, mapped at places and let go in any order. */
static void do_virtual(struct storm_bag *bag)
{
    CUmemAllocationProp shape = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    uint64_t index = storm_draw(PLACES), place = storm_draw(PLACES);
    CUdeviceptr address = bag->places + place * PAGE;

    if (storm_draw(2) && bag->mapped[place]) {
        CHECK_EQUAL(cuda.cuMemUnmap(address, PAGE), CUDA_SUCCESS);
        bag->mapped[place] = false;
    } else if (!bag->handles[index]) {
        if (!was_given(cuda.cuMemCreate(&bag->handles[index], PAGE, &shape, 0)))
            bag->handles[index] = 0;
    } else if (storm_draw(2) && !bag->mapped[place]) {
        bag->mapped[place] = was_given(cuda.cuMemMap(address, PAGE, 0, bag->handles[index], 0));
    } else {
        CHECK_EQUAL(cuda.cuMemRelease(bag->handles[index]), CUDA_SUCCESS);
        bag->handles[index] = 0;
    }
}

static void do_pool(struct storm_bag *bag)
{
    uint64_t keep = storm_draw(2) * 16 * MIB;
    CUmemoryPool pool = bag->pools[storm_draw(2)];

    if (storm_draw(2))
        CHECK_EQUAL(cuda.cuMemPoolTrimTo(pool, keep), CUDA_SUCCESS);
    else
        CHECK_EQUAL(cuda.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep), CUDA_SUCCESS);
}

/* Its memory is not freed: it goes with its context. */
static void do_context(struct storm_bag *bag)
{
    CUdeviceptr left_behind;

    if (bag->second) {
        CHECK_EQUAL(cuda.cuCtxDestroy_v2(bag->second), CUDA_SUCCESS);
        bag->second = NULL;
    } else if (was_given(cuda.cuCtxCreate_v2(&bag->second, 0, 0))) {
        was_given(cuda.cuMemAlloc_v2(&left_behind, storm_draw_size()));
        CHECK_EQUAL(cuda.cuCtxPopCurrent_v2(NULL), CUDA_SUCCESS);
    } else {
        bag->second = NULL;
    }
}

/* A module that is loaded and refused would stay, uncharged, until it is unloaded. */
static void do_module(struct storm_bag *bag)
{
    CUmodule *module = &bag->modules[storm_draw(FEW)];
    CUfunction function;

    if (!*module && !was_given(cuda.cuModuleLoadData(module, "FAKE-CUDA\n@global table 300000\nfirst 10\nsecond 10\n")))
        return;
    if (storm_draw(2) && was_given(cuda.cuModuleGetFunction(&function, *module, storm_draw(2) ? "first" : "second")))
        return;
    CHECK_EQUAL(cuda.cuModuleUnload(*module), CUDA_SUCCESS);
    *module = NULL;
}

static CUgraphExec make_graph(struct storm_bag *bag)
{
    CUDA_MEM_ALLOC_NODE_PARAMS_v1 shape = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}},
        .bytesize = storm_draw_size(),
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

static void do_graph(struct storm_bag *bag)
{
    CUgraphExec *graph = &bag->graphs[storm_draw(FEW)];
    uint64_t what = storm_draw(8);

    if (!*graph) {
        *graph = make_graph(bag);
    } else if (what < 4) {
        was_given(cuda.cuGraphLaunch(*graph, NULL));
    } else if (what < 6) {
        CHECK_EQUAL(cuda.cuGraphExecDestroy(*graph), CUDA_SUCCESS);
        *graph = NULL;
    } else {
        CHECK_EQUAL(cuda.cuDeviceGraphMemTrim(0), CUDA_SUCCESS);
    }
}

static void do_green(struct storm_bag *bag)
{
    if (bag->green) {
        CHECK_EQUAL(cuda.cuGreenCtxDestroy(bag->green), CUDA_SUCCESS);
        bag->green = NULL;
    } else if (!was_given(cuda.cuGreenCtxCreate(&bag->green, bag->part, 0, CU_GREEN_CTX_DEFAULT_STREAM))) {
        bag->green = NULL;
    }
}

static void do_wrong(struct storm_bag *bag)
{
    size_t is_free, total;

    CHECK_EQUAL(cuda.cuMemFree_v2((uintptr_t)bag), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuMemRelease(12345678), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuMemGetInfo_v2(&is_free, &total), CUDA_SUCCESS);
    CHECK(is_free <= total && total == STORM_LIMIT);
}

static void do_any(struct storm_bag *bag)
{
    uint64_t kind = storm_draw(1000);

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

static struct storm_bag *prepare_bag(struct storm_worker *self)
{
    static struct storm_bag bag;
    CUmemPoolProps shape = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUdevResource whole;
    CUcontext context;

    role_open();
    CHECK_EQUAL(cuda.cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuCtxSetCurrent(context), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuDeviceGetDevResource(0, &whole, CU_DEV_RESOURCE_TYPE_SM), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuDevResourceGenerateDesc(&bag.part, &whole, 1), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemPoolCreate(&bag.pools[0], &shape), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuDeviceGetDefaultMemPool(&bag.pools[1], 0), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemAddressReserve(&bag.places, PLACES * PAGE, 0, 0, 0), CUDA_SUCCESS);
    return &bag;
}

static void settle_charges(void)
{
    size_t is_free, total;

    CHECK_EQUAL(cuda.cuMemGetInfo_v2(&is_free, &total), CUDA_SUCCESS);
}

/* To the byte: the requested memory, and the memory that contexts, green ones and modules took besides. */
static uint64_t true_bytes(void)
{
    return fake_requested(0) + fake_used_of_kind(0, FAKE_CONTEXT) + fake_used_of_kind(0, FAKE_MODULE);
}

static void enter_role(void)
{
    role_open();
    role_enter(0);
}

static bool take_memory(void **pointer, uint64_t bytes)
{
    CUdeviceptr address = 0;
    bool taken = was_given(cuda.cuMemAlloc_v2(&address, bytes));

    *pointer = (void *)(uintptr_t)address;
    return taken;
}

static void give_back(void *pointer)
{
    CHECK_EQUAL(cuda.cuMemFree_v2((uintptr_t)pointer), CUDA_SUCCESS);
}

static const struct storm_vendor storm_vendor = {
    .calls = 250000,
    .greedy_calls = 60000,
    .prepare = prepare_bag,
    .call = do_any,
    .settle = settle_charges,
    .truth = true_bytes,
    .enter = enter_role,
    .take = take_memory,
    .give = give_back,
};

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_four_processes_never_get_a_byte_too_much),
        cmocka_unit_test(test_accounts_are_true_after_any_process_is_killed),
    };

    return cmocka_run_group_tests_name("cuda/memory_storm", tests, NULL, NULL);
}
