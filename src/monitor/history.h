/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recent measurements: a ring of samples, and their summary over a window.
 *
 * Owns: the newest samples, up to the capacity of the history; each further sample overwrites the oldest.
 * Never: measures, reads a clock, or makes its writer wait for a reader.
 *
 * Thread rule: one thread adds; any number of threads read at the same time, without a lock. A reader gets whole
 * samples only: a sample that is overwritten while it is read is lost, like all older samples.
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

/* For the writer. Times must grow: returns false, and does not keep the sample, when its time is not after the last. */
bool facet_history_add(struct facet_history *history, const struct facet_sample *sample);

/* Reads up to `max` samples, the newest first. Returns how many were read. */
size_t facet_history_latest(const struct facet_history *history, struct facet_sample *ret_samples, size_t max);

/*
 * Reads up to `max` samples after `after_ns`, the oldest first. A reader that passes the time of its last sample misses
 * overwritten samples only. Returns how many were read.
 */
size_t facet_history_since(const struct facet_history *history, uint64_t after_ns, struct facet_sample *ret_samples,
                           size_t max);

/* ---- windows ---- */

struct facet_summary {
    size_t count; /* samples that have the field; 0: the members below mean nothing */
    uint64_t min, max, mean;
    uint64_t percentile; /* the smallest value that `percentile_milli` thousandths of the samples do not exceed */
};

/*
 * Summarizes one field over the samples whose times are from `from_ns` on and before `until_ns`. `percentile_milli`
 * is 0 to 1000: 500 is the median, 990 the 99th percentile. Samples without the field do not count.
 */
struct facet_summary facet_samples_summarize(const struct facet_sample *samples, size_t count,
                                             enum facet_sample_field field, uint64_t from_ns, uint64_t until_ns,
                                             uint32_t percentile_milli);

#endif
