/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs of the charges for managed memory, which has no fixed place, for the host's pools, and for memory that
 * neither a handle nor a mapping holds. Never: runs two processes at once.
 */
#include "machine.h"

/* A query of free memory brings the charges of pools up to date. */
static uint64_t charged_after_query(uint32_t device)
{
    size_t free_bytes, total;

    CHECK_EQUAL(cuda.cuMemGetInfo_v2(&free_bytes, &total), CUDA_SUCCESS);
    return machine_charged(device);
}

static CUmemLocation location_of(CUdevice device)
{
    return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
}

/* ---- managed memory, which goes from GPU to GPU ---- */

static void role_moves_managed(void *argument)
{
    CUdeviceptr pointer = 7; /* any value: a refused call must not change it */

    role_open();
    role_enter(0);
    CHECK_EQUAL(cuda.cuMemAllocManaged(&pointer, 301 * MIB, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQUAL(pointer, 7);
    CHECK_EQUAL(test_segment_totals(&machine.segments[1]).denied, 1);
    CHECK_EQUAL(machine_charged(0), MACHINE_CONTEXT);
    CHECK_EQUAL(machine_charged(1), 0);
    CHECK_EQUAL(cuda.cuMemAllocManaged(&pointer, 300 * MIB, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
    for (int turn = 0; turn < 2; turn++) {
        CUdevice to = !turn;

        CHECK_EQUAL(turn ? cuda.cuMemPrefetchAsync_v2(pointer, 300 * MIB, location_of(to), 0, NULL)
                         : cuda.cuMemPrefetchAsync(pointer, 300 * MIB, to, NULL),
                    CUDA_SUCCESS);
        CHECK_EQUAL(fake_used_of_kind((uint32_t)to, FAKE_MANAGED), 300 * MIB); /* the memory is only on that device */
        CHECK_EQUAL(fake_used_of_kind((uint32_t)!to, FAKE_MANAGED), 0);
        CHECK_EQUAL(machine_charged(0), MACHINE_CONTEXT + 300 * MIB);
        CHECK_EQUAL(machine_charged(1), 300 * MIB);
    }
}

static void role_moves_until_refused_by_quota(void *argument)
{
    CUcontext context;
    CUdeviceptr pointer;

    role_open();
    role_enter(0);
    CHECK_EQUAL(cuda.cuMemAllocManaged(&pointer, 300 * MIB, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuDevicePrimaryCtxRetain(&context, 1), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQUAL(cuda.cuMemFree_v2(pointer), CUDA_SUCCESS);
    CHECK_EQUAL(machine_charged(0), MACHINE_CONTEXT);
    CHECK_EQUAL(machine_charged(1), 0);
    role_enter(1);
    CHECK_EQUAL(machine_charged(1), MACHINE_CONTEXT);
}

/* Memory that was not freed is released on each GPU when the context in which it was allocated ends. */
static void role_leaves_memory_behind(void *argument)
{
    CUdeviceptr pointer;

    role_open();
    role_enter(0);
    CHECK_EQUAL(cuda.cuMemAllocManaged(&pointer, 10 * MIB, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemAllocManaged(NULL, 10 * MIB, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(machine_charged(1), 10 * MIB);
    CHECK_EQUAL(cuda.cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
    CHECK_EQUAL(machine_charged(0), 0);
    CHECK_EQUAL(machine_charged(1), 0);
}

static void test_managed_memory_is_charged_on_each_gpu_that_it_may_go_to(void **state)
{
    machine_make(2, (uint64_t[]){2 * GIB, 300 * MIB}, "300M");
    machine_wait(machine_start(role_moves_managed, NULL, true));
    machine_wait(machine_start(role_moves_until_refused_by_quota, NULL, true));
    machine_wait(machine_start(role_leaves_memory_behind, NULL, true));
    machine_remove();
}

static void role_managed_pools(void *argument)
{
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED, .location = location_of(1)};
    CUmemLocation second = location_of(1);
    CUmemoryPool created, default_pool;
    CUdeviceptr pointer;

    role_open();
    role_enter(0);
    CHECK_EQUAL(cuda.cuMemPoolCreate(&created, &properties), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemGetDefaultMemPool(&default_pool, &second, CU_MEM_ALLOCATION_TYPE_MANAGED), CUDA_SUCCESS);
    for (int i = 0; i < 2; i++) {
        CUmemoryPool pool = i ? default_pool : created;

        CHECK_EQUAL(cuda.cuMemAllocFromPoolAsync(&pointer, 320 * MIB, pool, NULL), CUDA_ERROR_OUT_OF_MEMORY);
        CHECK_EQUAL(cuda.cuMemAllocFromPoolAsync(&pointer, 64 * MIB, pool, NULL), CUDA_SUCCESS);
        CHECK_EQUAL(charged_after_query(0), MACHINE_CONTEXT + 64 * MIB);
        CHECK_EQUAL(charged_after_query(1), 64 * MIB);
        CHECK_EQUAL(cuda.cuMemFreeAsync(pointer, NULL), CUDA_SUCCESS);
        CHECK_EQUAL(cuda.cuMemPoolTrimTo(pool, 0), CUDA_SUCCESS);
        CHECK_EQUAL(charged_after_query(0), MACHINE_CONTEXT);
        CHECK_EQUAL(charged_after_query(1), 0);
    }
}

static void test_pools_of_managed_memory_are_charged_on_each_gpu(void **state)
{
    machine_make(2, (uint64_t[]){2 * GIB, 300 * MIB}, "300M");
    machine_wait(machine_start(role_managed_pools, NULL, true));
    machine_remove();
}

/* ---- pools that the driver has made ---- */

static void role_host_pool(void *argument)
{
    CUmemLocation host = {.type = CU_MEM_LOCATION_TYPE_HOST}, device = location_of(0);
    CUmemoryPool pool, again;
    CUdeviceptr pointer;

    role_open();
    role_enter(0);
    CHECK_EQUAL(cuda.cuMemGetDefaultMemPool(NULL, &host, CU_MEM_ALLOCATION_TYPE_PINNED), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuMemGetDefaultMemPool(&pool, NULL, CU_MEM_ALLOCATION_TYPE_PINNED), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuMemGetDefaultMemPool(&pool, &host, CU_MEM_ALLOCATION_TYPE_PINNED), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemGetMemPool(&again, &host, CU_MEM_ALLOCATION_TYPE_PINNED), CUDA_SUCCESS);
    CHECK(pool == again);
    CHECK_EQUAL(cuda.cuMemAllocFromPoolAsync(&pointer, 4 * GIB, pool, NULL), CUDA_SUCCESS); /* beyond the quota */
    CHECK_EQUAL(charged_after_query(0), MACHINE_CONTEXT);
    CHECK_EQUAL(cuda.cuMemFreeAsync(pointer, NULL), CUDA_SUCCESS);
    CHECK_EQUAL(charged_after_query(0), MACHINE_CONTEXT);
    CHECK_EQUAL(cuda.cuMemGetMemPool(&pool, &device, CU_MEM_ALLOCATION_TYPE_PINNED), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemAllocFromPoolAsync(&pointer, 4 * GIB, pool, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQUAL(cuda.cuMemAllocFromPoolAsync(&pointer, 32 * MIB, pool, NULL), CUDA_SUCCESS);
    CHECK_EQUAL(charged_after_query(0), MACHINE_CONTEXT + 32 * MIB);
}

static void test_the_host_pool_is_not_charged(void **state)
{
    machine_run(role_host_pool, GIB);
}

/* ---- memory held without a handle and without an address ---- */

static CUmemGenericAllocationHandle create_memory(unsigned short usage)
{
    CUmemAllocationProp properties = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = location_of(0), .allocFlags = {.usage = usage}};
    CUmemGenericAllocationHandle handle;

    CHECK_EQUAL(cuda.cuMemCreate(&handle, 4 * MIB, &properties, 0), CUDA_SUCCESS);
    return handle;
}

#define CHECK_VIRTUAL_CHARGED(bytes)                                                                                   \
    do {                                                                                                               \
        CHECK_EQUAL(fake_used_of_kind(0, FAKE_VIRTUAL), bytes);                                                        \
        CHECK_EQUAL(machine_charged(0), fake_used_of_kind(0, FAKE_CONTEXT) + (bytes));                                 \
    } while (0)

static void role_sparse_arrays(void *argument)
{
    CUDA_ARRAY3D_DESCRIPTOR shape = {
        .Width = 1024, .Height = 1024, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4, .Flags = CUDA_ARRAY3D_SPARSE};
    CUarrayMapInfo tiles[2] = {{.memOperationType = CU_MEM_OPERATION_TYPE_MAP, .deviceBitMask = 1}};
    CUmipmappedArray levels;
    CUcontext context;
    CUarray array;

    role_open();
    role_enter(0);
    CHECK_EQUAL(cuda.cuMemMapArrayAsync(NULL, 2, NULL), CUDA_ERROR_INVALID_VALUE);
    for (int turn = 0; turn < 3; turn++) { /* repeating the steps uses no more memory */
        CHECK_EQUAL(cuda.cuArray3DCreate_v2(&array, &shape), CUDA_SUCCESS);
        CHECK_VIRTUAL_CHARGED(0);
        tiles[0].resource.array = array;
        tiles[0].memHandle.memHandle = create_memory(CU_MEM_CREATE_USAGE_TILE_POOL);
        tiles[1] = tiles[0];
        CHECK_EQUAL((turn == 1 ? cuda.cuMemMapArrayAsync_ptsz : cuda.cuMemMapArrayAsync)(tiles, 2, NULL), CUDA_SUCCESS);
        CHECK_EQUAL(cuda.cuMemRelease(tiles[0].memHandle.memHandle), CUDA_SUCCESS);
        CHECK_VIRTUAL_CHARGED(4 * MIB); /* the tiles hold the memory */
        CHECK_EQUAL(cuda.cuArrayDestroy(array), CUDA_SUCCESS);
        CHECK_VIRTUAL_CHARGED(0);
        CHECK_EQUAL(cuda.cuArrayDestroy(array), CUDA_ERROR_INVALID_HANDLE);
    }
    CHECK_EQUAL(cuda.cuCtxCreate_v2(&context, 0, 0), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMipmappedArrayCreate(&levels, &shape, 3), CUDA_SUCCESS);
    tiles[0].resource.mipmap = levels;
    tiles[0].memHandle.memHandle = create_memory(CU_MEM_CREATE_USAGE_TILE_POOL);
    CHECK_EQUAL(cuda.cuMemMapArrayAsync(tiles, 1, NULL), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemRelease(tiles[0].memHandle.memHandle), CUDA_SUCCESS);
    CHECK_VIRTUAL_CHARGED(4 * MIB);
    CHECK_EQUAL(cuda.cuCtxDestroy_v2(context), CUDA_SUCCESS); /* destroys its arrays, too */
    CHECK_VIRTUAL_CHARGED(0);
}

static void test_memory_mapped_to_tiles_of_an_array_stays_charged(void **state)
{
    machine_run(role_sparse_arrays, GIB);
}

static void role_multicast(void *argument)
{
    CUmulticastObjectProp properties = {.numDevices = 1, .size = 8 * MIB};
    CUmemGenericAllocationHandle object, handle, second;
    CUdeviceptr address;

    role_open();
    role_enter(0);
    CHECK_EQUAL(cuda.cuMulticastCreate(&object, &properties), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMulticastAddDevice(object, 0), CUDA_SUCCESS);
    CHECK_VIRTUAL_CHARGED(0);
    handle = create_memory(0);
    second = create_memory(0);
    CHECK_EQUAL(cuda.cuMemAddressReserve(&address, 4 * MIB, 0, 0, 0), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemMap(address, 4 * MIB, 0, second, 0), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMulticastBindMem(object, 0, handle, 0, 4 * MIB, 0), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMulticastBindAddr(object, 4 * MIB, address, 4 * MIB, 0), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMulticastBindMem(object, 0, 12345 /* no handle */, 0, 4 * MIB, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(cuda.cuMemRelease(handle), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemRelease(second), CUDA_SUCCESS);
    CHECK_EQUAL(cuda.cuMemUnmap(address, 4 * MIB), CUDA_SUCCESS);
    CHECK_VIRTUAL_CHARGED(8 * MIB); /* the object holds both allocations */
    CHECK_EQUAL(cuda.cuMulticastUnbind(object, 0, 0, 4 * MIB), CUDA_SUCCESS);
    CHECK_VIRTUAL_CHARGED(4 * MIB);
    CHECK_EQUAL(cuda.cuMulticastUnbind(object, 0, 4 * MIB, 4 * MIB), CUDA_SUCCESS);
    CHECK_VIRTUAL_CHARGED(0);
    CHECK_EQUAL(cuda.cuMulticastUnbind(object, 0, 0, 8 * MIB), CUDA_ERROR_INVALID_VALUE);
}

static void test_memory_bound_to_a_multicast_object_stays_charged(void **state)
{
    machine_run(role_multicast, GIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_managed_memory_is_charged_on_each_gpu_that_it_may_go_to),
        cmocka_unit_test(test_pools_of_managed_memory_are_charged_on_each_gpu),
        cmocka_unit_test(test_the_host_pool_is_not_charged),
        cmocka_unit_test(test_memory_mapped_to_tiles_of_an_array_stays_charged),
        cmocka_unit_test(test_memory_bound_to_a_multicast_object_stays_charged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
