/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment variables other than the programs' settings (config.h): of providers, interposers, integrations.
 *
 * Owns: the one table of them, which `facet config` shows, with the values that their users accept; the variables that
 * decide which devices are found.
 * Never: reads one: each is read by its user.
 */
#ifndef FACET_BASE_VARIABLES_H
#define FACET_BASE_VARIABLES_H

#include <stdbool.h>
#include <stdint.h>

#include <facet/error.h>

/* Ranges of provider cpu's variables, for the provider and for the table. */
#define FACET_VARIABLE_UNITS_MAX  256u
#define FACET_VARIABLE_MEMORY_MIN (UINT64_C(2) << 20)
#define FACET_VARIABLE_MEMORY_MAX (UINT64_C(1) << 46)
#define FACET_VARIABLE_MS_MAX     UINT64_C(86400000)

enum facet_variable_form {
    FACET_VARIABLE_TEXT,   /* only its user can tell; a path is checked for its existence */
    FACET_VARIABLE_SWITCH, /* 0 or 1 */
    FACET_VARIABLE_NUMBER,
    FACET_VARIABLE_FOLDER,     /* is made where it is missing */
    FACET_VARIABLE_LIBRARY,    /* a file; 'facet run' checks that programs can load it */
    FACET_VARIABLE_SIMULATION, /* a text that only provider sim can judge */
    FACET_VARIABLE_PLACE,      /* "child" or "process" */
};

struct facet_variable {
    const char *name; /* "FACET_CPU_UNITS" */
    bool of_devices;  /* a provider reads it */
    bool is_path;     /* of a file or folder that must exist: without it the search silently finds nothing */
    const char *help; /* one line */
    enum facet_variable_form form;
    uint64_t min, max; /* of a number */
};

/* The table, in order; NULL past its end. */
const struct facet_variable *facet_variable_at(uint32_t index);

/*
 * Whether the variable's user would refuse the text, as far as its form tells; an empty one counts as unset.
 * FACET_INVALID_ARGUMENT, FACET_OUT_OF_RANGE, or FACET_NOT_FOUND for a path; the message names the variable.
 */
enum facet_status facet_variable_check(const struct facet_variable *variable, const char *text,
                                       struct facet_error *error);

/* Whether "NAME=value" begins as Facet's variables do and is none of them: a slip of the keyboard, most often. */
bool facet_variable_is_unknown(const char *entry);

/*
 * Whether the result of device discovery depends on a variable, given as "NAME=value" or "NAME": one of a provider, one
 * that locates providers, or one that FACET_KEEP_ENV names.
 */
bool facet_variable_is_of_devices(const char *entry);

#endif
