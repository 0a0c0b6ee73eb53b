/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: which built-in function a call gets in place of the one that the source names: a fast one, when options ask for
 *       it; or one that takes the types that clang passes for this target.
 * Never: changes a function that the source itself defines, or a call inside the built-in library.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/compile/compile.h"

enum { NAME_SIZE = 256, PRIVATE_SPACE = 5 };

/* A mangled name in two parts: "_Z3sinDv4_f" is "sin" and "Dv4_f". */
struct mangled {
    const char *base, *types;
    size_t base_length;
};

static bool read_mangled(const char *symbol, struct mangled *ret_name)
{
    char *end;

    if (strncmp(symbol, "_Z", 2) != 0)
        return false;
    unsigned long length = strtoul(symbol + 2, &end, 10);
    if (!length || length > strlen(end))
        return false;
    *ret_name = (struct mangled){.base = end, .types = end + length, .base_length = length};
    return true;
}

static bool is_one_of(const struct mangled *name, const char *const *list)
{
    for (; *list; list++)
        if (strlen(*list) == name->base_length && strncmp(name->base, *list, name->base_length) == 0)
            return true;
    return false;
}

/* Redirects calls to the function prefix + base with the same types. */
static void rename_to(LLVMModuleRef module, LLVMValueRef function, const char *prefix, const struct mangled *name)
{
    char symbol[NAME_SIZE];
    int length = snprintf(symbol, sizeof symbol, "_Z%zu%s%.*s%s", strlen(prefix) + name->base_length, prefix,
                          (int)name->base_length, name->base, name->types);

    if (length >= (int)sizeof symbol)
        return;
    LLVMValueRef replacement = LLVMGetNamedFunction(module, symbol);
    if (!replacement)
        LLVMSetValueName2(function, symbol, (size_t)length);
    else if (LLVMGlobalGetValueType(replacement) == LLVMGlobalGetValueType(function))
        LLVMReplaceAllUsesWith(function, replacement);
}

/* --- fast functions ---------------------------------------------------------------------------------------------- */

/*
 * Functions that a GPU has instructions for. The host has instructions for roots and divisions, where a fast form gains
 * nothing.
 */
static const char *const fast_on_gpu[] = {"sin",  "cos",   "tan",  "exp",   "exp2", "exp10", "log",
                                          "log2", "log10", "sqrt", "rsqrt", "powr", NULL};
static const char *const fast_on_host[] = {"sin", "cos",  "tan",   "exp",  "exp2", "exp10",
                                           "log", "log2", "log10", "powr", NULL};

static bool asks_for_fast(const struct facet_compilation *compilation)
{
    for (uint32_t i = 0; i < compilation->argument_count; i++)
        if (strcmp(compilation->arguments[i], "-cl-fast-relaxed-math") == 0)
            return true;
    return false;
}

/* One or two floats, or vectors of them: "f", "ff", "Dv4_f", "Dv4_fS_". */
static bool is_of_floats(const char *types)
{
    if (strncmp(types, "Dv", 2) == 0) {
        types += 2 + strspn(types + 2, "0123456789");
        if (*types++ != '_')
            return false;
    }
    return strcmp(types, "f") == 0 || strcmp(types, "ff") == 0 || strcmp(types, "fS_") == 0;
}

static void make_fast(struct facet_compilation *compilation, LLVMValueRef function, const struct mangled *name)
{
    bool host = compilation->family == FACET_COMPILE_HOST;

    if (is_of_floats(name->types) && is_one_of(name, host ? fast_on_host : fast_on_gpu))
        rename_to(compilation->module, function, host ? "__fast_" : "native_", name);
}

/* --- events of AMDGPU -------------------------------------------------------------------------------------------- */

/*
 * Without a generic address space (OpenCL C before 2.0), clang's events on AMDGPU are pointers to private memory, which
 * mangled names do not show. libclc's functions take other pointers, so such calls go to our own functions.
 */
static void fit_events(struct facet_compilation *compilation, LLVMValueRef function, const struct mangled *name)
{
    static const char *const copies[] = {"async_work_group_copy", "async_work_group_strided_copy", NULL};
    LLVMTypeRef result = LLVMGetReturnType(LLVMGlobalGetValueType(function));

    if (is_one_of(name, copies) && LLVMGetTypeKind(result) == LLVMPointerTypeKind &&
        LLVMGetPointerAddressSpace(result) == PRIVATE_SPACE)
        rename_to(compilation->module, function, "__private_", name);
}

void facet_compile_rename(struct facet_compilation *compilation)
{
    bool fast = asks_for_fast(compilation);

    for (LLVMValueRef function = LLVMGetFirstFunction(compilation->module); function;
         function = LLVMGetNextFunction(function)) {
        struct mangled name;
        size_t length;

        if (!LLVMIsDeclaration(function) || !read_mangled(LLVMGetValueName2(function, &length), &name))
            continue;
        if (fast)
            make_fast(compilation, function, &name);
        if (compilation->family == FACET_COMPILE_AMDGCN)
            fit_events(compilation, function, &name);
    }
}
