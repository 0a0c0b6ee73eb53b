/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The request of a compile, checked and complete.
 *
 * Owns: defaults, the kind of a source by its first bytes.
 * Never: checks clang's options; the compiler refuses unknown ones.
 */
#ifndef FACET_KERNEL_OPTIONS_H
#define FACET_KERNEL_OPTIONS_H

#include "kernel/backend.h"
#include "kernel/target.h"

struct facet_compile_job {
    struct facet_target target;
    struct facet_backend_request request; /* borrows the caller's source and arguments, and `target` */
    bool unchecked;                       /* the environment asks for a checked image, which the target does not have */
};

/* `ret_job` must not be moved or copied: it points into itself. `options` may be NULL. FACET_INVALID_ARGUMENT,
 * FACET_UNSUPPORTED. */
enum facet_status facet_compile_job_init(const void *source, size_t bytes, const struct facet_compile_options *options,
                                         struct facet_compile_job *ret_job, struct facet_error *error);

/* Returns an enum facet_source_kind, never FACET_SOURCE_DETECT. */
uint32_t facet_source_detect(const void *source, size_t bytes);

#endif
