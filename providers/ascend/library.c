/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: telling an absent library from a broken one.
 * Never: knows what is in it.
 */
#include "library.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "provider_kit.h"

/* A path can be looked at. Of a soname the linker's text begins with its name only when it was found nowhere; what it
 * found and could not load it calls by the path, or by the dependency that is missing. */
static bool is_absent(const char *place, const char *reason)
{
    size_t length = strlen(place);

    if (strchr(place, '/'))
        return access(place, F_OK) != 0;
    return strncmp(reason, place, length) == 0 && reason[length] == ':';
}

enum facet_status ascend_library_open(const char *variable, const char *const *places, void **ret_library,
                                      struct facet_error *error)
{
    const char *named = getenv(variable);
    const char *const only[] = {named, NULL};

    for (const char *const *place = named && *named ? only : places; *place; place++) {
        /* Never unloaded: the vendor's threads may run in it longer than we use it. */
        void *library = dlopen(*place, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

        if (library) {
            *ret_library = library;
            return FACET_OK;
        }
        const char *reason = dlerror();
        if (!is_absent(*place, reason ? reason : ""))
            return facet_kit_fail(error, FACET_IO, "%s cannot be loaded: %s", *place, reason ? reason : "no reason");
    }
    *ret_library = NULL;
    return FACET_OK;
}
