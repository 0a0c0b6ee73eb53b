/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: running passes, making machine code, linking objects by lld, which reads and writes files.
 * Never: leaves a file, even if lld crashes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

enum facet_status facet_compile_emit(struct facet_compilation *compilation, LLVMModuleRef module,
                                     LLVMCodeGenFileType kind, LLVMMemoryBufferRef *ret_code, struct facet_error *error)
{
    uint64_t start = facet_compile_now();
    LLVMMemoryBufferRef code = NULL;
    char *message = NULL;

    if (LLVMTargetMachineEmitToMemoryBuffer(compilation->machine, module, kind, &message, &code)) {
        facet_error_set(error, FACET_INTERNAL, "the code generator gave up: %s", message ? message : "");
        LLVMDisposeMessage(message);
        return FACET_INTERNAL;
    }
    compilation->result->generate_ns += facet_compile_now() - start;
    /* Constructs that this processor cannot run are reported as diagnostics; code is made all the same. */
    enum facet_status status = facet_compile_verdict(compilation, error);
    if (status != FACET_OK) {
        LLVMDisposeMemoryBuffer(code);
        return status;
    }
    *ret_code = code;
    return FACET_OK;
}

/* Links `input` and, unless it is NULL, `more`. The caller frees *ret_message. */
static enum facet_status link_files(struct facet_compilation *compilation, const char *output, const char *input,
                                    const char *more, char **ret_message, struct facet_error *error)
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
                                     input,
                                     more};
    size_t count = sizeof arguments / sizeof arguments[0] - (more ? 0 : 1);
    FACET_CLEANUP_FREE char *linker_message = NULL;

    int failed = facet_shim_lld(arguments, count, &linker_message);
    if (failed)
        return facet_error_set(error, FACET_INTERNAL, "lld: %s", linker_message ? linker_message : "failed");
    if (!linker_message)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for lld's messages");
    *ret_message = FACET_TAKE_PTR(linker_message);
    return FACET_OK;
}

/* Links again, with the functions that the first attempt lacked. */
static enum facet_status link_again(struct facet_compilation *compilation, const char *output, const char *input,
                                    const char *more, const char *missing, struct facet_error *error)
{
    FACET_CLEANUP_FREE char *linker_message = NULL;
    char name[FACET_COMPILE_NAME_SIZE];
    LLVMMemoryBufferRef object = NULL;
    enum facet_status status = facet_compile_libcalls(compilation, missing, &object, error);

    if (status != FACET_OK)
        return status;
    status = facet_file_write(more, LLVMGetBufferStart(object), LLVMGetBufferSize(object), error);
    LLVMDisposeMemoryBuffer(object);
    if (status == FACET_OK)
        status = link_files(compilation, output, input, more, &linker_message, error);
    const char *rest = linker_message;
    if (status == FACET_OK && facet_compile_next_missing(&rest, name, sizeof name))
        return facet_error_set(error, FACET_INTERNAL, "a function that the code generator calls needs '%s'", name);
    return status;
}

static enum facet_status link_all(struct facet_compilation *compilation, const char *output, const char *input,
                                  const char *more, struct facet_error *error)
{
    FACET_CLEANUP_FREE char *linker_message = NULL;
    char name[FACET_COMPILE_NAME_SIZE];
    enum facet_status status = link_files(compilation, output, input, NULL, &linker_message, error);
    const char *at = linker_message;

    if (status == FACET_OK && facet_compile_next_missing(&at, name, sizeof name))
        status = link_again(compilation, output, input, more, linker_message, error);
    return status;
}

enum facet_status facet_compile_link(struct facet_compilation *compilation, LLVMMemoryBufferRef object,
                                     struct facet_error *error)
{
    char input[FACET_FOLDER_SIZE + 16], more[FACET_FOLDER_SIZE + 16], output[FACET_FOLDER_SIZE + 16];
    uint64_t start = facet_compile_now();
    struct facet_folder folder;
    enum facet_status status = facet_folder_make(&folder, error);

    if (status != FACET_OK)
        return status;
    facet_compile_copy_folder(&folder);
    snprintf(input, sizeof input, "%s/in.o", folder.path);
    snprintf(more, sizeof more, "%s/more.o", folder.path);
    snprintf(output, sizeof output, "%s/out", folder.path);
    status = facet_file_write(input, LLVMGetBufferStart(object), LLVMGetBufferSize(object), error);
    if (status == FACET_OK)
        status = link_all(compilation, output, input, more, error);
    if (status == FACET_OK)
        status = facet_file_read(output, &compilation->result->image, &compilation->result->bytes, error);
    facet_folder_remove(&folder);
    facet_compile_copy_folder(NULL);
    compilation->result->link_ns = facet_compile_now() - start;
    return status;
}
