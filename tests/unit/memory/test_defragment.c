/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs that pages move under addresses that stay, while others read and write, within bounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watched_backend.h"

#define PAGE UINT64_C(4096)
#define MIB  (UINT64_C(1) << 20)
#define RUNS 512u

struct fixture {
    struct watched watched;
    struct facet_memory *memory;
    struct facet_space *space;
    uint64_t run[RUNS]; /* 0 where the run was freed */
    struct facet_error error;
};

static uint64_t *words_at(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

/* Allocates many runs and frees three in four of them, so that each chunk is a quarter full. */
static void fragment_chunks(struct fixture *fixture, struct facet_memory_config config)
{
    fixture->memory = watched_open(&fixture->watched, 32 * MIB, config);
    fixture->space = watched_space(fixture->memory, 1, 32 * MIB);
    for (uint32_t i = 0; i < RUNS; i++) {
        assert_int_equal(facet_space_allocate(fixture->space, 5 * PAGE, NULL, &fixture->run[i], NULL), FACET_OK);
        for (uint32_t word = 0; word < 5 * PAGE / 8; word++)
            words_at(fixture->run[i])[word] = i * 1000 + word;
    }
    for (uint32_t i = 0; i < RUNS; i++)
        if (i % 4) {
            assert_int_equal(facet_space_free(fixture->space, fixture->run[i], NULL), FACET_OK);
            fixture->run[i] = 0;
        }
}

static void check_contents(const struct fixture *fixture)
{
    for (uint32_t i = 0; i < RUNS; i++)
        for (uint32_t word = 0; fixture->run[i] && word < 5 * PAGE / 8; word++)
            assert_int_equal(words_at(fixture->run[i])[word], i * 1000 + word);
}

static struct facet_memory_usage usage_of(struct facet_memory *memory)
{
    struct facet_memory_usage usage = {.size = sizeof usage};

    assert_int_equal(facet_memory_get_usage(memory, &usage, NULL), FACET_OK);
    return usage;
}

static int set_up(void **state)
{
    static struct fixture fixture;

    fragment_chunks(&fixture, (struct facet_memory_config){.pass_bytes = 64 * 1024});
    *state = &fixture;
    return 0;
}

/* Like set_up(), with memory that is committed at once: here in small pages, because the chunks are small. */
static int set_up_committed(void **state)
{
    static struct fixture fixture;

    fragment_chunks(&fixture, (struct facet_memory_config){.pass_bytes = 64 * 1024, .commit = 1});
    assert_int_equal(usage_of(fixture.memory).huge_milli, 0);
    *state = &fixture;
    return 0;
}

static int set_up_huge(void **state)
{
    static struct fixture fixture;

    fragment_chunks(&fixture, (struct facet_memory_config){.chunk_bytes = 2 * MIB, .commit = 1});
    if (usage_of(fixture.memory).huge_milli < 1000)
        print_message("%u of 1000 are in huge pages\n", usage_of(fixture.memory).huge_milli);
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    watched_end(&fixture->watched, fixture->memory);
    return 0;
}

static void test_empty_chunks_are_returned_and_contents_stay(void **state)
{
    struct fixture *fixture = *state;
    struct facet_memory_usage before = usage_of(fixture->memory), after;
    struct facet_defragment_report report = {.size = sizeof report};

    assert_true(before.fragmentation_milli > 600);
    assert_int_equal(facet_memory_defragment(fixture->memory, NULL, &report, &fixture->error), FACET_OK);
    after = usage_of(fixture->memory);
    assert_int_equal(report.complete, 1);
    assert_true(report.moved_bytes > 0);
    assert_int_equal(report.returned_bytes, before.reserved_bytes - after.reserved_bytes);
    assert_int_equal(after.used_bytes, before.used_bytes);
    assert_true(after.reserved_bytes - after.used_bytes < 16 * PAGE);
    assert_int_equal(after.pages_moved_total, report.moved_bytes / PAGE);
    assert_int_equal(fixture->watched.device_bytes, after.reserved_bytes);
    check_contents(fixture);
    /* A second pass has nothing to move. */
    assert_int_equal(facet_memory_defragment(fixture->memory, NULL, &report, &fixture->error), FACET_OK);
    assert_int_equal(report.moved_bytes, 0);
    assert_int_equal(report.complete, 1);
}

static void test_bytes_to_move_are_bounded(void **state)
{
    struct fixture *fixture = *state;
    const struct facet_defragment_options some = {.size = sizeof some, .bytes = 10 * PAGE};
    const struct facet_defragment_options none = {.size = sizeof none, .bytes = 1};
    const struct facet_defragment_options wrong_size = {.size = 1};
    struct facet_defragment_report report = {.size = sizeof report};

    assert_int_equal(facet_memory_defragment(fixture->memory, &some, &report, &fixture->error), FACET_OK);
    assert_true(report.moved_bytes > 0 && report.moved_bytes <= 10 * PAGE);
    assert_int_equal(report.complete, 0);
    assert_int_equal(facet_memory_defragment(fixture->memory, &none, &report, &fixture->error), FACET_OK);
    assert_int_equal(report.moved_bytes, 0);
    assert_int_equal(facet_memory_defragment(fixture->memory, &wrong_size, &report, &fixture->error),
                     FACET_INVALID_ARGUMENT);
    check_contents(fixture);
}

static void test_defragmenting_ends_with_its_time(void **state)
{
    struct fixture *fixture = *state;
    const struct facet_defragment_options brief = {.size = sizeof brief, .ns = 1};
    struct facet_defragment_report report = {.size = sizeof report};

    assert_int_equal(facet_memory_defragment(fixture->memory, &brief, &report, &fixture->error), FACET_OK);
    assert_int_equal(report.complete, 0);
    assert_true(report.steps <= 1);
}

static void test_other_spaces_stay_where_they_are(void **state)
{
    struct fixture *fixture = *state;
    struct facet_space *other = watched_space(fixture->memory, 2, 8 * MIB);
    struct facet_defragment_report report = {.size = sizeof report};
    struct facet_page before = {.size = sizeof before}, after = {.size = sizeof after};
    uint64_t address;

    assert_int_equal(facet_space_allocate(other, PAGE, NULL, &address, &fixture->error), FACET_OK);
    assert_int_equal(facet_space_page(other, address, &before, &fixture->error), FACET_OK);
    assert_int_equal(facet_space_defragment(fixture->space, NULL, &report, &fixture->error), FACET_OK);
    assert_true(report.moved_bytes > 0);
    assert_int_equal(facet_space_page(other, address, &after, &fixture->error), FACET_OK);
    assert_int_equal(before.physical_bytes, after.physical_bytes);
    assert_int_equal(facet_space_defragment(other, NULL, &report, &fixture->error), FACET_OK);
    check_contents(fixture);
}

static void test_compact_releases_free_pages_of_pools(void **state)
{
    struct fixture *fixture = *state;
    struct facet_space_usage before = {.size = sizeof before}, after = {.size = sizeof after};
    uint64_t address;

    for (uint32_t bytes = 300; bytes < 3000; bytes += 300) {
        assert_int_equal(facet_space_allocate(fixture->space, bytes, NULL, &address, &fixture->error), FACET_OK);
        assert_int_equal(facet_space_free(fixture->space, address, &fixture->error), FACET_OK);
    }
    facet_space_get_usage(fixture->space, &before, NULL);
    assert_true(before.free_bytes > 0);
    assert_int_equal(facet_space_compact(fixture->space, NULL, NULL, &fixture->error), FACET_OK);
    facet_space_get_usage(fixture->space, &after, NULL);
    assert_int_equal(after.free_bytes, 0);
    assert_int_equal(after.fragmentation_milli, 0);
    assert_true(after.reserved_bytes < before.reserved_bytes);
    check_contents(fixture);
}

/* A move that fails leaves its page, and all pages behind it, where they were. */
static void test_a_failed_move_changes_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct facet_memory_usage before = usage_of(fixture->memory), after;

    for (uint64_t call = 1; call < 6; call += 2) {
        fixture->watched.fail_at = fixture->watched.calls + call;
        assert_int_equal(facet_memory_defragment(fixture->memory, NULL, NULL, &fixture->error), FACET_DEVICE_LOST);
        after = usage_of(fixture->memory);
        assert_int_equal(after.used_bytes, before.used_bytes);
        check_contents(fixture);
    }
    fixture->watched.fail_at = 0;
    assert_int_equal(facet_memory_defragment(fixture->memory, NULL, NULL, &fixture->error), FACET_OK);
    check_contents(fixture);
}

/* --- while others use the memory --- */

struct worker {
    struct fixture *fixture;
    _Atomic bool stop;
    uint64_t rounds, wrong_words;
    uint32_t first;
};

/* Counts up in every word of its runs, so that a write that is lost, or goes to the old page, is noticed. */
static void *count_up(void *data)
{
    struct worker *worker = data;

    while (!worker->stop) {
        for (uint32_t i = worker->first; i < RUNS; i += 8)
            for (uint32_t word = 0; worker->fixture->run[i] && word < 5 * PAGE / 8; word += 64) {
                _Atomic uint64_t *value = (void *)&words_at(worker->fixture->run[i])[word];

                worker->wrong_words += *value != i * 1000 + word + worker->rounds;
                *value = i * 1000 + word + worker->rounds + 1;
            }
        worker->rounds++;
    }
    return NULL;
}

static void *allocate_and_free(void *data)
{
    struct worker *worker = data;
    struct facet_space *space = worker->fixture->space;
    uint64_t address;

    for (; !worker->stop; worker->rounds++) {
        if (facet_space_allocate(space, 3 * PAGE + worker->rounds % 9 * PAGE, NULL, &address, NULL) != FACET_OK)
            continue;
        words_at(address)[0] = worker->rounds;
        worker->wrong_words += words_at(address)[0] != worker->rounds;
        worker->wrong_words += facet_space_free(space, address, NULL) != FACET_OK;
    }
    return NULL;
}

static void test_writes_during_moves_are_kept(void **state)
{
    struct fixture *fixture = *state;
    struct worker workers[3] = {{.fixture = fixture}, {.fixture = fixture, .first = 4}, {.fixture = fixture}};
    pthread_t threads[3];
    uint64_t moved = 0, extra[64] = {0};

    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, i < 2 ? count_up : allocate_and_free, &workers[i]), 0);
    for (uint32_t i = 0; i < 1000; i++) {
        struct facet_defragment_report report = {.size = sizeof report};
        uint64_t *hole = &extra[(uint32_t)rand() % 64];

        /* A run is exchanged for one of another size, so that there is a hole to close. */
        assert_int_equal(facet_space_free(fixture->space, *hole, &fixture->error), FACET_OK);
        assert_int_equal(facet_space_allocate(fixture->space, (5 + i % 20) * PAGE, NULL, hole, &fixture->error),
                         FACET_OK);
        assert_int_equal(facet_memory_defragment(fixture->memory, NULL, &report, &fixture->error), FACET_OK);
        moved += report.moved_bytes;
    }
    assert_true(moved > MIB);
    for (uint32_t i = 0; i < 3; i++) {
        workers[i].stop = true;
        pthread_join(threads[i], NULL);
        assert_true(workers[i].rounds > 0);
        assert_int_equal(workers[i].wrong_words, 0);
    }
}

/* Pages have 2 MiB, the size of the kernel's huge pages. Every other run of them is freed. */
static void test_huge_pages_move(void **state)
{
    const uint64_t huge = 2 * MIB, bytes = 2 * huge, count = 8;
    struct fixture fixture;
    uint64_t run[8];
    struct facet_defragment_report report = {.size = sizeof report};

    (void)state;
    fixture.memory = watched_open(
        &fixture.watched, 32 * MIB,
        (struct facet_memory_config){.page_bytes = huge, .chunk_bytes = 4 * huge, .commit = 1, .pass_bytes = huge});
    fixture.space = watched_space(fixture.memory, 1, 32 * MIB);
    for (uint64_t i = 0; i < count; i++) {
        assert_int_equal(facet_space_allocate(fixture.space, bytes, NULL, &run[i], NULL), FACET_OK);
        for (uint64_t word = 0; word < bytes / 8; word++)
            words_at(run[i])[word] = i * 1000 + word;
    }
    for (uint64_t i = 0; i < count; i += 2)
        assert_int_equal(facet_space_free(fixture.space, run[i], NULL), FACET_OK);
    assert_int_equal(facet_memory_defragment(fixture.memory, NULL, &report, NULL), FACET_OK);
    assert_int_equal(report.moved_bytes, 4 * huge);
    assert_int_equal(report.steps, 4);
    assert_int_equal(report.returned_bytes, 8 * huge);
    for (uint64_t i = 1; i < count; i += 2)
        for (uint64_t word = 0; word < bytes / 8; word++)
            if (words_at(run[i])[word] != i * 1000 + word)
                fail_msg("run %u: word %u is not what was written", (unsigned)i, (unsigned)word);
    watched_end(&fixture.watched, fixture.memory);
}

static void test_fragmentation_above_the_threshold_starts_defragmenting(void **state)
{
    struct fixture fixture;
    uint32_t waited = 0;

    fragment_chunks(&fixture,
                    (struct facet_memory_config){
                        .automatic = 1, .defragment_milli = 300, .interval_ns = 5000000, .pass_bytes = 64 * 1024});
    while (usage_of(fixture.memory).fragmentation_milli > 300 && waited++ < 10000)
        usleep(1000);
    assert_true(usage_of(fixture.memory).fragmentation_milli <= 300);
    assert_true(fixture.watched.moves > 0);
    check_contents(&fixture);
    watched_end(&fixture.watched, fixture.memory);
}

int main(void)
{
#define WITH_SETUP(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
#define COMMITTED(test)                                                                                                \
    {                                                                                                                  \
#test "_committed", test, set_up_committed, tear_down, NULL                                                    \
    }
#define ON_HUGE(test)                                                                                                  \
    {                                                                                                                  \
#test "_huge", test, set_up_huge, tear_down, NULL                                                              \
    }
    const struct CMUnitTest tests[] = {
        WITH_SETUP(test_empty_chunks_are_returned_and_contents_stay),
        WITH_SETUP(test_bytes_to_move_are_bounded),
        WITH_SETUP(test_defragmenting_ends_with_its_time),
        WITH_SETUP(test_other_spaces_stay_where_they_are),
        WITH_SETUP(test_compact_releases_free_pages_of_pools),
        WITH_SETUP(test_a_failed_move_changes_nothing),
        WITH_SETUP(test_writes_during_moves_are_kept),
        COMMITTED(test_empty_chunks_are_returned_and_contents_stay),
        COMMITTED(test_a_failed_move_changes_nothing),
        COMMITTED(test_writes_during_moves_are_kept),
        ON_HUGE(test_bytes_to_move_are_bounded),
        ON_HUGE(test_a_failed_move_changes_nothing),
        ON_HUGE(test_writes_during_moves_are_kept),
        cmocka_unit_test(test_huge_pages_move),
        cmocka_unit_test(test_fragmentation_above_the_threshold_starts_defragmenting),
    };
    return cmocka_run_group_tests_name("defragment", tests, NULL, NULL);
}
