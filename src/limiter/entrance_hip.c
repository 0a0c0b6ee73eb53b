/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the search for the library by which programs enter a vGPU of an AMD GPU; see entrance_hip.h. Never: opens the
 * library.
 */
#include "entrance_hip.h"

#include <stdio.h>
#include <string.h>

#define RUNTIME "libamdhip64.so"
#define PREFIX  "amd-"

bool facet_entrance_is_hip(const char *address)
{
    return strncmp(address, PREFIX, strlen(PREFIX)) == 0;
}

void facet_entrance_hip_uuid(const char *address, char *ret_uuid, size_t size)
{
    snprintf(ret_uuid, size, "GPU-%s", address + strlen(PREFIX));
}

/* An installed library is beside the plugins; in the source tree it is in its build folder. */
static enum facet_status find_runtime(char path[FACET_PATH_SIZE], struct facet_error *error)
{
    struct facet_error ignored = {0};

    if (facet_path_shipped("interpose/hip/" RUNTIME, path, FACET_PATH_SIZE, &ignored) == FACET_OK)
        return FACET_OK;
    return facet_path_shipped("hip/" RUNTIME, path, FACET_PATH_SIZE, error);
}

enum facet_status facet_entrance_hip_find(struct facet_entrance_hip *ret_entrance, struct facet_error *error)
{
    struct facet_entrance_hip found = {0};
    enum facet_status status = find_runtime(found.folder, error);

    if (status != FACET_OK)
        return status;
    *strrchr(found.folder, '/') = 0;
    if (strpbrk(found.folder, " :;"))
        return facet_error_set(error, FACET_UNSUPPORTED, "folder '%s': LD_PRELOAD takes no path with ' ', ':' or ';'",
                               found.folder);
    snprintf(found.preload, sizeof found.preload, "%s/" RUNTIME, found.folder);
    *ret_entrance = found;
    return FACET_OK;
}
