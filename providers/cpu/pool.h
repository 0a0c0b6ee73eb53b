/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file that pages come from, one for each instance.
 *
 * Owns: giving out parts of that file (struct cpu_pool is in space.h). Never: maps them at addresses that kernels use.
 */
#ifndef CPU_POOL_H
#define CPU_POOL_H

#include "space.h"

/* Takes a zeroed part of the file. FACET_NO_MEMORY. */
enum facet_status cpu_pool_take(struct cpu_pool *pool, uint64_t bytes, struct cpu_extent **ret_extent,
                                struct facet_error *error);
void cpu_pool_give(struct cpu_pool *pool, struct cpu_extent *extent);

#endif
