/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the structs of a space and a memory, and the order of their locks. Never: is included outside this room;
 * other rooms include facet/memory.h.
 *
 * Locks, outermost first: a memory's list of spaces → an arena → a space → frames, swap. The queue's lock may be taken
 * while any of these is held; no lock is taken while the queue's is held. The unmap lock is taken before a space's
 * lock, with none of these held, and is the only lock that is held while the device is asked to unmap. The fast paths
 * take one arena's lock to allocate a block and none to free one; a space's lock is for its page table, and is held
 * while one step of the defragmenter moves the space's pages.
 */
#ifndef FACET_MEMORY_SPACE_H
#define FACET_MEMORY_SPACE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include <facet/memory.h>

#include "memory/classes.h"
#include "memory/frames.h"
#include "memory/slab.h"
#include "memory/swap.h"
#include "memory/table.h"
#include "memory/wait_queue.h"

#define FACET_POOL_ARENAS_MAX 16u
#define FACET_ALIGN_MAX       (UINT64_C(1) << 30)
#define FACET_SPACE_NAME      64u

#define FACET_RECENT_BLOCKS 8u

/*
 * The slabs of one class in one arena. `recent` is a ring of the blocks freed last, the latest below `recent_end`: the
 * fields of such a block are still in the cache, and to reuse it no slab changes its list. `recent` is written without
 * a lock, so it is only a hint: an entry may be lost, or its block no longer be free.
 */
struct facet_pool {
    _Alignas(64) struct facet_slab *current;
    struct facet_slab_list listed;
    uint64_t pages;
    _Atomic uint32_t recent_end;
    _Alignas(64) _Atomic uint64_t recent[FACET_RECENT_BLOCKS]; /* addresses of blocks; 0: none */
};

/*
 * A part of a space's pools that one thread at a time allocates from; threads spread over them by the core they are on.
 * A free is counted in the arena of the freeing thread, so only the sums over all arenas are meaningful.
 */
struct facet_pool_arena {
    _Alignas(64) pthread_mutex_t lock;
    struct facet_space *space;
    uint64_t blocks_taken; /* under the lock */
    _Alignas(64) _Atomic uint64_t blocks_given;
    struct facet_pool pools[];
};

/*
 * Freed pages that the device has not unmapped yet (unmap_queue.h). Under the space's lock; the atomic fields are also
 * read without it.
 */
struct facet_unmap_queue {
    uint32_t first, last;   /* extents of the list, by their first pages; FACET_PAGE_NONE: the list is empty */
    uint32_t first_unasked; /* the first extent that the device was not asked to unmap yet */
    /* why the device refused the last extent; FACET_BUSY: earlier launches were not over */
    enum facet_status last_refusal;
    _Atomic uint64_t pages;
    _Atomic uint32_t unasked_count;
};

struct facet_space {
    LIST_ENTRY(facet_space) in_memory;
    struct facet_memory *memory;
    uint32_t serial; /* never used twice in its memory */
    uint32_t id;
    uint64_t context; /* the context of the space in the backend */
    char name[FACET_SPACE_NAME];

    uint64_t base, address_bytes; /* the range of its addresses */
    bool reserved_in_process;     /* this process cannot have a mapping at these addresses (addresses.h) */
    uint32_t page_shift;
    uint32_t arena_count;
    struct facet_pool_arena *arenas[FACET_POOL_ARENAS_MAX];

    pthread_mutex_t unmap_lock; /* one thread at a time asks the device to unmap */

    pthread_mutex_t lock; /* protects the fields below */
    struct facet_table table;
    struct facet_unmap_queue unmap_queue;
    struct facet_slab_list dead_slabs[FACET_MEMORY_POOLS]; /* dead slabs, by class */
    uint64_t limit_pages, pages, peak_pages; /* `pages`: with or without a frame, and those that await unmapping */
    uint64_t absent_pages;                   /* pages without a frame */
    uint32_t pins, whole_pins;               /* pins of this space; those among them that pin all its pages */
    uint64_t turn_end_ns, idle_ns; /* until turn_end_ns it keeps pages that it brought in, unless unused for idle_ns */
    uint64_t used_ns;              /* when its last pin began or ended */
    uint64_t wanted_by_head;       /* number (heads_left + 1) of the queue's head that waits only for pins */
    uint64_t swapped_in, swapped_out, swap_ns, waited_ns;
    uint64_t run_count, run_bytes, run_total;
    uint64_t moved_pages;
    _Atomic uint64_t refused_total;
    pthread_rwlock_t transfer_lock; /* read lock: copies and fills of a plain backend; write lock: unmapping */
};

struct facet_defragmenter;

struct facet_memory {
    struct facet_page_backend backend;
    struct facet_frames frames;
    struct facet_classes classes;
    uint64_t page_bytes, chunk_bytes;
    uint64_t pass_bytes;
    struct facet_swap *swap; /* NULL: memory is always on the device */
    uint32_t swap_repay;
    struct facet_queue queue;
    uint32_t clock_hand;                     /* the frame from which the head of the queue next searches for pages */
    struct facet_defragmenter *defragmenter; /* the background defragmenter; NULL: none */

    pthread_mutex_t lock; /* protects the fields below */
    LIST_HEAD(, facet_space) spaces;
    uint32_t space_count, last_serial;
    uint64_t limits_bytes, span_bytes; /* sums over all spaces */
};

/* The most that a space can ever hold. */
static inline uint64_t facet_memory_max_bytes(const struct facet_memory *memory)
{
    return memory->frames.frames_max * memory->page_bytes + (memory->swap ? facet_swap_bytes(memory->swap) : 0);
}

/* memory.c: takes the backend over, also when it fails. */
enum facet_status facet_memory_open(const struct facet_page_backend *backend, const struct facet_memory_config *config,
                                    struct facet_memory **ret_memory, struct facet_error *error);

/* spaces.c: locks the space with that serial and returns it; NULL: it was destroyed. */
struct facet_space *facet_memory_lock_space(struct facet_memory *memory, uint32_t serial);
/* For how many of the pages the frames lie in a row in one chunk: such frames are mapped, and given back, together. */
uint32_t facet_space_row_of_frames(const struct facet_space *space, uint32_t first, uint32_t count);

/*
 * pages.c: gives memory to pages that facet_table_take() returned: to all of them or none (FACET_QUOTA,
 * FACET_NO_SPACE). On failure the pages are free again, or await unmapping. Called with the space's lock held.
 */
enum facet_status facet_space_back(struct facet_space *space, uint32_t first, uint32_t count,
                                   struct facet_error *error);
/*
 * Gives memory, with their former contents, to the first of the pages that have none, as far as their frames are
 * contiguous. *ret_count: how many pages the caller can skip, at least one.
 */
enum facet_status facet_space_bring_in(struct facet_space *space, uint32_t first, uint32_t count, uint32_t *ret_count,
                                       struct facet_error *error);
/* Sends out a page that has memory and no pins. */
enum facet_status facet_space_send_out(struct facet_space *space, uint32_t page, struct facet_error *error);
/*
 * unmap_queue.c: queues pages and their addresses for unmapping by facet_space_unmap_freed(), which is called without
 * the space's lock.
 */
void facet_space_unback(struct facet_space *space, uint32_t first, uint32_t count);

static inline uint64_t facet_space_address(const struct facet_space *space, uint32_t page)
{
    return space->base + ((uint64_t)page << space->page_shift);
}

/* pins.c: pins, and bringing in pages (facet/memory.h). */
/* Pins the pages of a range of addresses that was checked, for a transfer. */
enum facet_status facet_space_pin_range(struct facet_space *space, uint64_t address, uint64_t bytes,
                                        struct facet_error *error);
void facet_space_unpin_range(struct facet_space *space, uint64_t address, uint64_t bytes);

/* pools.c: blocks. */
enum facet_status facet_pools_take(struct facet_space *space, uint32_t class, uint32_t bytes, uint32_t tag,
                                   uint64_t *ret_address, struct facet_error *error);
enum facet_status facet_pools_give(struct facet_space *space, struct facet_slab *slab, uint64_t address,
                                   struct facet_error *error);
/* Resizes within a block. FACET_TOO_SMALL: `bytes` belong to another class. */
enum facet_status facet_pools_resize(struct facet_space *space, uint64_t address, uint64_t bytes);
/* Gives back empty slabs, and unmaps pages that await it. Returns how many pages. Called with no lock held. */
uint64_t facet_pools_trim(struct facet_space *space);
enum facet_status facet_pools_create(struct facet_space *space, struct facet_error *error);
/* Gives all blocks back. */
void facet_pools_clear(struct facet_space *space);
void facet_pools_destroy(struct facet_space *space);

/* runs.c: runs of pages. */
enum facet_status facet_runs_take(struct facet_space *space, uint64_t bytes, uint64_t align, uint32_t tag,
                                  uint64_t *ret_address, struct facet_error *error);
enum facet_status facet_runs_give(struct facet_space *space, uint64_t address, struct facet_error *error);
/* Resizes a run in place. FACET_TOO_SMALL: the addresses behind it are not free. */
enum facet_status facet_runs_resize(struct facet_space *space, uint64_t address, uint64_t bytes,
                                    struct facet_error *error);
/* Gives all runs back. Called with no lock held. */
void facet_runs_clear(struct facet_space *space);

/* unmap_queue.c. facet_unmap_queue_clear() gives the frames back; the addresses must have been released. */
void facet_unmap_queue_init(struct facet_unmap_queue *queue);
void facet_unmap_queue_clear(struct facet_space *space);

/*
 * defragmenter.c: a background thread defragments the memory when its fragmentation is above `milli`, until it is
 * stopped.
 */
enum facet_status facet_defragmenter_start(struct facet_memory *memory, uint32_t milli, uint64_t interval_ns,
                                           struct facet_error *error);
void facet_defragmenter_stop(struct facet_memory *memory);

#endif
