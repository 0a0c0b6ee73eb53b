/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images for a runtime that does not get their length.
 *
 * Owns: the check of an image before the runtime reads it.
 * Never: accepts an ELF file that ends before its own tables do.
 */
#ifndef FACET_ROCM_IMAGE_H
#define FACET_ROCM_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

#define ROCM_IMAGE_MARGIN 4096u /* zeros after an image, for a runtime that reads another kind of header */

/* Whether an ELF file contains everything that its tables name. True if the bytes are no ELF file, which the runtime
 * refuses. */
bool rocm_image_is_complete(const void *image, uint64_t bytes);

#endif
