/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: putting the functions that code generators call, where a processor lacks an instruction, into the image.
 * Never: makes such functions for processors that lack none; optimizes them, since they could become calls of
 * themselves.
 */
#include <stdio.h>
#include <string.h>

#include "kernel/builtins/library.h"
#include "kernel/compile/compile.h"

/* Whether an image may leave the function undefined: code generators call these functions to copy and fill memory, and
 * every process has them. */
static bool may_stay_undefined(const char *name)
{
    static const char *const names[] = {"memcpy", "memset", "memmove", "memcmp", "bcmp"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

bool facet_compile_next_missing(const char **linker_message, char *ret_name, size_t size)
{
    static const char mark[] = "undefined symbol: ";

    for (const char *at = *linker_message; (at = strstr(at, mark));) {
        at += strlen(mark);
        snprintf(ret_name, size, "%.*s", (int)strcspn(at, "\n"), at);
        *linker_message = at;
        if (!may_stay_undefined(ret_name))
            return true;
    }
    return false;
}

static enum facet_status gather_names(const struct facet_compilation *compilation, const char *linker_message,
                                      LLVMModuleRef module, struct facet_error *error)
{
    char name[FACET_COMPILE_NAME_SIZE];
    struct facet_builtins *library;
    enum facet_status status = facet_compile_open_library(compilation, &library, error);

    if (status != FACET_OK)
        return status;
    while (status == FACET_OK && facet_compile_next_missing(&linker_message, name, sizeof name))
        status = facet_builtins_link_libcall(library, module, name, error);
    facet_builtins_close(library);
    return status;
}

enum facet_status facet_compile_libcalls(struct facet_compilation *compilation, const char *linker_message,
                                         LLVMMemoryBufferRef *ret_object, struct facet_error *error)
{
    LLVMModuleRef module = LLVMModuleCreateWithNameInContext("libcalls", compilation->context);

    LLVMSetTarget(module, LLVMGetTarget(compilation->module));
    LLVMSetDataLayout(module, LLVMGetDataLayoutStr(compilation->module));
    enum facet_status status = gather_names(compilation, linker_message, module, error);
    if (status == FACET_OK)
        status = facet_compile_emit(compilation, module, LLVMObjectFile, ret_object, error);
    LLVMDisposeModule(module);
    return status;
}
