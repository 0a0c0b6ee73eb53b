/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: making the module that facet_lower_host() takes (lower.h): one address space, the host's layout, no calling
 * conventions. Never: decides how work-items run.
 */
#include <stdlib.h>
#include <string.h>

#include <llvm-c/IRReader.h>
#include <llvm-c/Target.h>

#include "base/cleanup.h"
#include "kernel/compile/compile.h"
#include "kernel/compile/lower.h"
#include "kernel/compile/remap.h"

enum { LOCAL_SPACE = 3 };

static enum facet_status no_memory(struct facet_error *error)
{
    return facet_error_set(error, FACET_NO_MEMORY, "no memory to make a module portable");
}

/* Local variables are recognized by their names once their address space is removed. */
static enum facet_status name_locals(struct facet_compilation *compilation, struct facet_error *error)
{
    for (LLVMValueRef value = LLVMGetFirstGlobal(compilation->module); value; value = LLVMGetNextGlobal(value)) {
        size_t length;
        const char *name = LLVMGetValueName2(value, &length);

        if (LLVMGetPointerAddressSpace(LLVMTypeOf(value)) != LOCAL_SPACE)
            continue;
        FACET_CLEANUP_FREE char *renamed = NULL;
        if (asprintf(&renamed, FACET_LOWER_LOCAL "%s", name) < 0)
            return no_memory(error);
        LLVMSetValueName2(value, renamed, strlen(renamed));
        LLVMSetLinkage(value, LLVMInternalLinkage);
    }
    return FACET_OK;
}

static enum facet_status strip_module(struct facet_compilation *compilation, struct facet_error *error)
{
    static const struct facet_remap remap = {.kernel = ""};
    char *text = LLVMPrintModuleToString(compilation->module), *message = NULL;
    FACET_CLEANUP_FREE char *made = facet_remap_text(text, &remap);

    LLVMDisposeMessage(text);
    if (!made)
        return no_memory(error);
    LLVMDisposeModule(compilation->module);
    compilation->module = NULL;
    LLVMMemoryBufferRef buffer = LLVMCreateMemoryBufferWithMemoryRangeCopy(made, strlen(made), "portable");
    if (LLVMParseIRInContext(compilation->context, buffer, &compilation->module, &message)) {
        compilation->module = NULL;
        facet_error_set(error, FACET_INTERNAL, "a module cannot be made portable: %s", message);
        LLVMDisposeMessage(message);
        return FACET_INTERNAL;
    }
    return FACET_OK;
}

/* Drops clang's attributes, which are for another processor. */
static void forget_device(LLVMValueRef function)
{
    static const char *const names[] = {"target-cpu", "target-features", "frame-pointer"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        LLVMRemoveStringAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, names[i],
                                         (unsigned)strlen(names[i]));
}

/* Removes `noinline` from calls, which sources in SPIR-V and LLVM IR may have: the lowering may inline all calls. */
static void forget_noinline(LLVMValueRef function)
{
    unsigned never = LLVMGetEnumAttributeKindForName("noinline", 8);

    for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(function); block; block = LLVMGetNextBasicBlock(block))
        for (LLVMValueRef at = LLVMGetFirstInstruction(block); at; at = LLVMGetNextInstruction(at))
            if (LLVMIsACallInst(at))
                LLVMRemoveCallSiteEnumAttribute(at, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, never);
}

enum facet_status facet_compile_portable(struct facet_compilation *compilation, struct facet_error *error)
{
    enum facet_status status = name_locals(compilation, error);

    if (status == FACET_OK)
        status = strip_module(compilation, error);
    if (status != FACET_OK)
        return status;
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(compilation->machine);
    LLVMSetModuleDataLayout(compilation->module, layout);
    LLVMDisposeTargetData(layout);
    LLVMSetTarget(compilation->module, compilation->flavour->triple);
    for (LLVMValueRef function = LLVMGetFirstFunction(compilation->module); function;
         function = LLVMGetNextFunction(function)) {
        forget_device(function);
        forget_noinline(function);
    }
    return FACET_OK;
}
