/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: closing leaves a descriptor open. Never: breaks anything else. */
#include <fcntl.h>

#include "base.h"

static enum facet_status open_badly(struct facet_provider_instance **ret_instance, struct facet_error *error)
{
    if (open("/dev/null", O_RDONLY | O_CLOEXEC) < 0)
        return FACET_IO;
    return base_device.open(ret_instance, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->device.open = open_badly;
}
