/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: reading the variables of given.h. Never: changes the environment. */
#include "limiter/given.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "limiter/tenant.h"

#define PREFIX    FACET_ENV_VGPU_DIR "_"
#define ID_DIGITS 16u

void facet_given_variable(const char *id, char *ret_name, size_t size)
{
    snprintf(ret_name, size, PREFIX "%s", id);
}

bool facet_given_is_variable(const char *entry)
{
    const char *id = entry + sizeof PREFIX - 1;

    return strncmp(entry, PREFIX, sizeof PREFIX - 1) == 0 && strspn(id, "0123456789abcdef") == ID_DIGITS &&
           id[ID_DIGITS] == '=';
}

/* Whether `folder` is one of `folders`, which have ':' between them. */
static bool is_among(const char *folder, const char *folders)
{
    size_t length = strlen(folder);

    for (const char *at = folders; *at; at += strcspn(at, ":"), at += *at == ':')
        if (strncmp(at, folder, length) == 0 && (at[length] == ':' || at[length] == '\0'))
            return true;
    return false;
}

enum facet_status facet_given_check(const char *folders, struct facet_error *error)
{
    for (char **entry = environ; entry && *entry; entry++) {
        if (!facet_given_is_variable(*entry) || is_among(strchr(*entry, '=') + 1, folders))
            continue;
        return facet_error_set(error, FACET_BAD_STATE,
                               "several virtual GPUs were given to this container, and a program there can enter only "
                               "%.100s, the last; give it one of them",
                               folders);
    }
    return FACET_OK;
}
