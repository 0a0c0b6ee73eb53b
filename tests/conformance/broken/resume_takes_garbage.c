/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: bytes that are no snapshot are resumed from. Never: breaks anything else. */
#include "base.h"

static enum facet_status resume(struct facet_provider_instance *instance, uint32_t device, const char *worker, int fd,
                                struct facet_error *error)
{
    enum facet_status status = base_snapshot.resume(instance, device, worker, fd, error);

    return status == FACET_CORRUPT ? FACET_OK : status;
}

void base_install_fault(struct base_tables *tables)
{
    tables->snapshot.resume = resume;
}
