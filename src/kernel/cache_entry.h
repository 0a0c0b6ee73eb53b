/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kept image as bytes: a header with a checksum over all, the description, the compiler's remarks, the manifest of
 * files it was made of besides its source (manifest.h), the code.
 *
 * Owns: the format of the cache's files.
 * Never: believes a length before it was checked, or anything before the checksum was.
 */
#ifndef FACET_KERNEL_CACHE_ENTRY_H
#define FACET_KERNEL_CACHE_ENTRY_H

#include "kernel/image.h"
#include "kernel/key.h"

/* An image from a file's bytes. FACET_CORRUPT: damaged, or not that key's. */
enum facet_status facet_cache_entry_read(const struct facet_cache_key *key, const void *bytes, size_t size,
                                         struct facet_image **ret_image, struct facet_error *error);

/* The bytes of a file, for free(). */
enum facet_status facet_cache_entry_write(const struct facet_cache_key *key, const struct facet_image *image,
                                          void **ret_bytes, size_t *ret_size, struct facet_error *error);

#endif
