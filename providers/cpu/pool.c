/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the file that pages come from, and which parts of it are taken.
 * Never: keeps the contents of what was given back: the next who gets it reads zeros.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/transplant.h"
#include "pool.h"
#include "provider_kit.h"

void cpu_pool_open(struct cpu_pool *pool)
{
    pthread_mutex_init(&pool->lock, NULL);
    pool->fd = -1;
    pool->faults = facet_transplant_open();
    TAILQ_INIT(&pool->extents);
}

void cpu_pool_close(struct cpu_pool *pool)
{
    struct cpu_extent *extent;

    while ((extent = TAILQ_FIRST(&pool->extents))) {
        TAILQ_REMOVE(&pool->extents, extent, link);
        free(extent);
    }
    if (pool->fd >= 0)
        close(pool->fd);
    if (pool->faults >= 0)
        close(pool->faults);
    pthread_mutex_destroy(&pool->lock);
}

/* Puts it into the first gap that is large enough; at the end at the latest. */
static void insert(struct cpu_pool *pool, struct cpu_extent *extent)
{
    struct cpu_extent *next;
    uint64_t end = 0;

    TAILQ_FOREACH (next, &pool->extents, link) {
        if (next->offset - end >= extent->bytes)
            break;
        end = next->offset + next->bytes;
    }
    extent->offset = end;
    if (next)
        TAILQ_INSERT_BEFORE(next, extent, link);
    else
        TAILQ_INSERT_TAIL(&pool->extents, extent, link);
}

/* Makes the file, and makes it long enough. It is sparse: only what is written takes memory. */
static enum facet_status cover(struct cpu_pool *pool, uint64_t end, struct facet_error *error)
{
    if (pool->fd < 0)
        pool->fd = memfd_create("facet-cpu-pages", MFD_CLOEXEC);
    if (pool->fd < 0)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no file for pages: %s", strerror(errno));
    off_t size = lseek(pool->fd, 0, SEEK_END);
    if (size < 0 || ((uint64_t)size < end && ftruncate(pool->fd, (off_t)end) != 0))
        return facet_kit_fail(error, FACET_NO_MEMORY, "no room for %" PRIu64 " bytes of pages: %s", end,
                              strerror(errno));
    return FACET_OK;
}

enum facet_status cpu_pool_take(struct cpu_pool *pool, uint64_t bytes, struct cpu_extent **ret_extent,
                                struct facet_error *error)
{
    struct cpu_extent *extent = calloc(1, sizeof *extent);

    if (!extent)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for pages");
    extent->bytes = bytes;
    pthread_mutex_lock(&pool->lock);
    insert(pool, extent);
    enum facet_status status = cover(pool, extent->offset + bytes, error);
    if (status != FACET_OK)
        TAILQ_REMOVE(&pool->extents, extent, link);
    pthread_mutex_unlock(&pool->lock);
    if (status == FACET_OK)
        *ret_extent = extent;
    else
        free(extent);
    return status;
}

void cpu_pool_give(struct cpu_pool *pool, struct cpu_extent *extent)
{
    fallocate(pool->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)extent->offset, (off_t)extent->bytes);
    pthread_mutex_lock(&pool->lock);
    TAILQ_REMOVE(&pool->extents, extent, link);
    pthread_mutex_unlock(&pool->lock);
    free(extent);
}
