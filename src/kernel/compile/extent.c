/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the limits on the size and the alignment of a module's variables. Every target can keep what is admitted.
 * Never: changes a size or an alignment.
 *
 * Images, local memory and scratch memory begin at a page of 4096 bytes; the argument block begins at a multiple of
 * 128. For a larger alignment a linker would pad the file, and the variable's address would be less aligned than the
 * optimizer assumes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <facet/host_kernel.h>

#include "kernel/compile/compile.h"
#include "kernel/compile/shims.h"

enum { NAME_SIZE = 80, LOCAL_SPACE = 3, TEXT_SIZE = 320 };

static const char *name_of(LLVMValueRef aligned, char ret_name[NAME_SIZE])
{
    size_t length;

    facet_compile_plain_name(LLVMGetValueName2(aligned, &length), ret_name, NAME_SIZE);
    return ret_name;
}

struct alignment_check {
    struct facet_compilation *compilation;
    char last_message[TEXT_SIZE]; /* not repeated, since clang makes two functions of each kernel */
};

static void check_alignment(void *context, uint64_t bytes, LLVMValueRef aligned)
{
    struct alignment_check *alignment_check = context;
    uint64_t limit = LLVMIsAArgument(aligned) ? FACET_HOST_LOCAL_ALIGN : FACET_HOST_VARIABLE_ALIGN;
    char name[NAME_SIZE], text[TEXT_SIZE];

    if (bytes <= limit)
        return;
    if (LLVMIsAArgument(aligned))
        snprintf(text, sizeof text, "'%s': a struct by value is", name_of(LLVMGetParamParent(aligned), name));
    else if (LLVMIsAAllocaInst(aligned))
        snprintf(text, sizeof text, "'%s': a private variable is",
                 name_of(LLVMGetBasicBlockParent(LLVMGetInstructionParent(aligned)), name));
    else
        snprintf(text, sizeof text, "'%s' is", name_of(aligned, name));
    size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, " aligned to %" PRIu64 " bytes; expected at most %" PRIu64, bytes, limit);
    if (strcmp(text, alignment_check->last_message) == 0)
        return;
    memcpy(alignment_check->last_message, text, sizeof text);
    facet_compile_remark(alignment_check->compilation, FACET_SEVERITY_ERROR, 0, 0, NULL, text);
}

/* Refuses variables that together are larger than an image may be. Local memory is not in the image, and has its own
 * limit. */
static void check_total_size(struct facet_compilation *compilation)
{
    LLVMTargetDataRef layout = LLVMGetModuleDataLayout(compilation->module);
    uint64_t all = 0, one, largest = 0;
    char name[NAME_SIZE] = "", text[TEXT_SIZE];

    for (LLVMValueRef value = LLVMGetFirstGlobal(compilation->module); value; value = LLVMGetNextGlobal(value)) {
        if (LLVMGetPointerAddressSpace(LLVMTypeOf(value)) == LOCAL_SPACE || LLVMIsDeclaration(value))
            continue;
        one = LLVMABISizeOfType(layout, LLVMGlobalGetValueType(value));
        all = one > UINT64_MAX - all ? UINT64_MAX : all + one;
        if (one >= largest)
            name_of(value, name);
        largest = one > largest ? one : largest;
    }
    if (all <= FACET_HOST_IMAGE_MOST)
        return;
    snprintf(text, sizeof text,
             "variables of %" PRIu64 " bytes together, of which '%s' has %" PRIu64 "; expected at most %" PRIu64, all,
             name, largest, FACET_HOST_IMAGE_MOST);
    facet_compile_remark(compilation, FACET_SEVERITY_ERROR, 0, 0, NULL, text);
}

void facet_compile_admit_extents(struct facet_compilation *compilation)
{
    struct alignment_check alignment_check = {.compilation = compilation};

    facet_shim_alignments(compilation->module, check_alignment, &alignment_check);
    check_total_size(compilation);
}
