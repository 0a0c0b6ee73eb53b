/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptions of kernels, and the compiler's remarks and times: as text and as JSON.
 *
 * Owns: remarks with the source's line and a caret; the table of kernels.
 * Never: compiles or runs.
 */
#ifndef FACET_KERNEL_VIEW_H
#define FACET_KERNEL_VIEW_H

#include <jansson.h>

#include "kernel_build.h"

/* The compiler's remarks on standard error, as clang shows them. `source` may be NULL. Returns how many are errors. */
uint32_t kernel_view_remarks(const struct facet_image *image, const char *name, const struct kernel_text *source);

/* These return NULL when out of memory. */
json_t *kernel_remarks_json(const struct facet_image *image);
json_t *kernel_kernels_json(const struct facet_image *image);
json_t *kernel_statistics_json(const struct facet_image *image);

/* A table of all kernels with their arguments. False when out of memory. */
bool kernel_view_kernels(const struct facet_image *image);
bool kernel_view_statistics(const struct facet_image *image);

/* "850 ns", "12.3 us", "4.56 ms", "1.20 s"; returns `buffer`, of VIEW_SIZE bytes. */
char *kernel_view_time(uint64_t ns, char *buffer);

const char *kernel_argument_kind_name(uint32_t kind);

#endif
