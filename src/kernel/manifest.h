/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The questions that a compile asked the file system besides reading its source: headers that it read, and paths where
 * it found no file. They are kept with the image.
 *
 * Owns: this list as bytes, and repeating the questions.
 * Never: uses bytes that facet_manifest_is_valid() has not checked.
 */
#ifndef FACET_KERNEL_MANIFEST_H
#define FACET_KERNEL_MANIFEST_H

#include <stdbool.h>

#include "kernel/backend.h"

struct facet_manifest {
    unsigned char *bytes; /* from malloc(); NULL: nothing was asked */
    size_t size;
    uint32_t count;
};

/* Fails only with FACET_NO_MEMORY. */
enum facet_status facet_manifest_make(const struct facet_backend_read *reads, uint32_t count,
                                      struct facet_manifest *ret_manifest, struct facet_error *error);
void facet_manifest_clear(struct facet_manifest *manifest);

/* Whether the bytes are `count` entries and nothing else. */
bool facet_manifest_is_valid(const struct facet_manifest *manifest);

/*
 * Whether the file system would give the same answers now: the files that were read have the same bytes, and
 * missing files are still missing. Compares contents, not times. Relative paths are relative to the working folder, as
 * in a compile.
 */
bool facet_manifest_is_current(const struct facet_manifest *manifest);

#endif
