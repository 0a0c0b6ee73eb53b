/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page table of a space, and its free runs of pages.
 *
 * Owns: one entry for each page of a space's addresses; free and used runs of pages; finding room for a run at once.
 * Never: asks the backend for anything, or takes a lock: callers hold the space's lock.
 *
 * Free runs stand in rows by length, with eight rows to each doubling and bits that say which rows are not empty (the
 * two-level segregated fit of Masmano et al., 2004), and the entries at both ends of a run hold its length. So taking
 * and giving are O(1), except for writing the entries of the run.
 */
#ifndef FACET_MEMORY_TABLE_H
#define FACET_MEMORY_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define FACET_PAGE_NONE UINT32_MAX
#define FACET_RUN_ROWS  (30u * 8u)

struct facet_slab;

enum facet_page_state {
    FACET_PAGE_FREE = 0,         /* in a free run; only the entries at its ends are valid */
    FACET_PAGE_HEAD = 1,         /* the first page of an allocated run */
    FACET_PAGE_BODY = 2,         /* another page of an allocated run */
    FACET_PAGE_SLAB = 3,         /* a page of a slab */
    FACET_PAGE_AWAITS_UNMAP = 4, /* freed, but the device has not unmapped it (unmap_queue.h) */
};

/*
 * In `marks`, in addition to the public FACET_PAGE_DIRTY and FACET_PAGE_ACCESSED: the page was used since the clock
 * hand last passed it.
 */
#define FACET_MARK_RECENT 0x80u

/* The most pins of one page. */
#define FACET_PINS_MAX UINT16_MAX

/* Written under the space's lock; the atomic fields are also read without it. */
struct facet_entry {
    _Atomic uint32_t frame; /* number of the frame plus 1; 0: not backed */
    _Atomic uint8_t state, marks;
    uint16_t pins;
    uint32_t head;   /* of a page in an allocated run: the run's first page */
    uint32_t length; /* at both ends of a free run, and at the head of an allocated one or one that awaits unmapping */
    uint32_t next, prev; /* at the first page: of a free run, links of its row; of an extent to unmap, of the queue */
    uint32_t swap_slot;  /* of a page without a frame: number of the swap slot plus 1; 0: none, it has no contents */
    uint32_t tag;        /* at the head: the tag of the allocation */
    _Atomic uint64_t bytes;
    uint64_t time_ns;
    _Atomic uint64_t access_ns;
};

/* The frame that backs a page; UINT32_MAX (FACET_FRAME_NONE): none. */
static inline uint32_t facet_entry_frame(const struct facet_entry *entry)
{
    return atomic_load_explicit(&entry->frame, memory_order_relaxed) - 1;
}

static inline void facet_entry_set_frame(struct facet_entry *entry, uint32_t frame)
{
    atomic_store_explicit(&entry->frame, frame + 1, memory_order_relaxed);
}

struct facet_table {
    struct facet_entry *entries;
    _Atomic(struct facet_slab *)
        *slabs; /* the slab of each page of a pool; a separate array, because each free of a block reads it */
    uint32_t count;
    uint32_t doublings_used;       /* a bit for each doubling of length that has a free run */
    uint8_t rows_used[32];         /* for each doubling, a bit for each of its eight rows */
    uint32_t rows[FACET_RUN_ROWS]; /* first page of the first run of each row */
};

/* Makes a table with one free run of `count` pages. False: no memory. */
bool facet_table_init(struct facet_table *table, uint32_t count);
void facet_table_clear(struct facet_table *table);

/*
 * Takes `count` pages in a row, the first a multiple of `align` (a power of two); FACET_PAGE_NONE: there are none. The
 * caller fills their entries.
 */
uint32_t facet_table_take(struct facet_table *table, uint32_t count, uint32_t align);

/* Takes `count` pages from `first` on, which follow a page in use. False: they are not all free. */
bool facet_table_take_at(struct facet_table *table, uint32_t first, uint32_t count);

/* Gives pages back, and joins them with free neighbours. */
void facet_table_give(struct facet_table *table, uint32_t first, uint32_t count);

#endif
