/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The questions that a compile asked of the file system besides its source, kept with the image: the headers it read,
 * and the paths where it found none.
 *
 * Owns: this list as bytes, and repeating the questions.
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

/* Fails only with FACET_NO_MEMORY. */
enum facet_status facet_manifest_make(const struct facet_backend_read *reads, uint32_t count,
                                      struct facet_manifest *ret_manifest, struct facet_error *error);
void facet_manifest_clear(struct facet_manifest *manifest);

/* Whether the bytes are `count` entries and nothing else. */
bool facet_manifest_is_sound(const struct facet_manifest *manifest);

/*
 * Whether the file system would give the same answers now: the files that were read have the same bytes, and the
 * missing ones are still missing. Compares contents, not times. Relative paths are relative to the working folder, as
 * in a compile.
 */
bool facet_manifest_holds(const struct facet_manifest *manifest);

#endif
