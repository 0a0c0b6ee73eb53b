/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a compile asked of the file system besides its source, kept with the image: headers, and places where it looked
 * for one in vain.
 *
 * Owns: this list as bytes, and asking again.
 * Never: believes bytes that facet_manifest_is_sound() has not seen.
 */
#ifndef FACET_KERNEL_MANIFEST_H
#define FACET_KERNEL_MANIFEST_H

#include <stdbool.h>

#include "kernel/backend.h"

struct facet_manifest {
    unsigned char *bytes; /* of the heap; NULL: nothing was asked */
    size_t size;
    uint32_t count;
};

/* FACET_NO_MEMORY. */
enum facet_status facet_manifest_make(const struct facet_backend_read *reads, uint32_t count,
                                      struct facet_manifest *ret_manifest, struct facet_error *error);
void facet_manifest_clear(struct facet_manifest *manifest);

/* Whether the bytes are `count` entries and nothing else. */
bool facet_manifest_is_sound(const struct facet_manifest *manifest);

/* Whether the file system would answer today as it did: what was read has the same bytes, and what was not there still
 * is not. Looks at contents, not at times. Relative paths are of the working folder, as they are for a compile. */
bool facet_manifest_holds(const struct facet_manifest *manifest);

#endif
