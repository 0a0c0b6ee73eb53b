/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a cached image: a header with a checksum over all bytes, the description, the compiler's remarks, the
 * manifest of the files that were read besides the source (manifest.h), the code.
 *
 * Owns: the format of the cache's files.
 * Never: uses a length that was not checked, or any content before the checksum was.
 */
#ifndef FACET_KERNEL_CACHE_ENTRY_H
#define FACET_KERNEL_CACHE_ENTRY_H

#include "kernel/image.h"
#include "kernel/key.h"

/* Makes an image from a file's bytes. FACET_CORRUPT: the bytes are damaged, or belong to another key. */
enum facet_status facet_cache_entry_read(const struct facet_cache_key *key, const void *bytes, size_t size,
                                         struct facet_image **ret_image, struct facet_error *error);

/* Makes the bytes of a file; the caller frees them. */
enum facet_status facet_cache_entry_write(const struct facet_cache_key *key, const struct facet_image *image,
                                          void **ret_bytes, size_t *ret_size, struct facet_error *error);

#endif
