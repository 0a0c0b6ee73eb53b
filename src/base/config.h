/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings: one table from which the programs, `facet config` and the man page all read.
 *
 * Owns: each setting's name, environment variable, default, range and help; looking up the value in effect.
 * Never: keeps a copy of a value (the environment is read at each look-up), reads files, or prints.
 */
#ifndef FACET_BASE_CONFIG_H
#define FACET_BASE_CONFIG_H

#include <stdint.h>

#include <facet/error.h>

enum facet_setting_id {
    FACET_SETTING_RUNTIME_DIR,
    FACET_SETTING_STATE_DIR,
    FACET_SETTING_LIB_DIR,
    FACET_SETTING_PROVIDER_PATH,
    FACET_SETTING_CACHE_DIR,
    FACET_SETTING_CACHE_SIZE,
    FACET_SETTING_CHECK,
    FACET_SETTING_LOG,
    FACET_SETTING_SLICE_US,
    FACET_SETTING_PARALLEL,
    FACET_SETTING_SWAP_FACTOR,
    FACET_SETTING_SWAP_PATIENCE_S,
    FACET_SETTING_IDLE_EXIT_S,
    FACET_SETTING_KEEP_ENV,
    FACET_SETTING_COUNT,
};

struct facet_setting;

/* Reads a setting's text. NULL in the table: any text is good. */
typedef enum facet_status (*facet_setting_parser)(const struct facet_setting *setting, const char *text,
                                                  uint64_t *ret_value, struct facet_error *error);

struct facet_setting {
    const char *name;     /* "slice_us" */
    const char *variable; /* "FACET_SLICE_US" */
    const char *fallback; /* the value when the variable is unset or empty; NULL when it is worked out (see help) */
    const char *help;     /* one line */
    facet_setting_parser parse;
    uint64_t min, max; /* the range of a number */
};

/* The table, in order; NULL past its end. */
const struct facet_setting *facet_config_setting(uint32_t id);

/* The text in effect: the variable, else the fallback; NULL when there is neither. Borrowed from the environment. */
const char *facet_config_text(enum facet_setting_id id);

/* The number in effect. FACET_INVALID_ARGUMENT or FACET_OUT_OF_RANGE names the variable, the text and the range. */
enum facet_status facet_config_u64(enum facet_setting_id id, uint64_t *ret_value, struct facet_error *error);

/* Checks every setting. A program calls this first, so that a malformed setting stops it before it does anything. */
enum facet_status facet_config_check(struct facet_error *error);

#endif
