/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: LD_LIBRARY_PATH, LD_PRELOAD and CUDA_VISIBLE_DEVICES of the program. Never: changes those of the command. */
#include "launch_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "launch_variable.h"
#include "limiter/owner.h"

static bool is_partition(const char *address)
{
    return strncmp(address, "MIG-", 4) == 0;
}

/* Appends the address of one more device. */
static enum facet_status add_address(struct launch_cuda *cuda, const char *address, struct facet_error *error)
{
    size_t used = strlen(cuda->addresses), room = sizeof cuda->addresses - used;

    if (strstr(cuda->addresses, address))
        return facet_error_argument(error, FACET_ALREADY_EXISTS, "vgpu",
                                    "two of the virtual GPUs are of %s: a program can be in one of each GPU", address);
    if (used && (is_partition(cuda->addresses) || is_partition(address)))
        return facet_error_argument(error, FACET_UNSUPPORTED, "vgpu",
                                    "one of the virtual GPUs is the partition %s: CUDA shows a program one partition, "
                                    "and then nothing else",
                                    is_partition(address) ? address : cuda->addresses);
    if ((size_t)snprintf(cuda->addresses + used, room, "%s%s", used ? "," : "", address) >= room)
        return facet_error_set(error, FACET_OUT_OF_RANGE, "the addresses of the GPUs are too long");
    return FACET_OK;
}

/* The segments' devices; `*ret_others` counts those that are not NVIDIA's. */
static enum facet_status read_addresses(char *segments, struct launch_cuda *cuda, unsigned *ret_others,
                                        struct facet_error *error)
{
    enum facet_status status = FACET_OK;
    struct facet_segment_device device;
    char *segment;

    while (status == FACET_OK && (segment = strsep(&segments, ":"))) {
        status = facet_segment_read_device(segment, &device, error);
        if (status == FACET_OK && facet_entrance_is_cuda(device.address))
            status = add_address(cuda, device.address, error);
        else
            *ret_others += 1;
    }
    return status;
}

enum facet_status launch_cuda_find(const char *segments, struct launch_cuda *ret_cuda, struct facet_error *error)
{
    FACET_CLEANUP_FREE char *copy = strdup(segments);
    unsigned others = 0;

    *ret_cuda = (struct launch_cuda){0};
    if (!copy)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a list of folders");
    enum facet_status status = read_addresses(copy, ret_cuda, &others, error);
    if (status != FACET_OK || !ret_cuda->addresses[0])
        return status;
    if (others)
        return facet_error_argument(error, FACET_UNSUPPORTED, "vgpu",
                                    "of the virtual GPUs some are of NVIDIA's GPUs and some are not: a program can be "
                                    "in several only of one kind");
    status = launch_check_library("FACET_REAL_CUDA", error);
    if (status == FACET_OK)
        status = launch_check_library("FACET_REAL_NVML", error);
    return status == FACET_OK ? facet_entrance_cuda_find(&ret_cuda->entrance, error) : status;
}

bool launch_cuda_enter(const struct launch_cuda *cuda)
{
    if (!cuda->addresses[0])
        return true;
    return launch_put_in_front(FACET_ENTRANCE_CUDA_SEARCH, cuda->entrance.folder) &&
           launch_put_in_front(FACET_ENTRANCE_CUDA_PRELOAD, cuda->entrance.preload) &&
           setenv(FACET_ENTRANCE_CUDA_VISIBLE, cuda->addresses, 1) == 0;
}
