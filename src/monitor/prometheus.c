/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the growing text. Never: uses floating point; decimals are printed from integers. */
#include "monitor/prometheus.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define FIRST_CAPACITY 4096u
#define MILLI          1000u

static const char *const type_names[] = {
    [FACET_METRIC_GAUGE] = "gauge",
    [FACET_METRIC_COUNTER] = "counter",
};

/* Room for `length` more bytes and the terminator. */
static bool reserve_text(struct facet_prometheus *prometheus, size_t length)
{
    size_t capacity = prometheus->capacity ? prometheus->capacity : FIRST_CAPACITY;

    if (prometheus->failed)
        return false;
    while (capacity - prometheus->length <= length)
        capacity *= 2;
    if (capacity == prometheus->capacity)
        return true;

    char *text = realloc(prometheus->text, capacity);
    if (!text) {
        prometheus->failed = true;
        return false;
    }
    prometheus->text = text;
    prometheus->capacity = capacity;
    return true;
}

static void append(struct facet_prometheus *prometheus, const char *text, size_t length)
{
    if (!reserve_text(prometheus, length))
        return;
    memcpy(prometheus->text + prometheus->length, text, length);
    prometheus->length += length;
    prometheus->text[prometheus->length] = '\0';
}

static void append_text(struct facet_prometheus *prometheus, const char *text)
{
    append(prometheus, text, strlen(text));
}

/* The format escapes backslash and line feed everywhere, and quotes inside a label only. */
static void append_escaped(struct facet_prometheus *prometheus, const char *text, bool quoted)
{
    for (const char *c = text; *c; c++) {
        if (*c == '\\')
            append_text(prometheus, "\\\\");
        else if (*c == '\n')
            append_text(prometheus, "\\n");
        else if (*c == '"' && quoted)
            append_text(prometheus, "\\\"");
        else
            append(prometheus, c, 1);
    }
}

void facet_prometheus_init(struct facet_prometheus *prometheus)
{
    *prometheus = (struct facet_prometheus){0};
}

void facet_prometheus_family(struct facet_prometheus *prometheus, const char *name, enum facet_metric_type type,
                             const char *help)
{
    prometheus->family = name;
    append_text(prometheus, "# HELP ");
    append_text(prometheus, name);
    append_text(prometheus, " ");
    append_escaped(prometheus, help, false);
    append_text(prometheus, "\n# TYPE ");
    append_text(prometheus, name);
    append_text(prometheus, " ");
    append_text(prometheus, type_names[type]);
    append_text(prometheus, "\n");
}

static void append_sample(struct facet_prometheus *prometheus, const struct facet_label *labels, size_t label_count,
                          const char *value)
{
    append_text(prometheus, prometheus->family);
    for (size_t i = 0; i < label_count; i++) {
        append_text(prometheus, i ? "," : "{");
        append_text(prometheus, labels[i].name);
        append_text(prometheus, "=\"");
        append_escaped(prometheus, labels[i].value, true);
        append_text(prometheus, "\"");
    }
    append_text(prometheus, label_count ? "} " : " ");
    append_text(prometheus, value);
    append_text(prometheus, "\n");
}

void facet_prometheus_count(struct facet_prometheus *prometheus, const struct facet_label *labels, size_t label_count,
                            uint64_t value)
{
    char text[32];

    snprintf(text, sizeof text, "%" PRIu64, value);
    append_sample(prometheus, labels, label_count, text);
}

void facet_prometheus_seconds(struct facet_prometheus *prometheus, const struct facet_label *labels, size_t label_count,
                              uint64_t ns)
{
    char text[48];

    snprintf(text, sizeof text, "%" PRIu64 ".%09" PRIu64, ns / FACET_NS_PER_S, ns % FACET_NS_PER_S);
    append_sample(prometheus, labels, label_count, text);
}

void facet_prometheus_ratio(struct facet_prometheus *prometheus, const struct facet_label *labels, size_t label_count,
                            uint64_t milli)
{
    char text[48];

    snprintf(text, sizeof text, "%" PRIu64 ".%03" PRIu64, milli / MILLI, milli % MILLI);
    append_sample(prometheus, labels, label_count, text);
}

void facet_prometheus_signed(struct facet_prometheus *prometheus, const struct facet_label *labels, size_t label_count,
                             int64_t milli)
{
    uint64_t size = milli < 0 ? UINT64_C(0) - (uint64_t)milli : (uint64_t)milli;
    char text[48];

    snprintf(text, sizeof text, "%s%" PRIu64 ".%03" PRIu64, milli < 0 ? "-" : "", size / MILLI, size % MILLI);
    append_sample(prometheus, labels, label_count, text);
}

void facet_prometheus_decimal(struct facet_prometheus *prometheus, const struct facet_label *labels, size_t label_count,
                              int64_t value, uint32_t decimals)
{
    uint64_t size = value < 0 ? UINT64_C(0) - (uint64_t)value : (uint64_t)value, one = 1;
    char text[48];

    for (uint32_t i = 0; i < decimals; i++)
        one *= 10;
    if (decimals == 0)
        snprintf(text, sizeof text, "%" PRIi64, value);
    else
        snprintf(text, sizeof text, "%s%" PRIu64 ".%0*" PRIu64, value < 0 ? "-" : "", size / one, (int)decimals,
                 size % one);
    append_sample(prometheus, labels, label_count, text);
}

char *facet_prometheus_take(struct facet_prometheus *prometheus)
{
    char *text = prometheus->text;

    if (prometheus->failed || !text) {
        free(text);
        text = prometheus->failed ? NULL : strdup("");
    }
    facet_prometheus_init(prometheus);
    return text;
}
