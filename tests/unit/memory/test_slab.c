/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs that a slab gives out each block once, and that a free reports when the slab becomes usable or empty. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>

#include "../../effort.h"
#include "memory/slab.h"

static void test_each_block_is_given_out_once(void **state)
{
    static const uint32_t counts[] = {1, 8, 63, 64, 65, 1000, FACET_SLAB_BLOCKS};

    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        struct facet_slab *slab = facet_slab_create(256, counts[i]);

        assert_non_null(slab);
        facet_slab_reset(slab, 4096, 0);
        for (uint32_t block = 0; block < counts[i]; block++)
            assert_int_equal(facet_slab_take(slab), block);
        assert_int_equal(facet_slab_take(slab), FACET_BLOCK_NONE);
        for (uint32_t block = 0; block < counts[i]; block++)
            assert_int_equal(facet_slab_give(slab, block), block + 1 == counts[i] ? FACET_BLOCK_FREED_LAST
                                                           : block == 0           ? FACET_BLOCK_FREED_OF_FULL
                                                                                  : FACET_BLOCK_FREED);
        assert_int_equal(facet_slab_give(slab, 0), FACET_BLOCK_WAS_FREE);
        facet_slab_destroy(slab);
    }
}

static void test_records_of_a_block_are_kept(void **state)
{
    struct facet_slab *slab = facet_slab_create(512, 100);

    facet_slab_reset(slab, 4096, 3);
    uint32_t block = facet_slab_take(slab);
    facet_slab_record(slab, block, 300, 42, 5);
    assert_int_equal(slab->records[block].bytes, 300);
    assert_int_equal(slab->records[block].tag, 42);
    assert_int_equal(slab->records[block].time_ns, 5);
    assert_true(facet_slab_uses_block(slab, block));
    assert_false(facet_slab_take_block(slab, block));
    assert_false(facet_slab_take_block(slab, 100));
    assert_int_equal(slab->records[block].bytes, 300);
    assert_false(facet_slab_uses_block(slab, block + 1));
    assert_false(facet_slab_uses_block(slab, 100));
    assert_true(facet_slab_take_block(slab, 70));
    facet_slab_record(slab, 70, 200, 43, 6);
    assert_int_equal(slab->records[70].bytes, 200);
    assert_int_equal(slab->used_blocks, 2);
    assert_int_equal(facet_slab_requested_bytes(slab), 500);
    assert_int_equal(facet_slab_give(slab, 70), FACET_BLOCK_FREED);
    assert_int_equal(facet_slab_requested_bytes(slab), 300);
    assert_int_equal(facet_slab_give(slab, block), FACET_BLOCK_FREED_LAST);
    facet_slab_destroy(slab);
}

#define ROUNDS effort(200000, 10000)

/* Another thread frees blocks while this one allocates: each freed block is allocated again, and none twice. */
struct exchange {
    struct facet_slab *slab;
    _Atomic uint32_t exchange_slot; /* the number of a block plus 1; 0: none */
    _Atomic uint32_t refused;
};

static void *free_exchanged_blocks(void *data)
{
    struct exchange *exchange = data;

    for (uint32_t i = 0; i < ROUNDS;) {
        uint32_t block = atomic_exchange(&exchange->exchange_slot, 0);

        if (!block) {
            sched_yield(); /* the other thread may need this processor */
            continue;
        }
        exchange->refused += facet_slab_give(exchange->slab, block - 1) == FACET_BLOCK_WAS_FREE;
        i++;
    }
    return NULL;
}

static void test_blocks_freed_by_another_thread_are_given_out_again(void **state)
{
    struct exchange exchange = {.slab = facet_slab_create(256, 130)};
    pthread_t thread;

    facet_slab_reset(exchange.slab, 4096, 0);
    assert_int_equal(pthread_create(&thread, NULL, free_exchanged_blocks, &exchange), 0);
    for (uint32_t i = 0; i < ROUNDS;) {
        uint32_t block = facet_slab_take(exchange.slab);
        uint32_t empty = 0;

        if (block == FACET_BLOCK_NONE) {
            sched_yield();
            continue;
        }
        while (!atomic_compare_exchange_weak(&exchange.exchange_slot, &empty, block + 1)) {
            empty = 0;
            sched_yield();
        }
        i++;
    }
    pthread_join(thread, NULL);
    assert_int_equal(exchange.refused, 0);
    assert_int_equal(exchange.slab->used_blocks, 0);
    for (uint32_t i = 0; i < 130; i++)
        assert_int_not_equal(facet_slab_take(exchange.slab), FACET_BLOCK_NONE);
    assert_int_equal(facet_slab_take(exchange.slab), FACET_BLOCK_NONE);
    facet_slab_destroy(exchange.slab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_block_is_given_out_once),
        cmocka_unit_test(test_records_of_a_block_are_kept),
        cmocka_unit_test(test_blocks_freed_by_another_thread_are_given_out_again),
    };
    return cmocka_run_group_tests_name("slab", tests, NULL, NULL);
}
