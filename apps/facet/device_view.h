/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the output of `facet devices DEVICE`. Never: makes a call. */
#ifndef FACET_DEVICE_VIEW_H
#define FACET_DEVICE_VIEW_H

#include <jansson.h>

#include "command.h"

/* One device in full (docs/api.md): a card, and a table for each of its lists. Returns the exit status. */
int device_print(const struct command *self, const json_t *device);

#endif
