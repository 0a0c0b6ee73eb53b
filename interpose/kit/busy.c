/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the union of intervals, in a table of fixed size. When the table is full, the two oldest intervals become one.
 * Never: counts a nanosecond twice.
 */
#include "busy.h"

#include <string.h>

/*
 * The index of the first interval that ends at or after `start_ns`. That is almost always the last one, or none, so the
 * search begins at the end.
 */
static uint32_t first_touching(const struct facet_busy *busy, uint64_t start_ns)
{
    uint32_t at = busy->count;

    while (at > 0 && busy->intervals[at - 1].end_ns >= start_ns)
        at--;
    return at;
}

/* Replaces `removed` intervals at `at` by one. */
static void splice_intervals(struct facet_busy *busy, uint32_t at, uint32_t removed, struct facet_interval interval)
{
    memmove(&busy->intervals[at + 1], &busy->intervals[at + removed],
            (busy->count - at - removed) * sizeof busy->intervals[0]);
    busy->intervals[at] = interval;
    busy->count = busy->count - removed + 1;
}

uint64_t facet_busy_add(struct facet_busy *busy, uint64_t start_ns, uint64_t end_ns)
{
    uint32_t at = first_touching(busy, start_ns), past = at;
    struct facet_interval merged = {.start_ns = start_ns, .end_ns = end_ns};
    uint64_t covered = 0;

    if (end_ns <= start_ns)
        return 0;
    for (; past < busy->count && busy->intervals[past].start_ns <= end_ns; past++) {
        struct facet_interval old = busy->intervals[past];

        covered += old.end_ns - old.start_ns;
        if (old.start_ns < merged.start_ns)
            merged.start_ns = old.start_ns;
        if (old.end_ns > merged.end_ns)
            merged.end_ns = old.end_ns;
    }
    splice_intervals(busy, at, past - at, merged);

    uint64_t added = merged.end_ns - merged.start_ns - covered;
    if (busy->count > FACET_BUSY_INTERVALS) {
        busy->intervals[1].start_ns = busy->intervals[0].start_ns;
        splice_intervals(busy, 0, 2, busy->intervals[1]);
    }
    return added;
}

uint64_t facet_busy_covered(const struct facet_busy *busy, uint64_t start_ns, uint64_t end_ns)
{
    uint64_t covered = 0;

    for (uint32_t at = first_touching(busy, start_ns); at < busy->count; at++) {
        struct facet_interval part = busy->intervals[at];
        uint64_t from = part.start_ns > start_ns ? part.start_ns : start_ns;
        uint64_t to = part.end_ns < end_ns ? part.end_ns : end_ns;

        covered += to > from ? to - from : 0;
    }
    return covered;
}
