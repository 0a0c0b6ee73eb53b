/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `facet run --report FILE`: a file that is written whole or not at all.
 *
 * Owns: the temporary file beside FILE, and its renaming.
 * Never: replaces a pipe or a terminal; it writes to them.
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
    char path[FACET_PATH_SIZE]; /* the final name; empty when `file` is written directly */
    char temporary[FACET_PATH_SIZE];
};

/* Opens the report, "-" being standard output. Called first, so that a path that cannot be written is refused early. */
enum facet_status report_open(const char *path, struct report *ret_report, struct facet_error *error);

/* Writes the report and renames it to its final name. */
enum facet_status report_finish(struct report *report, const json_t *json, struct facet_error *error);

/* Removes an unfinished report. Harmless on a zeroed or finished report. */
void report_abandon(struct report *report);

#endif
