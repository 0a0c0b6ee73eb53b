/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the two halves of a space share (space.c, map.c).
 *
 * Owns: looking up. Never: changes anything.
 */
#ifndef CPU_MAP_H
#define CPU_MAP_H

#include "space.h"

int cpu_range_compare(const void *left, const void *right);
struct cpu_piece *cpu_piece_at(const struct cpu_space *space, uint64_t address);
/* Any that has a part of it; NULL: none has. */
struct cpu_piece *cpu_piece_in(const struct cpu_space *space, struct cpu_range range);
/* The one that all of it lies in. */
const struct cpu_range *cpu_reservation_around(const struct cpu_space *space, struct cpu_range range);

#endif
