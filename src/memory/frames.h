/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames: the device's memory in pages, for all spaces.
 *
 * Owns: chunks from the backend, the use of each of their frames by a page of a space, the best places for the next
 * frames, and the chunks that should be emptied.
 * Never: maps anything; knows a space other than by its number.
 *
 * Chunks stand in a row of bins by how full they are, so that the fullest with room is found at once: filling those
 * lets the others empty, and an empty chunk goes back to the device. Thread rule: calls are serialized by its lock.
 */
#ifndef FACET_MEMORY_FRAMES_H
#define FACET_MEMORY_FRAMES_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "memory/backend.h"

#define FACET_CHUNK_FRAMES 4096u
#define FACET_FRAME_NONE   UINT32_MAX
#define FACET_FRAME_BINS   32u
#define FACET_SPACE_HELD   UINT32_MAX /* of used frames without a space, which must not move (facet_frames_hold) */

/* The owner of a frame. `space` is a serial number that is never used twice; 0: no owner. */
struct facet_frame {
    uint32_t page;       /* of the space */
    uint32_t space;      /* its present owner */
    uint32_t last_space; /* its last owner: for any other space it must be cleared. 0: it is clear */
};

struct facet_chunk {
    LIST_ENTRY(facet_chunk) in_bin;
    uint64_t pages; /* the backend's handle */
    uint32_t number, used, bin;
    uint64_t used_bits[FACET_CHUNK_FRAMES / 64]; /* a bit for each frame in use */
    struct facet_frame *frames;
};
LIST_HEAD(facet_chunk_list, facet_chunk);

struct facet_frames {
    pthread_mutex_t lock;
    pthread_cond_t chunk_returned; /* a chunk has gone back */
    uint32_t returning_chunks;     /* chunks that are going back to the device */
    struct facet_page_backend backend;
    uint64_t page_bytes;
    uint32_t chunk_frames;                              /* in a chunk; a power of two */
    uint32_t chunk_shift;                               /* its logarithm */
    uint32_t chunks_max;                                /* chunks that the device's memory is */
    uint64_t frames_max;                                /* frames; the last chunk may be a part of one */
    struct facet_chunk **chunks;                        /* by number; NULL where none is had */
    struct facet_chunk_list bins[FACET_FRAME_BINS + 1]; /* by fullness, rounded down; the last: full */
    uint64_t used, allocated;                           /* frames in use, frames in chunks that are had */
    uint32_t chunk_count;
    uint32_t empty_chunks;    /* chunks without a used frame: 0 or 1 */
    uint64_t returned_frames; /* frames that went back to the device, ever */
};

/* A number of frames in a row. */
struct facet_extent {
    struct facet_page_place place;
    uint32_t frame, count;
};

enum facet_status facet_frames_init(struct facet_frames *frames, const struct facet_page_backend *backend,
                                    uint64_t memory_bytes, uint64_t page_bytes, uint64_t chunk_bytes,
                                    struct facet_error *error);
/* Gives all chunks back. The backend stays open. */
void facet_frames_clear(struct facet_frames *frames);

/*
 * Takes up to `count` frames in a row for pages `page` .. of `space`; at least one. *ret_clear: none of them need be
 * cleared. FACET_NO_SPACE: every frame is in use.
 */
enum facet_status facet_frames_take(struct facet_frames *frames, uint32_t space, uint32_t page, uint32_t count,
                                    struct facet_extent *ret_extent, bool *ret_clear, struct facet_error *error);

/*
 * Gives them back. A chunk without any used frame goes back to the device, except one: a program that frees and
 * allocates in turn should not have the device make and clear memory each time.
 */
void facet_frames_give(struct facet_frames *frames, uint32_t frame, uint32_t count);

/*
 * facet_frames_give() in two calls, for a caller that holds a lock: the first takes an emptied chunk off the books, the
 * second returns it to the device, which takes a while. NULL: no chunk goes.
 */
struct facet_chunk *facet_frames_give_deferred(struct facet_frames *frames, uint32_t frame, uint32_t count);
void facet_frames_return_chunk(struct facet_frames *frames, struct facet_chunk *chunk);

/* The frames belong to no space any more, but the device has not unmapped them: they count as used until given back. */
void facet_frames_hold(struct facet_frames *frames, uint32_t frame, uint32_t count);

/* Unused frames, including those of chunks not yet taken from the device. */
uint64_t facet_frames_free_count(struct facet_frames *frames);

/* Gives that one back too. Returns its bytes. */
uint64_t facet_frames_trim(struct facet_frames *frames);

/* --- for the defragmenter --- */

/* One move that makes things better: `count` frames from `from` on, all of one space and of neighbouring pages. */
struct facet_frame_move {
    uint32_t from, count;
    uint32_t space, page;
};

/*
 * Searches for a move of at most `max` frames; only of `only_space` unless that is 0. False: there is none. Nothing is
 * taken yet, and by the time that the caller holds the space's lock it may no longer be so.
 */
bool facet_frames_plan_move(struct facet_frames *frames, uint32_t only_space, uint32_t max,
                            struct facet_frame_move *ret_move);

/* Takes frames for that move, in the fullest chunk that is a better place: at most move->count of them, which is made
 * less when there are fewer in a row. False: the move is none any more. */
bool facet_frames_begin_move(struct facet_frames *frames, struct facet_frame_move *move,
                             struct facet_extent *ret_extent);

/* The place of a frame. The frame must stay in use during the call. */
struct facet_page_place facet_frames_place(struct facet_frames *frames, uint32_t frame);

/* --- for reclaiming memory from other spaces --- */

/* The next used frames at or after *hand, around the end: at most `max` in a row, of one space and of neighbouring
 * pages. Leaves the hand behind them. False: none is in use. */
bool facet_frames_next_used(struct facet_frames *frames, uint32_t max, uint32_t *hand,
                            struct facet_frame_move *ret_row);

/* --- numbers --- */

struct facet_frames_count {
    uint64_t used_bytes, allocated_bytes, largest_free_bytes, chunk_count;
    uint32_t fragmentation_milli;
};
void facet_frames_count(struct facet_frames *frames, struct facet_frames_count *ret_count);

#endif
