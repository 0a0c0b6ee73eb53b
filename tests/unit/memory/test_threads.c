/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the proof that 64 threads can make every call at once. Each thread reads back the bytes that it wrote, and in
 * the end no memory is left allocated.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../../effort.h"
#include "watched_backend.h"

#define MIB         (UINT64_C(1) << 20)
#define THREADS     64u
#define SPACES      4u
#define BLOCKS_HELD 40u
#define ROUNDS      effort(1500, 200)

struct shared {
    struct facet_memory *memory;
    struct facet_space *spaces[SPACES];
    _Atomic uint64_t errors, refused, handed_over;
    _Atomic uint64_t exchange[SPACES]; /* a block of that space that any thread may free; 0: none */
};

struct worker {
    struct shared *shared;
    uint32_t number, random;
    uint64_t address[BLOCKS_HELD], bytes[BLOCKS_HELD];
};

static uint32_t next_random(struct worker *worker)
{
    worker->random = worker->random * 1664525 + 1013904223;
    return worker->random >> 8;
}

static void stamp_block(const struct worker *worker, uint32_t slot)
{
    *(uint64_t *)(uintptr_t)worker->address[slot] = worker->address[slot] + worker->number;
}

static bool is_stamped(const struct worker *worker, uint32_t slot)
{
    return *(uint64_t *)(uintptr_t)worker->address[slot] == worker->address[slot] + worker->number;
}

static void free_block(struct worker *worker, struct facet_space *space, uint32_t slot)
{
    worker->shared->errors += !is_stamped(worker, slot);
    worker->shared->errors += facet_space_free(space, worker->address[slot], NULL) != FACET_OK;
    worker->address[slot] = 0;
}

static void take_block(struct worker *worker, struct facet_space *space, uint32_t slot)
{
    uint64_t bytes = 8 + next_random(worker) % (next_random(worker) % 16 ? 3000 : 100000);

    if (facet_space_allocate(space, bytes, NULL, &worker->address[slot], NULL) != FACET_OK) {
        worker->shared->refused++;
        worker->address[slot] = 0;
        return;
    }
    worker->bytes[slot] = bytes;
    stamp_block(worker, slot);
}

/* Leaves a block for other threads to free, and frees the block that another thread left. */
static void hand_over(struct worker *worker, uint32_t number)
{
    struct shared *shared = worker->shared;
    uint64_t address = 0;

    if (facet_space_allocate(shared->spaces[number], 700, NULL, &address, NULL) != FACET_OK)
        return;
    address = atomic_exchange(&shared->exchange[number], address);
    shared->handed_over++;
    if (address)
        shared->errors += facet_space_free(shared->spaces[number], address, NULL) != FACET_OK;
}

static void look_up(struct worker *worker, struct facet_space *space, uint32_t slot)
{
    struct facet_memory_usage all = {.size = sizeof all};
    struct facet_space_usage usage = {.size = sizeof usage};
    struct facet_allocation found = {.size = sizeof found};

    switch (next_random(worker) % 6) {
    case 0:
        worker->shared->errors += facet_space_get_usage(space, &usage, NULL) != FACET_OK;
        worker->shared->errors += usage.reserved_bytes > usage.limit_bytes;
        break;
    case 1:
        worker->shared->errors += facet_memory_get_usage(worker->shared->memory, &all, NULL) != FACET_OK;
        worker->shared->errors += all.used_bytes > all.total_bytes;
        break;
    case 2:
        facet_space_compact(space, &(struct facet_defragment_options){.size = 24, .bytes = 256 * 1024}, NULL, NULL);
        break;
    case 3:
        worker->shared->errors += facet_space_free(space, worker->address[slot] + 4, NULL) != FACET_NOT_FOUND;
        break;
    case 4:
        worker->shared->errors += facet_space_find(space, worker->address[slot] + 7, &found, NULL) != FACET_OK;
        worker->shared->errors += found.address != worker->address[slot] || found.bytes != worker->bytes[slot];
        break;
    default:
        worker->shared->errors +=
            facet_space_fill(space, worker->address[slot], 1, worker->bytes[slot], NULL) != FACET_OK;
        stamp_block(worker, slot);
    }
}

static void *use_space(void *data)
{
    struct worker *worker = data;
    uint32_t number = worker->number % SPACES;
    struct facet_space *space = worker->shared->spaces[number];

    for (uint32_t i = 0; i < ROUNDS; i++) {
        uint32_t slot = next_random(worker) % BLOCKS_HELD;

        if (!worker->address[slot])
            take_block(worker, space, slot);
        else if (next_random(worker) % 8 == 0)
            look_up(worker, space, slot);
        else
            free_block(worker, space, slot);
        if (next_random(worker) % 4 == 0)
            hand_over(worker, next_random(worker) % SPACES);
    }
    for (uint32_t slot = 0; slot < BLOCKS_HELD; slot++)
        if (worker->address[slot])
            free_block(worker, space, slot);
    return NULL;
}

static void check_empty(struct shared *shared)
{
    for (uint32_t i = 0; i < SPACES; i++) {
        struct facet_space_usage usage = {.size = sizeof usage};
        uint64_t left = shared->exchange[i];

        if (left)
            assert_int_equal(facet_space_free(shared->spaces[i], left, NULL), FACET_OK);
        assert_int_equal(facet_space_compact(shared->spaces[i], NULL, NULL, NULL), FACET_OK);
        assert_int_equal(facet_space_get_usage(shared->spaces[i], &usage, NULL), FACET_OK);
        assert_int_equal(usage.allocations, 0);
        assert_int_equal(usage.allocated_bytes, 0);
        assert_int_equal(usage.reserved_bytes, 0);
        assert_int_equal(usage.free_bytes, 0);
    }
}

/* Memory is so small that quotas are reached, slabs are made and returned, and pages pass from space to space. */
static void test_threads_make_every_call_at_once(void **state)
{
    static struct worker workers[THREADS];
    struct shared shared = {0};
    struct watched watched;
    pthread_t threads[THREADS];

    shared.memory =
        watched_open(&watched, 12 * MIB,
                     (struct facet_memory_config){.automatic = 1, .interval_ns = 1000000, .defragment_milli = 1});
    for (uint32_t i = 0; i < SPACES; i++)
        shared.spaces[i] = watched_space(shared.memory, i + 1, 4 * MIB);
    for (uint32_t i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.shared = &shared, .number = i, .random = i * 7919};
        assert_int_equal(pthread_create(&threads[i], NULL, use_space, &workers[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(shared.errors, 0);
    assert_true(shared.handed_over > 0);
    assert_true(watched.moves > 0);
    check_empty(&shared);
    watched_end(&watched, shared.memory);
}

/* Makes and destroys spaces while others are defragmented. */
static void *create_and_destroy(void *data)
{
    struct shared *shared = data;

    for (uint32_t i = 0; i < 100; i++) {
        struct facet_space *space = watched_space(shared->memory, 9, 2 * MIB);
        uint64_t address;

        for (uint32_t k = 0; k < 20; k++)
            if (facet_space_allocate(space, 20000, NULL, &address, NULL) == FACET_OK && k % 2)
                shared->errors += facet_space_free(space, address, NULL) != FACET_OK;
        if (i % 3 == 0)
            facet_memory_defragment(shared->memory, NULL, NULL, NULL);
        shared->errors += facet_space_destroy(space, NULL) != FACET_OK;
    }
    return NULL;
}

static void test_spaces_end_while_others_are_defragmented(void **state)
{
    struct shared shared = {0};
    struct watched watched;
    struct facet_memory_usage usage = {.size = sizeof usage};
    pthread_t threads[8];

    shared.memory = watched_open(
        &watched, 12 * MIB, (struct facet_memory_config){.automatic = 1, .interval_ns = 100000, .defragment_milli = 1});
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, create_and_destroy, &shared), 0);
    for (uint32_t i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    facet_memory_get_usage(shared.memory, &usage, NULL);
    assert_int_equal(shared.errors, 0);
    assert_int_equal(usage.used_bytes, 0);
    assert_int_equal(usage.spaces, 0);
    watched_end(&watched, shared.memory);
}

/* ---- one thread copies memory that another thread frees ---- */

struct moving_block {
    struct facet_space *space;
    _Atomic uint64_t address, copied, refused;
    atomic_bool stop;
};

static void *copy_and_fill(void *data)
{
    static _Thread_local char buffer[256 * 1024];
    struct moving_block *moving_block = data;

    while (!moving_block->stop) {
        uint64_t address = moving_block->address;
        enum facet_status status = facet_space_copy(moving_block->space, address, (uintptr_t)buffer, sizeof buffer,
                                                    FACET_COPY_TO_DEVICE, NULL);

        if (status == FACET_OK)
            status = facet_space_fill(moving_block->space, address, 1, sizeof buffer, NULL);
        *(status == FACET_OK ? &moving_block->copied : &moving_block->refused) += 1;
    }
    return NULL;
}

static void test_copies_of_memory_freed_meanwhile_are_refused(void **state)
{
    const struct facet_space_config config = {.size = sizeof config, .limit_bytes = 8 * MIB};
    struct moving_block moving_block = {0};
    struct watched watched;
    pthread_t thread;
    uint64_t address = 0;

    struct facet_memory *memory = watched_open(&watched, 16 * MIB, (struct facet_memory_config){0});
    assert_int_equal(facet_space_create(memory, &config, &moving_block.space, NULL), FACET_OK);
    assert_int_equal(pthread_create(&thread, NULL, copy_and_fill, &moving_block), 0);
    for (uint32_t i = 0; i < 4000 || moving_block.copied == 0; i++) {
        assert_int_equal(facet_space_allocate(moving_block.space, 256 * 1024, NULL, &address, NULL), FACET_OK);
        moving_block.address = address;
        assert_int_equal(facet_space_free(moving_block.space, address, NULL), FACET_OK);
    }
    moving_block.stop = true;
    pthread_join(thread, NULL);
    assert_true(moving_block.copied > 0);
    assert_int_equal(facet_space_destroy(moving_block.space, NULL), FACET_OK);
    watched_end(&watched, memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_make_every_call_at_once),
        cmocka_unit_test(test_spaces_end_while_others_are_defragmented),
        cmocka_unit_test(test_copies_of_memory_freed_meanwhile_are_refused),
    };
    return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
