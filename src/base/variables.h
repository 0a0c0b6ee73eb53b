/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment variables of providers, interposers and integrations; those of the programs' settings are in
 * config.h.
 *
 * Owns: the one table of them, which `facet config` shows, with the values that their users accept; the variables that
 * decide which devices are found.
 * Never: reads a variable for its user: the code that uses a variable reads it.
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
    FACET_VARIABLE_TEXT,   /* any text; if `is_path`, the path must exist */
    FACET_VARIABLE_SWITCH, /* 0 or 1 */
    FACET_VARIABLE_NUMBER,
    FACET_VARIABLE_FOLDER,     /* a folder; it is made if it is missing */
    FACET_VARIABLE_LIBRARY,    /* a file; 'facet run' checks that programs can load it */
    FACET_VARIABLE_SIMULATION, /* a text that only provider sim can judge */
    FACET_VARIABLE_PLACE,      /* "child" or "process" */
};

struct facet_variable {
    const char *name; /* "FACET_CPU_UNITS" */
    bool of_devices;  /* a provider reads it */
    bool is_path; /* the path of a file or folder that must exist: without it the search would silently find nothing */
    const char *help; /* one line */
    enum facet_variable_form form;
    uint64_t min, max; /* of a number */
};

/* The table, in order; NULL past its end. */
const struct facet_variable *facet_variable_at(uint32_t index);

/*
 * Checks a text against the variable's form; an empty text counts as unset. FACET_INVALID_ARGUMENT, FACET_OUT_OF_RANGE,
 * or FACET_NOT_FOUND for a path; the message names the variable.
 */
enum facet_status facet_variable_check(const struct facet_variable *variable, const char *text,
                                       struct facet_error *error);

/* Whether "NAME=value" begins as Facet's variables do but is none of them: most often a typing error. */
bool facet_variable_is_unknown(const char *entry);

/*
 * Whether the result of device discovery depends on a variable, given as "NAME=value" or "NAME". Such a variable is
 * read by a provider, locates providers, or is named in FACET_KEEP_ENV.
 */
bool facet_variable_is_of_devices(const char *entry);

#endif
