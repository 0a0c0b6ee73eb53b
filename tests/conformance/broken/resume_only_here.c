/* SPDX-License-Identifier: Apache-2.0 */
/* Broken: a snapshot can only be resumed by the instance that wrote it. Never: breaks anything else. */
#include <unistd.h>

#include "base.h"

static bool is_snapshot(int fd)
{
    char magic[4] = "";

    return pread(fd, magic, sizeof magic, lseek(fd, 0, SEEK_CUR)) == sizeof magic && memcmp(magic, "base", 4) == 0;
}

static enum facet_status resume(struct facet_provider_instance *instance, uint32_t device, const char *worker, int fd,
                                struct facet_error *error)
{
    bool own = false;

    for (int i = 0; i < BASE_CONTEXTS; i++)
        own = own || instance->contexts[i].number;
    if (!own && fd >= 0 && is_snapshot(fd))
        return facet_kit_fail(error, FACET_UNSUPPORTED, "the snapshot is another instance's");
    return base_snapshot.resume(instance, device, worker, fd, error);
}

void base_install_fault(struct base_tables *tables)
{
    tables->snapshot.resume = resume;
}
