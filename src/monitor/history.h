/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recent measurements: a ring of samples, and their summary over a window.
 *
 * Owns: the samples, as many as it was created for; older ones make room.
 * Never: measures, reads a clock, or makes its writer wait for a reader.
 *
 * Thread rule: one thread adds; any number of threads read at the same time, without a lock. A reader gets whole
 * samples only: one that is overwritten while it is read is gone, like those before it.
 */
#ifndef FACET_MONITOR_HISTORY_H
#define FACET_MONITOR_HISTORY_H

#include <stddef.h>

#include <facet/error.h>

#include "monitor/sample.h"

#define FACET_HISTORY_MAX (1u << 20)

struct facet_history;

/* Makes a history of `capacity` samples, 1 to FACET_HISTORY_MAX. Errors: FACET_OUT_OF_RANGE, FACET_NO_MEMORY. */
enum facet_status facet_history_create(uint32_t capacity, struct facet_history **ret_history,
                                       struct facet_error *error);
void facet_history_destroy(struct facet_history *history);

/* The writer's. Times must grow: one that does not is refused, and the sample is not kept. */
bool facet_history_add(struct facet_history *history, const struct facet_sample *sample);

/* The newest samples, newest first. Returns how many; at most `max`. */
size_t facet_history_latest(const struct facet_history *history, struct facet_sample *ret_samples, size_t max);

/*
 * Samples after `after_ns`, oldest first. A reader that passes the time of its last sample misses only overwritten
 * ones. Returns how many; at most `max`.
 */
size_t facet_history_since(const struct facet_history *history, uint64_t after_ns, struct facet_sample *ret_samples,
                           size_t max);

/* ---- windows ---- */

struct facet_summary {
    size_t count; /* samples that have the field; 0: the rest says nothing */
    uint64_t min, max, mean;
    uint64_t percentile; /* the smallest value that `milli` of them do not exceed */
};

/*
 * One field of samples as they were read, whose times are from `from_ns` on and before `until_ns`. `percentile_milli`
 * is 0 to 1000: 500 is the median, 990 the 99th percentile. Samples without the field do not count.
 */
struct facet_summary facet_samples_summarize(const struct facet_sample *samples, size_t count,
                                             enum facet_sample_field field, uint64_t from_ns, uint64_t until_ns,
                                             uint32_t percentile_milli);

#endif
