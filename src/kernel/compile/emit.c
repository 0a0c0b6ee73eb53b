/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: running passes, making machine code, linking objects through lld, which wants files.
 * Never: leaves a file behind; links two at a time, which lld cannot.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <llvm-c/Transforms/PassBuilder.h>

#include "base/cleanup.h"
#include "kernel/compile/compile.h"
#include "kernel/compile/files.h"
#include "kernel/compile/shims.h"

enum facet_status facet_compile_passes(struct facet_compilation *compilation, const char *passes,
                                       struct facet_error *error)
{
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef failure = LLVMRunPasses(compilation->module, passes, compilation->machine, options);

    LLVMDisposePassBuilderOptions(options);
    if (!failure)
        return facet_compile_verdict(compilation, error);
    char *text = LLVMGetErrorMessage(failure);
    facet_error_set(error, FACET_INTERNAL, "the optimizer gave up: %s", text);
    LLVMDisposeErrorMessage(text);
    return FACET_INTERNAL;
}

void facet_compile_attach(struct facet_compilation *compilation)
{
    const char *text = compilation->result->description;
    LLVMValueRef content = LLVMConstStringInContext2(compilation->context, text, strlen(text), 1);
    unsigned space = compilation->family == FACET_COMPILE_AMDGCN ? 4 : 0;
    LLVMValueRef global = LLVMAddGlobalInAddressSpace(compilation->module, LLVMTypeOf(content), "facet_kernels", space);

    LLVMSetInitializer(global, content);
    LLVMSetGlobalConstant(global, 1);
    LLVMSetLinkage(global, LLVMInternalLinkage);
    LLVMSetAlignment(global, 1);
    LLVMSetSection(global, FACET_HOST_IMAGE_SECTION);
}

static enum facet_status emit_here(struct facet_compilation *compilation, LLVMCodeGenFileType kind,
                                   LLVMMemoryBufferRef *ret_code, struct facet_error *error)
{
    char *message = NULL;

    if (!LLVMTargetMachineEmitToMemoryBuffer(compilation->machine, compilation->module, kind, &message, ret_code))
        return FACET_OK;
    facet_error_set(error, FACET_INTERNAL, "the code generator gave up: %s", message ? message : "");
    LLVMDisposeMessage(message);
    return FACET_INTERNAL;
}

enum facet_status facet_compile_emit(struct facet_compilation *compilation, LLVMCodeGenFileType kind,
                                     LLVMMemoryBufferRef *ret_code, struct facet_error *error)
{
    uint64_t start = facet_compile_now();
    LLVMMemoryBufferRef code = NULL;
    bool apart = compilation->family == FACET_COMPILE_SPIRV;
    enum facet_status status =
        apart ? facet_compile_emit_apart(compilation, kind, &code, error) : emit_here(compilation, kind, &code, error);

    if (status != FACET_OK)
        return status;
    compilation->result->generate_ns = facet_compile_now() - start;
    /* What cannot be had on this processor is said through diagnostics, with code made all the same. */
    status = facet_compile_verdict(compilation, error);
    if (status != FACET_OK) {
        LLVMDisposeMemoryBuffer(code);
        return status;
    }
    *ret_code = code;
    return FACET_OK;
}

/* Code generators call these for plain assignments; every process has them. */
static bool may_be_missing(const char *name)
{
    static const char *const names[] = {"memcpy\n", "memset\n", "memmove\n", "memcmp\n", "bcmp\n"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static enum facet_status check_missing(const char *said, struct facet_error *error)
{
    static const char mark[] = "undefined symbol: ";

    for (const char *at = said; (at = strstr(at, mark));) {
        at += strlen(mark);
        if (!may_be_missing(at))
            return facet_error_set(error, FACET_INTERNAL, "the code generator calls '%.*s', which there is not",
                                   (int)strcspn(at, "\n"), at);
    }
    return FACET_OK;
}

static enum facet_status link_files(struct facet_compilation *compilation, const char *input, const char *output,
                                    struct facet_error *error)
{
    const char *const arguments[] = {"ld.lld",
                                     "-shared",
                                     "--threads=1",
                                     "-s",
                                     "-Bsymbolic",
                                     "--hash-style=gnu",
                                     "-z",
                                     "defs",
                                     "-z",
                                     "noexecstack",
                                     "--warn-unresolved-symbols",
                                     "--error-limit=0",
                                     "-o",
                                     output,
                                     input};
    FACET_CLEANUP_FREE char *said = NULL;

    facet_compile_lock(compilation, FACET_COMPILE_LOCK_LLD);
    int failed = facet_shim_lld(arguments, sizeof arguments / sizeof arguments[0], &said);
    facet_compile_unlock(compilation, FACET_COMPILE_LOCK_LLD);
    if (failed)
        return facet_error_set(error, FACET_INTERNAL, "lld: %s", said ? said : "failed");
    return said ? check_missing(said, error) : facet_error_set(error, FACET_NO_MEMORY, "no memory for what lld says");
}

enum facet_status facet_compile_link(struct facet_compilation *compilation, LLVMMemoryBufferRef object,
                                     struct facet_error *error)
{
    struct facet_folder folder;
    char input[sizeof folder.path + 16], output[sizeof folder.path + 16];
    uint64_t start = facet_compile_now();
    enum facet_status status = facet_folder_make(&folder, error);

    if (status != FACET_OK)
        return status;
    snprintf(input, sizeof input, "%s/in.o", folder.path);
    snprintf(output, sizeof output, "%s/out", folder.path);
    status = facet_file_write(input, LLVMGetBufferStart(object), LLVMGetBufferSize(object), error);
    if (status == FACET_OK)
        status = link_files(compilation, input, output, error);
    if (status == FACET_OK)
        status = facet_file_read(output, &compilation->result->image, &compilation->result->bytes, error);
    unlink(input);
    unlink(output);
    rmdir(folder.path);
    compilation->result->link_ns = facet_compile_now() - start;
    return status;
}
