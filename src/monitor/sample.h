/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One sample of a vGPU or a device: counters and gauges at one time, and the measures derived from two samples.
 *
 * Owns: which fields are valid, and the measures derived from them; facet/monitor.h lists both.
 * Never: measures, or keeps a sample. Absent is not zero: a field that was not measured has no bit in `valid`, and a
 * measure that cannot be derived gets no value.
 *
 * Counters only grow. A counter that fell has restarted (with its provider), so its growth in between is unknown.
 * Amounts are integers; times are nanoseconds of one monotonic clock. Thread rule: pure functions.
 */
#ifndef FACET_MONITOR_SAMPLE_H
#define FACET_MONITOR_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include <facet/monitor.h>

bool facet_sample_field_find(const char *name, enum facet_sample_field *ret_field);
bool facet_sample_field_is_counter(enum facet_sample_field field);

bool facet_measure_find(const char *name, enum facet_measure *ret_measure);
bool facet_measure_is_gauge(enum facet_measure measure); /* whether one sample is enough */

void facet_sample_set(struct facet_sample *sample, enum facet_sample_field field, uint64_t value);
/* Returns whether the field was measured. */
bool facet_sample_get(const struct facet_sample *sample, enum facet_sample_field field, uint64_t *ret_value);

/*
 * A measure over the time from `previous` to `sample`. When `previous` is NULL only gauges can be derived.
 * `memory_bytes` is the amount that 1000 milli of memory stand for; 0: unknown. Returns whether there is a value.
 */
bool facet_sample_measure(const struct facet_sample *previous, const struct facet_sample *sample,
                          enum facet_measure measure, uint64_t memory_bytes, uint64_t *ret_value);

#endif
