/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the check of the host's side of a copy: it is no memory of any vGPU of the driver, on any of its devices.
 * Never: knows the host's own mappings; a pointer to nothing is the caller's affair, as in memcpy.
 */
#include "memory/host_side.h"

#include "vgpu/driver.h"
#include "vgpu/managed/enter.h"

enum facet_status facet_vgpu_check_host(struct facet_driver *driver, const char *argument, uint64_t address,
                                        uint64_t bytes, bool detect, struct facet_error *error)
{
    enum facet_status status = facet_managed_check_host(driver, argument, address, bytes, error);

    for (uint32_t i = 0; i < driver->devices && status == FACET_OK; i++)
        if (driver->device[i].memory)
            status = facet_memory_check_host(driver->device[i].memory, argument, address, bytes, detect, error);
    return status;
}
