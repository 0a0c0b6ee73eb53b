/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the internal interfaces of subjects. Never: is included outside this folder. */
#ifndef FACET_MONITOR_GATHER_SUBJECT_H
#define FACET_MONITOR_GATHER_SUBJECT_H

#include "monitor/gather/meter.h"

/* One meter over time. */
struct gather_series {
    struct facet_measurement last;
    struct facet_point *point; /* oldest first; room for the subject's `points` */
    uint32_t points;
    uint64_t identity; /* the last identity that was known */
};

struct facet_subject {
    uint32_t kind, points, count;
    char id[FACET_SUBJECT_ID_SIZE];
    struct gather_series series[FACET_SUBJECT_METERS];
};

__extension__ typedef __int128 gather_wide;

bool gather_narrow(gather_wide wide, int64_t *ret_value); /* false: it does not fit */

struct gather_series *gather_series_find(struct facet_subject *subject, const char *key);

#endif
