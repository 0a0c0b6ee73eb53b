/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device time that a process has used: the union of its commands' intervals, so that overlaps count once.
 *
 * Owns: struct facet_busy, a bounded set of disjoint intervals on one clock.
 * Never: reads a clock; only differences matter, so any clock will do.
 *
 * Commands complete in any order, so an early interval may arrive after a later one. Gaps between intervals are
 * remembered for that case; when there are too many intervals, the oldest gap is given up and counts as covered.
 */
#ifndef FACET_INTERPOSE_BUSY_H
#define FACET_INTERPOSE_BUSY_H

#include <stdint.h>

#define FACET_BUSY_INTERVALS 16

struct facet_interval {
    uint64_t start_ns, end_ns;
};

struct facet_busy {
    uint32_t count;
    struct facet_interval intervals[FACET_BUSY_INTERVALS + 1]; /* disjoint, ascending; one element is spare */
};

/* Adds [start, end) and returns how much of it was not covered before; 0 for an interval that ends before it starts. */
uint64_t facet_busy_add(struct facet_busy *busy, uint64_t start_ns, uint64_t end_ns);

/* How much of [start, end) is covered. */
uint64_t facet_busy_covered(const struct facet_busy *busy, uint64_t start_ns, uint64_t end_ns);

#endif
