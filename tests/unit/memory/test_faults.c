/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs that a call in which the backend's Nth call fails changes nothing, for every N. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "watched_backend.h"

#define PAGE UINT64_C(4096)
#define MIB  (UINT64_C(1) << 20)

/* A memory in which the next allocation needs chunks, clearing and several pieces. */
static struct facet_memory *prepare_space(struct watched *watched, struct facet_space **ret_space)
{
    struct facet_memory *memory = watched_open(watched, 4 * MIB, (struct facet_memory_config){0});
    struct facet_space *other = watched_space(memory, 2, 4 * MIB);
    uint64_t runs[100];

    for (uint32_t i = 0; i < 100; i++) {
        assert_int_equal(facet_space_allocate(other, 5 * PAGE, NULL, &runs[i], NULL), FACET_OK);
        memset((void *)(uintptr_t)runs[i], 1, 5 * PAGE);
    }
    for (uint32_t i = 0; i < 100; i += 2)
        assert_int_equal(facet_space_free(other, runs[i], NULL), FACET_OK);
    *ret_space = watched_space(memory, 1, 3 * MIB);
    return memory;
}

static void test_a_failed_allocation_changes_nothing(void **state)
{
    static const uint64_t sizes[] = {100, 1000, 5 * PAGE, 2 * MIB};

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        bool done = false;
        uint64_t call = 0;

        while (!done) {
            struct watched watched;
            struct facet_space *space;
            struct facet_memory *memory = prepare_space(&watched, &space);
            struct facet_space_usage usage = {.size = sizeof usage};
            struct facet_error error;
            uint64_t address = 5, mapped = watched.mapped_bytes;

            watched.fail_at = watched.calls + ++call;
            done = facet_space_allocate(space, sizes[i], NULL, &address, &error) == FACET_OK;
            facet_space_get_usage(space, &usage, NULL);
            if (!done) {
                assert_int_equal(error.status, FACET_DEVICE_LOST);
                assert_int_equal(address, 5);
                assert_int_equal(usage.reserved_bytes, 0);
                assert_int_equal(usage.allocations, 0);
                assert_int_equal(watched.mapped_bytes, mapped);
                /* The next attempt succeeds. */
                watched.fail_at = 0;
                assert_int_equal(facet_space_allocate(space, sizes[i], NULL, &address, &error), FACET_OK);
            }
            memset((void *)(uintptr_t)address, 2, sizes[i]);
            watched_end(&watched, memory);
        }
        assert_true(call > 1);
    }
}

static void test_a_failed_creation_of_a_space_changes_nothing(void **state)
{
    struct watched watched;
    struct facet_memory *memory = watched_open(&watched, 4 * MIB, (struct facet_memory_config){0});
    const struct facet_space_config config = {.size = sizeof config, .limit_bytes = MIB};
    struct facet_memory_usage usage = {.size = sizeof usage};
    struct facet_space *space = NULL;

    watched.fail_at = watched.calls + 1;
    assert_int_equal(facet_space_create(memory, &config, &space, NULL), FACET_DEVICE_LOST);
    assert_null(space);
    facet_memory_get_usage(memory, &usage, NULL);
    assert_int_equal(usage.spaces, 0);
    assert_int_equal(usage.limits_bytes, 0);
    watched_end(&watched, memory);
}

static void test_failed_transfers_are_reported(void **state)
{
    struct watched watched;
    struct facet_space *space;
    struct facet_memory *memory = prepare_space(&watched, &space);
    struct facet_page page = {.size = sizeof page};
    uint64_t address;
    char host[100] = {0};

    assert_int_equal(facet_space_allocate(space, 5 * PAGE, NULL, &address, NULL), FACET_OK);
    watched.fail_at = watched.calls + 1;
    assert_int_equal(facet_space_copy(space, address, (uintptr_t)host, 100, FACET_COPY_TO_DEVICE, NULL),
                     FACET_DEVICE_LOST);
    watched.fail_at = watched.calls + 1;
    assert_int_equal(facet_space_fill(space, address, 0, 100, NULL), FACET_DEVICE_LOST);
    facet_space_page(space, address, &page, NULL);
    assert_int_equal(page.flags & FACET_PAGE_DIRTY, 0);
    watched_end(&watched, memory);
}

/* Until the device has unmapped pages, they belong to no space. */
static void test_pages_that_stay_mapped_have_no_owner(void **state)
{
    struct watched watched;
    struct facet_space *space;
    struct facet_memory *memory = prepare_space(&watched, &space);
    struct facet_memory_usage before = {.size = sizeof before}, after = {.size = sizeof after};
    struct facet_space_usage usage = {.size = sizeof usage};
    uint64_t address, mapped = watched.mapped_bytes;

    facet_memory_get_usage(memory, &before, NULL);
    assert_int_equal(facet_space_allocate(space, 7 * PAGE, NULL, &address, NULL), FACET_OK);
    watched.unmap_status = FACET_NO_SPACE;
    assert_int_equal(facet_space_free(space, address, NULL), FACET_OK);
    facet_memory_get_usage(memory, &after, NULL);
    assert_int_equal(after.used_bytes, before.used_bytes + 7 * PAGE);
    assert_int_equal(facet_memory_defragment(memory, NULL, NULL, NULL), FACET_OK);
    assert_int_equal(facet_space_get_usage(space, &usage, NULL), FACET_OK);
    assert_int_equal(usage.reserved_bytes, 7 * PAGE);
    watched.unmap_status = FACET_OK;
    assert_int_equal(facet_space_get_usage(space, &usage, NULL), FACET_OK);
    assert_int_equal(usage.reserved_bytes, 0);
    assert_int_equal(watched.mapped_bytes, mapped);
    facet_memory_get_usage(memory, &after, NULL);
    assert_int_equal(after.used_bytes, before.used_bytes);
    watched_end(&watched, memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_failed_allocation_changes_nothing),
        cmocka_unit_test(test_a_failed_creation_of_a_space_changes_nothing),
        cmocka_unit_test(test_failed_transfers_are_reported),
        cmocka_unit_test(test_pages_that_stay_mapped_have_no_owner),
    };
    return cmocka_run_group_tests_name("faults", tests, NULL, NULL);
}
