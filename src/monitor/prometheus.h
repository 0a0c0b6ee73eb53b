/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing metrics as Prometheus text, exposition format 0.0.4.
 *
 * Owns: the format (one HELP and TYPE per family, escaping, numbers). Amounts stay integers until they are printed.
 * Never: measures, names a metric, or does I/O.
 *
 * A family is begun once, and all its samples follow before the next family begins. Running out of memory is remembered
 * and reported by facet_prometheus_take().
 * Thread rule: one thread at a time per text.
 */
#ifndef FACET_MONITOR_PROMETHEUS_H
#define FACET_MONITOR_PROMETHEUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FACET_PROMETHEUS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

enum facet_metric_type {
    FACET_METRIC_GAUGE,
    FACET_METRIC_COUNTER,
};

struct facet_label {
    const char *name, *value;
};

struct facet_prometheus {
    char *text;
    size_t length, capacity;
    const char *family; /* the family that samples are added to */
    bool failed;        /* memory ran out: the text is incomplete */
};

/* An empty text: no memory is taken before the first family. */
void facet_prometheus_init(struct facet_prometheus *prometheus);

/* Begins the family `name`, which must stay valid until the next one begins. */
void facet_prometheus_family(struct facet_prometheus *prometheus, const char *name, enum facet_metric_type type,
                             const char *help);

/*
 * Each adds one sample to the present family: a whole number, nanoseconds written as seconds, or thousandths written as
 * a decimal (ratios and watts; degrees may be negative).
 */
void facet_prometheus_count(struct facet_prometheus *prometheus, const struct facet_label *labels, size_t label_count,
                            uint64_t value);
void facet_prometheus_seconds(struct facet_prometheus *prometheus, const struct facet_label *labels, size_t label_count,
                              uint64_t ns);
void facet_prometheus_ratio(struct facet_prometheus *prometheus, const struct facet_label *labels, size_t label_count,
                            uint64_t milli);

void facet_prometheus_signed(struct facet_prometheus *prometheus, const struct facet_label *labels, size_t label_count,
                             int64_t milli);

/* Adds a decimal: the last `decimals` digits of `value`, 0 to 18, are written behind the point. */
void facet_prometheus_decimal(struct facet_prometheus *prometheus, const struct facet_label *labels, size_t label_count,
                              int64_t value, uint32_t decimals);

/* Hands the text to the caller, who frees it, and empties `prometheus`. NULL when memory ran out on the way. */
char *facet_prometheus_take(struct facet_prometheus *prometheus);

#endif
