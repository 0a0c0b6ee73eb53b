/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of where frames are taken, when chunks are created and returned, and that plans end with the fewest
 * chunks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "watched_backend.h"

#define PAGE   UINT64_C(4096)
#define FRAMES 64u

static struct facet_memory *open_memory(struct watched *watched, uint32_t chunks)
{
    return watched_open(watched, chunks * FRAMES * PAGE, (struct facet_memory_config){.chunk_bytes = FRAMES * PAGE});
}

static void test_chunks_are_created_and_returned(void **state)
{
    struct watched watched;
    struct facet_memory *memory = open_memory(&watched, 4);
    struct facet_frames *frames = &memory->frames;
    struct facet_extent extents[4], extra;
    struct facet_error error;
    bool clear;

    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(facet_frames_take(frames, 1, i * FRAMES, FRAMES, &extents[i], &clear, &error), FACET_OK);
        assert_int_equal(extents[i].count, FRAMES);
        assert_true(clear);
    }
    assert_int_equal(facet_frames_take(frames, 1, 0, 1, &extra, &clear, &error), FACET_NO_SPACE);
    assert_int_equal(watched.device_bytes, 4 * FRAMES * PAGE);
    for (uint32_t i = 0; i < 4; i++)
        facet_frames_give(frames, extents[i].frame, extents[i].count);
    assert_int_equal(watched.device_bytes, FRAMES * PAGE); /* one empty chunk is kept */
    assert_int_equal(facet_frames_trim(frames), FRAMES * PAGE);
    assert_int_equal(watched.device_bytes, 0);
    watched_end(&watched, memory);
}

static void test_the_last_chunk_may_be_smaller(void **state)
{
    struct watched watched;
    struct facet_memory *memory =
        watched_open(&watched, (FRAMES + 5) * PAGE, (struct facet_memory_config){.chunk_bytes = FRAMES * PAGE});
    struct facet_extent extent;
    struct facet_error error;
    uint32_t taken_pages = 0;
    bool clear;

    while (facet_frames_take(&memory->frames, 1, taken_pages, 7, &extent, &clear, &error) == FACET_OK)
        taken_pages += extent.count;
    assert_int_equal(taken_pages, FRAMES + 5);
    watched_end(&watched, memory);
}

/* Memory that another space had must be cleared, and memory that the same space had need not be. */
static void test_memory_of_another_space_is_cleared(void **state)
{
    struct watched watched;
    struct facet_memory *memory = open_memory(&watched, 1);
    struct facet_extent extent;
    struct facet_error error;
    bool clear;

    assert_int_equal(facet_frames_take(&memory->frames, 1, 0, 8, &extent, &clear, &error), FACET_OK);
    facet_frames_give(&memory->frames, extent.frame, 8);
    assert_int_equal(facet_frames_take(&memory->frames, 1, 0, 8, &extent, &clear, &error), FACET_OK);
    assert_true(clear);
    facet_frames_give(&memory->frames, extent.frame, 8);
    assert_int_equal(facet_frames_take(&memory->frames, 2, 0, 8, &extent, &clear, &error), FACET_OK);
    assert_false(clear);
    watched_end(&watched, memory);
}

/* Carries out plans, without moving bytes, until no plan is left. Space 0: of all spaces. Returns the moves made. */
static uint32_t carry_out_plans(struct facet_frames *frames, uint32_t only_space, uint32_t pages_max)
{
    struct facet_frame_move move;
    uint32_t moves = 0;

    while (facet_frames_plan_move(frames, only_space, pages_max, &move)) {
        struct facet_extent extent;

        assert_true(move.count >= 1 && move.count <= pages_max);
        assert_true(!only_space || move.space == only_space);
        assert_true(facet_frames_begin_move(frames, &move, &extent));
        assert_int_equal(extent.count, move.count);
        facet_frames_give(frames, move.from, move.count);
        assert_true(++moves < 100000);
    }
    return moves;
}

static void test_plans_end_in_the_fewest_chunks(void **state)
{
    struct watched watched;
    struct facet_memory *memory = open_memory(&watched, 16);
    struct facet_frames *frames = &memory->frames;
    struct facet_extent extents[16 * FRAMES];
    struct facet_error error;
    uint32_t count = 0;
    bool clear;

    srand(3);
    for (; count < 16 * FRAMES; count++)
        assert_int_equal(facet_frames_take(frames, 1 + count % 3, count, 1, &extents[count], &clear, &error), FACET_OK);
    for (uint32_t i = 0; i < count; i++)
        if (rand() % 4)
            facet_frames_give(frames, extents[i].frame, 1);
    uint64_t used = frames->used;
    assert_true(carry_out_plans(frames, 0, 8) > 0);
    facet_frames_trim(frames);
    assert_int_equal(frames->used, used);
    assert_int_equal(frames->chunk_count, (used + FRAMES - 1) / FRAMES);

    struct facet_frames_count numbers;
    facet_frames_count(frames, &numbers);
    assert_int_equal(numbers.largest_free_bytes, FRAMES * PAGE);
    assert_true(numbers.fragmentation_milli <= 1000 / frames->chunk_count);
    watched_end(&watched, memory);
}

/* Within one chunk used pages move together, so that the free pages are contiguous. */
static void test_pages_of_one_chunk_move_together(void **state)
{
    struct watched watched;
    struct facet_memory *memory = open_memory(&watched, 1);
    struct facet_frames *frames = &memory->frames;
    struct facet_extent extent;
    struct facet_frames_count numbers;
    struct facet_error error;
    bool clear;

    assert_int_equal(facet_frames_take(frames, 1, 0, FRAMES, &extent, &clear, &error), FACET_OK);
    for (uint32_t i = 0; i < FRAMES; i += 2)
        facet_frames_give(frames, i, 1);
    facet_frames_count(frames, &numbers);
    assert_int_equal(numbers.largest_free_bytes, PAGE);
    assert_int_equal(numbers.fragmentation_milli, 500);
    carry_out_plans(frames, 0, 8);
    facet_frames_count(frames, &numbers);
    assert_int_equal(numbers.largest_free_bytes, FRAMES / 2 * PAGE);
    watched_end(&watched, memory);
}

static void test_plans_of_one_space_move_its_pages_alone(void **state)
{
    struct watched watched;
    struct facet_memory *memory = open_memory(&watched, 4);
    struct facet_frames *frames = &memory->frames;
    struct facet_extent extent;
    struct facet_error error;
    bool clear;

    for (uint32_t i = 0; i < 4 * FRAMES; i++)
        assert_int_equal(facet_frames_take(frames, 1 + i % 2, i, 1, &extent, &clear, &error), FACET_OK);
    for (uint32_t i = 0; i < 4 * FRAMES; i++)
        if (i % 3)
            facet_frames_give(frames, i, 1);
    assert_true(carry_out_plans(frames, 2, 8) > 0);
    assert_false(facet_frames_plan_move(frames, 2, 8, &(struct facet_frame_move){0}));
    watched_end(&watched, memory);
}

/* A plan does not begin when the frames that it moves have changed since it was made. */
static void test_stale_plan_is_noticed(void **state)
{
    struct watched watched;
    struct facet_memory *memory = open_memory(&watched, 2);
    struct facet_frames *frames = &memory->frames;
    struct facet_frame_move move;
    struct facet_extent extent;
    struct facet_error error;
    bool clear;

    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(facet_frames_take(frames, 1, i, 1, &extent, &clear, &error), FACET_OK);
    facet_frames_give(frames, 0, 1);
    assert_true(facet_frames_plan_move(frames, 0, 4, &move));
    facet_frames_give(frames, move.from, 1);
    assert_false(facet_frames_begin_move(frames, &move, &extent));
    watched_end(&watched, memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chunks_are_created_and_returned),
        cmocka_unit_test(test_the_last_chunk_may_be_smaller),
        cmocka_unit_test(test_memory_of_another_space_is_cleared),
        cmocka_unit_test(test_plans_end_in_the_fewest_chunks),
        cmocka_unit_test(test_pages_of_one_chunk_move_together),
        cmocka_unit_test(test_plans_of_one_space_move_its_pages_alone),
        cmocka_unit_test(test_stale_plan_is_noticed),
    };
    return cmocka_run_group_tests_name("frames", tests, NULL, NULL);
}
