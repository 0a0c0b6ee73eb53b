/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the file that pages come from, and the list of its parts in use.
 * Never: keeps the contents of a part that was given back: its next owner reads zeros.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/quiet.h"
#include "base/transplant.h"
#include "pool.h"
#include "provider_kit.h"

enum facet_status cpu_pool_open(struct cpu_pool *pool, uint64_t commit_bytes, struct facet_error *error)
{
    if (commit_bytes && !facet_page_view_open(&pool->view, commit_bytes))
        return facet_kit_fail(error, FACET_NO_MEMORY, "no addresses for %" PRIu64 " bytes of pages", commit_bytes);
    pthread_mutex_init(&pool->lock, NULL);
    pool->fd = -1;
    pool->userfault_fd = facet_transplant_open();
    TAILQ_INIT(&pool->extents);
    return FACET_OK;
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
    if (pool->userfault_fd >= 0)
        close(pool->userfault_fd);
    facet_page_view_close(&pool->view);
    pthread_mutex_destroy(&pool->lock);
}

/* Huge pages begin at multiples of their size. */
static uint64_t align_offset(const struct cpu_pool *pool, uint64_t offset, uint64_t bytes)
{
    uint64_t step = pool->view.base && bytes >= FACET_HUGE_BYTES ? FACET_HUGE_BYTES : CPU_PAGE_BYTES;

    return (offset + step - 1) / step * step;
}

/* Puts the extent into the first gap of the file that is large enough, or at the end. */
static void insert_extent(struct cpu_pool *pool, struct cpu_extent *extent)
{
    struct cpu_extent *next;
    uint64_t end = 0;

    TAILQ_FOREACH (next, &pool->extents, link) {
        if (next->offset >= end && next->offset - end >= extent->bytes)
            break;
        end = align_offset(pool, next->offset + next->bytes, extent->bytes);
    }
    extent->offset = end;
    if (next)
        TAILQ_INSERT_BEFORE(next, extent, link);
    else
        TAILQ_INSERT_TAIL(&pool->extents, extent, link);
}

static bool lengthen_file(int fd, uint64_t bytes)
{
    FACET_QUIET struct facet_quiet quiet = facet_quiet_begin();

    return ftruncate(fd, (off_t)bytes) == 0;
}

/* Creates the file if there is none, and extends it to `end`. It is sparse: only written pages take memory. */
static enum facet_status make_file_reach(struct cpu_pool *pool, uint64_t end, struct facet_error *error)
{
    if (pool->fd < 0)
        pool->fd = memfd_create("facet-cpu-pages", MFD_CLOEXEC);
    if (pool->fd < 0)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no file for pages: %s", strerror(errno));
    off_t size = lseek(pool->fd, 0, SEEK_END);
    if (size < 0 || ((uint64_t)size < end && !lengthen_file(pool->fd, end)))
        return facet_kit_fail(error, FACET_NO_MEMORY, "no room for %" PRIu64 " bytes of pages: %s", end,
                              strerror(errno));
    return FACET_OK;
}

/* Commits the extent, unless gaps have put it beyond the end of the view: then its pages are committed when touched. */
static enum facet_status commit_extent(struct cpu_pool *pool, struct cpu_extent *extent, struct facet_error *error)
{
    if (!pool->view.base || extent->bytes > pool->view.bytes || extent->offset > pool->view.bytes - extent->bytes)
        return FACET_OK;
    int failed = facet_page_view_commit(&pool->view, pool->fd, extent->offset, extent->bytes);
    if (failed)
        return facet_kit_fail(error, FACET_NO_MEMORY, "the host cannot commit %" PRIu64 " bytes of pages at once: %s",
                              extent->bytes, strerror(failed));
    extent->view_address = facet_page_view_at(&pool->view, extent->offset);
    return FACET_OK;
}

static enum facet_status place_extent(struct cpu_pool *pool, struct cpu_extent *extent, struct facet_error *error)
{
    pthread_mutex_lock(&pool->lock);
    insert_extent(pool, extent);
    enum facet_status status = make_file_reach(pool, extent->offset + extent->bytes, error);
    if (status != FACET_OK)
        TAILQ_REMOVE(&pool->extents, extent, link);
    pthread_mutex_unlock(&pool->lock);
    return status;
}

enum facet_status cpu_pool_take(struct cpu_pool *pool, uint64_t bytes, struct cpu_extent **ret_extent,
                                struct facet_error *error)
{
    struct cpu_extent *extent = calloc(1, sizeof *extent);

    if (!extent)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for pages");
    extent->bytes = bytes;
    enum facet_status status = place_extent(pool, extent, error);
    if (status != FACET_OK) {
        free(extent);
        return status;
    }
    status = commit_extent(pool, extent, error);
    if (status == FACET_OK)
        *ret_extent = extent;
    else
        cpu_pool_give(pool, extent);
    return status;
}

void cpu_pool_give(struct cpu_pool *pool, struct cpu_extent *extent)
{
    fallocate(pool->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)extent->offset, (off_t)extent->bytes);
    if (extent->view_address)
        facet_page_view_forget(&pool->view, extent->offset, extent->bytes);
    pthread_mutex_lock(&pool->lock);
    TAILQ_REMOVE(&pool->extents, extent, link);
    pthread_mutex_unlock(&pool->lock);
    free(extent);
}
