/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rewriting the text of a module: address spaces, calling conventions, opaque types, and mangled names with them.
 *
 * LLVM cannot change the type of a value in place. Pointers are opaque, so in the text an address space is one word,
 * and rewriting the text is the simplest correct way. Quoted text is not changed.
 *
 * Owns: the rewriting. Never: parses more of LLVM's language than words.
 */
#ifndef FACET_KERNEL_COMPILE_REMAP_H
#define FACET_KERNEL_COMPILE_REMAP_H

#include <stdbool.h>
#include <stdint.h>

enum { FACET_REMAP_SPACES = 8 };

struct facet_remap {
    uint8_t spaces[FACET_REMAP_SPACES]; /* old to new; larger numbers stay */
    bool names;                         /* rewrite address spaces in mangled names of functions, too (PU3AS1f) */
    const char *kernel;                 /* the words that replace `spir_kernel` and `ptx_kernel`; "" for none */
    const char *image, *sampler,
        *event; /* the types that replace target("spirv.Image", ...) and so on; NULL: they stay */
};

/* The rewritten text, without its triple and data layout; to be freed. NULL: no memory. */
char *facet_remap_text(const char *text, const struct facet_remap *remap);

#endif
