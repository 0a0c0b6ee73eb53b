/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checked images: lower_check.c emits checks and reports, lower_bounds.c finds the bounds of pointers.
 *
 * Owns: struct facet_checker, the state that these two files share. Never: is included in other files.
 */
#ifndef FACET_KERNEL_COMPILE_LOWER_CHECK_H
#define FACET_KERNEL_COMPILE_LOWER_CHECK_H

#include "lower_inside.h"

enum facet_root { /* the kinds of memory that a pointer may lead to: bits */
                  FACET_ROOT_PRIVATE = 1,
                  FACET_ROOT_ARGUMENTS = 2,
                  FACET_ROOT_LOCAL = 4,
                  FACET_ROOT_GLOBAL = 8,
                  FACET_ROOT_CONSTANT = 16, /* a variable of the image */
                  FACET_ROOT_UNKNOWN = 32,
};

/* The bounds at run time of the variable or local argument that a pointer leads into. For any other pointer: NULL, 0
 * and 0. */
struct facet_bounds {
    LLVMValueRef base, size;
    LLVMValueRef outside; /* the flags (FACET_CHECK_...) with which an access outside is reported */
};

struct facet_checker {
    struct facet_arena *arena;
    LLVMModuleRef module;
    LLVMContextRef context;
    LLVMTargetDataRef layout;
    LLVMBuilderRef builder;
    LLVMTypeRef i1, i8, i32, i64, pointer;
    LLVMTypeRef ask_type;
    LLVMValueRef ask, ask_unless_own; /* i1 (group, frames' bytes of an item, address, bytes, flags, item, site) */
    LLVMTypeRef ask_outside_type;
    LLVMValueRef ask_outside; /* like `ask`, followed by base, size and outside of a struct facet_bounds */
    struct facet_site *sites;
    uint32_t site_count, site_room;

    LLVMValueRef function; /* the item function that is being changed */
    LLVMValueRef item, frame_bytes, nothing, sink;
    struct facet_map bounds; /* pointer -> struct facet_bounds */
};

uint32_t facet_checker_roots(const struct facet_checker *checker, LLVMValueRef pointer);
/* Moves the builder. Removes flags such as `inbounds` from addresses on the way: with them, an address outside would
 * be poison, which cannot be compared. */
struct facet_bounds facet_checker_bounds(struct facet_checker *checker, LLVMValueRef pointer);
/* Whether the bytes are at a constant offset inside a variable, or inside the arguments, which the compiler lays
 * out. */
bool facet_checker_inside(const struct facet_checker *checker, LLVMValueRef address, LLVMValueRef bytes);

#endif
