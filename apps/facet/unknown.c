/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: comparing the environment with the names of settings and variables; see unknown.h. Never: changes either. */
#include "unknown.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/variables.h"
#include "nearest.h"

/* The settings, and then the variables. */
static const char *known_name(const void *list, unsigned index)
{
    const struct facet_variable *variable;

    (void)list;
    if (index < FACET_SETTING_COUNT)
        return facet_config_setting(index)->variable;
    variable = facet_variable_at(index - FACET_SETTING_COUNT);
    return variable ? variable->name : NULL;
}

bool unknown_next(size_t *at, char ret_name[UNKNOWN_NAME_SIZE], const char **ret_value, const char **ret_nearest)
{
    while (environ && environ[*at] && !facet_variable_is_unknown(environ[*at]))
        ++*at;
    const char *entry = environ ? environ[*at] : NULL;
    if (!entry)
        return false;
    size_t length = strcspn(entry, "=");
    snprintf(ret_name, UNKNOWN_NAME_SIZE, "%.*s", (int)length, entry);
    *ret_value = entry[length] ? entry + length + 1 : "";
    *ret_nearest = nearest_word(ret_name, known_name, NULL);
    ++*at;
    return true;
}

void unknown_warn(const struct command *self)
{
    char name[UNKNOWN_NAME_SIZE];
    const char *value, *nearest;

    for (size_t at = 0; unknown_next(&at, name, &value, &nearest);)
        command_warn(self, "%s is no variable of Facet%s%s%s", name, nearest ? "; did you mean '" : "",
                     nearest ? nearest : "", nearest ? "'?" : "");
}
