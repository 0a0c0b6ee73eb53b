/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding one of a vendor's libraries at run time.
 *
 * Owns: distinguishing an absent library from a broken one.
 * Never: knows a library's functions. Has static functions only, like provider_kit.h.
 */
#ifndef FACET_LIBRARY_KIT_H
#define FACET_LIBRARY_KIT_H

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include "provider_kit.h"

/*
 * Whether a library does not exist. `place` is its path or soname; `reason` is the message of dlopen(), which failed. A
 * path is checked directly. The message begins with a soname only if the library was not found. If it was found but
 * cannot be loaded, the message begins with its path, or with the missing dependency.
 */
FACET_KIT_UNUSED static bool facet_kit_library_absent(const char *place, const char *reason)
{
    size_t length = strlen(place);

    if (strchr(place, '/'))
        return access(place, F_OK) != 0;
    return strncmp(reason, place, length) == 0 && reason[length] == ':';
}

/*
 * Opens the file that `variable` names in the environment, else the first of `places` (sonames and paths, NULL at the
 * end) that exists. If none exists: FACET_OK and *ret_library NULL. FACET_IO: the library exists but cannot be loaded.
 */
FACET_KIT_UNUSED static enum facet_status facet_kit_library_open(const char *variable, const char *const *places,
                                                                 void **ret_library, struct facet_error *error)
{
    const char *named = getenv(variable);
    const char *const only[] = {named, NULL};

    for (const char *const *place = named && *named ? only : places; *place; place++) {
        /* Never unloaded: the vendor's threads may run in it after our last call. */
        void *library = dlopen(*place, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

        if (library) {
            *ret_library = library;
            return FACET_OK;
        }
        const char *reason = dlerror();
        if (!facet_kit_library_absent(*place, reason ? reason : ""))
            return facet_kit_fail(error, FACET_IO, "%s cannot be loaded: %s", *place, reason ? reason : "no reason");
    }
    *ret_library = NULL;
    return FACET_OK;
}

#endif
