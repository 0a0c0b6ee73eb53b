/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: variables that hold a list. Never: takes away what was there. */
#ifndef FACET_LAUNCH_VARIABLE_H
#define FACET_LAUNCH_VARIABLE_H

#include <stdbool.h>

/* "first", or "first:before" when the variable is set already. False with errno when memory is out. */
bool launch_put_in_front(const char *variable, const char *first);

#endif
