/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: one lock for each group, taken in the same order by every process. Never: removes a lock's file. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "passthrough/bind/manager.h"

/* The lowest group above `last`; -1: none. */
static int32_t next_group(const struct facet_passthrough_identity *const *identities, size_t count, int32_t last)
{
    int32_t next = -1;

    for (size_t i = 0; i < count; i++)
        if (identities[i]->group > last && (next < 0 || identities[i]->group < next))
            next = identities[i]->group;
    return next;
}

static enum facet_status lock_group(struct bind_host *host, int32_t group, uint64_t deadline_ns,
                                    struct bind_locks *locks, struct facet_error *error)
{
    char name[32];
    int fd = -1;

    if (locks->count == BIND_LOCKS_MAX)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "functions", "are of more than %u IOMMU groups",
                                    BIND_LOCKS_MAX);
    snprintf(name, sizeof name, "group-%d.lock", group);
    int errnum = host->ops->lock(host, name, deadline_ns, &fd);
    if (errnum == EBUSY)
        return facet_error_set(error, FACET_BUSY, "another process has locked IOMMU group %d", group);
    if (errnum)
        return facet_error_errno(error, errnum, "cannot lock IOMMU group %d (%s)", group, name);
    locks->fds[locks->count++] = fd;
    return FACET_OK;
}

enum facet_status bind_locks_take(struct bind_host *host, const struct facet_passthrough_identity *const *identities,
                                  size_t count, uint64_t deadline_ns, struct bind_locks *ret_locks,
                                  struct facet_error *error)
{
    struct bind_locks locks = {.host = host};
    enum facet_status status = FACET_OK;

    for (int32_t group = next_group(identities, count, -1); !status && group >= 0;
         group = next_group(identities, count, group))
        status = lock_group(host, group, deadline_ns, &locks, error);
    if (status) {
        bind_locks_give(&locks);
        return status;
    }
    *ret_locks = locks;
    host->locks = ret_locks->fds;
    host->lock_count = ret_locks->count;
    return FACET_OK;
}

void bind_locks_give(struct bind_locks *locks)
{
    if (locks->host) {
        locks->host->locks = NULL;
        locks->host->lock_count = 0;
    }
    for (size_t i = 0; i < locks->count; i++)
        close(locks->fds[i]);
    locks->count = 0;
}
