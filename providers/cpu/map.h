/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declarations that the parts of a space share (space.c, map.c, move.c).
 *
 * Owns: looking up and splitting pieces. Never: changes a mapping.
 */
#ifndef CPU_MAP_H
#define CPU_MAP_H

#include "space.h"

int cpu_range_compare(const void *left, const void *right);
struct cpu_piece *cpu_piece_at(const struct cpu_space *space, uint64_t address);
/* Any piece that overlaps the range; NULL: there is none. */
struct cpu_piece *cpu_piece_in(const struct cpu_space *space, struct cpu_range range);
/* The reservation that contains the whole range; NULL: there is none. */
const struct cpu_range *cpu_reservation_around(const struct cpu_space *space, struct cpu_range range);

/* The part of the pages that a piece maps. */
static inline struct cpu_part cpu_piece_part(const struct cpu_piece *piece)
{
    return (struct cpu_part){piece->offset, piece->range.end - piece->range.at};
}

/* --- map.c --- */

/* Refuses a range that is not whole pages of one reservation. FACET_OUT_OF_RANGE. */
enum facet_status cpu_range_check(const struct cpu_space *space, struct cpu_range range, struct facet_error *error);
/* Splits the pieces at both ends of the range, without any effect on the mappings. FACET_NO_MEMORY. */
enum facet_status cpu_pieces_split(struct cpu_space *space, struct cpu_range range, struct facet_error *error);
/* Drops the pieces of a range at whose ends pieces end, but leaves the mappings there. */
void cpu_pieces_drop(struct cpu_space *space, struct cpu_range range, struct cpu_pages_list *unused);

#endif
