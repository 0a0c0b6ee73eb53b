/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: reading the processes of all segments; see tenants.h. Never: reads segments of vGPUs without processes. */
#include "tenants.h"

#include <stdlib.h>
#include <string.h>

/* Adds the processes of a vGPU. Returns how many; SIZE_MAX: no memory. */
static size_t add_tenants(struct tenants *tenants, const struct vgpu_info *info)
{
    struct facet_segment_process processes[FACET_SEGMENT_SLOTS];
    uint32_t count = 0;

    if (!info->measured || !info->view.totals.processes ||
        facet_segment_read_processes(info->segment, processes, &count, NULL) != FACET_OK)
        return 0;
    struct tenant *grown = reallocarray(tenants->list, tenants->count + count + 1, sizeof *grown);
    if (!grown)
        return SIZE_MAX;
    tenants->list = grown;
    for (uint32_t i = 0; i < count; i++)
        tenants->list[tenants->count++] = (struct tenant){.process = processes[i], .vgpu = info};
    return count;
}

enum facet_status tenants_read(const struct vgpu_info *infos, size_t count, struct tenants *ret_tenants,
                               struct facet_error *error)
{
    struct tenants tenants = {0};

    for (size_t i = 0; i < count; i++)
        if (add_tenants(&tenants, &infos[i]) == SIZE_MAX) {
            tenants_free(&tenants);
            return facet_error_set(error, FACET_NO_MEMORY, "no memory for the processes of %zu vGPUs", count);
        }
    *ret_tenants = tenants;
    return FACET_OK;
}

void tenants_free(struct tenants *tenants)
{
    free(tenants->list);
    *tenants = (struct tenants){0};
}

const struct vgpu_info *tenants_find(const struct tenants *tenants, const char *device_id, int32_t pid)
{
    struct facet_process_identity identity;

    if (!tenants->count || !facet_process_identify(pid, &identity))
        return NULL;
    for (size_t i = 0; i < tenants->count; i++) {
        const struct tenant *tenant = &tenants->list[i];

        if (strcmp(tenant->vgpu->row.device_id, device_id) == 0 &&
            facet_segment_process_is(&tenant->process, &identity))
            return tenant->vgpu;
    }
    return NULL;
}
