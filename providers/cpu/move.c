/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: pages that move while they are used: what is mapped is protected from writes (userfaultfd), copied, and mapped
 * over, so that writers wait in the kernel until the new place is there.
 * Never: touches the addresses themselves, which are others' to use; waits for launches; starts a thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <search.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "map.h"
#include "pages.h"
#include "pool.h"
#include "provider_kit.h"

int cpu_faults_open(void)
{
#if defined(UFFD_FEATURE_WP_HUGETLBFS_SHMEM) && defined(UFFD_USER_MODE_ONLY)
    struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_WP_HUGETLBFS_SHMEM};
    int faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);

    if (faults >= 0 && ioctl(faults, UFFDIO_API, &api) == 0)
        return faults;
    if (faults >= 0)
        close(faults);
#endif
    return -1;
}

static uint64_t bytes_of(struct cpu_range range)
{
    return range.end - range.at;
}

static enum facet_status failed(const char *what, struct facet_error *error)
{
    return facet_kit_fail(error, FACET_NO_MEMORY, "%s: %s", what, strerror(errno));
}

/* --- windows: opened, and pages made, before anybody waits --- */

static void populate(void *at, uint64_t bytes, int advice)
{
#ifdef MADV_POPULATE_WRITE
    madvise(at, bytes, advice); /* else whoever comes next is stopped once for every 4 KiB */
#endif
}

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_READ  0
#define MADV_POPULATE_WRITE 0
#endif

static enum facet_status open_windows(const struct cpu_space *space, struct cpu_range range,
                                      const struct cpu_pages *pages, uint64_t offset, struct facet_error *error)
{
    enum facet_status status;
    const struct cpu_piece *piece;
    char *window;

    for (uint64_t at = range.at; at < range.end; at = piece->range.end) {
        piece = cpu_piece_at(space, at);
        status = cpu_pool_window(space->pool, piece->pages->extent, &window, error);
        if (status != FACET_OK)
            return status;
        populate(window + piece->offset, bytes_of(piece->range), MADV_POPULATE_READ);
    }
    status = cpu_pool_window(space->pool, pages->extent, &window, error);
    if (status == FACET_OK)
        populate(window + offset, bytes_of(range), MADV_POPULATE_WRITE);
    return status;
}

static void copy(const struct cpu_space *space, struct cpu_range range, char *to)
{
    const struct cpu_piece *piece;

    for (uint64_t at = range.at; at < range.end; at = piece->range.end) {
        piece = cpu_piece_at(space, at);
        memcpy(to + (at - range.at), piece->pages->extent->window + piece->offset, bytes_of(piece->range));
    }
}

/* --- protection --- */

static void unprotect(const struct cpu_pool *pool, struct cpu_range range)
{
    struct uffdio_range all = {range.at, bytes_of(range)};

    (void)!ioctl(pool->faults, UFFDIO_UNREGISTER, &all);
}

static void wake(const struct cpu_pool *pool, struct cpu_range range)
{
    struct uffdio_range all = {range.at, bytes_of(range)};

    (void)!ioctl(pool->faults, UFFDIO_WAKE, &all);
}

/* Piece by piece: older kernels protect within one mapping only. */
static bool wall_off(const struct cpu_space *space, struct cpu_range range)
{
    const struct cpu_piece *piece;

    for (uint64_t at = range.at; at < range.end; at = piece->range.end) {
        piece = cpu_piece_at(space, at);
        struct uffdio_writeprotect wall = {.range = {at, bytes_of(piece->range)}, .mode = UFFDIO_WRITEPROTECT_MODE_WP};
        int result;

        do
            result = ioctl(space->pool->faults, UFFDIO_WRITEPROTECT, &wall);
        while (result < 0 && errno == EAGAIN);
        if (result < 0)
            return false;
    }
    return true;
}

static enum facet_status protect(const struct cpu_space *space, struct cpu_range range, struct facet_error *error)
{
    struct uffdio_register watch = {.range = {range.at, bytes_of(range)}, .mode = UFFDIO_REGISTER_MODE_WP};

    if (ioctl(space->pool->faults, UFFDIO_REGISTER, &watch) < 0)
        return failed("cannot watch over writes to the pages that are to move", error);
    if (wall_off(space, range))
        return FACET_OK;
    enum facet_status status = failed("cannot protect the pages that are to move", error);
    unprotect(space->pool, range);
    wake(space->pool, range);
    return status;
}

/* --- moving --- */

/* The bare system call: the thread sanitizer takes mmap() for a write, which mapping other pages with the same contents
 * over what others use is not. */
static enum facet_status map_over(const struct cpu_space *space, struct cpu_range range, uint64_t to,
                                  struct facet_error *error)
{
    if (syscall(SYS_mmap, range.at, bytes_of(range), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, space->pool->fd,
                (off_t)to) != -1)
        return FACET_OK;
    return failed("cannot map pages at their new place", error);
}

static enum facet_status transplant(const struct cpu_space *space, struct cpu_range range,
                                    const struct cpu_pages *pages, uint64_t offset, struct facet_error *error)
{
    enum facet_status status = open_windows(space, range, pages, offset, error);

    if (status == FACET_OK)
        status = protect(space, range, error);
    if (status != FACET_OK)
        return status;
    copy(space, range, pages->extent->window + offset);
    status = map_over(space, range, pages->extent->offset + offset, error);
    if (status != FACET_OK)
        unprotect(space->pool, range);
    wake(space->pool, range);
    if (status == FACET_OK)
        populate((void *)range.at, bytes_of(range), MADV_POPULATE_WRITE);
    return status;
}

/* The first piece stands for all of the range from now on: nothing here can fail. */
static void settle(struct cpu_space *space, struct cpu_range range, struct cpu_pages *pages, uint64_t offset,
                   struct cpu_pages_list *gone)
{
    struct cpu_piece *first = cpu_piece_at(space, range.at);

    if (first->range.end < range.end)
        cpu_pieces_drop(space, (struct cpu_range){first->range.end, range.end}, gone);
    cpu_pages_drop(space->pool, first->pages, cpu_piece_part(first), gone);
    first->range = range;
    first->pages = pages;
    first->offset = offset;
}

static enum facet_status check(const struct cpu_space *space, struct cpu_range range, struct facet_error *error)
{
    enum facet_status status = cpu_range_check(space, range, error);

    if (status == FACET_OK)
        status = cpu_space_check(space, range.at, bytes_of(range), error);
    if (status == FACET_OK && space->pool->faults < 0)
        status = facet_kit_fail(error, FACET_UNSUPPORTED,
                                "pages cannot move while they are used: this kernel lets this process not watch over "
                                "writes (userfaultfd for shared memory, Linux 5.19)");
    return status;
}

enum facet_status cpu_space_move(struct cpu_space *space, struct cpu_range range, uint64_t number, uint64_t offset,
                                 struct cpu_pages_list *gone, struct facet_error *error)
{
    const struct cpu_part part = {offset, bytes_of(range)};
    struct cpu_pages *pages = NULL;
    enum facet_status status = check(space, range, error);

    if (status == FACET_OK)
        status = cpu_pages_take(space, number, part, true, &pages, error);
    if (status != FACET_OK)
        return status;
    status = cpu_pieces_split(space, range, error);
    if (status == FACET_OK)
        status = transplant(space, range, pages, offset, error);
    if (status == FACET_OK)
        settle(space, range, pages, offset, gone);
    else
        cpu_pages_drop(space->pool, pages, part, gone);
    return status;
}
