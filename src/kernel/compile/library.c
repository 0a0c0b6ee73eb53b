/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: linking the built-in functions that kernels call, and the diagnostics for missing ones.
 * Never: links a function without callers; leaves a function other than a kernel visible.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/builtins/library.h"
#include "kernel/compile/compile.h"

/* The prefix of functions that lower.h defines. */
#define LOWERED_PREFIX "__facet_"

enum { PATH_SIZE = PATH_MAX + FACET_COMPILE_NAME_SIZE };

/* The path of a file in the folder of the object that has this code. */
static void path_beside(const char *file, char *ret_path)
{
    Dl_info here;
    const char *slash = NULL;

    if (dladdr((const void *)&facet_compile_library, &here))
        slash = strrchr(here.dli_fname, '/');
    snprintf(ret_path, PATH_SIZE, "%.*s%s", slash ? (int)(slash - here.dli_fname) + 1 : 0, slash ? here.dli_fname : "",
             file);
}

enum facet_status facet_compile_open_library(const struct facet_compilation *compilation,
                                             struct facet_builtins **ret_library, struct facet_error *error)
{
    char path[PATH_SIZE];

    path_beside(compilation->flavour->library, path);
    return facet_builtins_open(path, ret_library, error);
}

static enum facet_status link_needed(struct facet_compilation *compilation, struct facet_error *error)
{
    struct facet_builtins *library;
    enum facet_status status = facet_compile_open_library(compilation, &library, error);

    if (status != FACET_OK)
        return status;
    status = facet_builtins_link(library, compilation->module, error);
    facet_builtins_close(library);
    return status;
}

static void remark_missing(struct facet_compilation *compilation, const char *symbol)
{
    char name[128], text[320];

    facet_compile_plain_name(symbol, name, sizeof name);
    if (strcmp(name, "printf") == 0)
        snprintf(text, sizeof text, "printf() is not supported for the target '%s'", compilation->target);
    else
        snprintf(text, sizeof text, "'%s' (%s) is called and has no body for the target '%s'", name, symbol,
                 compilation->target);
    facet_compile_refuse_calls(compilation, symbol, text);
}

static bool is_missing(const struct facet_compilation *compilation, LLVMValueRef function)
{
    size_t length;
    const char *name = LLVMGetValueName2(function, &length);

    if (!LLVMIsDeclaration(function) || LLVMGetIntrinsicID(function) || !LLVMGetFirstUse(function))
        return false;
    return compilation->family != FACET_COMPILE_HOST || strncmp(name, LOWERED_PREFIX, strlen(LOWERED_PREFIX)) != 0;
}

/*
 * For each kernel clang makes a function with this prefix, which other kernels call; the kernel has a copy of its
 * body, or calls it. The function becomes internal and is inlined everywhere, so it is deleted, and each kernel's code
 * exists once.
 */
static void join_kernel_stub(struct facet_compilation *compilation, LLVMValueRef function)
{
    static const char prefix[] = "__clang_ocl_kern_imp_";
    unsigned always = LLVMGetEnumAttributeKindForName("alwaysinline", 12);
    unsigned never = LLVMGetEnumAttributeKindForName("noinline", 8);
    size_t length;

    if (LLVMIsDeclaration(function) || strncmp(LLVMGetValueName2(function, &length), prefix, strlen(prefix)) != 0)
        return;
    LLVMSetVisibility(function, LLVMDefaultVisibility);
    LLVMSetLinkage(function, LLVMInternalLinkage);
    LLVMRemoveEnumAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, never);
    LLVMAddAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateEnumAttribute(compilation->context, always, 0));
}

void facet_compile_join(struct facet_compilation *compilation)
{
    for (LLVMValueRef function = LLVMGetFirstFunction(compilation->module); function;
         function = LLVMGetNextFunction(function))
        join_kernel_stub(compilation, function);
}

/* Makes functions internal, so that names outside of the module cannot affect them. */
void facet_compile_hide(struct facet_compilation *compilation)
{
    LLVMValueRef value;

    for (value = LLVMGetFirstFunction(compilation->module); value; value = LLVMGetNextFunction(value)) {
        size_t length;
        if (LLVMIsDeclaration(value) || facet_compile_is_kernel(compilation, LLVMGetValueName2(value, &length)))
            continue;
        LLVMSetVisibility(value, LLVMDefaultVisibility);
        LLVMSetLinkage(value, LLVMInternalLinkage);
    }
    for (value = LLVMGetFirstGlobal(compilation->module); value; value = LLVMGetNextGlobal(value)) {
        if (LLVMIsDeclaration(value) || LLVMGetLinkage(value) == LLVMAppendingLinkage)
            continue;
        LLVMSetVisibility(value, LLVMDefaultVisibility);
        LLVMSetLinkage(value, LLVMInternalLinkage);
    }
}

enum facet_status facet_compile_library(struct facet_compilation *compilation, struct facet_error *error)
{
    facet_compile_rename(compilation);
    enum facet_status status = link_needed(compilation, error);
    if (status != FACET_OK)
        return status;
    facet_compile_hide(compilation);
    for (LLVMValueRef function = LLVMGetFirstFunction(compilation->module); function;
         function = LLVMGetNextFunction(function)) {
        size_t length;
        if (is_missing(compilation, function))
            remark_missing(compilation, LLVMGetValueName2(function, &length));
    }
    return facet_compile_verdict(compilation, error);
}
