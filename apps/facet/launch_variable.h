/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: variables that hold a list, and those that name a file. Never: removes an earlier value. */
#ifndef FACET_LAUNCH_VARIABLE_H
#define FACET_LAUNCH_VARIABLE_H

#include <stdbool.h>

#include <facet/error.h>

/* "first", or "first:before" when the variable is set already. False with errno when memory is out. */
bool launch_put_in_front(const char *variable, const char *first);

/*
 * FACET_NOT_FOUND where the variable is set and names no shared library for this processor that can be read. For the
 * vendor's libraries: without them Facet's own, in front of them, would show the program no GPU, and no reason.
 */
enum facet_status launch_check_library(const char *variable, struct facet_error *error);

#endif
