/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: finding variables of this shell that look like Facet's and are none. Never: refuses a command for one. */
#ifndef FACET_UNKNOWN_H
#define FACET_UNKNOWN_H

#include "command.h"

enum { UNKNOWN_NAME_SIZE = 64 };

/*
 * Finds the next unknown variable from `*at` on, which is 0 for the first call: its name, and its value. False: there
 * are no more. *ret_nearest is a known name that resembles it, or NULL.
 */
bool unknown_next(size_t *at, char ret_name[UNKNOWN_NAME_SIZE], const char **ret_value, const char **ret_nearest);

/* Warns of each unknown variable. */
void unknown_warn(const struct command *self);

#endif
