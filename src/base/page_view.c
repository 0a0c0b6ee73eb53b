/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the system calls behind page_view.h. Never: holds a lock while the kernel clears memory. */
#include "base/page_view.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22 /* Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

#define SMALL_PAGE_BYTES 4096u
#define NO_ACCESS        (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

static uint64_t round_up(uint64_t value)
{
    return (value + FACET_HUGE_BYTES - 1) / FACET_HUGE_BYTES * FACET_HUGE_BYTES;
}

/* The kernel maps a huge page as one where address and offset in the file are multiples of its size. */
bool facet_page_view_open(struct facet_page_view *view, uint64_t bytes)
{
    uint64_t span = round_up(bytes);
    char *got = mmap(NULL, span + FACET_HUGE_BYTES, PROT_NONE, NO_ACCESS, -1, 0);

    if (got == MAP_FAILED)
        return false;
    view->huge = calloc(span / FACET_HUGE_BYTES, 1);
    if (!view->huge) {
        munmap(got, span + FACET_HUGE_BYTES);
        return false;
    }
    uint64_t before = round_up((uintptr_t)got) - (uintptr_t)got;
    if (before)
        munmap(got, before);
    munmap(got + before + span, FACET_HUGE_BYTES - before);
    view->base = got + before;
    view->bytes = span;
    return true;
}

void facet_page_view_close(struct facet_page_view *view)
{
    if (!view->base)
        return;
    munmap(view->base, view->bytes);
    free(view->huge);
    view->base = NULL;
}

/* One small page must be present: of nothing the kernel makes no huge one. Not by a touch: that would end the process
 * when there is no memory. */
static bool begin_huge(char *at, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i += FACET_HUGE_BYTES)
        if (madvise(at + i, SMALL_PAGE_BYTES, MADV_POPULATE_READ) != 0)
            return false;
    return true;
}

/* All in one call, for each asks every processor; after a failure one by one, up to the one that fails. */
static uint64_t make_huge(char *at, uint64_t bytes)
{
    uint64_t done = 0;

    if (!begin_huge(at, bytes))
        return 0;
    if (madvise(at, bytes, MADV_COLLAPSE) == 0)
        return bytes;
    while (done < bytes && madvise(at + done, FACET_HUGE_BYTES, MADV_COLLAPSE) == 0)
        done += FACET_HUGE_BYTES;
    return done;
}

static void mark_pages(struct facet_page_view *view, uint64_t offset, uint64_t bytes)
{
    for (uint64_t i = offset / FACET_HUGE_BYTES; i < (offset + bytes) / FACET_HUGE_BYTES; i++)
        view->huge[i] = 1;
    atomic_fetch_add_explicit(&view->huge_bytes, bytes, memory_order_relaxed);
}

int facet_page_view_commit(struct facet_page_view *view, int file, uint64_t offset, uint64_t bytes)
{
    uint64_t first = round_up(offset), end = (offset + bytes) / FACET_HUGE_BYTES * FACET_HUGE_BYTES;
    char *at = view->base + offset;

    if (mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, (off_t)offset) == MAP_FAILED)
        return errno;
    uint64_t huge = first < end ? make_huge(view->base + first, end - first) : 0;
    /* A kernel without this call enters the rest at the first touch. */
    if (huge < bytes && madvise(at, bytes, MADV_POPULATE_WRITE) != 0 && errno != EINVAL)
        return ENOMEM;
    mark_pages(view, first, huge);
    return 0;
}

void facet_page_view_forget(struct facet_page_view *view, uint64_t offset, uint64_t bytes)
{
    uint64_t was_huge = 0;

    if (!view->base)
        return;
    for (uint64_t i = round_up(offset) / FACET_HUGE_BYTES; i < (offset + bytes) / FACET_HUGE_BYTES; i++) {
        was_huge += view->huge[i] ? FACET_HUGE_BYTES : 0;
        view->huge[i] = 0;
    }
    atomic_fetch_sub_explicit(&view->huge_bytes, was_huge, memory_order_relaxed);
}
