/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: subjects: their series of points, one sample as a transaction, rates and utilizations derived from two samples.
 * Never: measures, reads a clock, or keeps a part of a sample.
 */
#include "monitor/gather/subject.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/sized.h"
#include "base/text.h"

#define POINTS_MIN 2u

/* ---- life ---- */

static bool is_line(const char *text)
{
    size_t length = 1;

    for (; *text && length > 0; text += length)
        length = facet_text_is_control(text) ? 0 : facet_text_character(text);
    return length > 0;
}

static enum facet_status check_id(const char *id, struct facet_error *error)
{
    if (!id || !*id || !is_line(id))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "id", "id '%.200s': expected a line of UTF-8",
                                    id ? id : "");
    if (strlen(id) >= FACET_SUBJECT_ID_SIZE)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "id", "id '%.40s...': expected at most %u bytes", id,
                                    FACET_SUBJECT_ID_SIZE - 1);
    return FACET_OK;
}

enum facet_status facet_subject_create(const struct facet_subject_config *config, struct facet_subject **ret_subject,
                                       struct facet_error *error)
{
    if (!config || config->size < sizeof *config || !ret_subject)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "config",
                                    "config: expected a struct of %zu bytes, and room for the subject", sizeof *config);
    FACET_NEED_KNOWN("config", config, error);
    FACET_NEED_RESERVED("config", config, error);
    if (config->kind >= FACET_SUBJECT_KINDS)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "kind", "kind %" PRIu32 ": expected 0 to 3",
                                    config->kind);
    if (config->points < POINTS_MIN || config->points > FACET_SUBJECT_POINTS)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "points", "points %" PRIu32 ": expected %u to %u",
                                    config->points, POINTS_MIN, FACET_SUBJECT_POINTS);
    enum facet_status status = check_id(config->id, error);

    if (status != FACET_OK)
        return status;
    struct facet_subject *subject = calloc(1, sizeof *subject);

    if (!subject)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a subject");
    subject->kind = config->kind;
    subject->points = config->points;
    memcpy(subject->id, config->id, strlen(config->id));
    *ret_subject = subject;
    return FACET_OK;
}

void facet_subject_destroy(struct facet_subject *subject)
{
    if (!subject)
        return;
    for (uint32_t i = 0; i < subject->count; i++)
        free(subject->series[i].point);
    free(subject);
}

struct gather_series *gather_series_find(struct facet_subject *subject, const char *key)
{
    for (uint32_t i = 0; i < subject->count; i++)
        if (strcmp(subject->series[i].last.meter->key, key) == 0)
            return &subject->series[i];
    return NULL;
}

/* ---- the rules for measurements ---- */

static enum facet_status refuse_measurement(struct facet_error *error, const char *field,
                                            const struct facet_measurement *given, const char *expected)
{
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, field, "measurement of '%s': %s: expected %s",
                                given->meter->key, field, expected);
}

static bool is_derived(const char *key)
{
    for (uint32_t i = 0; i < facet_meter_count(); i++) {
        const struct gather_derived *derivation = gather_derived_from(facet_meter_at(i));

        if (derivation && strcmp(facet_meter_at(derivation->meter)->key, key) == 0)
            return true;
    }
    return false;
}

static enum facet_status check_measurement(struct facet_subject *subject, const struct facet_measurement *given,
                                           struct facet_error *error)
{
    if (given->size < sizeof *given)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "measurements",
                                    "measurements: expected structs of %zu bytes", sizeof *given);
    FACET_NEED_KNOWN("measurements", given, error);
    FACET_NEED_RESERVED("measurements", given, error);
    enum facet_status status = facet_meter_check(given->meter, error);

    if (status != FACET_OK)
        return status == FACET_ALREADY_EXISTS
                   ? refuse_measurement(error, "meter", given, "the registry's meter of that key")
                   : status;
    const struct gather_series *series = gather_series_find(subject, given->meter->key);

    if (!(given->meter->subjects >> subject->kind & 1))
        return refuse_measurement(error, "meter", given, "a meter for this kind of subject");
    if (is_derived(given->meter->key))
        return refuse_measurement(error, "meter", given,
                                  "a meter that is measured, not one that is derived from another");
    if (series && series->last.meter != given->meter)
        return refuse_measurement(error, "meter", given, "the meter that this key had in earlier measurements");
    if (given->reason >= FACET_UNMEASURED_REASONS)
        return refuse_measurement(error, "reason", given, "one of enum facet_unmeasured");
    if (series && given->time_ns <= series->last.time_ns)
        return refuse_measurement(error, "time_ns", given, "a time after the last measurement's");
    if (given->time_ns > INT64_MAX)
        return refuse_measurement(error, "time_ns", given, "at most INT64_MAX");
    return FACET_OK;
}

static enum facet_status check_measurements(struct facet_subject *subject, const struct facet_measurement *given,
                                            uint32_t count, struct facet_error *error)
{
    for (uint32_t i = 0; i < count; i++) {
        enum facet_status status = check_measurement(subject, &given[i], error);

        if (status != FACET_OK)
            return status;
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(given[k].meter->key, given[i].meter->key) == 0)
                return refuse_measurement(error, "meter", &given[i], "each meter once in a call");
    }
    return FACET_OK;
}

/* ---- room, before anything changes ---- */

static enum facet_status add_series(struct facet_subject *subject, const struct facet_meter *meter,
                                    struct facet_error *error)
{
    if (gather_series_find(subject, meter->key))
        return FACET_OK;
    if (subject->count == FACET_SUBJECT_METERS)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "count", "meter '%s': expected at most %u of a subject",
                                    meter->key, FACET_SUBJECT_METERS);
    struct facet_point *point = calloc(subject->points, sizeof *point);

    if (!point)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for %" PRIu32 " points", subject->points);
    subject->series[subject->count++] = (struct gather_series){.last = {.meter = meter}, .point = point};
    return FACET_OK;
}

static enum facet_status reserve_series(struct facet_subject *subject, const struct facet_measurement *given,
                                        uint32_t count, struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    for (uint32_t i = 0; i < count && status == FACET_OK; i++)
        status = add_series(subject, given[i].meter, error);
    for (uint32_t i = 0; i < count && status == FACET_OK; i++) {
        const struct gather_derived *derivation = gather_derived_from(given[i].meter);

        if (derivation)
            status = add_series(subject, facet_meter_at(derivation->meter), error);
    }
    return status;
}

static void undo_series(struct facet_subject *subject, uint32_t count)
{
    while (subject->count > count)
        free(subject->series[--subject->count].point);
}

/* ---- one sample ---- */

static void note_measurement(struct facet_subject *subject, struct gather_series *series,
                             const struct facet_measurement *given)
{
    if (given->identity != 0 && series->identity != 0 && given->identity != series->identity)
        series->points = 0;
    if (given->identity != 0)
        series->identity = given->identity;
    if (series->points == subject->points)
        memmove(series->point, series->point + 1, --series->points * sizeof *series->point);
    series->point[series->points++] =
        (struct facet_point){.time_ns = given->time_ns, .value = given->value, .reason = given->reason};
    FACET_SIZED_TAKE(&series->last, given);
}

/*
 * Compares the newest point with the last earlier point that has a value, so that a counter that could not be read for
 * a while loses no growth.
 */
static enum facet_unmeasured derive_value(const struct gather_series *source, const struct gather_derived *derivation,
                                          int64_t *ret_value)
{
    const struct facet_point *last = &source->point[source->points - 1], *first = last;

    if (last->reason != FACET_MEASURED)
        return (enum facet_unmeasured)last->reason;
    while (first > source->point && (first == last || first->reason != FACET_MEASURED))
        first--;
    if (first == last || first->reason != FACET_MEASURED)
        return FACET_UNMEASURED_FIRST;
    gather_wide diff = (gather_wide)last->value - first->value;

    if (diff < 0)
        return FACET_UNMEASURED_RESET;
    return gather_narrow(diff * derivation->per / (gather_wide)(last->time_ns - first->time_ns), ret_value)
               ? FACET_MEASURED
               : FACET_UNMEASURED_OUT_OF_RANGE;
}

static void set_capacity(struct facet_subject *subject, const struct gather_derived *derivation,
                         struct facet_measurement *measurement)
{
    if (derivation->max > 0) {
        measurement->capacity = derivation->max;
        measurement->has_capacity = 1;
    }
    if (derivation->capacity == GATHER_METER_COUNT)
        return;
    const struct gather_series *limit = gather_series_find(subject, facet_meter_at(derivation->capacity)->key);

    if (!limit || limit->last.time_ns != measurement->time_ns || limit->last.reason != FACET_MEASURED)
        return;
    measurement->capacity = limit->last.value;
    measurement->has_capacity = 1;
}

static void note_derived(struct facet_subject *subject, const struct facet_measurement *given)
{
    const struct gather_derived *derivation = gather_derived_from(given->meter);

    if (!derivation)
        return;
    const struct gather_series *source = gather_series_find(subject, given->meter->key);
    struct facet_measurement measurement = {.size = sizeof measurement,
                                            .meter = facet_meter_at(derivation->meter),
                                            .time_ns = given->time_ns,
                                            .identity = given->identity};

    measurement.reason = derive_value(source, derivation, &measurement.value);
    if (measurement.reason == FACET_MEASURED)
        set_capacity(subject, derivation, &measurement);
    note_measurement(subject, gather_series_find(subject, measurement.meter->key), &measurement);
}

enum facet_status facet_subject_add(struct facet_subject *subject, const struct facet_measurement *measurements,
                                    uint32_t count, struct facet_error *error)
{
    if (!subject || (!measurements && count > 0))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "measurements",
                                    "expected a subject and its measurements");
    uint32_t before = subject->count;
    enum facet_status status = check_measurements(subject, measurements, count, error);

    if (status == FACET_OK)
        status = reserve_series(subject, measurements, count, error);
    if (status != FACET_OK) {
        undo_series(subject, before);
        return status;
    }
    for (uint32_t i = 0; i < count; i++)
        note_measurement(subject, gather_series_find(subject, measurements[i].meter->key), &measurements[i]);
    for (uint32_t i = 0; i < count; i++)
        note_derived(subject, &measurements[i]);
    return FACET_OK;
}

/* ---- asking ---- */

uint32_t facet_subject_meters(const struct facet_subject *subject)
{
    return subject ? subject->count : 0;
}

enum facet_status facet_subject_get(const struct facet_subject *subject, uint32_t index,
                                    struct facet_measurement *ret_measurement, struct facet_statistics *ret_statistics,
                                    struct facet_error *error)
{
    if (!subject || !ret_measurement)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "subject",
                                    "expected a subject, and room for a measurement");
    if (index >= subject->count)
        return facet_error_argument(error, FACET_NOT_FOUND, "index", "index %" PRIu32 ": expected less than %" PRIu32,
                                    index, subject->count);
    const struct gather_series *series = &subject->series[index];

    *ret_measurement = series->last;
    if (ret_statistics)
        *ret_statistics = facet_points_summarize(series->last.meter, series->point, series->points);
    return FACET_OK;
}

enum facet_status facet_subject_find(const struct facet_subject *subject, const char *key,
                                     struct facet_measurement *ret_measurement, struct facet_statistics *ret_statistics,
                                     struct facet_error *error)
{
    if (!subject || !key)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "key", "expected a subject and a key");
    for (uint32_t i = 0; i < subject->count; i++)
        if (strcmp(subject->series[i].last.meter->key, key) == 0)
            return facet_subject_get(subject, i, ret_measurement, ret_statistics, error);
    return facet_error_argument(error, FACET_NOT_FOUND, "key",
                                "key '%.60s': expected the key of a meter that the subject has", key);
}
