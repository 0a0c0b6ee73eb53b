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
    unsigned wide;      /* the kind of metadata of a truncation of a widened value */
    unsigned done;      /* the kind of metadata of an instruction that has been widened */
    LLVMValueRef mark;  /* the metadata itself, which is empty */
    LLVMValueRef *list; /* instructions that are to be made wide */
    size_t count;
};

/* Whether a type has integers of another width than SPIR-V's. */
bool facet_widths_type_is_odd(LLVMTypeRef type);
/* These four emit code where the builder stands. NULL or false: no rule is known. */
/* The replacement of an instruction's result. */
LLVMValueRef facet_widths_replace(struct widths *widths, LLVMValueRef instruction);
/* Stores the value of a store byte by byte. */
bool facet_widths_store(struct widths *widths, LLVMValueRef instruction);
/* A value in the next wider type, with zeros above. */
LLVMValueRef facet_widths_wide(struct widths *widths, LLVMValueRef value);
/* A value in the next wider type, with copies of its sign above. */
LLVMValueRef facet_widths_signed(struct widths *widths, LLVMValueRef value);
bool facet_widths_is_odd(LLVMValueRef value);
bool facet_widths_is_marked(LLVMValueRef instruction, unsigned kind);
bool facet_widths_is_bits(LLVMTypeRef type);

#endif
