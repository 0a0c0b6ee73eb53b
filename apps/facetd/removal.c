/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the last step of a removal, which creating, changing and restoring share: the provider's part, then the row.
 * Never: changes the list of vGPUs.
 */
#include "vgpu.h"

enum facet_status vgpu_device_missing(const struct vgpu *vgpu, struct facet_error *error)
{
    return facet_error_argument(error, FACET_BAD_STATE, "vgpu", "its device %s (%.64s) is not there",
                                vgpu->row.device_id, vgpu->row.device_name);
}

enum facet_status vgpu_finish_removal(struct registry *registry, const struct vgpu *vgpu, struct facet_error *error)
{
    const struct claim claim = {registry, vgpu};
    const struct grant_others others = {claim_others_have, &claim};
    enum facet_status status = vgpu->device
                                   ? grant_undo(registry->parts.sessions, vgpu->device, &vgpu->row, &others, error)
                                   : vgpu_device_missing(vgpu, error);

    return status == FACET_OK ? registry_delete_row(registry, vgpu->row.id, error) : status;
}
