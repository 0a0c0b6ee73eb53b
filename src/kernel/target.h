/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The targets that a kernel can be compiled for.
 *
 * Owns: the table of processors by family, names as people type them, guessing which one was meant.
 * Never: asks a compiler; whether LLVM knows a processor is asked where a compile needs it (compiler.c).
 */
#ifndef FACET_KERNEL_TARGET_H
#define FACET_KERNEL_TARGET_H

#include <facet/kernel.h>

#define FACET_TARGET_SIZE 64

enum facet_target_family {
    FACET_TARGET_HOST,
    FACET_TARGET_PTX,
    FACET_TARGET_AMDGCN,
    FACET_TARGET_SPIRV,
    FACET_TARGET_NPU, /* named so that it can be refused with a reason */
};

struct facet_target {
    enum facet_target_family family;
    char name[FACET_TARGET_SIZE]; /* complete: "amdgcn:gfx90a"; "host" is this machine's own processor */
    const char *processor;        /* within `name`: "gfx90a"; "" for "host", which is none by name */
};

/* As facet_target_parse(). `ret_target` must stay where it is: `processor` points into it. */
enum facet_status facet_target_read(const char *text, struct facet_target *ret_target, struct facet_error *error);

/* "ptx" */
const char *facet_target_family_name(enum facet_target_family family);

/*
 * The common name of the target facet_target_name(index): "RDNA 3, Radeon RX 7900". "" when it has none; NULL past the
 * end.
 */
const char *facet_target_about(uint32_t index);

#endif
