/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: taking frames from chunks and giving them back. frames_plan.c chooses the frames that should move.
 * Never: examines more than one chunk's frames for one call.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "memory/frames.h"
#include "memory/frames_inside.h"

/* --- a chunk ------------------------------------------------------------------------------------------------------ */

uint32_t facet_chunk_first(const struct facet_frames *frames, const struct facet_chunk *chunk)
{
    return chunk->number << frames->chunk_shift;
}

/* How many frames the chunk with that number has: the last chunk may have fewer than the others. */
static uint32_t frames_of_number(const struct facet_frames *frames, uint32_t number)
{
    uint64_t left = frames->frames_max - ((uint64_t)number << frames->chunk_shift);

    return left < frames->chunk_frames ? (uint32_t)left : frames->chunk_frames;
}

uint32_t facet_chunk_frames(const struct facet_frames *frames, const struct facet_chunk *chunk)
{
    return frames_of_number(frames, chunk->number);
}

/* The first frame at or after `from` that is used (or, with `used` false, is free); `end` when there is none. */
uint32_t facet_chunk_next(const struct facet_chunk *chunk, uint32_t from, uint32_t end, bool used)
{
    for (uint32_t word = from / 64; word * 64 < end; word++) {
        uint64_t bits = used ? chunk->used_bits[word] : ~chunk->used_bits[word];

        if (word == from / 64)
            bits &= UINT64_MAX << from % 64;
        if (bits) {
            uint32_t found = word * 64 + (uint32_t)__builtin_ctzll(bits);
            return found < end ? found : end;
        }
    }
    return end;
}

static void set_used_bits(struct facet_chunk *chunk, uint32_t at, uint32_t count, bool used)
{
    for (uint32_t i = at; i < at + count;) {
        uint32_t bits = 64 - i % 64 < at + count - i ? 64 - i % 64 : at + count - i;
        uint64_t mask = (bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1) << i % 64;

        if (used)
            chunk->used_bits[i / 64] |= mask;
        else
            chunk->used_bits[i / 64] &= ~mask;
        i += bits;
    }
}

struct facet_hole facet_chunk_hole(const struct facet_frames *frames, const struct facet_chunk *chunk, uint32_t wanted)
{
    uint32_t end = facet_chunk_frames(frames, chunk);
    struct facet_hole best = {.first = end};

    for (uint32_t at = facet_chunk_next(chunk, 0, end, false); at < end;) {
        uint32_t stop = facet_chunk_next(chunk, at, end, true);

        if (stop - at > best.count)
            best = (struct facet_hole){.first = at, .count = stop - at};
        if (best.count >= wanted)
            break;
        at = facet_chunk_next(chunk, stop, end, false);
    }
    return best;
}

static uint32_t bin_of(const struct facet_frames *frames, const struct facet_chunk *chunk)
{
    return (uint32_t)((uint64_t)chunk->used * FACET_FRAME_BINS / facet_chunk_frames(frames, chunk));
}

static void update_bin(struct facet_frames *frames, struct facet_chunk *chunk)
{
    uint32_t bin = bin_of(frames, chunk);

    if (bin == chunk->bin)
        return;
    LIST_REMOVE(chunk, in_bin);
    LIST_INSERT_HEAD(&frames->bins[bin], chunk, in_bin);
    chunk->bin = bin;
}

/* --- chunks come and go ------------------------------------------------------------------------------------------- */

static struct facet_chunk *allocate_chunk(uint32_t number, uint32_t frames)
{
    struct facet_chunk *chunk = calloc(1, sizeof *chunk);

    if (!chunk)
        return NULL;
    chunk->number = number;
    chunk->frames = calloc(frames, sizeof *chunk->frames);
    if (chunk->frames)
        return chunk;
    free(chunk);
    return NULL;
}

static void free_chunk(struct facet_chunk *chunk)
{
    free(chunk->frames);
    free(chunk);
}

/* The lowest number that no chunk has, so that low addresses fill first. */
static uint32_t lowest_free_number(const struct facet_frames *frames)
{
    uint32_t number = 0;

    while (number < frames->chunks_max && frames->chunks[number])
        number++;
    return number;
}

static enum facet_status add_chunk(struct facet_frames *frames, struct facet_chunk **ret_chunk,
                                   struct facet_error *error)
{
    uint32_t number = lowest_free_number(frames);

    if (number == frames->chunks_max)
        return facet_error_set(error, FACET_NO_SPACE, "all %" PRIu64 " bytes of the device's memory are in use",
                               frames->frames_max * frames->page_bytes);
    struct facet_chunk *chunk = allocate_chunk(number, frames->chunk_frames);
    if (!chunk)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for the list of a chunk's pages");
    uint64_t bytes = facet_chunk_frames(frames, chunk) * frames->page_bytes;
    enum facet_status status = frames->backend.ops->create(frames->backend.data, bytes, &chunk->pages, error);
    if (status != FACET_OK) {
        free_chunk(chunk);
        return status;
    }
    frames->chunks[number] = chunk;
    frames->chunk_count++;
    frames->allocated += facet_chunk_frames(frames, chunk);
    frames->empty_chunks++;
    LIST_INSERT_HEAD(&frames->bins[0], chunk, in_bin);
    *ret_chunk = chunk;
    return FACET_OK;
}

/* Removes an empty chunk from the lists; the device still has its memory. */
static void unlink_chunk(struct facet_frames *frames, struct facet_chunk *chunk)
{
    uint32_t count = facet_chunk_frames(frames, chunk);

    LIST_REMOVE(chunk, in_bin);
    frames->chunks[chunk->number] = NULL;
    frames->chunk_count--;
    frames->allocated -= count;
    frames->empty_chunks--;
    frames->returned_frames += count;
    frames->returning_chunks++;
}

/* Returns the memory to the device. Clearing it takes milliseconds, so no lock is held meanwhile. */
static void return_chunk(struct facet_frames *frames, struct facet_chunk *chunk)
{
    uint64_t bytes = facet_chunk_frames(frames, chunk) * frames->page_bytes;

    frames->backend.ops->destroy(frames->backend.data, chunk->pages, bytes);
    free_chunk(chunk);
    pthread_mutex_lock(&frames->lock);
    frames->returning_chunks--;
    pthread_cond_broadcast(&frames->chunk_returned);
    pthread_mutex_unlock(&frames->lock);
}

/* --- taking and giving -------------------------------------------------------------------------------------------- */

/* The fullest chunk with twice as many free frames as `count`, which is likely to have that many in few holes. */
static struct facet_chunk *chunk_with_ample_room(struct facet_frames *frames, uint32_t count)
{
    uint64_t bins = (uint64_t)count * 2 * FACET_FRAME_BINS / frames->chunk_frames;

    for (uint32_t bin = FACET_FRAME_BINS; bin-- > 0;)
        if (bin + bins < FACET_FRAME_BINS && !LIST_EMPTY(&frames->bins[bin]))
            return LIST_FIRST(&frames->bins[bin]);
    return NULL;
}

static struct facet_chunk *chunk_with_room(struct facet_frames *frames)
{
    for (uint32_t bin = FACET_FRAME_BINS; bin-- > 0;)
        if (!LIST_EMPTY(&frames->bins[bin]))
            return LIST_FIRST(&frames->bins[bin]);
    return NULL;
}

/*
 * Chunks in use come before empty chunks. But a request for a whole chunk gets an empty chunk, whose frames are
 * contiguous.
 */
static struct facet_chunk *best_chunk(struct facet_frames *frames, uint32_t count)
{
    struct facet_chunk *chunk = NULL;

    if (count >= frames->chunk_frames) {
        chunk = LIST_FIRST(&frames->bins[0]);
        return chunk && !chunk->used ? chunk : NULL;
    }
    chunk = chunk_with_ample_room(frames, count);
    return chunk ? chunk : chunk_with_room(frames);
}

bool facet_chunk_take(struct facet_frames *frames, struct facet_chunk *chunk, struct facet_hole hole, uint32_t space,
                      uint32_t page, struct facet_extent *ret_extent)
{
    bool clear = true;

    for (uint32_t i = 0; i < hole.count; i++) {
        struct facet_frame *frame = &chunk->frames[hole.first + i];

        clear = clear && (!frame->last_space || frame->last_space == space);
        *frame = (struct facet_frame){.page = page + i, .space = space, .last_space = space};
    }
    set_used_bits(chunk, hole.first, hole.count, true);
    frames->empty_chunks -= !chunk->used;
    chunk->used += hole.count;
    frames->used += hole.count;
    update_bin(frames, chunk);
    *ret_extent = (struct facet_extent){
        .place = {chunk->pages, hole.first * frames->page_bytes},
        .frame = facet_chunk_first(frames, chunk) + hole.first,
        .count = hole.count,
    };
    return clear;
}

static enum facet_status take_frames(struct facet_frames *frames, uint32_t space, uint32_t page, uint32_t count,
                                     struct facet_extent *ret_extent, bool *ret_clear, struct facet_error *error)
{
    struct facet_chunk *chunk = best_chunk(frames, count);

    if (!chunk) {
        struct facet_error full;
        enum facet_status status = add_chunk(frames, &chunk, &full);

        if (status == FACET_NO_SPACE)
            chunk = chunk_with_room(frames);
        if (!chunk) {
            if (error)
                *error = full;
            return status;
        }
    }
    struct facet_hole hole = facet_chunk_hole(frames, chunk, count);
    hole.count = hole.count < count ? hole.count : count;
    *ret_clear = facet_chunk_take(frames, chunk, hole, space, page, ret_extent);
    return FACET_OK;
}

enum facet_status facet_frames_take(struct facet_frames *frames, uint32_t space, uint32_t page, uint32_t count,
                                    struct facet_extent *ret_extent, bool *ret_clear, struct facet_error *error)
{
    enum facet_status status;

    pthread_mutex_lock(&frames->lock);
    for (;;) {
        status = take_frames(frames, space, page, count, ret_extent, ret_clear, error);
        if (status != FACET_NO_SPACE || !frames->returning_chunks)
            break;
        pthread_cond_wait(&frames->chunk_returned, &frames->lock); /* a chunk is on its way back to the device */
    }
    pthread_mutex_unlock(&frames->lock);
    return status;
}

struct facet_chunk *facet_frames_chunk(const struct facet_frames *frames, uint32_t frame)
{
    return frames->chunks[frame >> frames->chunk_shift];
}

struct facet_page_place facet_frames_place(struct facet_frames *frames, uint32_t frame)
{
    pthread_mutex_lock(&frames->lock);
    const struct facet_chunk *chunk = facet_frames_chunk(frames, frame);
    const struct facet_page_place place = {.pages = chunk->pages,
                                           .offset = (frame - facet_chunk_first(frames, chunk)) * frames->page_bytes};
    pthread_mutex_unlock(&frames->lock);
    return place;
}

/* Returns a chunk that became empty and is to be returned to the device, or NULL. */
static struct facet_chunk *give_frames(struct facet_frames *frames, uint32_t frame, uint32_t count)
{
    struct facet_chunk *chunk = facet_frames_chunk(frames, frame);
    uint32_t at = frame - facet_chunk_first(frames, chunk);

    for (uint32_t i = at; i < at + count; i++)
        chunk->frames[i].space = 0;
    set_used_bits(chunk, at, count, false);
    chunk->used -= count;
    frames->used -= count;
    update_bin(frames, chunk);
    if (chunk->used)
        return NULL;
    frames->empty_chunks++;
    if (frames->empty_chunks == 1)
        return NULL;
    unlink_chunk(frames, chunk);
    return chunk;
}

struct facet_chunk *facet_frames_give_deferred(struct facet_frames *frames, uint32_t frame, uint32_t count)
{
    pthread_mutex_lock(&frames->lock);
    struct facet_chunk *chunk = give_frames(frames, frame, count);
    pthread_mutex_unlock(&frames->lock);
    return chunk;
}

void facet_frames_return_chunk(struct facet_frames *frames, struct facet_chunk *chunk)
{
    if (chunk)
        return_chunk(frames, chunk);
}

void facet_frames_give(struct facet_frames *frames, uint32_t frame, uint32_t count)
{
    facet_frames_return_chunk(frames, facet_frames_give_deferred(frames, frame, count));
}

void facet_frames_hold(struct facet_frames *frames, uint32_t frame, uint32_t count)
{
    pthread_mutex_lock(&frames->lock);
    struct facet_chunk *chunk = facet_frames_chunk(frames, frame);
    uint32_t at = frame - facet_chunk_first(frames, chunk);
    for (uint32_t i = at; i < at + count; i++)
        chunk->frames[i].space = FACET_SPACE_HELD;
    pthread_mutex_unlock(&frames->lock);
}

uint64_t facet_frames_free_count(struct facet_frames *frames)
{
    pthread_mutex_lock(&frames->lock);
    uint64_t left = frames->frames_max - frames->used;
    pthread_mutex_unlock(&frames->lock);
    return left;
}

/* Unlinks an empty chunk and returns it; NULL: there is none. */
static struct facet_chunk *unlink_empty_chunk(struct facet_frames *frames)
{
    struct facet_chunk *chunk;

    pthread_mutex_lock(&frames->lock);
    LIST_FOREACH (chunk, &frames->bins[0], in_bin)
        if (!chunk->used)
            break;
    if (chunk)
        unlink_chunk(frames, chunk);
    pthread_mutex_unlock(&frames->lock);
    return chunk;
}

uint64_t facet_frames_trim(struct facet_frames *frames)
{
    struct facet_chunk *chunk;
    uint64_t bytes = 0;

    while ((chunk = unlink_empty_chunk(frames))) {
        bytes += facet_chunk_frames(frames, chunk) * frames->page_bytes;
        return_chunk(frames, chunk);
    }
    return bytes;
}

/* --- all frames -------------------------------------------------------------------------------------------------- */

enum facet_status facet_frames_init(struct facet_frames *frames, const struct facet_page_backend *backend,
                                    uint64_t memory_bytes, uint64_t page_bytes, uint64_t chunk_bytes,
                                    struct facet_error *error)
{
    uint64_t chunks = (memory_bytes + chunk_bytes - 1) / chunk_bytes;

    *frames = (struct facet_frames){
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .chunk_returned = PTHREAD_COND_INITIALIZER,
        .backend = *backend,
        .page_bytes = page_bytes,
        .chunk_frames = (uint32_t)(chunk_bytes / page_bytes),
        .chunk_shift = (uint32_t)__builtin_ctzll(chunk_bytes / page_bytes),
        .chunks_max = (uint32_t)chunks,
        .frames_max = memory_bytes / page_bytes,
    };
    if (frames->frames_max >= FACET_FRAME_NONE)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "page_bytes",
                                    "page_bytes: %" PRIu64 " bytes in pages of %" PRIu64
                                    " are more than 2^32 - 2 pages",
                                    memory_bytes, page_bytes);
    frames->chunks = calloc(frames->chunks_max, sizeof(struct facet_chunk *));
    if (!frames->chunks)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a list of %u chunks", frames->chunks_max);
    return FACET_OK;
}

void facet_frames_clear(struct facet_frames *frames)
{
    for (uint32_t i = 0; frames->chunks && i < frames->chunks_max; i++) {
        struct facet_chunk *chunk = frames->chunks[i];

        if (!chunk)
            continue;
        frames->empty_chunks += chunk->used != 0; /* the chunk becomes empty */
        unlink_chunk(frames, chunk);
        return_chunk(frames, chunk);
    }
    free(frames->chunks);
    frames->chunks = NULL;
    pthread_cond_destroy(&frames->chunk_returned);
    pthread_mutex_destroy(&frames->lock);
}

void facet_frames_count(struct facet_frames *frames, struct facet_frames_count *ret_count)
{
    struct facet_frames_count count = {0};
    uint64_t in_use = 0;

    pthread_mutex_lock(&frames->lock);
    count.used_bytes = frames->used * frames->page_bytes;
    count.allocated_bytes = frames->allocated * frames->page_bytes;
    count.chunk_count = frames->chunk_count;
    for (uint32_t i = 0; i < frames->chunks_max; i++) {
        const struct facet_chunk *chunk = frames->chunks[i];
        uint64_t whole = frames_of_number(frames, i);
        uint64_t hole = chunk ? facet_chunk_hole(frames, chunk, frames->chunk_frames).count : whole;

        if (hole * frames->page_bytes > count.largest_free_bytes)
            count.largest_free_bytes = hole * frames->page_bytes;
        in_use += chunk && chunk->used ? whole : 0;
    }
    if (in_use)
        count.fragmentation_milli = (uint32_t)((in_use - frames->used) * 1000 / in_use);
    pthread_mutex_unlock(&frames->lock);
    *ret_count = count;
}
