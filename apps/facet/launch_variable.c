/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: what launch_variable.h says. Never: more. */
#include "launch_variable.h"

#include <stdio.h>
#include <stdlib.h>

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
