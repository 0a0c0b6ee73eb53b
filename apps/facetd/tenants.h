/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the vGPU of a process from the pid that a provider reports.
 *
 * Owns: a list of the processes of all segments, as they were when it was read.
 * Never: finds a process by its pid alone, which may be another process's by now, or of another namespace.
 */
#ifndef FACETD_TENANTS_H
#define FACETD_TENANTS_H

#include "registry.h"

struct tenant {
    struct facet_segment_process process;
    const struct vgpu_info *vgpu;
};

struct tenants {
    struct tenant *list;
    size_t count;
};

/* `infos` (registry_list) must outlive the list. An unreadable segment has no tenants. Release with tenants_free(). */
enum facet_status tenants_read(const struct vgpu_info *infos, size_t count, struct tenants *ret_tenants,
                               struct facet_error *error);
void tenants_free(struct tenants *tenants);

/* The vGPU of that device that the process is in; NULL when it is in none. */
const struct vgpu_info *tenants_find(const struct tenants *tenants, const char *device_id, int32_t pid);

#endif
