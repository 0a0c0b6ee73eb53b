/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One sample of a vGPU or a device: counters and gauges at a moment, and the measures that follow from two of them.
 *
 * Owns: the validity of fields and the measures that are derived from them; facet/monitor.h has their list.
 * Never: measures, keeps or evaluates. Absent is not zero: a field that was not measured is marked, and so is a measure
 * that cannot be derived.
 *
 * Counters only grow. A counter that went back has restarted (with its provider): the growth in between is unknown.
 * Amounts are integers; times are nanoseconds of one monotonic clock. Thread rule: pure functions.
 */
#ifndef FACET_MONITOR_SAMPLE_H
#define FACET_MONITOR_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include <facet/monitor.h>

bool facet_sample_field_find(const char *name, enum facet_sample_field *ret_field);
bool facet_sample_field_counts(enum facet_sample_field field); /* whether it is a counter */

bool facet_measure_find(const char *name, enum facet_measure *ret_measure);
bool facet_measure_is_gauge(enum facet_measure measure); /* one sample is enough */

void facet_sample_set(struct facet_sample *sample, enum facet_sample_field field, uint64_t value);
/* Returns whether it was measured. */
bool facet_sample_get(const struct facet_sample *sample, enum facet_sample_field field, uint64_t *ret_value);

/*
 * A measure over the time from `previous` to `sample`. `previous` may be NULL: only gauges can be had then.
 * `memory_bytes` is the amount that 1000 milli of memory stand for; 0: not known. Returns whether it can be had.
 */
bool facet_sample_measure(const struct facet_sample *previous, const struct facet_sample *sample,
                          enum facet_measure measure, uint64_t memory_bytes, uint64_t *ret_value);

#endif
