/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages: their owner, the spaces that may map them, and the parts that are mapped.
 *
 * Owns: creating, sharing and destroying pages. Never: maps pages (map.c, move.c), or charges them.
 *
 * Pages that end are put on a list `unused`, for the caller to free with no lock held. The space's lock is held for
 * writing, unless a comment says otherwise.
 */
#ifndef CPU_PAGES_H
#define CPU_PAGES_H

#include "space.h"

struct cpu_worker;

/* Takes the space's lock itself, and only for the list: allocating much memory takes milliseconds. */
enum facet_status cpu_pages_create(struct cpu_space *space, uint64_t number, uint64_t bytes, struct facet_error *error);
enum facet_status cpu_pages_destroy(struct cpu_space *space, uint64_t number, struct cpu_pages_list *unused,
                                    struct facet_error *error);

/* Lets other spaces map the pages, and charges `worker` from now on. *ret_bytes: the charge; 0: they were shared. */
enum facet_status cpu_pages_share(struct cpu_space *space, uint64_t number, struct cpu_worker *worker,
                                  uint64_t *ret_bytes, struct facet_error *error);

/*
 * Counts a mapping of a part of the pages, until cpu_pages_drop(). FACET_OUT_OF_RANGE. FACET_BUSY: `exclusive` is set,
 * and some of the part is mapped already.
 */
enum facet_status cpu_pages_take(struct cpu_space *space, uint64_t number, struct cpu_part part, bool exclusive,
                                 struct cpu_pages **ret_pages, struct facet_error *error);
void cpu_pages_drop(struct cpu_pool *pool, struct cpu_pages *pages, struct cpu_part part,
                    struct cpu_pages_list *unused);

/* Destroys all pages that a space made. */
void cpu_pages_close(struct cpu_space *space, struct cpu_pages_list *unused);

#endif
