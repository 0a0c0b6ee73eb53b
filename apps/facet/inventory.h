/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the device table opened in process, for `facet devices` and `facet provider list`. Never: needs a daemon. */
#ifndef FACET_INVENTORY_H
#define FACET_INVENTORY_H

#include <jansson.h>

#include "command.h"
#include "device/table.h"

/* Checks the settings and opens the table as a private daemon does, so that both find the same: this process has the
 * daemon's environment and soft limits from now on. */
enum facet_status inventory_open(struct facet_device_table **ret_table, struct facet_error *error);

/*
 * After it, on standard error: which variables name a missing file, and which providers found no device though this
 * shell has a variable by which their driver is found.
 */
void inventory_warn(const struct command *self, const struct facet_device_table *devices);

/* After it, where a device is missing: adds advice, if this shell has such a variable at all. */
void inventory_explain(struct facet_error *error);

/* inventory_open() with this process's own environment, as a program that uses a device itself has it. */
enum facet_status inventory_open_own(struct facet_device_table **ret_table, struct facet_error *error);

/* Prints `json`, consuming it. */
int inventory_print_json(const struct command *self, json_t *json);

static inline void inventory_cleanup(struct facet_device_table **table)
{
    facet_device_table_close(*table);
}
#define INVENTORY_CLEANUP __attribute__((cleanup(inventory_cleanup)))

#endif
