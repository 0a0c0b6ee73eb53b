/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the device table opened in process, for `facet devices` and `facet provider list`. Never: needs a daemon. */
#ifndef FACET_INVENTORY_H
#define FACET_INVENTORY_H

#include <jansson.h>

#include "command.h"
#include "device/table.h"

/* Checks the settings and opens the table. From then on this process has the environment and the soft limits of a
 * private daemon, so that both find the same devices. */
enum facet_status inventory_open(struct facet_device_table **ret_table, struct facet_error *error);

/*
 * After inventory_open(): warns on standard error of variables that name a missing file, and of providers that found no
 * device because a variable by which their driver is found was removed.
 */
void inventory_warn(const struct command *self, const struct facet_device_table *devices);

/* After inventory_open(): advises on an error about a missing device, if a variable that finds drivers was removed. */
void inventory_explain(struct facet_error *error);

/* As inventory_open(), but keeps this process's own environment, as a program that uses a device itself does. */
enum facet_status inventory_open_own_environment(struct facet_device_table **ret_table, struct facet_error *error);

/* Prints `json`, consuming it. */
int inventory_print_json(const struct command *self, json_t *json);

static inline void inventory_cleanup(struct facet_device_table **table)
{
    facet_device_table_close(*table);
}
#define INVENTORY_CLEANUP __attribute__((cleanup(inventory_cleanup)))

#endif
