/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: subjects as JSON (schemas/measurements.schema.json). Never: writes a JSON number with a fraction: each is an
 * integer, or null when it is not known. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "monitor/gather/subject.h"

/* json_object_set_new() fails for a NULL value, and releases the value when it fails otherwise. */
static bool set_member(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0;
}

static json_t *number_or_null(bool known, int64_t value)
{
    return known ? json_integer(value) : json_null();
}

static bool add_statistics(json_t *object, const struct facet_meter *meter, const struct facet_statistics *statistics)
{
    json_t *all = json_object();
    const struct {
        const char *key;
        uint32_t bit;
        int64_t value;
    } each[] = {
        {"min", FACET_STATISTIC_MIN, statistics->min},
        {"max", FACET_STATISTIC_MAX, statistics->max},
        {"sum", FACET_STATISTIC_SUM, statistics->sum},
        {"average_milli", FACET_STATISTIC_AVERAGE, statistics->average_milli},
        {"diff", FACET_STATISTIC_DIFF, statistics->diff},
        {"rate_milli", FACET_STATISTIC_RATE, statistics->rate_milli},
    };

    if (!set_member(object, "statistics", all))
        return false;
    if (!set_member(all, "points", json_integer(statistics->points)) ||
        !set_member(all, "measured", json_integer(statistics->measured)))
        return false;
    for (size_t i = 0; i < sizeof each / sizeof each[0]; i++)
        if (meter->statistics & each[i].bit &&
            !set_member(all, each[i].key, number_or_null(statistics->valid & each[i].bit, each[i].value)))
            return false;
    return true;
}

static bool fill_measurement(json_t *object, const struct facet_measurement *measurement,
                             const struct facet_statistics *statistics)
{
    const struct facet_meter *meter = measurement->meter;
    bool measured = measurement->reason == FACET_MEASURED;
    int64_t percent = 0;
    bool has_percent = facet_measurement_percent(measurement, &percent);

    return set_member(object, "key", json_string(meter->key)) && set_member(object, "name", json_string(meter->name)) &&
           set_member(object, "type", json_string(facet_meter_type_name(meter->type))) &&
           set_member(object, "unit", json_string(facet_unit_name(meter->unit))) &&
           set_member(object, "decimals", json_integer(meter->decimals)) &&
           set_member(object, "time_ns", json_integer((json_int_t)measurement->time_ns)) &&
           set_member(object, "value", number_or_null(measured, measurement->value)) &&
           set_member(object, "unmeasured",
                      measured ? json_null() : json_string(facet_unmeasured_name(measurement->reason))) &&
           set_member(object, "capacity",
                      number_or_null(measured && measurement->has_capacity, measurement->capacity)) &&
           set_member(object, "percent_milli", number_or_null(has_percent, percent)) &&
           add_statistics(object, meter, statistics);
}

static bool add_measurement(json_t *list, const struct facet_subject *subject, uint32_t index)
{
    struct facet_measurement measurement;
    struct facet_statistics statistics;
    json_t *object = json_object();

    return facet_subject_get(subject, index, &measurement, &statistics, NULL) == FACET_OK &&
           json_array_append_new(list, object) == 0 && fill_measurement(object, &measurement, &statistics);
}

static bool add_subject(json_t *list, const struct facet_subject *subject)
{
    json_t *object = json_object(), *measurements = NULL;
    bool done = json_array_append_new(list, object) == 0 &&
                set_member(object, "kind", json_string(facet_subject_kind_name(subject->kind))) &&
                set_member(object, "id", json_string(subject->id));

    if (done)
        measurements = json_array();
    done = done && set_member(object, "measurements", measurements);
    for (uint32_t i = 0; done && i < subject->count; i++)
        done = add_measurement(measurements, subject, i);
    return done;
}

static char *write_text(struct facet_subject *const *subjects, size_t count)
{
    json_t *root = json_object(), *list = json_array();
    char *text = NULL;
    bool done = set_member(root, "subjects", list);

    for (size_t i = 0; done && i < count; i++)
        done = add_subject(list, subjects[i]);
    if (done)
        text = json_dumps(root, JSON_INDENT(2));
    json_decref(root);
    return text;
}

enum facet_status facet_subjects_json(struct facet_subject *const *subjects, size_t count, char **ret_text,
                                      struct facet_error *error)
{
    if ((!subjects && count > 0) || !ret_text)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "subjects",
                                    "subjects, ret_text: expected values, not NULL");
    for (size_t i = 0; i < count; i++)
        if (!subjects[i])
            return facet_error_argument(error, FACET_INVALID_ARGUMENT, "subjects",
                                        "subjects[%zu]: expected a subject, not NULL", i);
    char *text = write_text(subjects, count);

    if (!text)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for the text of %zu subjects", count);
    *ret_text = text;
    return FACET_OK;
}
