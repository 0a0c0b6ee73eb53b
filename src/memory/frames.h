/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames: the device's memory in pages, for all spaces.
 *
 * Owns: chunks from the backend, which page of which space uses each frame, the best places for the next frames, and
 * the choice of chunks that should be emptied. Never: maps a frame, or knows more of a space than its serial number.
 *
 * Chunks are sorted into bins by how full they are, so that the fullest chunk with room is found at once. Filling full
 * chunks lets the others become empty, and an empty chunk goes back to the device. Thread rule: calls are serialized by
 * the frames' lock.
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
#define FACET_SPACE_HELD                                                                                               \
    UINT32_MAX /* `space` of used frames without a space, which must not move: facet_frames_hold() */

/* The owner of a frame. `space` is a serial number that is never used twice; 0: no owner. */
struct facet_frame {
    uint32_t page;       /* of the space */
    uint32_t space;      /* its present owner */
    uint32_t last_space; /* its last owner: the frame must be cleared for any other space. 0: it is clear */
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
    pthread_cond_t chunk_returned; /* signalled when a chunk has gone back to the device */
    uint32_t returning_chunks;     /* chunks that are going back to the device */
    struct facet_page_backend backend;
    uint64_t page_bytes;
    uint32_t chunk_frames;       /* frames in a chunk; a power of two */
    uint32_t chunk_shift;        /* the binary logarithm of chunk_frames */
    uint32_t chunks_max;         /* the number of chunks in the device's memory */
    uint64_t frames_max;         /* the number of frames in the device's memory; the last chunk may have fewer */
    struct facet_chunk **chunks; /* by number; NULL: not allocated from the device */
    struct facet_chunk_list bins[FACET_FRAME_BINS + 1]; /* by fullness, rounded down; the last bin: full chunks */
    uint64_t used, allocated;                           /* frames in use; frames in allocated chunks */
    uint32_t chunk_count;
    uint32_t empty_chunks;    /* allocated chunks without a used frame: 0 or 1 */
    uint64_t returned_frames; /* frames that went back to the device so far, in total */
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
 * Takes up to `count` frames in a row for pages `page` .. of `space`; at least one. *ret_clear: no frame needs to be
 * cleared. FACET_NO_SPACE: every frame is in use.
 */
enum facet_status facet_frames_take(struct facet_frames *frames, uint32_t space, uint32_t page, uint32_t count,
                                    struct facet_extent *ret_extent, bool *ret_clear, struct facet_error *error);

/*
 * Gives frames back. A chunk without any used frame goes back to the device, except one such chunk: otherwise the
 * device would make and clear memory each time a program frees and allocates in turn.
 */
void facet_frames_give(struct facet_frames *frames, uint32_t frame, uint32_t count);

/*
 * facet_frames_give() in two calls, for a caller that holds a lock: the first unlinks a chunk that became empty, the
 * second returns it to the device, which takes a while. NULL: no chunk goes back.
 */
struct facet_chunk *facet_frames_give_deferred(struct facet_frames *frames, uint32_t frame, uint32_t count);
void facet_frames_return_chunk(struct facet_frames *frames, struct facet_chunk *chunk);

/* The frames belong to no space any more, but the device has not unmapped them: they count as used until given back. */
void facet_frames_hold(struct facet_frames *frames, uint32_t frame, uint32_t count);

/* Unused frames, including those of chunks not yet taken from the device. */
uint64_t facet_frames_free_count(struct facet_frames *frames);

/* Gives the empty chunk that facet_frames_give() keeps back too. Returns its bytes. */
uint64_t facet_frames_trim(struct facet_frames *frames);

/* --- for the defragmenter --- */

/* One move that lowers fragmentation: `count` frames from `from` on, all of one space and of neighbouring pages. */
struct facet_frame_move {
    uint32_t from, count;
    uint32_t space, page;
};

/*
 * Searches for a move of at most `max` frames; only of `only_space` unless that is 0. False: there is none. No frames
 * are taken yet, so the plan may be out of date when the caller holds the space's lock.
 */
bool facet_frames_plan_move(struct facet_frames *frames, uint32_t only_space, uint32_t max,
                            struct facet_frame_move *ret_move);

/*
 * Takes frames for the move, in the fullest chunk that is a better place. Lowers move->count when fewer frames are in a
 * row there. False: the plan is out of date.
 */
bool facet_frames_begin_move(struct facet_frames *frames, struct facet_frame_move *move,
                             struct facet_extent *ret_extent);

/* The place of a frame. The frame must stay in use during the call. */
struct facet_page_place facet_frames_place(struct facet_frames *frames, uint32_t frame);

/* --- for reclaiming memory from other spaces --- */

/*
 * Finds the next used frames at or after *hand, which wraps at the end: at most `max` in a row, of one space and of
 * neighbouring pages. Sets *hand to the frame behind them. False: no frame is in use.
 */
bool facet_frames_next_used(struct facet_frames *frames, uint32_t max, uint32_t *hand,
                            struct facet_frame_move *ret_row);

/* --- numbers --- */

struct facet_frames_count {
    uint64_t used_bytes, allocated_bytes, largest_free_bytes, chunk_count;
    uint32_t fragmentation_milli;
};
void facet_frames_count(struct facet_frames *frames, struct facet_frames_count *ret_count);

#endif
