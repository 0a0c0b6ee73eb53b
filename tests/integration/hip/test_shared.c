/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: HIP's steps for tests/integration/cuda/shared.h, with handles and pools. Never:
 * tests the older IPC handles, which are made of plain allocations. */
#include "machine.h"

#include "../cuda/shared.h"

static const hipMemLocation here = {.type = hipMemLocationTypeDevice};

static void enter_role(void)
{
    role_open();
    CHECK_EQUAL(hip.hipDeviceSynchronize(), hipSuccess);
}

static const struct shared_vendor shared_vendor = {.enter = enter_role, .begin_bytes = MACHINE_BEGIN};

#define DESCRIPTOR hipMemHandleTypePosixFileDescriptor
#define OK(call)   CHECK_EQUAL(call, hipSuccess)

/* ---- memory without an address ---- */

static hipMemGenericAllocationHandle_t handle;
static void *address;

static void map_shared(void)
{
    OK(hip.hipMemAddressReserve(&address, SHARED_BYTES, 0, NULL, 0));
    OK(hip.hipMemMap(address, SHARED_BYTES, 0, handle, 0));
    OK(hip.hipMemSetAccess(address, SHARED_BYTES, &(hipMemAccessDesc){here, hipMemAccessFlagsProtReadWrite}, 1));
}

static void make_handle(int *ret_fd, char data[HANDED_BYTES])
{
    const hipMemAllocationProp properties = {
        .type = hipMemAllocationTypePinned, .requestedHandleTypes = DESCRIPTOR, .location = here};

    OK(hip.hipMemCreate(&handle, SHARED_BYTES, &properties, 0));
    map_shared();
    OK(hip.hipMemcpy(address, SHARED_TEXT, sizeof SHARED_TEXT, hipMemcpyHostToDevice));
    OK(hip.hipMemExportToShareableHandle(ret_fd, handle, DESCRIPTOR, 0));
}

static void import_handle(int fd, const char data[HANDED_BYTES])
{
    OK(hip.hipMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, DESCRIPTOR));
}

static void read_through_handle(char text[8])
{
    map_shared();
    OK(hip.hipMemcpy(text, address, sizeof SHARED_TEXT, hipMemcpyDeviceToHost));
}

static void release_handle(void)
{
    OK(hip.hipMemUnmap(address, SHARED_BYTES));
    OK(hip.hipMemRelease(handle));
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

static hipMemPool_t pool;
static void *pointer;

static void make_pool(int *ret_fd, char data[HANDED_BYTES])
{
    const hipMemPoolProps properties = {
        .allocType = hipMemAllocationTypePinned, .handleTypes = DESCRIPTOR, .location = here};

    OK(hip.hipMemPoolCreate(&pool, &properties));
    OK(hip.hipMallocFromPoolAsync(&pointer, SHARED_BYTES, pool, NULL));
    OK(hip.hipMemcpy(pointer, SHARED_TEXT, sizeof SHARED_TEXT, hipMemcpyHostToDevice));
    OK(hip.hipMemPoolExportToShareableHandle(ret_fd, pool, DESCRIPTOR, 0));
    OK(hip.hipMemPoolExportPointer((hipMemPoolPtrExportData *)(void *)data, pointer));
}

static void import_pool(int fd, const char data[HANDED_BYTES])
{
    hipMemPoolPtrExportData exported;

    memcpy(&exported, data, sizeof exported);
    OK(hip.hipMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)fd, DESCRIPTOR, 0));
    OK(hip.hipMemPoolImportPointer(&pointer, pool, &exported));
}

static void read_pool_memory(char text[8])
{
    void *other;

    OK(hip.hipMemcpy(text, pointer, sizeof SHARED_TEXT, hipMemcpyDeviceToHost));
    CHECK_EQUAL(hip.hipMallocFromPoolAsync(&other, MIB, pool, NULL), hipErrorInvalidValue);
}

static void release_pool(void)
{
    OK(hip.hipFree(pointer));
    OK(hip.hipMemPoolDestroy(pool));
}

static void give_pool_back(void)
{
    OK(hip.hipFreeAsync(pointer, NULL));
    OK(hip.hipMemPoolDestroy(pool));
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

    return cmocka_run_group_tests_name("hip/shared", tests, NULL, NULL);
}
