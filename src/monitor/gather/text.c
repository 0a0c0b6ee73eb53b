/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: subjects as Prometheus text: names in base units, a family for each meter. Never: writes a sample of an unknown
 * value.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#include "monitor/gather/subject.h"
#include "monitor/prometheus.h"

#define NAME_SIZE 160u

/* The unit in names, and how many more digits are behind the point: a percent is written as a ratio. */
static const struct {
    const char *suffix;
    uint32_t decimals;
} bases[FACET_UNITS] = {
    [FACET_UNIT_COUNT] = {"", 0},
    [FACET_UNIT_BYTES] = {"_bytes", 0},
    [FACET_UNIT_PERCENT] = {"_ratio", 2},
    [FACET_UNIT_NANOSECONDS] = {"_seconds", 9},
    [FACET_UNIT_MILLISECONDS] = {"_seconds", 3},
    [FACET_UNIT_BITS_PER_SECOND] = {"_bits_per_second", 0},
    [FACET_UNIT_BYTES_PER_SECOND] = {"_bytes_per_second", 0},
    [FACET_UNIT_COUNT_PER_SECOND] = {"_per_second", 0},
    [FACET_UNIT_WATTS] = {"_watts", 0},
    [FACET_UNIT_JOULES] = {"_joules", 0},
    [FACET_UNIT_CELSIUS] = {"_celsius", 0},
    [FACET_UNIT_HERTZ] = {"_hertz", 0},
};

struct family {
    const struct facet_meter *meter;
    uint32_t kind;
    bool capacity;
};

static void begin_family(struct facet_prometheus *text, const struct family *family, char *name)
{
    const struct facet_meter *meter = family->meter;
    bool counter = meter->type == FACET_METER_ACCUMULATION && !family->capacity;
    char help[NAME_SIZE];

    snprintf(name, NAME_SIZE, "facet_%s_%s%s%s%s", facet_subject_kind_name(family->kind), meter->key,
             family->capacity ? "_capacity" : "", bases[meter->unit].suffix, counter ? "_total" : "");
    snprintf(help, sizeof help, "%s%s", meter->name, family->capacity ? ": capacity." : ".");
    facet_prometheus_family(text, name, counter ? FACET_METRIC_COUNTER : FACET_METRIC_GAUGE, help);
}

static void write_family(struct facet_prometheus *text, const struct family *family,
                         struct facet_subject *const *subjects, size_t count)
{
    uint32_t decimals = family->meter->decimals + bases[family->meter->unit].decimals;
    char name[NAME_SIZE];
    bool begun = false;

    for (size_t i = 0; i < count; i++) {
        const struct gather_series *series =
            subjects[i]->kind == family->kind ? gather_series_find(subjects[i], family->meter->key) : NULL;
        const struct facet_label label = {"id", subjects[i]->id};

        if (!series || series->last.reason != FACET_MEASURED || (family->capacity && !series->last.has_capacity))
            continue;
        if (!begun)
            begin_family(text, family, name);
        begun = true;
        facet_prometheus_decimal(text, &label, 1, family->capacity ? series->last.capacity : series->last.value,
                                 decimals);
    }
}

static void write_unmeasured(struct facet_prometheus *text, struct facet_subject *const *subjects, size_t count)
{
    bool begun = false;

    for (size_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < subjects[i]->count; k++) {
            const struct facet_measurement *last = &subjects[i]->series[k].last;
            const struct facet_label labels[] = {{"kind", facet_subject_kind_name(subjects[i]->kind)},
                                                 {"id", subjects[i]->id},
                                                 {"meter", last->meter->key},
                                                 {"reason", facet_unmeasured_name(last->reason)}};

            if (last->reason == FACET_MEASURED)
                continue;
            if (!begun)
                facet_prometheus_family(text, "facet_unmeasurable", FACET_METRIC_GAUGE,
                                        "1 for each meter whose last measurement has no value.");
            begun = true;
            facet_prometheus_count(text, labels, 4, 1);
        }
    }
}

/* Whether no earlier subject of this kind has the meter; otherwise its family is written already. */
static bool is_first(struct facet_subject *const *subjects, size_t index, const struct facet_meter *meter)
{
    for (size_t i = 0; i < index; i++)
        if (subjects[i]->kind == subjects[index]->kind && gather_series_find(subjects[i], meter->key))
            return false;
    return true;
}

static bool meters_alike(const struct facet_meter *one, const struct facet_meter *other)
{
    return one == other || (one->type == other->type && one->unit == other->unit && one->decimals == other->decimals);
}

/* Callers' meters of one key become one family, so they must agree in type, unit and decimals. */
static enum facet_status check_meters(struct facet_subject *const *subjects, size_t count, struct facet_error *error)
{
    for (size_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < subjects[i]->count; k++) {
            const struct facet_meter *meter = subjects[i]->series[k].last.meter;

            for (size_t other = 0; other < i && facet_meter_find(meter->key) != meter; other++) {
                const struct gather_series *series = gather_series_find(subjects[other], meter->key);

                if (series && !meters_alike(series->last.meter, meter))
                    return facet_error_argument(error, FACET_INVALID_ARGUMENT, "subjects",
                                                "meter '%s': expected one type, unit and decimals for all subjects",
                                                meter->key);
            }
        }
    }
    return FACET_OK;
}

static int compare_subjects(const void *one, const void *other)
{
    const struct facet_subject *a = *(struct facet_subject *const *)one, *b = *(struct facet_subject *const *)other;

    return a->kind != b->kind ? (a->kind < b->kind ? -1 : 1) : strcmp(a->id, b->id);
}

/* Prometheus refuses the whole text when two samples have the same name and labels. */
static enum facet_status check_ids(struct facet_subject *const *subjects, size_t count, struct facet_error *error)
{
    FACET_CLEANUP_FREE struct facet_subject **sorted = count > 1 ? calloc(count, sizeof(struct facet_subject *)) : NULL;

    if (count < 2)
        return FACET_OK;
    if (!sorted)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for %zu subjects", count);
    memcpy(sorted, subjects, count * sizeof(struct facet_subject *));
    qsort(sorted, count, sizeof(struct facet_subject *), compare_subjects);
    for (size_t i = 1; i < count; i++)
        if (compare_subjects(&sorted[i - 1], &sorted[i]) == 0)
            return facet_error_argument(error, FACET_INVALID_ARGUMENT, "subjects",
                                        "%s '%.60s': expected it once among the subjects",
                                        facet_subject_kind_name(sorted[i]->kind), sorted[i]->id);
    return FACET_OK;
}

static void write_all(struct facet_prometheus *text, struct facet_subject *const *subjects, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < subjects[i]->count; k++) {
            struct family family = {.meter = subjects[i]->series[k].last.meter, .kind = subjects[i]->kind};

            if (!is_first(subjects, i, family.meter))
                continue;
            write_family(text, &family, subjects, count);
            family.capacity = true;
            write_family(text, &family, subjects, count);
        }
    }
    write_unmeasured(text, subjects, count);
}

enum facet_status facet_subjects_prometheus(struct facet_subject *const *subjects, size_t count, char **ret_text,
                                            struct facet_error *error)
{
    struct facet_prometheus text;

    if ((!subjects && count > 0) || !ret_text)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "subjects",
                                    "subjects, ret_text: expected values, not NULL");
    for (size_t i = 0; i < count; i++)
        if (!subjects[i])
            return facet_error_argument(error, FACET_INVALID_ARGUMENT, "subjects",
                                        "subjects[%zu]: expected a subject, not NULL", i);
    enum facet_status status = check_ids(subjects, count, error);

    if (status == FACET_OK)
        status = check_meters(subjects, count, error);
    if (status != FACET_OK)
        return status;
    facet_prometheus_init(&text);
    write_all(&text, subjects, count);
    char *whole = facet_prometheus_take(&text);

    if (!whole)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for the text of %zu subjects", count);
    *ret_text = whole;
    return FACET_OK;
}
