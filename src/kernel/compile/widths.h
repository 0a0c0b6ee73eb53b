/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the interface between widths.c and widths_all.c. Never: is included by others. */
#ifndef FACET_KERNEL_WIDTHS_H
#define FACET_KERNEL_WIDTHS_H

#include <stdbool.h>
#include <stddef.h>

#include <llvm-c/Core.h>

struct widths {
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMBuilderRef builder;
    unsigned wide,
        done; /* kinds of metadata: for a truncation of a widened value; for an instruction that has been widened */
    LLVMValueRef mark;
    LLVMValueRef *list; /* instructions that are to be made wide */
    size_t count;
};

/* Whether a type has integers of another width than SPIR-V's. */
bool facet_widths_odd(LLVMTypeRef type);
/*
 * The value that replaces another one, with zeros above, or with copies of its sign; the replacement of an
 * instruction's result. NULL: no rule is known. The builder stands where the replacement goes.
 */
LLVMValueRef facet_widths_replace(struct widths *widths, LLVMValueRef instruction);
bool facet_widths_store(struct widths *widths, LLVMValueRef instruction);
LLVMValueRef facet_widths_wide(struct widths *widths, LLVMValueRef value);
LLVMValueRef facet_widths_signed(struct widths *widths, LLVMValueRef value);
bool facet_widths_is_odd(LLVMValueRef value);
bool facet_widths_is_marked(LLVMValueRef instruction, unsigned kind);
bool facet_widths_is_bits(LLVMTypeRef type);

#endif
