/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: LD_LIBRARY_PATH, LD_PRELOAD and CUDA_VISIBLE_DEVICES of the program. Never: changes those of the command. */
#include "launch_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "limiter/owner.h"

#define LIBRARY "libcuda.so.1"
#define NVML    "libnvidia-ml.so.1"

static bool is_cuda(const char *address)
{
    return strncmp(address, "GPU-", 4) == 0 || strncmp(address, "MIG-", 4) == 0;
}

/* Beside the plugins when installed; in the tree, where it is built. */
static enum facet_status find_library(char path[FACET_PATH_SIZE], struct facet_error *error)
{
    struct facet_error ignored = {0};

    if (facet_path_shipped("interpose/cuda/" LIBRARY, path, FACET_PATH_SIZE, &ignored) == FACET_OK)
        return FACET_OK;
    return facet_path_shipped("cuda/" LIBRARY, path, FACET_PATH_SIZE, error);
}

enum facet_status launch_cuda_find(const char *segment, struct launch_cuda *ret_cuda, struct facet_error *error)
{
    struct facet_segment_device device;
    enum facet_status status = facet_segment_read_device(segment, &device, error);

    *ret_cuda = (struct launch_cuda){0};
    if (status != FACET_OK || !is_cuda(device.address))
        return status;
    status = find_library(ret_cuda->folder, error);
    if (status != FACET_OK)
        return status;
    *strrchr(ret_cuda->folder, '/') = 0;
    if (strpbrk(ret_cuda->folder, " :;"))
        return facet_error_set(error, FACET_UNSUPPORTED, "folder '%s': LD_PRELOAD takes no path with ' ', ':' or ';'",
                               ret_cuda->folder);
    snprintf(ret_cuda->address, sizeof ret_cuda->address, "%s", device.address);
    return FACET_OK;
}

static bool put_in_front(const char *variable, const char *first)
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

static bool preload(const char *folder, const char *library)
{
    char path[FACET_PATH_SIZE + sizeof "/" NVML];

    snprintf(path, sizeof path, "%s/%s", folder, library);
    return access(path, F_OK) != 0 || put_in_front("LD_PRELOAD", path);
}

bool launch_cuda_enter(const struct launch_cuda *cuda)
{
    if (!cuda->address[0])
        return true;
    return put_in_front("LD_LIBRARY_PATH", cuda->folder) && preload(cuda->folder, NVML) &&
           preload(cuda->folder, LIBRARY) && setenv("CUDA_VISIBLE_DEVICES", cuda->address, 1) == 0;
}
