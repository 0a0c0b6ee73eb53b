/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs of the charges for managed memory, which has no fixed place, and for copies whose arguments are not
 * read. Never: runs processes that take memory at once (test_storm.c).
 */
#include <sys/mman.h>

#include "machine.h"
#include "vendor/cuda/copy.h"

static void role_moves_managed(void *argument)
{
    void *pointer = NULL, *small;
    hipMemLocation second = {.type = hipMemLocationTypeDevice, .id = 1};

    role_open();
    CHECK_EQUAL(hip.hipMallocManaged(&pointer, 301 * MIB, hipMemAttachGlobal), hipErrorOutOfMemory);
    CHECK(pointer == NULL);
    CHECK_EQUAL(test_segment_totals(&machine.segments[1]).denied, 1);
    CHECK_EQUAL(machine_charged(0), MACHINE_BEGIN);
    CHECK_EQUAL(machine_charged(1), 0);
    CHECK_EQUAL(hip.hipMallocManaged(&pointer, 300 * MIB, hipMemAttachGlobal), hipSuccess);
    for (int turn = 0; turn < 2; turn++) {
        CHECK_EQUAL(turn ? hip.hipMemPrefetchAsync(pointer, 300 * MIB, 0, NULL)
                         : hip.hipMemPrefetchAsync_v2(pointer, 300 * MIB, second, 0, NULL),
                    hipSuccess);
        CHECK_EQUAL(fake_used_of_kind(!turn, FAKE_MANAGED), 300 * MIB); /* the memory is only on that device */
        CHECK_EQUAL(fake_used_of_kind((uint32_t)turn, FAKE_MANAGED), 0);
        CHECK_EQUAL(machine_charged(0), MACHINE_BEGIN + 300 * MIB);
        CHECK_EQUAL(machine_charged(1), 300 * MIB);
    }
    CHECK_EQUAL(hip.hipSetDevice(1), hipSuccess); /* the quota has no room to begin this device */
    CHECK_EQUAL(hip.hipMalloc(&small, 1), hipErrorOutOfMemory);
    CHECK_EQUAL(hip.hipFreeAsync(pointer, NULL), hipSuccess);
    CHECK_EQUAL(machine_charged(0), MACHINE_BEGIN);
    CHECK_EQUAL(machine_charged(1), 0);
}

/* Memory that was not freed is released on each device when the device on which it was allocated is reset. */
static void role_leaves_memory_behind(void *argument)
{
    void *pointer;

    role_open();
    CHECK_EQUAL(hip.hipMallocManaged(&pointer, 10 * MIB, hipMemAttachGlobal), hipSuccess);
    CHECK_EQUAL(hip.hipMallocManaged(NULL, 10 * MIB, hipMemAttachGlobal), hipErrorInvalidValue);
    CHECK_EQUAL(machine_charged(1), 10 * MIB);
    CHECK_EQUAL(hip.hipDeviceReset(), hipSuccess);
    CHECK_EQUAL(machine_charged(0), 0);
    CHECK_EQUAL(machine_charged(1), 0);
}

static void test_managed_memory_is_charged_on_each_gpu_that_it_may_go_to(void **state)
{
    machine_make(2, (uint64_t[]){2 * GIB, 300 * MIB}, "300M");
    machine_wait(machine_start(role_moves_managed, NULL, true));
    machine_wait(machine_start(role_leaves_memory_behind, NULL, true));
    machine_remove();
}

/* ---- copies ---- */

/* The runtime refuses an absurd count and a missing array, so Facet's library must not read the array before. */
static void role_unreadable_arguments(void *argument)
{
    long page = sysconf(_SC_PAGESIZE);
    unsigned char *readable = mmap(NULL, 2 * (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t *sizes = (size_t *)(void *)readable, *wild = (size_t *)(uintptr_t)64, absurd = SIZE_MAX / 256;
    void **pointers = (void **)(void *)readable;

    CHECK(readable != MAP_FAILED && mprotect(readable + page, (size_t)page, PROT_NONE) == 0);
    role_open();
    CHECK_EQUAL(hip.hipDeviceSynchronize(), hipSuccess);
    CHECK(hip.hipMemcpyBatchAsync(NULL, pointers, wild, 3, NULL, NULL, 0, NULL, NULL) != hipSuccess);
    CHECK(hip.hipMemcpyBatchAsync(pointers, pointers, sizes, absurd, NULL, NULL, 0, NULL, NULL) != hipSuccess);
    CHECK(hip.hipMemcpy3DBatchAsync(absurd, (hipMemcpy3DBatchOp *)(void *)readable, NULL, 0, NULL) != hipSuccess);
}

static void test_the_runtime_refuses_lists_that_cannot_be_read(void **state)
{
    machine_run(role_unreadable_arguments, GIB);
}

/* Waits up to 5 s until `count` launches are reported. */
static void check_launches(uint64_t count)
{
    struct facet_usage_totals totals = test_segment_totals(&machine.segments[0]);

    for (int i = 0; i < 5000 && (totals.launches < count || totals.inflight); i++) {
        usleep(1000);
        totals = test_segment_totals(&machine.segments[0]);
    }
    CHECK_EQUAL(totals.launches, count);
    CHECK_EQUAL(totals.inflight, 0);
}

/* The interposer does not know the sizes of these copies, so each counts as a launch. */
static void role_copies_of_unknown_size(void *argument)
{
    void *memory;

    role_open();
    CHECK_EQUAL(hip.hipMalloc(&memory, MIB), hipSuccess);
    CUDA_MEMCPY3D rows = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = (uintptr_t)memory,
                          .srcPitch = 64,
                          .srcHeight = 1,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = (uintptr_t)memory + 1024,
                          .dstPitch = 64,
                          .dstHeight = 1,
                          .WidthInBytes = 64,
                          .Height = 1,
                          .Depth = 1};
    CHECK_EQUAL(hip.hipDrvMemcpy3D((const HIP_MEMCPY3D *)(const void *)&rows), hipSuccess);
    CHECK_EQUAL(hip.hipDrvMemcpy3DAsync((const HIP_MEMCPY3D *)(const void *)&rows, NULL), hipSuccess);
    CHECK(hip.hipDrvMemcpy3D(NULL) != hipSuccess);
    CHECK_EQUAL(hip.hipDeviceSynchronize(), hipSuccess);
    check_launches(2);
}

static void test_each_copy_of_unknown_size_counts_as_a_launch(void **state)
{
    machine_run(role_copies_of_unknown_size, GIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_managed_memory_is_charged_on_each_gpu_that_it_may_go_to),
        cmocka_unit_test(test_the_runtime_refuses_lists_that_cannot_be_read),
        cmocka_unit_test(test_each_copy_of_unknown_size_counts_as_a_launch),
    };

    return cmocka_run_group_tests_name("hip/places", tests, NULL, NULL);
}
