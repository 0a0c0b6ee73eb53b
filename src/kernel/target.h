/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The targets that a kernel can be compiled for.
 *
 * Owns: the table of processors by family, reading the names that people type, suggestions for unknown names.
 * Never: calls the compiler; compiler.c asks it whether LLVM knows a processor.
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
    FACET_TARGET_NPU, /* always refused, with a reason */
};

struct facet_target {
    enum facet_target_family family;
    char name[FACET_TARGET_SIZE]; /* complete: "amdgcn:gfx90a"; "host" is this machine's own processor */
    const char *processor;        /* within `name`: "gfx90a"; "" for "host", which names no processor */
};

/* As facet_target_parse(). `ret_target` must not be moved or copied: `processor` points into it. */
enum facet_status facet_target_read(const char *text, struct facet_target *ret_target, struct facet_error *error);

/* The family's name, such as "ptx". */
const char *facet_target_family_name(enum facet_target_family family);

/* A few words for people about the target facet_target_name(index): "RDNA 3: RX 7900, Pro W7900". NULL past the end. */
const char *facet_target_about(uint32_t index);

#endif
