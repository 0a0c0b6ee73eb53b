/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether this process is a fork()ed child of the process that made an object. The sockets, threads and devices behind
 * such an object are the parent's, and a child that used its copy would affect them.
 *
 * Owns: a page that the kernel empties in children (MADV_WIPEONFORK, Linux 4.14), so that the check is one load.
 * Never: calls getpid(), which is a system call; works in a child of vfork(), which must not call it.
 */
#ifndef FACET_BASE_FORKED_H
#define FACET_BASE_FORKED_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

/* All 0: not marked yet. */
struct facet_origin {
    const volatile unsigned char *page;
};

/* False: no memory. */
static inline bool facet_origin_mark(struct facet_origin *origin)
{
    size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED)
        return false;
    if (madvise(page, bytes, MADV_WIPEONFORK) != 0) {
        munmap(page, bytes);
        return false;
    }
    *page = 1;
    origin->page = page;
    return true;
}

static inline void facet_origin_clear(struct facet_origin *origin)
{
    if (origin->page)
        munmap((void *)(unsigned long)origin->page, (size_t)sysconf(_SC_PAGESIZE));
    origin->page = NULL;
}

static inline bool facet_origin_is_parent(const struct facet_origin *origin)
{
    return origin->page && *origin->page == 0;
}

#endif
