/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: variables that hold a list, and those that name a file. Never: removes an earlier value. */
#ifndef FACET_LAUNCH_VARIABLE_H
#define FACET_LAUNCH_VARIABLE_H

#include <stdbool.h>

#include <facet/error.h>

/* Sets the variable to "first", or to "first:before" when it has a value. False: no memory (errno). */
bool launch_put_in_front(const char *variable, const char *first);

/*
 * Checks a variable that names a vendor's library. FACET_NOT_FOUND: it names no readable shared library for this
 * processor. Facet's interposer stands before that library, and without it the program would see no GPU and no error.
 */
enum facet_status launch_check_library(const char *variable, struct facet_error *error);

#endif
