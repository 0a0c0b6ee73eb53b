/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the choice of the frames to move and of their new places: out of the emptiest chunk into the fullest that has
 * room, and within a chunk from its end into its first hole. Each such move makes a full chunk fuller, or the free end
 * of a chunk longer, so that the moves come to an end.
 * Never: moves data; takes frames for a plan that is not begun.
 */
#include "memory/frames.h"
#include "memory/frames_inside.h"

/* The fullest chunk with room that is no worse a place than `from`. */
static struct facet_chunk *fuller_chunk(struct facet_frames *frames, const struct facet_chunk *from)
{
    struct facet_chunk *chunk;

    for (uint32_t bin = FACET_FRAME_BINS; bin-- > 0 && bin >= from->bin;)
        LIST_FOREACH (chunk, &frames->bins[bin], in_bin)
            if (chunk != from && chunk->used >= from->used)
                return chunk;
    return NULL;
}

static bool may_move(const struct facet_frame *frame, uint32_t only_space)
{
    return frame->space && frame->space != FACET_SPACE_HELD && (!only_space || frame->space == only_space);
}

/* How many frames from `at` on belong to one space and back neighbouring pages. */
static uint32_t row_length(const struct facet_chunk *chunk, uint32_t at, uint32_t end, uint32_t max)
{
    const struct facet_frame *first = &chunk->frames[at];
    uint32_t count = 1;

    while (count < max && at + count < end && chunk->frames[at + count].space == first->space &&
           chunk->frames[at + count].page == first->page + count)
        count++;
    return count;
}

static void set_move(const struct facet_frames *frames, const struct facet_chunk *chunk, uint32_t at, uint32_t count,
                     struct facet_frame_move *ret_move)
{
    *ret_move = (struct facet_frame_move){
        .from = facet_chunk_first(frames, chunk) + at,
        .count = count,
        .space = chunk->frames[at].space,
        .page = chunk->frames[at].page,
    };
}

static bool plan_out_of_chunk(const struct facet_frames *frames, const struct facet_chunk *chunk, uint32_t only_space,
                              uint32_t max, struct facet_frame_move *ret_move)
{
    uint32_t end = facet_chunk_frames(frames, chunk);

    for (uint32_t at = facet_chunk_next(chunk, 0, end, true); at < end;
         at = facet_chunk_next(chunk, at + 1, end, true)) {
        if (!may_move(&chunk->frames[at], only_space))
            continue;
        set_move(frames, chunk, at, row_length(chunk, at, end, max), ret_move);
        return true;
    }
    return false;
}

/* The last row of frames, when there is a hole before it. */
static bool plan_in_chunk(const struct facet_frames *frames, const struct facet_chunk *chunk, uint32_t only_space,
                          uint32_t max, struct facet_frame_move *ret_move)
{
    uint32_t end = facet_chunk_frames(frames, chunk);
    uint32_t hole = facet_chunk_next(chunk, 0, end, false);

    for (uint32_t at = end; at-- > hole + 1;) {
        const struct facet_frame *frame = &chunk->frames[at];
        uint32_t count = 1;

        if (!may_move(frame, only_space))
            continue;
        while (count < max && at - count > hole && frame[-(int)count].space == frame->space &&
               frame[-(int)count].page + count == frame->page)
            count++;
        set_move(frames, chunk, at + 1 - count, count, ret_move);
        return true;
    }
    return false;
}

static bool plan_move(struct facet_frames *frames, bool out_of_chunk, uint32_t only_space, uint32_t max,
                      struct facet_frame_move *ret_move)
{
    const struct facet_chunk *chunk;

    for (uint32_t bin = 0; bin < FACET_FRAME_BINS; bin++)
        LIST_FOREACH (chunk, &frames->bins[bin], in_bin)
            if (chunk->used && (out_of_chunk ? fuller_chunk(frames, chunk) &&
                                                   plan_out_of_chunk(frames, chunk, only_space, max, ret_move)
                                             : plan_in_chunk(frames, chunk, only_space, max, ret_move)))
                return true;
    return false;
}

bool facet_frames_plan_move(struct facet_frames *frames, uint32_t only_space, uint32_t max,
                            struct facet_frame_move *ret_move)
{
    pthread_mutex_lock(&frames->lock);
    bool found =
        plan_move(frames, true, only_space, max, ret_move) || plan_move(frames, false, only_space, max, ret_move);
    pthread_mutex_unlock(&frames->lock);
    return found;
}

/* Whether the frames are still as the plan found them. */
static bool is_still_valid(const struct facet_frames *frames, const struct facet_frame_move *move)
{
    const struct facet_chunk *chunk = facet_frames_chunk(frames, move->from);

    if (!chunk)
        return false;
    uint32_t at = move->from - facet_chunk_first(frames, chunk);
    for (uint32_t i = 0; i < move->count; i++)
        if (chunk->frames[at + i].space != move->space || chunk->frames[at + i].page != move->page + i)
            return false;
    return true;
}

/* Moves frames within one chunk down to its first hole; if the hole is too small, only the last frames move. */
static bool begin_in_chunk(struct facet_frames *frames, struct facet_chunk *chunk, struct facet_frame_move *move,
                           struct facet_hole *ret_hole)
{
    uint32_t end = facet_chunk_frames(frames, chunk), at = move->from - facet_chunk_first(frames, chunk);
    uint32_t hole = facet_chunk_next(chunk, 0, end, false);
    uint32_t hole_count = facet_chunk_next(chunk, hole, end, true) - hole;

    if (hole >= at)
        return false;
    if (hole_count < move->count) {
        move->from += move->count - hole_count;
        move->page += move->count - hole_count;
        move->count = hole_count;
    }
    *ret_hole = (struct facet_hole){.first = hole, .count = move->count};
    return true;
}

static bool begin_move(struct facet_frames *frames, struct facet_frame_move *move, struct facet_extent *ret_extent)
{
    if (!is_still_valid(frames, move))
        return false;
    struct facet_chunk *from = facet_frames_chunk(frames, move->from);
    struct facet_chunk *into = fuller_chunk(frames, from);
    struct facet_hole hole;

    if (into) {
        hole = facet_chunk_hole(frames, into, move->count);
        hole.count = hole.count < move->count ? hole.count : move->count;
        move->count = hole.count;
    } else if (!begin_in_chunk(frames, from, move, &hole)) {
        return false;
    }
    facet_chunk_take(frames, into ? into : from, hole, move->space, move->page, ret_extent);
    return true;
}

bool facet_frames_begin_move(struct facet_frames *frames, struct facet_frame_move *move,
                             struct facet_extent *ret_extent)
{
    pthread_mutex_lock(&frames->lock);
    bool begun = begin_move(frames, move, ret_extent);
    pthread_mutex_unlock(&frames->lock);
    return begun;
}

static bool find_used_row(const struct facet_frames *frames, const struct facet_chunk *chunk, uint32_t from,
                          uint32_t max, struct facet_frame_move *ret_row)
{
    uint32_t end = facet_chunk_frames(frames, chunk);
    uint32_t at = facet_chunk_next(chunk, from, end, true);

    if (at >= end)
        return false;
    set_move(frames, chunk, at, row_length(chunk, at, end, max), ret_row);
    return true;
}

bool facet_frames_next_used(struct facet_frames *frames, uint32_t max, uint32_t *hand, struct facet_frame_move *ret_row)
{
    bool found = false;

    pthread_mutex_lock(&frames->lock);
    uint32_t first = *hand >> frames->chunk_shift;
    for (uint32_t i = 0; i <= frames->chunks_max && !found; i++) {
        uint32_t number = (first + i) % frames->chunks_max;
        const struct facet_chunk *chunk = frames->chunks[number];

        found = chunk && find_used_row(frames, chunk, i == 0 ? *hand & (frames->chunk_frames - 1) : 0, max, ret_row);
    }
    pthread_mutex_unlock(&frames->lock);
    if (found)
        *hand = (ret_row->from + ret_row->count) % (uint32_t)frames->frames_max;
    return found;
}
