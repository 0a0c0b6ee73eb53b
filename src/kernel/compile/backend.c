/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the symbol that facet-kernel-compiler.so exports, and compiling a request in a copy of the process (apart.c).
 * Never: calls clang, LLVM's passes, its generators or lld in the caller's process: they crash on some sources, recurse
 * as deep as a source nests, and leave state for the next compile. On a fatal error LLVM calls a handler that jumps
 * back to this file; LLVM's unfinished state ends with the copy.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <llvm-c/ErrorHandling.h>

#include "kernel/compile/compile.h"

/* The compile that runs in this thread. */
struct compile_guard {
    jmp_buf return_point;
    char reason[256];
};
static _Thread_local struct compile_guard *current_guard;

/* LLVM's handler of fatal errors. Returns in a thread without a compile: the process uses LLVM itself, and LLVM then
 * ends the process, as usual. */
static void abandon_compile(const char *reason)
{
    struct compile_guard *compile_guard = current_guard;

    if (!compile_guard)
        return;
    current_guard = NULL;
    snprintf(compile_guard->reason, sizeof compile_guard->reason, "%s", reason);
    longjmp(compile_guard->return_point, 1);
}

static void collect_diagnostic(LLVMDiagnosticInfoRef info, void *context)
{
    static const uint32_t severities[] = {
        [LLVMDSError] = FACET_SEVERITY_ERROR,
        [LLVMDSWarning] = FACET_SEVERITY_WARNING,
        [LLVMDSRemark] = 0,
        [LLVMDSNote] = FACET_SEVERITY_NOTE,
    };
    uint32_t severity = severities[LLVMGetDiagInfoSeverity(info)];
    char *text;

    if (!severity)
        return;
    text = LLVMGetDiagInfoDescription(info);
    facet_compile_remark(context, severity, 0, 0, NULL, text);
    LLVMDisposeMessage(text);
}

static enum facet_status build_module(struct facet_compilation *compilation, struct facet_error *error)
{
    struct facet_backend_result *result = compilation->result;
    uint64_t start = facet_compile_now();
    enum facet_status status = facet_compile_source(compilation, error);

    if (status == FACET_OK)
        status = facet_compile_shape(compilation, error);
    if (status == FACET_OK)
        status = facet_compile_refuse_assembly(compilation, error);
    if (status == FACET_OK)
        status = facet_compile_admit(compilation, error);
    if (status == FACET_OK && compilation->family == FACET_COMPILE_HOST)
        status = facet_compile_portable(compilation, error);
    result->frontend_ns = facet_compile_now() - start;
    if (status != FACET_OK)
        return status;
    start = facet_compile_now();
    facet_compile_join(compilation);
    if (compilation->flavour->library)
        status = facet_compile_library(compilation, error);
    else
        status = facet_compile_mend(compilation, error);
    result->library_ns = facet_compile_now() - start;
    if (status != FACET_OK)
        return status;
    return compilation->family == FACET_COMPILE_HOST ? facet_compile_host(compilation, error)
                                                     : facet_compile_device(compilation, error);
}

static enum facet_status run_stages(struct facet_compilation *compilation, struct facet_error *error)
{
    enum facet_status status = facet_compile_target(compilation, error);

    if (status == FACET_OK)
        status = facet_compile_arguments(compilation, error);
    if (status == FACET_OK && compilation->request->check && compilation->family != FACET_COMPILE_HOST)
        status = facet_error_argument(error, FACET_UNSUPPORTED, "check", "check: only for host, not for '%s'",
                                      compilation->target);
    if (status != FACET_OK)
        return status;
    status = facet_compile_machine(compilation, error);
    if (status != FACET_OK)
        return status;
    compilation->context = LLVMContextCreate();
    LLVMContextSetDiagnosticHandler(compilation->context, collect_diagnostic, compilation);
    return build_module(compilation, error);
}

/* Drops the code of a compile that failed. */
static void drop_code(struct facet_backend_result *result)
{
    free(result->image);
    free(result->description);
    result->image = NULL;
    result->description = NULL;
    result->bytes = 0;
}

/* LLVM's objects are not freed: the copy ends, and the kernel frees its memory faster. */
static enum facet_status compile_here(const struct facet_backend_request *request,
                                      struct facet_backend_result *ret_result, struct facet_error *error)
{
    struct facet_compilation *compilation = calloc(1, sizeof *compilation);
    struct compile_guard compile_guard = {.reason = ""};
    enum facet_status status;

    if (!compilation)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a compile");
    compilation->request = request;
    compilation->result = ret_result;
    if (setjmp(compile_guard.return_point)) {
        status = facet_error_set(error, FACET_INTERNAL, "LLVM gave up: %s", compile_guard.reason);
    } else {
        current_guard = &compile_guard;
        status = run_stages(compilation, error);
        current_guard = NULL;
    }
    if (status != FACET_OK)
        drop_code(ret_result);
    return status;
}

static void clear_result(struct facet_backend_result *result)
{
    if (!result)
        return;
    facet_compile_remark_clear(result);
    facet_compile_read_clear(result);
    drop_code(result);
    *result = (struct facet_backend_result){0};
}

/* Held while this process itself calls LLVM, so that no copy finds one of LLVM's locks taken. */
static pthread_mutex_t llvm_lock = PTHREAD_MUTEX_INITIALIZER;

static int knows_processor(const char *family, const char *processor)
{
    pthread_mutex_lock(&llvm_lock);
    int known = facet_compile_knows(family, processor);
    pthread_mutex_unlock(&llvm_lock);
    return known;
}

static enum facet_status compile_request(const struct facet_backend_request *request,
                                         struct facet_backend_result *ret_result, struct facet_error *error)
{
    struct facet_compile_copy copy = {.request = request, .compile = compile_here};

    *ret_result = (struct facet_backend_result){0};
    pthread_mutex_lock(&llvm_lock);
    facet_compile_prepare();
    enum facet_status status = facet_compile_copy_start(&copy, error);
    pthread_mutex_unlock(&llvm_lock);
    if (status == FACET_OK)
        status = facet_compile_copy_finish(&copy, ret_result, error);
    if (status != FACET_OK)
        drop_code(ret_result);
    return status;
}

static void install_handlers(void)
{
    LLVMInstallFatalErrorHandler(abandon_compile);
}

__attribute__((visibility("default"))) const struct facet_backend *facet_kernel_backend(void);

const struct facet_backend *facet_kernel_backend(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static const struct facet_backend backend = {
        .abi = FACET_BACKEND_ABI,
        .version = "facet " FACET_VERSION ", LLVM " FACET_LLVM_VERSION,
        .compile = compile_request,
        .clear = clear_result,
        .knows = knows_processor,
    };

    pthread_once(&once, install_handlers);
    return &backend;
}
