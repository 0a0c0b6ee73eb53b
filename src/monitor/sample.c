/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: names of fields and measures, and the arithmetic between two samples. Never: measures. */
#include "monitor/sample.h"

#include <stddef.h>
#include <string.h>

#include "base/clock.h"

__extension__ typedef unsigned __int128 wide;

static const char *const fields[FACET_SAMPLE_FIELDS] = {
    [FACET_SAMPLE_BUSY_NS] = "busy_ns",   [FACET_SAMPLE_MEMORY_BYTES] = "memory_bytes",
    [FACET_SAMPLE_LAUNCHES] = "launches", [FACET_SAMPLE_COMPLETED] = "completed",
    [FACET_SAMPLE_QUEUE_NS] = "queue_ns", [FACET_SAMPLE_QUEUED] = "queued",
    [FACET_SAMPLE_RUNNING] = "running",
};

static const char *const measures[] = {
    [FACET_MEASURE_UTILIZATION_MILLI] = "utilization_milli",
    [FACET_MEASURE_MEMORY_MILLI] = "memory_milli",
    [FACET_MEASURE_QUEUE_DELAY_NS] = "queue_delay_ns",
    [FACET_MEASURE_LAUNCHES_MILLI] = "launches_milli",
    [FACET_MEASURE_COMPLETED_MILLI] = "completed_milli",
    [FACET_MEASURE_MEMORY_BYTES] = "memory_bytes",
    [FACET_MEASURE_QUEUED] = "queued",
    [FACET_MEASURE_RUNNING] = "running",
};
#define MEASURES (sizeof measures / sizeof measures[0])

static bool find_name(const char *const *names, size_t count, const char *name, size_t *ret_index)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(names[i], name) != 0)
            continue;
        *ret_index = i;
        return true;
    }
    return false;
}

const char *facet_sample_field_name(enum facet_sample_field field)
{
    return (size_t)field < FACET_SAMPLE_FIELDS ? fields[field] : NULL;
}

bool facet_sample_field_find(const char *name, enum facet_sample_field *ret_field)
{
    size_t index;

    if (!find_name(fields, FACET_SAMPLE_FIELDS, name, &index))
        return false;
    *ret_field = (enum facet_sample_field)index;
    return true;
}

bool facet_sample_field_is_counter(enum facet_sample_field field)
{
    return field == FACET_SAMPLE_BUSY_NS || field == FACET_SAMPLE_LAUNCHES || field == FACET_SAMPLE_COMPLETED ||
           field == FACET_SAMPLE_QUEUE_NS;
}

const char *facet_measure_name(enum facet_measure measure)
{
    return (size_t)measure < MEASURES ? measures[measure] : NULL;
}

bool facet_measure_find(const char *name, enum facet_measure *ret_measure)
{
    size_t index;

    if (!find_name(measures, MEASURES, name, &index))
        return false;
    *ret_measure = (enum facet_measure)index;
    return true;
}

bool facet_measure_is_gauge(enum facet_measure measure)
{
    return measure == FACET_MEASURE_MEMORY_MILLI || measure == FACET_MEASURE_MEMORY_BYTES ||
           measure == FACET_MEASURE_QUEUED || measure == FACET_MEASURE_RUNNING;
}

void facet_sample_set(struct facet_sample *sample, enum facet_sample_field field, uint64_t value)
{
    sample->values[field] = value;
    sample->valid |= 1u << field;
}

bool facet_sample_get(const struct facet_sample *sample, enum facet_sample_field field, uint64_t *ret_value)
{
    if (!(sample->valid & 1u << field))
        return false;
    *ret_value = sample->values[field];
    return true;
}

/* ---- measures ---- */

static bool counter_growth(const struct facet_sample *previous, const struct facet_sample *sample,
                           enum facet_sample_field field, uint64_t *ret_grown)
{
    uint64_t before, now;

    if (!facet_sample_get(previous, field, &before) || !facet_sample_get(sample, field, &now) || now < before)
        return false;
    *ret_grown = now - before;
    return true;
}

static bool scale_value(uint64_t value, uint64_t multiplier, uint64_t divisor, uint64_t *ret_value)
{
    if (divisor == 0)
        return false;
    wide result = (wide)value * multiplier / divisor;

    *ret_value = result < UINT64_MAX ? (uint64_t)result : UINT64_MAX;
    return true;
}

/* How much a counter grew in `per_ns`, on average. */
static bool counter_rate(const struct facet_sample *previous, const struct facet_sample *sample,
                         enum facet_sample_field field, uint64_t per_ns, uint64_t *ret_rate)
{
    uint64_t growth;

    if (!previous || sample->time_ns <= previous->time_ns || !counter_growth(previous, sample, field, &growth))
        return false;
    return scale_value(growth, per_ns, sample->time_ns - previous->time_ns, ret_rate);
}

static bool queue_delay(const struct facet_sample *previous, const struct facet_sample *sample, uint64_t *ret_value)
{
    uint64_t waited, completed;

    if (!previous || !counter_growth(previous, sample, FACET_SAMPLE_QUEUE_NS, &waited) ||
        !counter_growth(previous, sample, FACET_SAMPLE_COMPLETED, &completed) || completed == 0)
        return false;
    *ret_value = waited / completed;
    return true;
}

static bool memory_milli(const struct facet_sample *sample, uint64_t memory_bytes, uint64_t *ret_milli)
{
    uint64_t bytes;

    return facet_sample_get(sample, FACET_SAMPLE_MEMORY_BYTES, &bytes) &&
           scale_value(bytes, 1000, memory_bytes, ret_milli);
}

bool facet_sample_measure(const struct facet_sample *previous, const struct facet_sample *sample,
                          enum facet_measure measure, uint64_t memory_bytes, uint64_t *ret_value)
{
    switch (measure) {
    case FACET_MEASURE_UTILIZATION_MILLI:
        return counter_rate(previous, sample, FACET_SAMPLE_BUSY_NS, 1000, ret_value);
    case FACET_MEASURE_LAUNCHES_MILLI:
        return counter_rate(previous, sample, FACET_SAMPLE_LAUNCHES, 1000 * FACET_NS_PER_S, ret_value);
    case FACET_MEASURE_COMPLETED_MILLI:
        return counter_rate(previous, sample, FACET_SAMPLE_COMPLETED, 1000 * FACET_NS_PER_S, ret_value);
    case FACET_MEASURE_QUEUE_DELAY_NS:
        return queue_delay(previous, sample, ret_value);
    case FACET_MEASURE_MEMORY_MILLI:
        return memory_milli(sample, memory_bytes, ret_value);
    case FACET_MEASURE_MEMORY_BYTES:
        return facet_sample_get(sample, FACET_SAMPLE_MEMORY_BYTES, ret_value);
    case FACET_MEASURE_QUEUED:
        return facet_sample_get(sample, FACET_SAMPLE_QUEUED, ret_value);
    case FACET_MEASURE_RUNNING:
        return facet_sample_get(sample, FACET_SAMPLE_RUNNING, ret_value);
    }
    return false;
}
