/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the arithmetic over points, and percent of capacity. Never: uses floating point, or gives a number that
 * overflowed. */
#include "monitor/gather/subject.h"

#include "base/clock.h"

#define MILLI   1000
#define PERCENT 100

bool gather_narrow(gather_wide wide, int64_t *ret_value)
{
    if (wide > INT64_MAX || wide < INT64_MIN)
        return false;
    *ret_value = (int64_t)wide;
    return true;
}

/* Rounds to the nearest, halves away from zero. */
static gather_wide divide_rounded(gather_wide value, gather_wide by)
{
    return (value < 0 ? value - by / 2 : value + by / 2) / by;
}

bool facet_measurement_percent(const struct facet_measurement *measurement, int64_t *ret_percent_milli)
{
    if (!measurement || !ret_percent_milli || measurement->reason != FACET_MEASURED || !measurement->has_capacity ||
        measurement->capacity <= 0)
        return false;
    return gather_narrow(divide_rounded((gather_wide)measurement->value * PERCENT * MILLI, measurement->capacity),
                         ret_percent_milli);
}

static void add_point(struct facet_statistics *statistics, int64_t value, gather_wide *sum)
{
    if (statistics->measured++ == 0)
        statistics->min = statistics->max = value;
    if (value < statistics->min)
        statistics->min = value;
    if (value > statistics->max)
        statistics->max = value;
    *sum += value;
}

static void add_levels(struct facet_statistics *statistics, const struct facet_point *points, size_t count)
{
    gather_wide sum = 0;

    for (size_t i = 0; i < count; i++)
        if (points[i].reason == FACET_MEASURED)
            add_point(statistics, points[i].value, &sum);
    if (statistics->measured == 0)
        return;
    statistics->valid = FACET_STATISTIC_MIN | FACET_STATISTIC_MAX;
    if (gather_narrow(sum, &statistics->sum))
        statistics->valid |= FACET_STATISTIC_SUM;
    if (gather_narrow(divide_rounded(sum * MILLI, statistics->measured), &statistics->average_milli))
        statistics->valid |= FACET_STATISTIC_AVERAGE;
}

static bool counter_fell(const struct facet_point *points, size_t count)
{
    const struct facet_point *last = NULL;

    for (size_t i = 0; i < count; i++) {
        if (points[i].reason != FACET_MEASURED)
            continue;
        if (last && points[i].value < last->value)
            return true;
        last = &points[i];
    }
    return false;
}

static void add_growth(struct facet_statistics *statistics, const struct facet_meter *meter,
                       const struct facet_point *points, size_t count)
{
    const struct facet_point *first = points, *last = &points[count - 1];

    while (first < last && first->reason != FACET_MEASURED)
        first++;
    if (first == last || last->reason != FACET_MEASURED || last->time_ns <= first->time_ns ||
        (meter->type == FACET_METER_ACCUMULATION && counter_fell(points, count)))
        return;
    gather_wide diff = (gather_wide)last->value - first->value;

    if (gather_narrow(diff, &statistics->diff))
        statistics->valid |= FACET_STATISTIC_DIFF;
    if (gather_narrow(divide_rounded(diff * MILLI * (gather_wide)FACET_NS_PER_S, last->time_ns - first->time_ns),
                      &statistics->rate_milli))
        statistics->valid |= FACET_STATISTIC_RATE;
}

struct facet_statistics facet_points_summarize(const struct facet_meter *meter, const struct facet_point *points,
                                               size_t count)
{
    struct facet_statistics statistics = {.size = sizeof statistics, .points = (uint32_t)count};

    if (!meter || !points || count == 0)
        return statistics;
    add_levels(&statistics, points, count);
    add_growth(&statistics, meter, points, count);
    statistics.valid &= meter->statistics;
    return statistics;
}
