/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment variables other than the programs' settings (config.h): of providers, interposers, integrations.
 *
 * Owns: the one table of them, which `facet config` shows; and which variables decide what devices are found.
 * Never: reads one: each is read by its user.
 */
#ifndef FACET_BASE_VARIABLES_H
#define FACET_BASE_VARIABLES_H

#include <stdbool.h>
#include <stdint.h>

struct facet_variable {
    const char *name; /* "FACET_CPU_UNITS" */
    bool of_devices;  /* a provider reads it */
    bool is_path;     /* of a file or folder that must be there: without it the search silently finds nothing */
    const char *help; /* one line */
};

/* The table, in order; NULL past its end. */
const struct facet_variable *facet_variable_at(uint32_t index);

/*
 * Whether the result of device discovery depends on a variable, given as "NAME=value" or "NAME": one of a provider, one
 * that locates providers, or one that FACET_KEEP_ENV names.
 */
bool facet_variable_is_of_devices(const char *entry);

#endif
