/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that the files of `facet place` share.
 *
 * Owns: the declarations of verbs, reading a whole file, the table of grants.
 * Never: decides a grant.
 */
#ifndef FACET_PLACE_H
#define FACET_PLACE_H

#include <stddef.h>

#include "command.h"

extern const struct command place_replay, place_fleet;

/* Reads a file. Stops after the first read beyond `most` bytes, by which the caller sees that the file is too long. The
 * caller frees the text. NULL: the file cannot be read (errno). */
char *place_read_file(const char *path, size_t most, size_t *ret_size);

/* Prints a line for each grant of the reservations (docs/api.md). */
int place_print_table(const struct command *self, const json_t *reservations);

#endif
