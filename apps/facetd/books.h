/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's own count of the memory that a vGPU's processes hold, beside the limiter's charges: the difference shows
 * a process that bypasses an interposer.
 *
 * Owns: that comparison, made anew each second while vGPUs have processes; the time since which the driver counts more.
 * Never: refuses or ends anything.
 *
 * Thread rule: books_look() from one thread, books_of() from any.
 */
#ifndef FACETD_BOOKS_H
#define FACETD_BOOKS_H

#include "endpoint.h"

struct books; /* opaque */

enum facet_status books_open(struct books **ret_books, struct facet_error *error);
void books_close(struct books *books); /* NULL is allowed */

/*
 * Reads the counts when the last reading is a second old. Has the providers of NVIDIA GPUs read, once programs run on
 * such.
 */
void books_look(struct books *books, const struct daemon *daemon, uint64_t now_ns);

struct book {
    uint64_t driver_bytes; /* of all the vGPU's processes that the driver lists */
    bool excess;           /* for ten seconds above the charge, by a tenth and by 64 MiB */
};

/* The counts as last read. False where the driver has listed no process of the vGPU, or not its memory. */
bool books_of(struct books *books, const char *vgpu_id, struct book *ret_book);

#endif
