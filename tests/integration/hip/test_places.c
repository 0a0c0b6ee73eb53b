/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of who is charged for HIP's memory that has no one place: what is managed.
 * Never: several processes that take memory at once (test_storm.c). */
#include "machine.h"

static void role_moves(void *argument)
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
        CHECK_EQUAL(fake_held(!turn, FAKE_MANAGED), 300 * MIB); /* there it is, and nowhere else */
        CHECK_EQUAL(fake_held((uint32_t)turn, FAKE_MANAGED), 0);
        CHECK_EQUAL(machine_charged(0), MACHINE_BEGIN + 300 * MIB);
        CHECK_EQUAL(machine_charged(1), 300 * MIB);
    }
    CHECK_EQUAL(hip.hipSetDevice(1), hipSuccess); /* no room to begin it */
    CHECK_EQUAL(hip.hipMalloc(&small, 1), hipErrorOutOfMemory);
    CHECK_EQUAL(hip.hipFreeAsync(pointer, NULL), hipSuccess);
    CHECK_EQUAL(machine_charged(0), MACHINE_BEGIN);
    CHECK_EQUAL(machine_charged(1), 0);
}

/* What is left behind goes with the device that it was made on, on each. */
static void role_leaves_behind(void *argument)
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
    machine_wait(machine_start(role_moves, NULL, true));
    machine_wait(machine_start(role_leaves_behind, NULL, true));
    machine_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_managed_memory_is_charged_on_each_gpu_that_it_may_go_to),
    };

    return cmocka_run_group_tests_name("hip/places", tests, NULL, NULL);
}
