/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: a partition can be destroyed twice. Never: breaks anything else. */
#include "base.h"

static enum facet_status destroy(struct facet_provider_instance *instance, uint32_t device, const char *uuid,
                                 struct facet_error *error)
{
    enum facet_status status = base_partition.destroy(instance, device, uuid, error);

    return status == FACET_NOT_FOUND && uuid && strncmp(uuid, "base-0-", 7) == 0 ? FACET_OK : status;
}

void base_install_fault(struct base_tables *tables)
{
    tables->partition.destroy = destroy;
}
