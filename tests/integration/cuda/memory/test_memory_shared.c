/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: CUDA's steps for tests/integration/cuda/shared.h, with handles and pools. Never: the older IPC handles
 * (test_memory.c). */
#include "machine.h"

#include "../shared.h"

static const CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE};

static void enter_role(void)
{
    role_open();
    role_enter(0);
}

static const struct shared_vendor shared_vendor = {.enter = enter_role, .begin_bytes = MACHINE_CONTEXT};

#define DESCRIPTOR CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define OK(call)   CHECK_EQUAL(call, CUDA_SUCCESS)

/* ---- memory without an address ---- */

static CUmemGenericAllocationHandle handle;
static CUdeviceptr address;

static void map_shared(void)
{
    OK(cuda.cuMemAddressReserve(&address, SHARED_BYTES, 0, 0, 0));
    OK(cuda.cuMemMap(address, SHARED_BYTES, 0, handle, 0));
    OK(cuda.cuMemSetAccess(address, SHARED_BYTES, &(CUmemAccessDesc){here, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}, 1));
}

static void make_handle(int *ret_fd, char data[HANDED_BYTES])
{
    const CUmemAllocationProp properties = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED, .requestedHandleTypes = DESCRIPTOR, .location = here};

    OK(cuda.cuMemCreate(&handle, SHARED_BYTES, &properties, 0));
    map_shared();
    OK(cuda.cuMemcpyHtoD_v2(address, SHARED_TEXT, sizeof SHARED_TEXT));
    OK(cuda.cuMemExportToShareableHandle(ret_fd, handle, DESCRIPTOR, 0));
}

static void import_handle(int fd, const char data[HANDED_BYTES])
{
    OK(cuda.cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, DESCRIPTOR));
}

static void read_through_handle(char text[8])
{
    map_shared();
    OK(cuda.cuMemcpyDtoH_v2(text, address, sizeof SHARED_TEXT));
}

static void release_handle(void)
{
    OK(cuda.cuMemUnmap(address, SHARED_BYTES));
    OK(cuda.cuMemRelease(handle));
}

static void test_an_imported_handle_is_charged_to_its_exporter(void **state)
{
    shared_run(&(const struct shared_steps){.make = make_handle,
                                            .import = import_handle,
                                            .read_text = read_through_handle,
                                            .end_import = release_handle,
                                            .kind = FAKE_VIRTUAL});
}

/* ---- pools ---- */

static CUmemoryPool pool;
static CUdeviceptr pointer;

static void make_pool(int *ret_fd, char data[HANDED_BYTES])
{
    const CUmemPoolProps properties = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .handleTypes = DESCRIPTOR, .location = here};

    OK(cuda.cuMemPoolCreate(&pool, &properties));
    OK(cuda.cuMemAllocFromPoolAsync(&pointer, SHARED_BYTES, pool, NULL));
    OK(cuda.cuMemcpyHtoD_v2(pointer, SHARED_TEXT, sizeof SHARED_TEXT));
    OK(cuda.cuMemPoolExportToShareableHandle(ret_fd, pool, DESCRIPTOR, 0));
    OK(cuda.cuMemPoolExportPointer((CUmemPoolPtrExportData *)(void *)data, pointer));
}

static void import_pool(int fd, const char data[HANDED_BYTES])
{
    CUmemPoolPtrExportData exported;

    memcpy(&exported, data, sizeof exported);
    OK(cuda.cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)fd, DESCRIPTOR, 0));
    OK(cuda.cuMemPoolImportPointer(&pointer, pool, &exported));
}

static void read_pool_memory(char text[8])
{
    CUdeviceptr other;

    OK(cuda.cuMemcpyDtoH_v2(text, pointer, sizeof SHARED_TEXT));
    CHECK_EQUAL(cuda.cuMemAllocFromPoolAsync(&other, MIB, pool, NULL), CUDA_ERROR_INVALID_VALUE);
}

static void release_pool(void)
{
    OK(cuda.cuMemFree_v2(pointer));
    OK(cuda.cuMemPoolDestroy(pool));
}

static void give_pool_back(void)
{
    OK(cuda.cuMemFreeAsync(pointer, NULL));
    OK(cuda.cuMemPoolDestroy(pool));
}

static void test_an_imported_pool_is_charged_to_its_exporter(void **state)
{
    shared_run(&(const struct shared_steps){.make = make_pool,
                                            .import = import_pool,
                                            .read_text = read_pool_memory,
                                            .end_import = release_pool,
                                            .end_allocation = give_pool_back,
                                            .kind = FAKE_POOL});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_imported_handle_is_charged_to_its_exporter),
        cmocka_unit_test(test_an_imported_pool_is_charged_to_its_exporter),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
