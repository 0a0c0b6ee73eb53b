/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: tests that each region is charged exactly while a block is in it, with several threads, too. Never: needs a
 * vendor's library or a clock.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../effort.h"
#include "interpose/kit/memory/region.h"

#define BASE    UINT64_C(0x7f4000000000)
#define REGION  FACET_REGION_BYTES
#define REGIONS 8u
#define BLOCKS  64u
#define THREADS 4u
#define ROUNDS  effort(50000, 1000)
#define PASSES  400u

/* Returns the bytes of the charge to release. */
static uint64_t add_block(uint32_t device, uint64_t address, uint64_t bytes)
{
    uint64_t surplus = 77; /* no valid result: the call must replace it */

    assert_true(facet_regions_add(device, address, bytes, &surplus));
    return surplus;
}

static void test_the_first_block_of_a_region_charges_and_the_last_one_releases(void **state)
{
    assert_false(facet_regions_join(0, BASE, 512));
    assert_int_equal(facet_regions_touched(BASE, 512), REGION);
    assert_int_equal(add_block(0, BASE, 512), 0);
    assert_true(facet_regions_join(0, BASE + REGION - 512, 512));
    assert_int_equal(add_block(0, BASE + 512, 512), REGION); /* the second charge is returned */
    assert_false(facet_regions_join(0, BASE + REGION, 512));
    assert_int_equal(facet_regions_leave(0, BASE, 512), 0);
    assert_int_equal(facet_regions_leave(0, BASE + 512, 512), 0);
    assert_int_equal(facet_regions_leave(0, BASE + REGION - 512, 512), REGION);
    assert_false(facet_regions_join(0, BASE, 512));
}

static void test_a_block_over_a_border_is_charged_for_both_regions(void **state)
{
    uint64_t across = BASE + REGION - 256;

    assert_int_equal(facet_regions_touched(across, 512), 2 * REGION);
    assert_int_equal(facet_regions_touched(across, 256), REGION);
    assert_int_equal(add_block(0, BASE, 512), 0);
    assert_false(facet_regions_join(0, across, 512));
    assert_int_equal(add_block(0, across, 512), REGION);
    assert_false(facet_regions_join(0, across, 512)); /* a block over a border never joins, though both are charged */
    assert_int_equal(facet_regions_leave(0, BASE, 512), 0);
    assert_int_equal(facet_regions_leave(0, across, 512), 2 * REGION);
    assert_false(facet_regions_join(0, BASE, 512));
    assert_false(facet_regions_join(0, BASE + REGION, 512));
}

static void test_devices_have_their_own_regions_and_addresses_are_bounded(void **state)
{
    uint64_t surplus = 0;

    assert_int_equal(add_block(0, BASE, 1), 0);
    assert_false(facet_regions_join(1, BASE, 1));
    assert_int_equal(add_block(1, BASE, 1), 0);
    assert_int_equal(facet_regions_leave(0, BASE, 1), REGION);
    assert_int_equal(facet_regions_leave(1, BASE, 1), REGION);
    assert_false(facet_regions_add(0, UINT64_C(1) << 57, 1, &surplus));
    assert_false(facet_regions_add(0, (UINT64_C(1) << 57) - 1, 2, &surplus));
    assert_false(facet_regions_join(0, (UINT64_C(1) << 57) - 1, 1));
    assert_false(facet_regions_add(FACET_REGION_DEVICES, BASE, 1, &surplus));
}

/* ---- notes ---- */

static uint64_t drained_addresses[4];
static uint32_t drained_count, drained_device;

static void record_drained(uint32_t device, uint64_t address)
{
    drained_device = device;
    drained_addresses[drained_count++ % 4] = address;
}

static void test_a_note_gives_its_device_and_owner_once(void **state)
{
    uint32_t device = 77;
    uint64_t owner = 77;

    assert_false(facet_regions_note(3, BASE + 512, 512, 0x7fff1230)); /* no block is there */
    assert_int_equal(add_block(3, BASE + 512, 512), 0);
    assert_true(facet_regions_note(3, BASE + 512, 512, 0x7fff1230));
    assert_false(facet_regions_take_note(BASE, &device, &owner));
    assert_false(facet_regions_take_note(BASE + 768, &device, &owner)); /* within the block */
    assert_false(facet_regions_take_note(BASE + REGION + 512, &device, &owner));
    assert_true(facet_regions_take_note(BASE + 512, &device, &owner));
    assert_int_equal(device, 3);
    assert_int_equal(owner, 0x7fff1230);
    assert_false(facet_regions_take_note(BASE + 512, &device, &owner));
    assert_true(facet_regions_note(3, BASE + 512, 512, 0)); /* owner 0 is valid */
    assert_true(facet_regions_take_note(BASE + 512, &device, &owner));
    assert_int_equal(owner, 0);
    assert_int_equal(facet_regions_leave(3, BASE + 512, 512), REGION);
}

static void test_a_block_that_no_note_can_describe_is_refused(void **state)
{
    uint32_t device;
    uint64_t owner;

    assert_int_equal(add_block(0, BASE, REGION), 0);
    assert_int_equal(add_block(0, BASE + REGION, 512), 0);
    assert_false(facet_regions_note(0, BASE + 256, 512, 1));                  /* between two steps */
    assert_false(facet_regions_note(0, BASE + REGION - 512, 513, 1));         /* over a border */
    assert_false(facet_regions_note(0, BASE, 512, UINT64_C(1) << 63));        /* no pointer */
    assert_false(facet_regions_note(FACET_REGION_DEVICES, BASE, 512, 1));     /* no such device */
    assert_false(facet_regions_take_note(UINT64_MAX - 511, &device, &owner)); /* no such address */
    assert_int_equal(facet_regions_leave(0, BASE, REGION), REGION);
    assert_int_equal(facet_regions_leave(0, BASE + REGION, 512), REGION);
}

static void test_draining_an_owner_takes_its_notes_and_no_others(void **state)
{
    uint64_t last = BASE + REGION - 512, owner;
    uint32_t device;

    for (uint64_t address = BASE; address <= last; address += last - BASE) {
        assert_true(facet_regions_join(5, address, 512) || add_block(5, address, 512) == 0);
        assert_true(facet_regions_note(5, address, 512, 40));
    }
    assert_true(facet_regions_join(5, BASE + 512, 512));
    assert_true(facet_regions_note(5, BASE + 512, 512, 48));
    drained_count = 0;
    facet_regions_drain(40, record_drained);
    assert_int_equal(drained_count, 2);
    assert_int_equal(drained_device, 5);
    assert_int_equal(drained_addresses[0], BASE);
    assert_int_equal(drained_addresses[1], last);
    facet_regions_drain(40, record_drained);
    assert_int_equal(drained_count, 2);
    assert_true(facet_regions_take_note(BASE + 512, &device, &owner));
    assert_int_equal(facet_regions_leave(5, BASE, 512), 0);
    assert_int_equal(facet_regions_leave(5, BASE + 512, 512), 0);
    assert_int_equal(facet_regions_leave(5, last, 512), REGION);
}

/* ---- threads ---- */

/* When several threads free the same block, one of them takes its note. */
static pthread_barrier_t pass_barrier; /* the beginning and the end of each pass */
static _Atomic uint32_t taken, awake;

static void *take_all_notes(void *argument)
{
    uint32_t device;
    uint64_t owner;

    for (uint32_t pass = 0; pass < PASSES; pass++) {
        pthread_barrier_wait(&pass_barrier); /* all notes have been made */
        atomic_fetch_add(&awake, 1);
        while (atomic_load(&awake) < (pass + 1) * THREADS) /* all threads must be awake before one begins */
            sched_yield();
        for (uint64_t at = BASE; at < BASE + REGION; at += 512)
            if (facet_regions_take_note(at, &device, &owner))
                atomic_fetch_add(&taken, 1);
        pthread_barrier_wait(&pass_barrier);
    }
    return NULL;
}

static void test_one_of_several_threads_takes_a_note(void **state)
{
    pthread_t threads[THREADS];

    assert_int_equal(add_block(0, BASE, 512), 0);
    assert_int_equal(pthread_barrier_init(&pass_barrier, NULL, THREADS + 1), 0);
    for (uint32_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_all_notes, NULL), 0);
    for (uint32_t pass = 0; pass < PASSES; pass++) {
        for (uint64_t at = BASE; at < BASE + REGION; at += 512)
            assert_true(facet_regions_note(0, at, 512, 8));
        pthread_barrier_wait(&pass_barrier);
        pthread_barrier_wait(&pass_barrier);
        assert_int_equal(atomic_exchange(&taken, 0), REGION / 512);
    }
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&pass_barrier);
    assert_int_equal(facet_regions_leave(0, BASE, 512), REGION);
}

static _Atomic int64_t charged;        /* by all threads, as the callers would */
static _Atomic uint32_t short_charges; /* counts the moments in which less is charged than one block holds */

static void charge_and_add(uint64_t address, uint64_t bytes)
{
    uint64_t surplus = 0;

    if (facet_regions_join(0, address, bytes))
        return;
    atomic_fetch_add(&charged, (int64_t)facet_regions_touched(address, bytes));
    if (facet_regions_add(0, address, bytes, &surplus))
        atomic_fetch_sub(&charged, (int64_t)surplus);
}

static void *add_and_remove_blocks(void *argument)
{
    uint64_t seed = (uintptr_t)argument, blocks[BLOCKS] = {0};

    for (uint32_t i = 0; i < ROUNDS + BLOCKS; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint64_t *block = &blocks[i < ROUNDS ? seed >> 58 : i - ROUNDS];

        if (*block) {
            atomic_fetch_sub(&charged, (int64_t)facet_regions_leave(0, *block, 512));
            *block = 0;
        } else if (i < ROUNDS) {
            *block = BASE + (seed >> 20) % (REGIONS * REGION / 256) * 256;
            charge_and_add(*block, 512);
            if (atomic_load(&charged) < (int64_t)REGION)
                atomic_fetch_add(&short_charges, 1);
        }
    }
    return NULL;
}

static void test_threads_charge_each_region_once(void **state)
{
    pthread_t threads[THREADS];

    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add_and_remove_blocks, (void *)(i + 1)), 0);
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&charged), 0);
    assert_int_equal(atomic_load(&short_charges), 0);
    for (uint64_t i = 0; i < REGIONS; i++)
        assert_false(facet_regions_join(0, BASE + i * REGION, 1));
}

static void test_a_child_of_fork_begins_without_regions(void **state)
{
    int status = -1;

    uint32_t device;
    uint64_t owner;

    assert_int_equal(add_block(2, BASE, 1), 0);
    assert_true(facet_regions_note(2, BASE, 1, 8));
    pid_t pid = fork();
    if (pid == 0) {
        facet_regions_forked();
        bool empty = !facet_regions_join(2, BASE, 1) && !facet_regions_take_note(BASE, &device, &owner);
        _exit(empty && add_block(2, BASE, 1) == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(facet_regions_leave(2, BASE, 1), REGION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_block_of_a_region_charges_and_the_last_one_releases),
        cmocka_unit_test(test_a_block_over_a_border_is_charged_for_both_regions),
        cmocka_unit_test(test_devices_have_their_own_regions_and_addresses_are_bounded),
        cmocka_unit_test(test_a_note_gives_its_device_and_owner_once),
        cmocka_unit_test(test_a_block_that_no_note_can_describe_is_refused),
        cmocka_unit_test(test_draining_an_owner_takes_its_notes_and_no_others),
        cmocka_unit_test(test_one_of_several_threads_takes_a_note),
        cmocka_unit_test(test_threads_charge_each_region_once),
        cmocka_unit_test(test_a_child_of_fork_begins_without_regions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
