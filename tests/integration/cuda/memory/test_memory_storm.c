/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: CUDA's calls for tests/integration/cuda/storm.h, of each kind of memory. Never: checks an account. */
#include "machine.h"

#include "../storm.h"

#define OBJECTS     96u /* of each common kind */
#define PAGE_COUNT  16u
#define PAGE        (2 * MIB)
#define FEW_OBJECTS 6u /* of each rare kind */

/* The objects that one worker holds, of each kind. */
struct storm_bag {
    CUdeviceptr pointers[OBJECTS];
    CUarray arrays[OBJECTS];
    CUmipmappedArray mipmapped[OBJECTS];
    CUmemGenericAllocationHandle handles[PAGE_COUNT];
    CUmemoryPool pools[2];
    CUdeviceptr addresses; /* PAGE_COUNT pages are reserved here */
    bool mapped[PAGE_COUNT];
    CUcontext second_context; /* created and destroyed again and again, with the objects in it */
    CUmodule modules[FEW_OBJECTS];
    CUgraphExec graphs[FEW_OBJECTS];
    CUdevResourceDesc green_units;
    CUgreenCtx green;
};

/* A refusal for lack of memory is no failure of the test. */
static bool succeeded(CUresult result)
{
    if (result != CUDA_ERROR_OUT_OF_MEMORY)
        CHECK_EQUAL(result, CUDA_SUCCESS);
    return result == CUDA_SUCCESS;
}

static CUresult allocate_pointer(struct storm_bag *bag, CUdeviceptr *pointer)
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

static void change_pointer(struct storm_bag *bag)
{
    CUdeviceptr *pointer = &bag->pointers[storm_draw(OBJECTS)];

    if (*pointer) {
        CHECK_EQUAL(storm_draw(2) ? cuda.cuMemFree_v2(*pointer) : cuda.cuMemFreeAsync_ptsz(*pointer, NULL),
                    CUDA_SUCCESS);
        *pointer = 0;
    } else if (!succeeded(allocate_pointer(bag, pointer))) {
        *pointer = 0;
    }
}

static void change_array(struct storm_bag *bag)
{
    CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = 1 + storm_draw(600),
                                     .Height = storm_draw(600),
                                     .Format = CU_AD_FORMAT_FLOAT,
                                     .NumChannels = 1u << storm_draw(3)};
    uint64_t index = storm_draw(OBJECTS);

    if (bag->arrays[index])
        CHECK_EQUAL(cuda.cuArrayDestroy(bag->arrays[index]), CUDA_SUCCESS);
    else if (succeeded(cuda.cuArray3DCreate_v2(&bag->arrays[index], &shape)))
        return;
    bag->arrays[index] = NULL;
}

static void change_mipmapped(struct storm_bag *bag)
{
    CUDA_ARRAY3D_DESCRIPTOR shape = {
        .Width = 1 + storm_draw(300), .Height = 1 + storm_draw(300), .Format = CU_AD_FORMAT_HALF, .NumChannels = 2};
    uint64_t index = storm_draw(OBJECTS);

    if (bag->mipmapped[index])
        CHECK_EQUAL(cuda.cuMipmappedArrayDestroy(bag->mipmapped[index]), CUDA_SUCCESS);
    else if (succeeded(cuda.cuMipmappedArrayCreate(&bag->mipmapped[index], &shape, 1 + (unsigned)storm_draw(12))))
        return;
    bag->mipmapped[index] = NULL;
}

/* Handles of one page, mapped at any page and released in any order. */
static void change_virtual(struct storm_bag *bag)
{
    CUmemAllocationProp shape = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    uint64_t index = storm_draw(PAGE_COUNT), page = storm_draw(PAGE_COUNT);
    CUdeviceptr address = bag->addresses + page * PAGE;

    if (storm_draw(2) && bag->mapped[page]) {
        CHECK_EQUAL(cuda.cuMemUnmap(address, PAGE), CUDA_SUCCESS);
        bag->mapped[page] = false;
    } else if (!bag->handles[index]) {
        if (!succeeded(cuda.cuMemCreate(&bag->handles[index], PAGE, &shape, 0)))
            bag->handles[index] = 0;
    } else if (storm_draw(2) && !bag->mapped[page]) {
        bag->mapped[page] = succeeded(cuda.cuMemMap(address, PAGE, 0, bag->handles[index], 0));
    } else {
        CHECK_EQUAL(cuda.cuMemRelease(bag->handles[index]), CUDA_SUCCESS);
        bag->handles[index] = 0;
    }
}

static void change_pool(struct storm_bag *bag)
{
    uint64_t keep = storm_draw(2) * 16 * MIB;
    CUmemoryPool pool = bag->pools[storm_draw(2)];

    if (storm_draw(2))
        CHECK_EQUAL(cuda.cuMemPoolTrimTo(pool, keep), CUDA_SUCCESS);
    else
        CHECK_EQUAL(cuda.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep), CUDA_SUCCESS);
}

/* Memory in the second context is not freed; the context's end releases it. */
static void change_context(struct storm_bag *bag)
{
    CUdeviceptr left_behind;

    if (bag->second_context) {
        CHECK_EQUAL(cuda.cuCtxDestroy_v2(bag->second_context), CUDA_SUCCESS);
        bag->second_context = NULL;
    } else if (succeeded(cuda.cuCtxCreate_v2(&bag->second_context, 0, 0))) {
        succeeded(cuda.cuMemAlloc_v2(&left_behind, storm_draw_size()));
        CHECK_EQUAL(cuda.cuCtxPopCurrent_v2(NULL), CUDA_SUCCESS);
    } else {
        bag->second_context = NULL;
    }
}

/* Loads a module and one of its functions, or unloads the module. The quota may refuse the function: then the module is
 * unloaded, too. */
static void change_module(struct storm_bag *bag)
{
    CUmodule *module = &bag->modules[storm_draw(FEW_OBJECTS)];
    CUfunction function;

    if (!*module && !succeeded(cuda.cuModuleLoadData(module, "FAKE-CUDA\n@global table 300000\nfirst 10\nsecond 10\n")))
        return;
    if (storm_draw(2) && succeeded(cuda.cuModuleGetFunction(&function, *module, storm_draw(2) ? "first" : "second")))
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
    CUgraphNode alloc_node, free_node;
    CUgraphExec executable;
    CUgraph graph;

    CHECK_EQUAL(cuda.cuGraphCreate(&graph, 0), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuGraphAddMemAllocNode(&alloc_node, graph, NULL, 0, &shape), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuGraphAddMemFreeNode(&free_node, graph, &alloc_node, 1, shape.dptr), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuGraphInstantiateWithFlags(&executable, graph, 0), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuGraphDestroy(graph), CUDA_SUCCESS);
    return executable;
}

static void change_graph(struct storm_bag *bag)
{
    CUgraphExec *graph = &bag->graphs[storm_draw(FEW_OBJECTS)];
    uint64_t action = storm_draw(8);

    if (!*graph) {
        *graph = make_graph(bag);
    } else if (action < 4) {
        succeeded(cuda.cuGraphLaunch(*graph, NULL));
    } else if (action < 6) {
        CHECK_EQUAL(cuda.cuGraphExecDestroy(*graph), CUDA_SUCCESS);
        *graph = NULL;
    } else {
        CHECK_EQUAL(cuda.cuDeviceGraphMemTrim(0), CUDA_SUCCESS);
    }
}

static void change_green(struct storm_bag *bag)
{
    if (bag->green) {
        CHECK_EQUAL(cuda.cuGreenCtxDestroy(bag->green), CUDA_SUCCESS);
        bag->green = NULL;
    } else if (!succeeded(cuda.cuGreenCtxCreate(&bag->green, bag->green_units, 0, CU_GREEN_CTX_DEFAULT_STREAM))) {
        bag->green = NULL;
    }
}

static void make_wrong_calls(struct storm_bag *bag)
{
    size_t free_bytes, total;

    CHECK_EQUAL(cuda.cuMemFree_v2((uintptr_t)bag), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuMemRelease(12345678), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuMemGetInfo_v2(&free_bytes, &total), CUDA_SUCCESS);
    CHECK(free_bytes <= total && total == STORM_LIMIT);
}

static void change_any(struct storm_bag *bag)
{
    uint64_t kind = storm_draw(1000); /* each kind of call has a fixed part of 1000 */

    if (kind < 500)
        change_pointer(bag);
    else if (kind < 640)
        change_array(bag);
    else if (kind < 740)
        change_mipmapped(bag);
    else if (kind < 940)
        change_virtual(bag);
    else if (kind < 970)
        change_pool(bag);
    else if (kind < 972)
        change_context(bag);
    else if (kind < 974)
        change_green(bag);
    else if (kind < 980)
        change_module(bag);
    else if (kind < 990)
        change_graph(bag);
    else
        make_wrong_calls(bag);
}

static struct storm_bag *prepare_bag(struct storm_worker *self)
{
    static struct storm_bag bag;
    CUmemPoolProps shape = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUdevResource all_units;
    CUcontext context;

    role_open();
    CHECK_EQUAL(cuda.cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuCtxSetCurrent(context), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuDeviceGetDevResource(0, &all_units, CU_DEV_RESOURCE_TYPE_SM), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuDevResourceGenerateDesc(&bag.green_units, &all_units, 1), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemPoolCreate(&bag.pools[0], &shape), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuDeviceGetDefaultMemPool(&bag.pools[1], 0), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemAddressReserve(&bag.addresses, PAGE_COUNT * PAGE, 0, 0, 0), CUDA_SUCCESS);
    return &bag;
}

static void settle_charges(void)
{
    size_t free_bytes, total;

    CHECK_EQUAL(cuda.cuMemGetInfo_v2(&free_bytes, &total), CUDA_SUCCESS);
}

/* The exact sum of the requested memory and of the memory of contexts, green contexts and modules. */
static uint64_t requested_bytes(void)
{
    return fake_requested(0) + fake_used_of_kind(0, FAKE_CONTEXT) + fake_used_of_kind(0, FAKE_MODULE);
}

static void enter_role(void)
{
    role_open();
    role_enter(0);
}

static bool allocate_memory(void **pointer, uint64_t bytes)
{
    CUdeviceptr address = 0;
    bool allocated = succeeded(cuda.cuMemAlloc_v2(&address, bytes));

    *pointer = (void *)(uintptr_t)address;
    return allocated;
}

static void free_memory(void *pointer)
{
    CHECK_EQUAL(cuda.cuMemFree_v2((uintptr_t)pointer), CUDA_SUCCESS);
}

static const struct storm_vendor storm_vendor = {
    .calls = 250000,
    .greedy_calls = 60000,
    .prepare_bag = prepare_bag,
    .call_any = change_any,
    .settle_charges = settle_charges,
    .expected_charge = requested_bytes,
    .enter_role = enter_role,
    .allocate = allocate_memory,
    .release = free_memory,
};

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_four_processes_never_get_a_byte_too_much),
        cmocka_unit_test(test_accounts_are_true_after_any_process_is_killed),
    };

    return cmocka_run_group_tests_name("cuda/memory_storm", tests, NULL, NULL);
}
