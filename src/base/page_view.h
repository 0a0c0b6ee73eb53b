/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file mapped at reserved addresses. Its memory is allocated when it is committed, in huge pages as far as the kernel
 * has any. The kernel maps, moves and frees a huge page at almost no cost, while it handles pages of 4 KiB one by one.
 *
 * Owns: these addresses, and the record of which parts are huge pages.
 * Never: owns the file; allocates memory that was not requested; needs privileges or reserved huge pages.
 */
#ifndef FACET_BASE_PAGE_VIEW_H
#define FACET_BASE_PAGE_VIEW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FACET_HUGE_BYTES (UINT64_C(2) << 20)

/* All 0: closed. */
struct facet_page_view {
    char *base; /* NULL: closed */
    uint64_t bytes;
    uint8_t *huge;               /* for each 2 MiB of the file: whether they are one huge page */
    _Atomic uint64_t huge_bytes; /* committed bytes in huge pages */
};

/* Reserves addresses for the first `bytes` of a file. False: the addresses are not available, the view stays closed. */
bool facet_page_view_open(struct facet_page_view *view, uint64_t bytes);
void facet_page_view_close(struct facet_page_view *view);

/*
 * Allocates the memory of this part of the file and maps it; a page stays mapped until the file gives it back. `offset`
 * and `bytes` are whole pages; each aligned 2 MiB can become a huge page. Returns 0 or an errno: ENOMEM when the kernel
 * does not have that much memory. Calls for different parts may run at once.
 */
int facet_page_view_commit(struct facet_page_view *view, int file, uint64_t offset, uint64_t bytes);
/* Records that the file gave the memory of a part back to the kernel. */
void facet_page_view_forget(struct facet_page_view *view, uint64_t offset, uint64_t bytes);

/* The address of a committed part; NULL: the view is closed. */
static inline void *facet_page_view_at(const struct facet_page_view *view, uint64_t offset)
{
    return view->base ? view->base + offset : NULL;
}

#endif
