/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `facet run --report FILE`: a file that is written whole or not at all.
 *
 * Owns: the temporary file beside FILE, and its renaming.
 * Never: replaces anything but a regular file (a pipe or terminal is written to).
 */
#ifndef FACET_REPORT_H
#define FACET_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include <jansson.h>

#include <facet/error.h>

#include "base/paths.h"

struct report {
    FILE *file;                 /* NULL when there is no report */
    const char *name;           /* as it was given, for messages; the caller's */
    char path[FACET_PATH_SIZE]; /* the final name of the temporary; empty when `file` is written directly */
    char temporary[FACET_PATH_SIZE];
};

/* Opens it before anything else is done, so that an unwritable place is refused early. "-" is standard output. */
enum facet_status report_open(const char *path, struct report *ret_report, struct facet_error *error);

/* Writes and puts it in place. */
enum facet_status report_finish(struct report *report, const json_t *json, struct facet_error *error);

/* Removes an unfinished report. Harmless on a zeroed or finished report. */
void report_abandon(struct report *report);

#endif
