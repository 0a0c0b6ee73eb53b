/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file of pages, mapped at addresses of its own, with its memory allocated by the kernel at once: in huge pages, as
 * far as there are any. The kernel maps, moves and frees those at almost no cost, while it handles pages of 4 KiB one
 * by one.
 *
 * Owns: those addresses, and the record of parts in huge pages.
 * Never: owns the file; allocates memory that was not requested; needs privileges or reserved huge pages.
 */
#ifndef FACET_BASE_PAGE_VIEW_H
#define FACET_BASE_PAGE_VIEW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FACET_HUGE_BYTES (UINT64_C(2) << 20)

/* Zeroed: closed. */
struct facet_page_view {
    char *base; /* NULL: closed */
    uint64_t bytes;
    uint8_t *huge;               /* for each 2 MiB of the file: whether they are one page */
    _Atomic uint64_t huge_bytes; /* of all that is committed */
};

/* Reserves addresses for the first `bytes` of a file. False: they are not available, and the view stays closed. */
bool facet_page_view_open(struct facet_page_view *view, uint64_t bytes);
void facet_page_view_close(struct facet_page_view *view);

/*
 * Allocates the memory of this part of the file, and maps it; as long as the file has a page, it is present and mapped.
 * Whole pages; 2 MiB that begin at a multiple of that can become huge. 0, or errno: ENOMEM when the kernel does not
 * have that much. Calls for different parts may run at once.
 */
int facet_page_view_commit(struct facet_page_view *view, int file, uint64_t offset, uint64_t bytes);
/* Records that the file has given that part back. */
void facet_page_view_forget(struct facet_page_view *view, uint64_t offset, uint64_t bytes);

/* The address of that part in the view; NULL: the view is closed. Only for committed parts. */
static inline void *facet_page_view_at(const struct facet_page_view *view, uint64_t offset)
{
    return view->base ? view->base + offset : NULL;
}

#endif
