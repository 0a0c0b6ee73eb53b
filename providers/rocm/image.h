/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images on their way to a runtime that is told no length.
 *
 * Owns: what is asked of an image before the runtime reads it.
 * Never: takes an ELF file that ends before its own tables do.
 */
#ifndef FACET_ROCM_IMAGE_H
#define FACET_ROCM_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

#define ROCM_IMAGE_MARGIN 4096u /* zeros behind an image, for who looks for a head of another kind */

/* An ELF file has all that its tables name; anything else is for the runtime to refuse. */
bool rocm_image_is_whole(const void *image, uint64_t bytes);

#endif
