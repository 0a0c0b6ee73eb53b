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

/* The addresses begin at a multiple of 2 MiB, as file offsets do: only then can the kernel map a huge page. */
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

/*
 * Makes one small page present in each 2 MiB: MADV_COLLAPSE needs one. A touch would do so too, but would end the
 * process when there is no memory.
 */
static bool populate_first_pages(char *at, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i += FACET_HUGE_BYTES)
        if (madvise(at + i, SMALL_PAGE_BYTES, MADV_POPULATE_READ) != 0)
            return false;
    return true;
}

/*
 * Tries all in one call first, because each call interrupts every processor. If that fails, tries one page at a time
 * until one fails.
 */
static uint64_t make_huge(char *at, uint64_t bytes)
{
    uint64_t done = 0;

    if (!populate_first_pages(at, bytes))
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
    /* A kernel without MADV_POPULATE_WRITE maps the remaining pages at their first touch. */
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
