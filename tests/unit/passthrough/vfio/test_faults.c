/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs that a session in which the Nth call or the Nth allocation fails, for every N, leaves no open descriptor
 * and no mapping. Never: needs a device.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "fake_vfio.h"

#define IOVA       (UINT64_C(1) << 32)
#define READ_WRITE (FACET_VFIO_READ | FACET_VFIO_WRITE)

static uint64_t requests, request_fails; /* request_fails: the allocation, counted from 1, that fails; 0: none */
static char memory[4096] __attribute__((aligned(4096)));

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);

void *__wrap_calloc(size_t count, size_t bytes)
{
    return ++requests == request_fails ? NULL : __real_calloc(count, bytes);
}

static enum facet_status use_device(struct facet_vfio_space *space, struct facet_vfio_device *device,
                                    struct facet_error *error)
{
    struct facet_vfio_space_info info;
    int signal = eventfd(0, EFD_CLOEXEC);
    void *bar = NULL;
    enum facet_status status = facet_vfio_space_describe(space, &info, error);

    if (status == FACET_OK)
        status = facet_vfio_device_map(device, FACET_VFIO_BAR, 0, 4096, &bar, error);
    if (status == FACET_OK)
        status = facet_vfio_device_interrupt(device, FACET_VFIO_MSI, &signal, 1, error);
    if (status == FACET_OK)
        status = facet_vfio_device_interrupt(device, FACET_VFIO_MSI, NULL, 0, error);
    if (status == FACET_OK)
        status = facet_vfio_device_reset(device, error);
    if (status == FACET_OK)
        status = facet_vfio_device_reset_bus(device, error);
    facet_vfio_unmap(bar, 4096);
    close(signal);
    return status;
}

/* Uses mapped memory, and unmaps it also when a step failed. */
static enum facet_status use_memory(struct fake_vfio *fake, struct facet_vfio_space *space,
                                    struct facet_vfio_device *device, struct facet_error *error)
{
    enum facet_status status = facet_vfio_space_map(space, IOVA, memory, 4096, READ_WRITE, error);

    if (status != FACET_OK) {
        assert_int_equal(fake->mapping_count, 0);
        return status;
    }
    status = use_device(space, device, error);
    if (status == FACET_OK)
        return facet_vfio_space_unmap(space, IOVA, 4096, error);
    assert_int_equal(facet_vfio_space_unmap(space, IOVA, 4096, NULL), FACET_OK);
    return status;
}

static enum facet_status run_session(struct fake_vfio *fake, enum facet_vfio_way way, struct facet_error *error)
{
    struct facet_vfio_space *space = NULL;
    struct facet_vfio_device *device = NULL, *sound = NULL;
    enum facet_status status = facet_vfio_space_open(&fake->system, way, &space, error);

    if (status == FACET_OK)
        status = facet_vfio_device_open(space, FAKE_GPU, &device, error);
    if (status == FACET_OK && way == FACET_VFIO_GROUP) {
        status = facet_vfio_device_open(space, FAKE_SOUND, &sound, error);
        assert_int_equal(status == FACET_OK, sound != NULL);
    }
    if (status == FACET_OK)
        status = use_memory(fake, space, device, error);
    assert_true(device != NULL || status != FACET_OK);
    facet_vfio_device_close(device);
    facet_vfio_device_close(sound);
    facet_vfio_space_close(space);
    return status;
}

static void prepare_fake(struct fake_vfio *fake)
{
    fake_vfio_open(fake);
    fake_vfio_write(fake, "dev/iommu", "");
    fake_vfio_write(fake, "dev/vfio/devices/vfio0", "");
    fake_vfio_write(fake, "sys/bus/pci/devices/" FAKE_GPU "/vfio-dev/vfio0/dev", "");
}

/* Runs one session in which call `at` (or allocation `at`, by `memory_fails`) fails. Returns whether the session came
 * as far as that call. */
static bool fail_at(struct fake_vfio *fake, enum facet_vfio_way way, bool memory_fails, uint64_t at)
{
    struct facet_error error = {0};
    enum facet_status status;
    bool reached;

    requests = 0;
    request_fails = memory_fails ? at : 0;
    fake->fail_at = memory_fails ? 0 : at;
    status = run_session(fake, way, &error);
    reached = memory_fails ? requests >= at : fake->calls >= at;
    request_fails = 0;
    fake_vfio_restart(fake);
    assert_int_equal(reached, status != FACET_OK);
    if (!reached)
        return false;
    assert_int_equal(status, error.status);
    assert_true(strlen(error.message) > 10);
    if (memory_fails)
        assert_int_equal(status, FACET_NO_MEMORY);
    return true;
}

/* Fails each call, or each allocation, in turn. Returns how many a session makes. */
static uint64_t fail_each(enum facet_vfio_way way, bool memory_fails)
{
    struct fake_vfio fake;
    uint64_t at = 1;

    prepare_fake(&fake);
    while (fail_at(&fake, way, memory_fails, at))
        at++;
    fake_vfio_close(&fake);
    return at - 1;
}

/* The bounds below are loose: they only show that the cases were reached, and that the loop ended. */

static void test_failing_calls_by_group_leave_nothing(void **state)
{
    assert_in_range(fail_each(FACET_VFIO_GROUP, false), 30, 100);
}

static void test_failing_calls_by_iommufd_leave_nothing(void **state)
{
    assert_in_range(fail_each(FACET_VFIO_CDEV, false), 20, 100);
}

static void test_failing_allocations_by_group_leave_nothing(void **state)
{
    assert_in_range(fail_each(FACET_VFIO_GROUP, true), 8, 100);
}

static void test_failing_allocations_by_iommufd_leave_nothing(void **state)
{
    assert_in_range(fail_each(FACET_VFIO_CDEV, true), 5, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failing_calls_by_group_leave_nothing),
        cmocka_unit_test(test_failing_calls_by_iommufd_leave_nothing),
        cmocka_unit_test(test_failing_allocations_by_group_leave_nothing),
        cmocka_unit_test(test_failing_allocations_by_iommufd_leave_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
