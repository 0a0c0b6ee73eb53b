/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: sources of all kinds becoming a verified module in the flavour of the target's family.
 * Never: uses a module that LLVM's verifier refuses, since optimizing such a module can do anything.
 */
#include <stdlib.h>
#include <string.h>

#include <llvm-c/Analysis.h>
#include <llvm-c/BitReader.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/Target.h>

#include "base/cleanup.h"
#include "kernel/compile/compile.h"
#include "kernel/compile/llvm.h"
#include "kernel/compile/remap.h"
#include "kernel/compile/shims.h"
#include "kernel/compile/spirv.h"

/* How a module in SPIR's terms is rewritten for each family. `spaces` is indexed by SPIR's address spaces: 0 private,
 * 1 global, 2 constant, 3 local, 4 generic. */
static const struct facet_remap remaps[FACET_COMPILE_FAMILIES] = {
    [FACET_COMPILE_HOST] = {.spaces = {0, 1, 4, 3, 0, 5, 6, 7},
                            .names = true,
                            .kernel = "ptx_kernel",
                            .image = "ptr addrspace(1)",
                            .sampler = "ptr addrspace(4)",
                            .event = "ptr"},
    [FACET_COMPILE_PTX] = {.spaces = {0, 1, 4, 3, 0, 5, 6, 7},
                           .names = true,
                           .kernel = "ptx_kernel",
                           .image = "ptr addrspace(1)",
                           .sampler = "ptr addrspace(4)",
                           .event = "ptr"},
    [FACET_COMPILE_AMDGCN] = {.spaces = {0, 1, 4, 3, 0, 5, 6, 7},
                              .names = true,
                              .kernel = "amdgpu_kernel",
                              .image = "ptr addrspace(4)",
                              .sampler = "ptr addrspace(4)",
                              .event = "ptr"},
};

static enum facet_status reject_source(struct facet_compilation *compilation, const char *what, const char *why,
                                       struct facet_error *error)
{
    FACET_CLEANUP_FREE char *text = NULL;

    if (asprintf(&text, "%s%s", what, why) < 0)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a diagnostic");
    text[strcspn(text, "\n")] = '\0';
    facet_compile_remark(compilation, FACET_SEVERITY_ERROR, 0, 0, NULL, text);
    return facet_compile_verdict(compilation, error);
}

static enum facet_status verify_module(struct facet_compilation *compilation, struct facet_error *error)
{
    char *message = NULL;
    enum facet_status status = FACET_OK;

    if (LLVMVerifyModule(compilation->module, LLVMReturnStatusAction, &message))
        status = reject_source(compilation, "the module is not valid: ", message, error);
    LLVMDisposeMessage(message);
    return status;
}

static enum facet_status parse_module(struct facet_compilation *compilation, const void *text, size_t bytes,
                                      struct facet_error *error)
{
    LLVMMemoryBufferRef buffer =
        LLVMCreateMemoryBufferWithMemoryRangeCopy(text, bytes, compilation->request->name); /* the parser frees it */
    char *message = NULL;
    enum facet_status status = FACET_OK;

    if (LLVMParseIRInContext(compilation->context, buffer, &compilation->module, &message)) {
        compilation->module = NULL;
        status = reject_source(compilation, "not LLVM IR: ", message ? message : "", error);
    }
    LLVMDisposeMessage(message);
    return status;
}

/* Sets the data layout that clang uses for the family; its built-in library has the same. */
static void set_flavour(struct facet_compilation *compilation)
{
    static const char nvptx[] = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64";

    LLVMSetTarget(compilation->module, compilation->flavour->source_triple);
    if (compilation->family == FACET_COMPILE_AMDGCN) {
        LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(compilation->machine);
        LLVMSetModuleDataLayout(compilation->module, layout);
        LLVMDisposeTargetData(layout);
        return;
    }
    LLVMSetDataLayout(compilation->module, nvptx);
}

/* Rewrites the module by its text. */
static enum facet_status remap_module(struct facet_compilation *compilation, struct facet_error *error)
{
    char *text = LLVMPrintModuleToString(compilation->module);
    FACET_CLEANUP_FREE char *made = facet_remap_text(text, &remaps[compilation->family]);

    LLVMDisposeMessage(text);
    LLVMDisposeModule(compilation->module);
    compilation->module = NULL;
    if (!made)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory to rewrite a module");
    enum facet_status status = parse_module(compilation, made, strlen(made), error);
    if (status != FACET_OK)
        return status;
    set_flavour(compilation);
    if (compilation->family == FACET_COMPILE_AMDGCN)
        facet_compile_private(compilation);
    return FACET_OK;
}

/* Replaces aliases by what they stand for, since not all generators support them. */
static enum facet_status resolve_aliases(struct facet_compilation *compilation, struct facet_error *error)
{
    LLVMValueRef alias = LLVMGetFirstGlobalAlias(compilation->module);

    if (!alias)
        return FACET_OK;
    for (; alias; alias = LLVMGetNextGlobalAlias(alias)) {
        LLVMReplaceAllUsesWith(alias, LLVMAliasGetAliasee(alias));
        LLVMSetLinkage(alias, LLVMInternalLinkage);
    }
    return facet_compile_passes(compilation, "globaldce", error);
}

static enum facet_status take_module(struct facet_compilation *compilation, const void *source, size_t bytes,
                                     struct facet_error *error)
{
    enum facet_status status = parse_module(compilation, source, bytes, error);

    if (status != FACET_OK)
        return status;
    const char *triple = LLVMGetTarget(compilation->module);
    if (triple[0] && strncmp(triple, "spir64", 6) != 0 && strncmp(triple, "spirv64", 7) != 0)
        return reject_source(compilation, "a module for spir64 is expected, this one is for ", triple, error);
    status = verify_module(compilation, error);
    if (status == FACET_OK)
        status = resolve_aliases(compilation, error);
    if (status == FACET_OK && compilation->family != FACET_COMPILE_SPIRV)
        status = remap_module(compilation, error);
    return status;
}

static enum facet_status take_spirv(struct facet_compilation *compilation, struct facet_error *error)
{
    FACET_CLEANUP_FREE void *bitcode = NULL;
    size_t bytes = 0;
    struct facet_error reason = {0};
    enum facet_status status =
        facet_spirv_translate(compilation->request->source, compilation->request->bytes, &bitcode, &bytes, &reason);

    if (status == FACET_CORRUPT)
        return reject_source(compilation, "", reason.message, error);
    if (status != FACET_OK)
        return facet_error_set(error, status, "%s", reason.message);
    return take_module(compilation, bitcode, bytes, error);
}

static enum facet_status take_opencl(struct facet_compilation *compilation, struct facet_error *error)
{
    const struct facet_backend_request *request = compilation->request;
    const struct facet_shim_listener listener = {facet_compile_remark, facet_compile_read, facet_compile_copy_progress,
                                                 compilation};

    compilation->module = facet_shim_clang(compilation->context, request->name, request->source, request->bytes,
                                           compilation->arguments, compilation->argument_count, &listener);
    facet_compile_copy_progress(compilation, 0);
    if (!compilation->module && !compilation->failed)
        return facet_error_set(error, FACET_INTERNAL, "clang gave neither a module nor a reason");
    if (compilation->module)
        facet_llvm_settle_kernels(compilation->module);
    /* Clang disables names for the whole context; reading text needs them. */
    LLVMContextSetDiscardValueNames(compilation->context, 0);
    return FACET_OK;
}

enum facet_status facet_compile_source(struct facet_compilation *compilation, struct facet_error *error)
{
    const struct facet_backend_request *request = compilation->request;
    enum facet_status status;

    switch (request->source_kind) {
    case FACET_SOURCE_OPENCL_C:
        status = take_opencl(compilation, error);
        break;
    case FACET_SOURCE_LLVM_IR:
        status = take_module(compilation, request->source, request->bytes, error);
        break;
    case FACET_SOURCE_SPIRV:
        status = take_spirv(compilation, error);
        break;
    default:
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "source", "source kind %u: expected 1 to 3",
                                    request->source_kind);
    }
    if (status == FACET_OK)
        status = facet_compile_verdict(compilation, error);
    return status == FACET_OK ? verify_module(compilation, error) : status;
}
