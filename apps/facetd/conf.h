/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's configuration file, an INI file with one section:
 *
 *     [facetd]
 *     slice_us = 2000        ; the names of `facet config`
 *
 * Owns: which settings the file may have, its checks, and giving its values to this process as environment variables.
 * Never: replaces a variable that the daemon was started with; writes the file.
 */
#ifndef FACETD_CONF_H
#define FACETD_CONF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/config.h"
#include "base/paths.h"

#define CONF_DEFAULT_PATH "/etc/facet/facetd.conf"

struct conf {
    char path[FACET_PATH_SIZE];
    bool exists;                                       /* false: there is no such file, and no value */
    char values[FACET_SETTING_COUNT][FACET_PATH_SIZE]; /* empty: the file does not have the setting */
    bool applied[FACET_SETTING_COUNT];                 /* the variable has the file's value */
};

/* Whether the file may have the setting: one that the daemon alone reads. */
bool conf_takes(enum facet_setting_id id);

/*
 * Reads the file; a file that is missing has no values, unless it must exist. FACET_INVALID_ARGUMENT or
 * FACET_OUT_OF_RANGE names the file, the line and what was expected; FACET_PERMISSION: another user could change the
 * file; FACET_UNSUPPORTED: this build reads no file.
 */
enum facet_status conf_read(const char *path, bool must_exist, struct conf *ret_conf, struct facet_error *error);

/* Reads the text of a file into `conf`, whose path is for messages. Changes the text. */
enum facet_status conf_parse(char *text, struct conf *conf, struct facet_error *error);

/* Sets the variables that are unset; conf_withdraw() unsets them again. Both only while there is one thread. */
enum facet_status conf_apply(struct conf *conf, struct facet_error *error);
void conf_withdraw(struct conf *conf);

#endif
