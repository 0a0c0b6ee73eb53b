/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of one context: addresses of this process, and the memory there.
 *
 * Owns: plain blocks, reservations, and the mappings of pages; the file that pages come from.
 * Never: counts against a quota (context.c), or waits for launches (memory.c and deferred_free.c do).
 *
 * Addresses are this process's own, so that kernels use them as they are. Plain memory is anonymous, because the kernel
 * gives that in huge pages; pages are parts of one file without a name per instance, so that they can be mapped at
 * several places and moved under an address that stays.
 *
 * Thread rule: one lock per space; the caller takes it, for reading to find and copy memory, for writing to change it.
 * Data that spaces share is under the pool's lock, which is taken here, inside of the spaces'.
 */
#ifndef CPU_SPACE_H
#define CPU_SPACE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <facet/error.h>

#include "base/page_view.h"

#define CPU_PAGE_BYTES  UINT64_C(65536) /* of reserve, create, map and unmap */
#define CPU_BLOCK_BYTES UINT64_C(4096)  /* plain memory comes in multiples of it */
#define CPU_GAP_BYTES   UINT64_C(65536) /* least distance between blocks and reservations of one process */

struct cpu_range {
    uint64_t at, end;
};

struct cpu_extent {
    TAILQ_ENTRY(cpu_extent) link;
    uint64_t offset, bytes;
    char *view_address; /* where the pool's view maps it; NULL: it does not */
};

/* The file. */
struct cpu_pool {
    pthread_mutex_t lock;
    int fd;                      /* -1 before the first pages */
    int userfault_fd;            /* -1: this kernel cannot protect shared memory */
    struct facet_page_view view; /* the pool's own mapping, by which pages are committed when made; closed: none are */
    TAILQ_HEAD(, cpu_extent) extents;
    void *shared; /* pages that every space may map: a tree of tsearch(), by their numbers */
};

/* A part of some pages. */
struct cpu_part {
    uint64_t offset, bytes;
};

struct cpu_pages {
    uint64_t number;
    TAILQ_ENTRY(cpu_pages) link;
    struct cpu_extent *extent;

    /* Under the pool's lock. */
    struct cpu_space *owner;   /* NULL: they were destroyed, and are freed with their last mapping */
    struct cpu_worker *worker; /* the worker that is charged for shared pages; NULL: the owner's context is */
    uint64_t mapped_bytes;     /* a page counts as often as it is mapped */
    uint32_t uses[];           /* how often each page is mapped */
};

TAILQ_HEAD(cpu_pages_list, cpu_pages);

/* Memory at an address: a plain block, or a part of pages that is mapped. */
struct cpu_piece {
    struct cpu_range range;
    struct cpu_pages *pages;  /* NULL: plain */
    uint64_t offset;          /* in the pages */
    uint64_t requested_bytes; /* of a plain block, before they were rounded up */
    uint64_t retired_from;    /* number of the first launch that may not use it; 0: all may */
};

struct cpu_space {
    pthread_rwlock_t lock;
    struct cpu_pool *pool;
    void *pieces;                /* of struct cpu_piece: a tree of tsearch(), in the order of addresses */
    void *reservations;          /* of struct cpu_range: another such tree */
    struct cpu_pages_list pages; /* the pages that it made */
};

/*
 * Pages in the first `commit_bytes` of the file are committed when they are made, others when they are touched.
 * FACET_NO_MEMORY.
 */
enum facet_status cpu_pool_open(struct cpu_pool *pool, uint64_t commit_bytes, struct facet_error *error);
void cpu_pool_close(struct cpu_pool *pool);

bool cpu_space_open(struct cpu_space *space, struct cpu_pool *pool);
/* Unmaps all memory of the space, and puts pages that no other space maps on the list `unused`. */
void cpu_space_close(struct cpu_space *space, struct cpu_pages_list *unused);

/* Whether work that begins now may use the whole range. An empty range is always allowed. */
bool cpu_space_has(const struct cpu_space *space, uint64_t address, uint64_t bytes);
/* Like cpu_space_has(), for work that was queued before: memory that is retired counts, too. */
bool cpu_space_has_with_retired(const struct cpu_space *space, uint64_t address, uint64_t bytes);
enum facet_status cpu_space_check(const struct cpu_space *space, uint64_t address, uint64_t bytes,
                                  struct facet_error *error);

/*
 * The memory that a kernel may access around an address: the requested bytes of a block, or all adjoining pages.
 */
bool cpu_space_bounds(const struct cpu_space *space, uint64_t address, struct cpu_range *ret_range);

/* Allocates zeroed memory. `bytes`: those requested, rounded up to a multiple of CPU_BLOCK_BYTES. FACET_NO_MEMORY. */
enum facet_status cpu_space_alloc(struct cpu_space *space, uint64_t bytes, uint64_t requested_bytes,
                                  uint64_t *ret_address, struct facet_error *error);
/* Takes a block out of the space. The caller unmaps *ret_range later. FACET_NOT_FOUND. */
enum facet_status cpu_space_free(struct cpu_space *space, uint64_t address, struct cpu_range *ret_range,
                                 struct facet_error *error);

enum facet_status cpu_space_reserve(struct cpu_space *space, uint64_t bytes, uint64_t align, uint64_t *ret_address,
                                    struct facet_error *error);
enum facet_status cpu_space_release(struct cpu_space *space, uint64_t address, uint64_t *ret_bytes,
                                    struct facet_error *error);

enum facet_status cpu_space_map(struct cpu_space *space, struct cpu_range range, uint64_t pages, uint64_t offset,
                                struct cpu_pages_list *unused, struct facet_error *error);
/* `unused`: pages without references, for the caller to free. */
enum facet_status cpu_space_unmap(struct cpu_space *space, struct cpu_range range, struct cpu_pages_list *unused,
                                  struct facet_error *error);

/*
 * Retires the memory that is mapped in a range: launches from number `sequence` on may not use it. Memory that was
 * retired before keeps its number. *ret_last: launches with smaller numbers may still use some of the range.
 * cpu_space_map() of the same pages there ends the retirement.
 */
enum facet_status cpu_space_retire(struct cpu_space *space, struct cpu_range range, uint64_t sequence,
                                   uint64_t *ret_last, struct facet_error *error);

/* move.c. Threads that read the range go on; a thread that writes to it waits. */
enum facet_status cpu_space_move(struct cpu_space *space, struct cpu_range range, uint64_t pages, uint64_t offset,
                                 struct cpu_pages_list *unused, struct facet_error *error);

#endif
