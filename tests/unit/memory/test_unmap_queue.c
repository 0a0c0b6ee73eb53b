/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs that memory which a device cannot unmap yet stays charged, is used by no space, and is freed later, and
 * that other spaces do not wait for the unmap.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <string.h>

#include "memory/unmap_queue.h"
#include "watched_backend.h"

#define PAGE UINT64_C(4096)
#define MIB  (UINT64_C(1) << 20)

static struct watched watched;

static struct facet_memory *open_memory(uint64_t swap_bytes)
{
    return watched_open(&watched, 4 * MIB, (struct facet_memory_config){.swap_bytes = swap_bytes});
}

static struct facet_space_usage usage_of(struct facet_space *space)
{
    struct facet_space_usage usage = {.size = sizeof usage};

    assert_int_equal(facet_space_get_usage(space, &usage, NULL), FACET_OK);
    return usage;
}

static uint64_t allocate_bytes(struct facet_space *space, uint64_t bytes)
{
    uint64_t address = 0;

    assert_int_equal(facet_space_allocate(space, bytes, NULL, &address, NULL), FACET_OK);
    return address;
}

static void test_waiting_memory_stays_charged(void **state)
{
    struct facet_memory *memory = open_memory(0);
    struct facet_space *space = watched_space(memory, 1, MIB), *other = watched_space(memory, 2, 4 * MIB);
    uint64_t address = allocate_bytes(space, MIB), none;
    struct facet_error error;
    char byte = 0;

    watched.unmap_status = FACET_BUSY;
    assert_int_equal(facet_space_free(space, address, NULL), FACET_OK);
    assert_int_equal(usage_of(space).reserved_bytes, MIB);
    assert_int_equal(usage_of(space).leaving_bytes, MIB);
    assert_int_equal(usage_of(space).allocations, 0);
    assert_int_equal(facet_space_allocate(space, PAGE, NULL, &none, &error), FACET_BUSY);
    assert_non_null(strstr(error.message, "synchronize first"));
    assert_int_equal(facet_space_allocate(space, 2 * MIB, NULL, &none, NULL), FACET_QUOTA); /* never fits */
    assert_int_equal(facet_space_free(space, address, NULL), FACET_NOT_FOUND);
    assert_int_equal(facet_space_fill(space, address, 1, 1, NULL), FACET_OUT_OF_RANGE);
    assert_int_equal(facet_space_copy(space, (uintptr_t)&byte, address, 1, FACET_COPY_TO_HOST, NULL),
                     FACET_OUT_OF_RANGE);
    /* No space gets memory that awaits unmapping. */
    assert_int_equal(facet_space_allocate(other, 3 * MIB + PAGE, NULL, &none, NULL), FACET_NO_SPACE);
    (void)allocate_bytes(other, 3 * MIB - 64 * PAGE);
    watched.unmap_status = FACET_OK;
    assert_int_equal(facet_space_allocate(space, MIB, NULL, &address, &error), FACET_OK);
    assert_int_equal(usage_of(space).leaving_bytes, 0);
    assert_int_equal(usage_of(space).reserved_bytes, MIB);
    watched_end(&watched, memory);
}

/* Addresses that await unmapping are not given out, and defragmenting does not move their pages. */
static void test_waiting_addresses_are_not_reused(void **state)
{
    struct facet_memory *memory = open_memory(0);
    struct facet_space *space = watched_space(memory, 1, 4 * MIB);
    uint64_t runs[40], again;
    struct facet_defragment_report report = {.size = sizeof report};

    for (uint32_t i = 0; i < 40; i++)
        runs[i] = allocate_bytes(space, 5 * PAGE);
    watched.unmap_status = FACET_BUSY;
    for (uint32_t i = 0; i < 40; i += 2)
        assert_int_equal(facet_space_free(space, runs[i], NULL), FACET_OK);
    for (uint32_t i = 0; i < 20; i++) {
        again = allocate_bytes(space, 5 * PAGE);
        for (uint32_t k = 0; k < 40; k++)
            assert_int_not_equal(again, runs[k]);
    }
    assert_int_equal(facet_memory_defragment(memory, NULL, &report, NULL), FACET_OK);
    assert_int_equal(usage_of(space).leaving_bytes, 20 * 5 * PAGE);
    watched.unmap_status = FACET_OK;
    assert_int_equal(facet_space_unmap_freed(space), 20 * 5);
    assert_int_equal(usage_of(space).reserved_bytes, 40 * 5 * PAGE);
    watched_end(&watched, memory);
}

/* However much awaits unmapping, a free asks the device to unmap twice at most. */
static void test_each_free_asks_the_device_twice_at_most(void **state)
{
    struct facet_memory *memory = open_memory(0);
    struct facet_space *space = watched_space(memory, 1, 4 * MIB);
    uint64_t runs[100];

    for (uint32_t i = 0; i < 100; i++)
        runs[i] = allocate_bytes(space, 5 * PAGE);
    watched.unmap_status = FACET_BUSY;
    watched.unmap_calls = 0;
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(facet_space_free(space, runs[i], NULL), FACET_OK);
    assert_true(watched.unmap_calls <= 200);
    watched.unmap_status = FACET_OK;
    assert_int_equal(usage_of(space).reserved_bytes, 0);
    watched_end(&watched, memory);
}

static void test_pool_blocks_await_their_unmap(void **state)
{
    struct facet_memory *memory = open_memory(0);
    struct facet_space *space = watched_space(memory, 1, MIB);
    uint64_t blocks[6];

    for (uint32_t i = 0; i < 6; i++)
        blocks[i] = allocate_bytes(space, UINT64_C(300) << i);
    watched.unmap_status = FACET_BUSY;
    for (uint32_t i = 0; i < 6; i++)
        assert_int_equal(facet_space_free(space, blocks[i], NULL), FACET_OK);
    assert_int_equal(facet_space_compact(space, NULL, NULL, NULL), FACET_OK);
    assert_true(usage_of(space).reserved_bytes > 0);
    assert_int_equal(usage_of(space).leaving_bytes, usage_of(space).reserved_bytes);
    watched.unmap_status = FACET_OK;
    assert_int_equal(facet_space_compact(space, NULL, NULL, NULL), FACET_OK);
    assert_int_equal(usage_of(space).reserved_bytes, 0);
    watched_end(&watched, memory);
}

static void test_shrinking_queues_the_tail(void **state)
{
    struct facet_memory *memory = open_memory(0);
    struct facet_space *space = watched_space(memory, 1, MIB);
    uint64_t address = allocate_bytes(space, 64 * PAGE), same;

    watched.unmap_status = FACET_BUSY;
    assert_int_equal(facet_space_resize(space, address, 32 * PAGE, &same, NULL), FACET_OK);
    assert_int_equal(same, address);
    assert_int_equal(usage_of(space).reserved_bytes, 64 * PAGE);
    /* The memory behind the allocation is not free yet, so that growing moves it. */
    assert_int_equal(facet_space_resize(space, address, 64 * PAGE, &same, NULL), FACET_OK);
    assert_int_not_equal(same, address);
    watched.unmap_status = FACET_OK;
    assert_int_equal(usage_of(space).reserved_bytes, 64 * PAGE);
    watched_end(&watched, memory);
}

/* If an allocation fails in its middle during launches, its first pages await unmapping. */
static void test_failed_allocation_queues_its_pages(void **state)
{
    bool done = false;

    for (uint64_t call = 1; !done; call++) {
        struct facet_memory *memory = open_memory(0);
        struct facet_space *space = watched_space(memory, 1, 2 * MIB);
        uint64_t address;

        watched.unmap_status = FACET_BUSY;
        watched.fail_at = watched.calls + call;
        done = facet_space_allocate(space, 2 * MIB, NULL, &address, NULL) == FACET_OK;
        assert_int_equal(usage_of(space).reserved_bytes, done ? 2 * MIB : usage_of(space).leaving_bytes);
        watched.unmap_status = FACET_OK;
        assert_int_equal(usage_of(space).leaving_bytes, 0);
        watched_end(&watched, memory);
    }
}

/* Pages that await unmapping are not swapped out, and the pages of other allocations keep their content. */
static void test_waiting_pages_are_not_swapped_out(void **state)
{
    struct facet_memory *memory = open_memory(4 * MIB);
    struct facet_space *space = watched_space(memory, 1, 4 * MIB), *other = watched_space(memory, 2, 4 * MIB);
    uint64_t freed_run = allocate_bytes(space, MIB), mapped_run = allocate_bytes(space, MIB), address;
    struct facet_pin *pin = NULL;

    memset((void *)(uintptr_t)mapped_run, 7, MIB);
    watched.unmap_status = FACET_BUSY;
    assert_int_equal(facet_space_free(space, freed_run, NULL), FACET_OK);
    address = allocate_bytes(other, 3 * MIB);
    assert_int_equal(facet_space_pin(other, &address, 1, 10000000, &pin, NULL), FACET_TIMEOUT);
    assert_int_equal(usage_of(space).leaving_bytes, MIB);
    assert_int_equal(((const char *)(uintptr_t)mapped_run)[MIB - 1], 7);
    watched.unmap_status = FACET_OK;
    assert_int_equal(facet_space_unmap_freed(space), 256); /* the pages of 1 MiB */
    assert_int_equal(facet_space_pin(other, &address, 1, UINT64_C(5000000000), &pin, NULL), FACET_OK);
    facet_pin_release(pin);
    facet_memory_close(memory);
    assert_int_equal(watched.device_bytes, 0);
}

static void *free_in_thread(void *data)
{
    uint64_t *arguments = data;

    assert_int_equal(facet_space_free((struct facet_space *)(uintptr_t)arguments[0], arguments[1], NULL), FACET_OK);
    return NULL;
}

/* While the device's unmap waits, only the thread that frees waits, too. */
static void test_waiting_for_unmap_blocks_no_other_thread(void **state)
{
    struct facet_memory *memory = open_memory(0);
    struct facet_space *space = watched_space(memory, 1, 2 * MIB), *other;
    uint64_t arguments[2] = {(uintptr_t)space, allocate_bytes(space, MIB)};
    struct facet_memory_usage usage = {.size = sizeof usage};
    pthread_t thread;

    watched.unmap_calls = 0;
    watched.unmap_waits = true;
    assert_int_equal(pthread_create(&thread, NULL, free_in_thread, arguments), 0);
    while (watched.unmap_calls == 0)
        ;
    assert_int_equal(facet_space_reserved_bytes(space), MIB);
    assert_int_equal(usage_of(space).leaving_bytes, MIB);
    assert_int_equal(facet_memory_get_usage(memory, &usage, NULL), FACET_OK);
    facet_space_try_unmap_freed(space);
    other = watched_space(memory, 2, MIB);
    (void)allocate_bytes(other, MIB);
    (void)allocate_bytes(space, PAGE * 5);
    watched.unmap_waits = false;
    pthread_join(thread, NULL);
    assert_int_equal(usage_of(space).leaving_bytes, 0);
    watched_end(&watched, memory);
}

/* A space whose memory launches may use stays until they end, and only then is destroyed. */
static void test_destroying_is_refused_until_launches_end(void **state)
{
    static const enum facet_status answers[] = {FACET_BUSY, FACET_TIMEOUT, FACET_BAD_STATE};

    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        struct facet_memory *memory = open_memory(0);
        struct facet_space *space = watched_space(memory, 1, 2 * MIB), *other = watched_space(memory, 2, 4 * MIB);
        enum facet_status expected = answers[i] == FACET_TIMEOUT ? FACET_BUSY : answers[i];
        uint64_t address, block = allocate_bytes(space, 300);
        struct facet_error error;

        (void)allocate_bytes(space, MIB);
        watched.unmap_status = answers[i];
        assert_int_equal(facet_space_free(space, block, NULL), FACET_OK);
        assert_int_equal(facet_space_destroy(space, &error), expected);
        assert_non_null(strstr(error.message, "vGPU 1 ('tenant')"));
        assert_int_equal(usage_of(space).allocations, 0);
        assert_int_equal(usage_of(space).leaving_bytes, usage_of(space).reserved_bytes);
        assert_true(usage_of(space).leaving_bytes > MIB);
        assert_int_equal(facet_space_allocate(other, 3 * MIB, NULL, &address, NULL), FACET_NO_SPACE);
        watched.unmap_status = FACET_OK;
        assert_int_equal(facet_space_destroy(space, NULL), FACET_OK);
        assert_int_equal(facet_space_allocate(other, 4 * MIB, NULL, &address, NULL), FACET_OK);
        watched_end(&watched, memory);
    }
}

/* Closing the memory releases the space even if its launches have not ended. */
static void test_close_releases_memory_that_stayed(void **state)
{
    struct facet_memory *memory = open_memory(0);
    struct facet_space *space = watched_space(memory, 1, MIB);

    (void)allocate_bytes(space, MIB);
    watched.unmap_status = FACET_BAD_STATE;
    assert_int_equal(facet_space_destroy(space, NULL), FACET_BAD_STATE);
    facet_memory_close(memory);
    assert_int_equal(watched.device_bytes, 0);
    assert_int_equal(watched.reserved_bytes, 0);
}

/* A lost device unmaps nothing: destroying its space does not wait, and this process leaks nothing. */
static void test_lost_device_does_not_delay_destroying(void **state)
{
    struct facet_memory *memory = open_memory(0);
    struct facet_space *space = watched_space(memory, 1, MIB), *other;
    uint64_t address = allocate_bytes(space, MIB);
    struct facet_memory_usage usage = {.size = sizeof usage};

    watched.unmap_status = FACET_DEVICE_LOST;
    assert_int_equal(facet_space_free(space, address, NULL), FACET_OK);
    assert_false(facet_space_vacate(space));
    assert_int_equal(facet_space_destroy(space, NULL), FACET_OK);
    assert_int_equal(facet_memory_get_usage(memory, &usage, NULL), FACET_OK);
    assert_int_equal(usage.used_bytes, MIB);
    watched.unmap_status = FACET_OK;
    other = watched_space(memory, 2, 4 * MIB);
    assert_int_equal(facet_space_allocate(other, 4 * MIB, NULL, &address, NULL), FACET_NO_SPACE);
    (void)allocate_bytes(other, 3 * MIB);
    facet_memory_close(memory);
    assert_int_equal(watched.device_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waiting_memory_stays_charged),
        cmocka_unit_test(test_waiting_addresses_are_not_reused),
        cmocka_unit_test(test_each_free_asks_the_device_twice_at_most),
        cmocka_unit_test(test_pool_blocks_await_their_unmap),
        cmocka_unit_test(test_shrinking_queues_the_tail),
        cmocka_unit_test(test_failed_allocation_queues_its_pages),
        cmocka_unit_test(test_waiting_pages_are_not_swapped_out),
        cmocka_unit_test(test_waiting_for_unmap_blocks_no_other_thread),
        cmocka_unit_test(test_lost_device_does_not_delay_destroying),
        cmocka_unit_test(test_destroying_is_refused_until_launches_end),
        cmocka_unit_test(test_close_releases_memory_that_stayed),
    };
    return cmocka_run_group_tests_name("unmap_queue", tests, NULL, NULL);
}
