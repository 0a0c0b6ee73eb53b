/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: resume reads a file from its start, not from its position. Never: breaks anything else. */
#include <unistd.h>

#include "base.h"

static enum facet_status resume(struct facet_provider_instance *instance, uint32_t device, const char *worker, int fd,
                                struct facet_error *error)
{
    if (fd >= 0 && lseek(fd, 0, SEEK_SET) < 0)
        return facet_kit_fail(error, FACET_IO, "descriptor %d cannot be read from its start", fd);
    return base_snapshot.resume(instance, device, worker, fd, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->snapshot.resume = resume;
}
