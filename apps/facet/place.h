/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that the files of `facet place` share.
 *
 * Owns: its verbs of other files, reading a file whole, the table of grants.
 * Never: decides a grant.
 */
#ifndef FACET_PLACE_H
#define FACET_PLACE_H

#include <stddef.h>

#include "command.h"

extern const struct command place_replay, place_fleet;

/* All of a file, or of its first bytes when it has more than `most`: one byte more is enough to refuse it. The caller
 * frees it; NULL with errno when it cannot be read. */
char *place_read_file(const char *path, size_t most, size_t *ret_size);

/* A line for each grant of reservations (docs/api.md). */
int place_print_table(const struct command *self, const json_t *reservations);

#endif
