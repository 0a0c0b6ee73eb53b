/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: LD_LIBRARY_PATH, LD_PRELOAD, ROCR_VISIBLE_DEVICES and HIP_VISIBLE_DEVICES of the program.
 * Never: changes those of the command.
 */
#include "launch_hip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "launch_variable.h"
#include "limiter/owner.h"

/* Appends one more device, the `index`th. */
static enum facet_status add_device(struct launch_hip *hip, unsigned index, const char *address,
                                    struct facet_error *error)
{
    size_t used = strlen(hip->uuids), counted = strlen(hip->indices);
    char uuid[sizeof((struct facet_segment_device *)0)->address];

    facet_entrance_hip_uuid(address, uuid, sizeof uuid);
    if (strstr(hip->uuids, uuid))
        return facet_error_argument(error, FACET_ALREADY_EXISTS, "vgpu",
                                    "two of the virtual GPUs are of %s: a program can be in one of each GPU", address);
    if ((size_t)snprintf(hip->uuids + used, sizeof hip->uuids - used, "%s%s", used ? "," : "", uuid) >=
            sizeof hip->uuids - used ||
        (size_t)snprintf(hip->indices + counted, sizeof hip->indices - counted, "%s%u", counted ? "," : "", index) >=
            sizeof hip->indices - counted)
        return facet_error_set(error, FACET_OUT_OF_RANGE, "the addresses of the GPUs are too long");
    return FACET_OK;
}

/* The segments' devices; `*ret_others` counts those that are not AMD's. */
static enum facet_status read_devices(char *segments, struct launch_hip *hip, unsigned *ret_others,
                                      struct facet_error *error)
{
    enum facet_status status = FACET_OK;
    struct facet_segment_device device;
    unsigned count = 0;
    char *segment;

    while (status == FACET_OK && (segment = strsep(&segments, ":"))) {
        status = facet_segment_read_device(segment, &device, error);
        if (status == FACET_OK && facet_entrance_is_hip(device.address))
            status = add_device(hip, count++, device.address, error);
        else
            *ret_others += 1;
    }
    return status;
}

enum facet_status launch_hip_find(const char *segments, struct launch_hip *ret_hip, struct facet_error *error)
{
    FACET_CLEANUP_FREE char *copy = strdup(segments);
    unsigned others = 0;

    *ret_hip = (struct launch_hip){0};
    if (!copy)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a list of folders");
    enum facet_status status = read_devices(copy, ret_hip, &others, error);
    if (status != FACET_OK || !ret_hip->uuids[0])
        return status;
    if (others)
        return facet_error_argument(error, FACET_UNSUPPORTED, "vgpu",
                                    "of the virtual GPUs some are of AMD's GPUs and some are not: a program can be in "
                                    "several only of one kind");
    status = launch_check_library("FACET_REAL_HIP", error);
    return status == FACET_OK ? facet_entrance_hip_find(&ret_hip->entrance, error) : status;
}

bool launch_hip_enter(const struct launch_hip *hip)
{
    if (!hip->uuids[0])
        return true;
    return launch_put_in_front(FACET_ENTRANCE_HIP_SEARCH, hip->entrance.folder) &&
           launch_put_in_front(FACET_ENTRANCE_HIP_PRELOAD, hip->entrance.preload) &&
           setenv(FACET_ENTRANCE_HIP_VISIBLE, hip->uuids, 1) == 0 &&
           setenv(FACET_ENTRANCE_HIP_INDICES, hip->indices, 1) == 0;
}
