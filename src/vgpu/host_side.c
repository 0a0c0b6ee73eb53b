/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the check that the host's side of a copy is not memory of a vGPU, on any device of the driver.
 * Never: reads the host's own mappings. As with memcpy(), the caller must pass a valid pointer; only addresses that
 * cannot be mapped are refused: the page of NULL, and those behind the last address of a process.
 */
#include <inttypes.h>

#include "memory/host_side.h"

#include "vgpu/driver.h"
#include "vgpu/managed/enter.h"

enum facet_status facet_vgpu_check_host(struct facet_driver *driver, const char *argument, uint64_t address,
                                        uint64_t bytes, bool detect, struct facet_error *error)
{
    if (!facet_host_can_have(address, bytes))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, argument, "%s: 0x%" PRIx64 " is no host memory",
                                    argument, address);
    enum facet_status status = facet_managed_check_host(driver, argument, address, bytes, error);

    for (uint32_t i = 0; i < driver->devices && status == FACET_OK; i++)
        if (driver->device[i].memory)
            status = facet_memory_check_host(driver->device[i].memory, argument, address, bytes, detect, error);
    return status;
}
