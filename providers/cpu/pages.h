/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages: their owner, the spaces that may map them, and the parts that are mapped.
 *
 * Owns: their lives. Never: maps them (map.c, move.c), or counts them against a quota.
 *
 * Pages that end are put on a list `unused`, for the caller to free with no lock held. The space's lock is held for
 * writing, unless a comment says otherwise.
 */
#ifndef CPU_PAGES_H
#define CPU_PAGES_H

#include "space.h"

struct cpu_worker;

/* Takes the space's lock by itself: allocating much memory at once takes milliseconds. */
enum facet_status cpu_pages_create(struct cpu_space *space, uint64_t number, uint64_t bytes, struct facet_error *error);
enum facet_status cpu_pages_destroy(struct cpu_space *space, uint64_t number, struct cpu_pages_list *unused,
                                    struct facet_error *error);

/* Other spaces may map them; `worker` is charged from now on. `ret_bytes`: the charge; 0: they were shared before. */
enum facet_status cpu_pages_share(struct cpu_space *space, uint64_t number, struct cpu_worker *worker,
                                  uint64_t *ret_bytes, struct facet_error *error);

/* Counts a mapping of a part of them, for drop. FACET_OUT_OF_RANGE; FACET_BUSY when there is one already, and `alone`
 * is wanted. */
enum facet_status cpu_pages_take(struct cpu_space *space, uint64_t number, struct cpu_part part, bool alone,
                                 struct cpu_pages **ret_pages, struct facet_error *error);
void cpu_pages_drop(struct cpu_pool *pool, struct cpu_pages *pages, struct cpu_part part,
                    struct cpu_pages_list *unused);

/* Destroys all of a space. */
void cpu_pages_close(struct cpu_space *space, struct cpu_pages_list *unused);

#endif
