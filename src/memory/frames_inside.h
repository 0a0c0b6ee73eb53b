/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the functions on a chunk's frames that frames.c and frames_plan.c share.
 * Never: is included by other files. The caller of each function holds the frames' lock.
 */
#ifndef FACET_MEMORY_FRAMES_INSIDE_H
#define FACET_MEMORY_FRAMES_INSIDE_H

#include "memory/frames.h"

/* Free frames in a row; `first` is counted from the chunk's first frame. */
struct facet_hole {
    uint32_t first, count;
};

uint32_t facet_chunk_first(const struct facet_frames *frames, const struct facet_chunk *chunk);
uint32_t facet_chunk_frames(const struct facet_frames *frames, const struct facet_chunk *chunk);
uint32_t facet_chunk_next(const struct facet_chunk *chunk, uint32_t from, uint32_t end, bool used);

/* The chunk that a frame is in; NULL: the chunk is not allocated. */
struct facet_chunk *facet_frames_chunk(const struct facet_frames *frames, uint32_t frame);

/* The first hole of `wanted` frames or more, else the largest. */
struct facet_hole facet_chunk_hole(const struct facet_frames *frames, const struct facet_chunk *chunk, uint32_t wanted);

/* Takes frames of a hole for pages of a space. Returns whether all of them are clear for that space. */
bool facet_chunk_take(struct facet_frames *frames, struct facet_chunk *chunk, struct facet_hole hole, uint32_t space,
                      uint32_t page, struct facet_extent *ret_extent);

#endif
