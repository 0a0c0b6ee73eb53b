/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: what launch_variable.h says. Never: more. */
#include "launch_variable.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

bool launch_put_in_front(const char *variable, const char *first)
{
    const char *before = getenv(variable);
    FACET_CLEANUP_FREE char *value = NULL;

    if (!before || !before[0])
        return setenv(variable, first, 1) == 0;
    if (asprintf(&value, "%s:%s", first, before) < 0) {
        value = NULL;
        return false;
    }
    return setenv(variable, value, 1) == 0;
}

enum facet_status launch_check_library(const char *variable, struct facet_error *error)
{
    const char *path = getenv(variable);

    if (!path || !path[0] || access(path, R_OK) == 0)
        return FACET_OK;
    return facet_error_argument(error, FACET_NOT_FOUND, variable,
                                "%s is '%.150s': %s; expected the path of the vendor's library, or unset", variable,
                                path, strerror(errno));
}
