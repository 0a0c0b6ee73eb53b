/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: which types a module may have for its target, and which constants for SPIR-V. LLVM has more types and
 *       constants than its generators support: they fail on others, take minutes, or silently make wrong code.
 * Never: changes a type or a constant.
 */
#include <stdio.h>

#include "kernel/compile/compile.h"
#include "kernel/compile/shims.h"

/* Code for wider integers grows with the square of their bits, and so does the time to generate it. */
enum { BITS_MAX = 128 };

/* The type that is expected instead; NULL: the type is allowed. */
static const char *expected_of(const struct facet_compilation *compilation, LLVMTypeRef type)
{
    switch (LLVMGetTypeKind(type)) {
    case LLVMIntegerTypeKind:
        return LLVMGetIntTypeWidth(type) > BITS_MAX ? "integers of at most 128 bits" : NULL;
    case LLVMBFloatTypeKind:
        return compilation->family == FACET_COMPILE_SPIRV ? "half, float or double" : NULL;
    case LLVMX86_FP80TypeKind:
    case LLVMFP128TypeKind:
    case LLVMPPC_FP128TypeKind:
        return "half, float or double";
    case LLVMScalableVectorTypeKind:
        return "vectors of a known length";
    case LLVMX86_AMXTypeKind:
        return "numbers, pointers, vectors, arrays and structs";
    default:
        return NULL;
    }
}

static void refuse_type(struct facet_compilation *compilation, LLVMTypeRef type, LLVMValueRef owner,
                        const char *expected)
{
    char name[96], text[320];
    size_t length;

    facet_compile_plain_name(LLVMGetValueName2(owner, &length), name, sizeof name);
    char *printed = LLVMPrintTypeToString(type);
    snprintf(text, sizeof text, "the type '%.40s' in '%.80s' is not taken for the target '%s'; expected %s", printed,
             name, compilation->target, expected);
    LLVMDisposeMessage(printed);
    facet_compile_remark(compilation, FACET_SEVERITY_ERROR, 0, 0, NULL, text);
}

static void judge_type(void *context, LLVMTypeRef type, LLVMValueRef owner)
{
    struct facet_compilation *compilation = context;
    const char *expected = expected_of(compilation, type);

    if (expected)
        refuse_type(compilation, type, owner, expected);
}

void facet_compile_admit_types(struct facet_compilation *compilation)
{
    facet_shim_types(compilation->module, judge_type, compilation);
}

/* SPIR-V has integers of these widths only; a boolean is an integer of one bit. */
static void judge_width(void *context, LLVMTypeRef type, LLVMValueRef owner)
{
    unsigned bits = LLVMGetTypeKind(type) == LLVMIntegerTypeKind ? LLVMGetIntTypeWidth(type) : 1;

    if (bits != 1 && bits != 8 && bits != 16 && bits != 32 && bits != 64)
        refuse_type(context, type, owner, "integers of 8, 16, 32 or 64 bits");
}

/* --- variables that hold addresses -------------------------------------------------------------------------------- */

/* The first variable or function whose address is in a constant. */
static LLVMValueRef address_in(LLVMValueRef constant)
{
    LLVMValueRef found = LLVMIsAGlobalValue(constant);

    for (int i = 0; !found && i < LLVMGetNumOperands(constant); i++)
        found = address_in(LLVMGetOperand(constant, (unsigned)i));
    return found;
}

/* Refuses constants that hold addresses: the generator writes them before their targets, or with another type. */
static void check_addresses(struct facet_compilation *compilation, LLVMValueRef variable)
{
    LLVMValueRef value = LLVMGetInitializer(variable), found = value ? address_in(value) : NULL;
    char text[320];
    size_t length;

    if (!found)
        return;
    snprintf(text, sizeof text,
             "the constant '%.80s' holds the address of '%.80s', which LLVM's generator of SPIR-V cannot say; expected "
             "an index, or a choice that the kernel makes",
             LLVMGetValueName2(variable, &length), LLVMGetValueName2(found, &length));
    facet_compile_remark(compilation, FACET_SEVERITY_ERROR, 0, 0, NULL, text);
}

/* --- private variables -------------------------------------------------------------------------------------------- */

/* The generator stores an alignment in eight bits (spirv.c). */
enum { ALIGNMENT_MAX = 128 };

static void check_private(struct facet_compilation *compilation, LLVMValueRef function)
{
    char name[80], text[240];

    for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(function); block; block = LLVMGetNextBasicBlock(block))
        for (LLVMValueRef at = LLVMGetFirstInstruction(block); at; at = LLVMGetNextInstruction(at)) {
            if (!LLVMIsAAllocaInst(at) || LLVMGetAlignment(at) <= ALIGNMENT_MAX)
                continue;
            size_t length;
            facet_compile_plain_name(LLVMGetValueName2(function, &length), name, sizeof name);
            snprintf(text, sizeof text,
                     "'%s' has a private variable at a multiple of %u bytes; expected at most %d, which is what LLVM's "
                     "generator of SPIR-V can say",
                     name, LLVMGetAlignment(at), ALIGNMENT_MAX);
            facet_compile_remark(compilation, FACET_SEVERITY_ERROR, 0, 0, NULL, text);
            return;
        }
}

void facet_compile_check_spirv(struct facet_compilation *compilation)
{
    LLVMModuleRef module = compilation->module;

    facet_shim_types(module, judge_width, compilation);
    for (LLVMValueRef value = LLVMGetFirstGlobal(module); value; value = LLVMGetNextGlobal(value))
        check_addresses(compilation, value);
    for (LLVMValueRef function = LLVMGetFirstFunction(module); function; function = LLVMGetNextFunction(function))
        check_private(compilation, function);
}
