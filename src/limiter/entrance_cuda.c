/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the search for the libraries by which programs enter a vGPU of an NVIDIA GPU; see entrance_cuda.h. Never: opens
 * one of the libraries.
 */
#include "entrance_cuda.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DRIVER     "libcuda.so.1"
#define MANAGEMENT "libnvidia-ml.so.1"

bool facet_entrance_is_cuda(const char *address)
{
    return strncmp(address, "GPU-", 4) == 0 || strncmp(address, "MIG-", 4) == 0;
}

/* An installed library is beside the plugins; in the source tree it is in its build folder. */
static enum facet_status find_driver(char path[FACET_PATH_SIZE], struct facet_error *error)
{
    struct facet_error ignored = {0};

    if (facet_path_shipped("interpose/cuda/" DRIVER, path, FACET_PATH_SIZE, &ignored) == FACET_OK)
        return FACET_OK;
    return facet_path_shipped("cuda/" DRIVER, path, FACET_PATH_SIZE, error);
}

enum facet_status facet_entrance_cuda_find(struct facet_entrance_cuda *ret_entrance, struct facet_error *error)
{
    struct facet_entrance_cuda found = {0};
    char management[FACET_PATH_SIZE + sizeof "/" MANAGEMENT];
    enum facet_status status = find_driver(found.folder, error);

    if (status != FACET_OK)
        return status;
    *strrchr(found.folder, '/') = 0;
    if (strpbrk(found.folder, " :;"))
        return facet_error_set(error, FACET_UNSUPPORTED, "folder '%s': LD_PRELOAD takes no path with ' ', ':' or ';'",
                               found.folder);
    snprintf(management, sizeof management, "%s/" MANAGEMENT, found.folder);
    bool has_management = access(management, F_OK) == 0;
    snprintf(found.preload, sizeof found.preload, "%s/" DRIVER "%s%s", found.folder, has_management ? ":" : "",
             has_management ? management : "");
    *ret_entrance = found;
    return FACET_OK;
}
