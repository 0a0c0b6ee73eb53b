/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: finding variables of this shell that look like Facet's and are none. Never: refuses for one. */
#ifndef FACET_UNKNOWN_H
#define FACET_UNKNOWN_H

#include "command.h"

enum { UNKNOWN_NAME_SIZE = 64 };

/*
 * The next such variable from `*at` on, which begins as 0: its name, and its value. False: there is no further one.
 * `ret_nearest` is the name that was meant, as far as that can be guessed; else NULL.
 */
bool unknown_next(size_t *at, char ret_name[UNKNOWN_NAME_SIZE], const char **ret_value, const char **ret_nearest);

/* A warning for each. */
void unknown_warn(const struct command *self);

#endif
