/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images: code for a target, the description of its kernels, and the diagnostics of the compile that made it.
 *
 * Owns: struct facet_image, which is reference-counted; making one from parts.
 * Never: runs or loads code; changes an image once it is handed out.
 */
#ifndef FACET_KERNEL_IMAGE_H
#define FACET_KERNEL_IMAGE_H

#include <stdatomic.h>

#include <jansson.h>

#include <facet/kernel.h>

#include "kernel/manifest.h"
#include "kernel/target.h"

struct facet_image {
    atomic_uint references;
    void *bytes; /* NULL after errors in the source */
    size_t size;
    char target[FACET_TARGET_SIZE];
    json_t *description; /* kernels' names and types point into it; NULL when there is none */
    struct facet_host_kernel *kernels;
    struct facet_host_argument *arguments; /* the arguments of all kernels, kernel by kernel */
    uint32_t kernel_count;
    uint32_t diagnostic_count;
    struct facet_diagnostic *diagnostics; /* each owns its texts */
    struct facet_compile_statistics statistics;
    struct facet_error uncached; /* why the cache was neither searched nor filled; FACET_OK: it was */
    /* files read by the compile besides the source; empty unless the compiler made the image */
    struct facet_manifest manifest;
    bool unrepeatable; /* the manifest is incomplete: the cache cannot keep it */
};

/* Makes an image from copies of its parts. `bytes` may be NULL (size 0). `description` is JSON of `length` bytes, or
 * NULL; FACET_CORRUPT names its fault. `target` may be NULL when the description has one. */
enum facet_status facet_image_create(const void *bytes, size_t size, const char *description, size_t length,
                                     const char *target, struct facet_image **ret_image, struct facet_error *error);

/* Whether the first bytes are those of an ELF object or of PTX, which need no compile. */
bool facet_image_is_code(const void *bytes, size_t size);

/* Appends a copy of the diagnostic, with printable texts. False when out of memory. To be called only before the image
 * is handed out. */
bool facet_image_remark(struct facet_image *image, const struct facet_diagnostic *diagnostic);

/* Takes one more reference; facet_image_destroy() releases one. */
struct facet_image *facet_image_hold(const struct facet_image *image);

/* Reads a description's kernels into the image: its `kernels` and `arguments`. */
enum facet_status facet_image_describe(struct facet_image *image, struct facet_error *error);

static inline void facet_image_cleanup(struct facet_image **image)
{
    facet_image_destroy(*image);
}
#define FACET_CLEANUP_IMAGE __attribute__((cleanup(facet_image_cleanup)))

#endif
