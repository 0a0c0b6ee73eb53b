/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the one symbol of facet-kernel-compiler.so: a request becomes a result; which compiles are in a copy of the
 *       process (apart.c): those for SPIR-V; sources, of any kind, that are long for the stack; those that prove to be
 *       when clang parses them, with their macros and what they include; and those that may make clang crash.
 * Never: ends the process. LLVM calls a handler where it knows no way on, and that jumps back to here; what LLVM had
 *        then under way is left behind, since nothing of it may be touched any more. Not covered is a short source
 *        whose functions, once inlined, are an expression of millions of terms.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <llvm-c/ErrorHandling.h>

#include "kernel/compile/compile.h"

#define STACK_MOST  ((size_t)1 << 30)
#define STACK_LEAST ((size_t)1 << 24)
/* No function's frame is larger. */
#define STACK_GUARD ((size_t)1 << 20)
/* What nests worst takes 5 KiB of stack for each byte of the source ("-~-~-~"), or 1 KiB of a bitcode's. */
#define STACK_OF_BYTE ((size_t)16 << 10)

/* The compile that this thread is in. */
struct guard {
    jmp_buf back;
    char reason[256];
};
static _Thread_local struct guard *guarding;

/* Returns for threads that are not in a compile: the process has its own use of LLVM, and LLVM then does as it would.
 */
static void give_up(const char *reason)
{
    struct guard *guard = guarding;

    if (!guard)
        return;
    guarding = NULL;
    snprintf(guard->reason, sizeof guard->reason, "%s", reason);
    longjmp(guard->back, 1);
}

static pthread_mutex_t locks[FACET_COMPILE_LOCKS] = {PTHREAD_MUTEX_INITIALIZER};

void facet_compile_lock(struct facet_compilation *compilation, enum facet_compile_lock which)
{
    pthread_mutex_lock(&locks[which]);
    compilation->locked[which] = true;
}

void facet_compile_unlock(struct facet_compilation *compilation, enum facet_compile_lock which)
{
    if (!compilation->locked[which])
        return;
    compilation->locked[which] = false;
    pthread_mutex_unlock(&locks[which]);
}

static void hear(LLVMDiagnosticInfoRef info, void *context)
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

static enum facet_status build(struct facet_compilation *compilation, struct facet_error *error)
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

static enum facet_status run(struct facet_compilation *compilation, struct facet_error *error)
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
    LLVMContextSetDiagnosticHandler(compilation->context, hear, compilation);
    return build(compilation, error);
}

static void clear_llvm(struct facet_compilation *compilation)
{
    if (compilation->module)
        LLVMDisposeModule(compilation->module);
    if (compilation->machine)
        LLVMDisposeTargetMachine(compilation->machine);
    if (compilation->context)
        LLVMContextDispose(compilation->context);
}

static void clear_own(struct facet_compilation *compilation)
{
    facet_compile_shape_clear(compilation);
    free(compilation->arguments);
}

/* Not a result that is half made: code without a status that says so. */
static void drop_code(struct facet_backend_result *result)
{
    free(result->image);
    free(result->description);
    result->image = NULL;
    result->description = NULL;
    result->bytes = 0;
}

static enum facet_status guarded(struct facet_compilation *compilation, struct guard *guard, struct facet_error *error)
{
    if (setjmp(guard->back))
        return facet_error_set(error, FACET_INTERNAL, "LLVM gave up: %s", guard->reason);
    guarding = guard;
    enum facet_status status = run(compilation, error);
    guarding = NULL;
    clear_llvm(compilation);
    return status;
}

/* `stack` is 0 where the compile may take what there is. `ret_too_much`: it was stopped, since it took too much. */
static enum facet_status compile_here(const struct facet_backend_request *request, size_t stack, bool *ret_too_much,
                                      struct facet_backend_result *ret_result, struct facet_error *error)
{
    struct facet_compilation *compilation = calloc(1, sizeof *compilation);
    struct guard guard = {.reason = ""};

    if (!compilation)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a compile");
    compilation->request = request;
    compilation->result = ret_result;
    compilation->stack = stack;
    enum facet_status status = guarded(compilation, &guard, error);
    facet_compile_unlock(compilation, FACET_COMPILE_LOCK_LLD);
    *ret_too_much = compilation->too_much;
    clear_own(compilation);
    free(compilation);
    if (status != FACET_OK)
        drop_code(ret_result);
    return status;
}

static enum facet_status compile_in_copy(const struct facet_backend_request *request,
                                         struct facet_backend_result *ret_result, struct facet_error *error)
{
    bool too_much;

    return compile_here(request, 0, &too_much, ret_result, error);
}

/* Many at a time; who copies the process is alone for that. Who wants to be alone is not overtaken for ever. */
static pthread_rwlock_t company = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

static enum facet_status compile_apart(const struct facet_backend_request *request,
                                       struct facet_backend_result *ret_result, struct facet_error *error)
{
    struct facet_compile_copy copy = {.request = request, .compile = compile_in_copy};

    facet_compile_knows("host", "x86-64"); /* which begins with LLVM's tables: once, and not in each copy */
    pthread_rwlock_wrlock(&company);
    enum facet_status status = facet_compile_copy_start(&copy, error);
    pthread_rwlock_unlock(&company);
    if (status == FACET_OK)
        status = facet_compile_copy_finish(&copy, ret_result, error);
    if (status != FACET_OK)
        drop_code(ret_result);
    return status;
}

static void clear(struct facet_backend_result *result)
{
    if (!result)
        return;
    facet_compile_remark_clear(result);
    facet_compile_read_clear(result);
    drop_code(result);
    *result = (struct facet_backend_result){0};
}

/* One compile, for the thread that it has to itself. */
struct job {
    const struct facet_backend_request *request;
    struct facet_backend_result *result;
    struct facet_error *error;
    size_t stack;
    enum facet_status status;
};

static bool is_of_word(char letter)
{
    return letter == '_' || (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'z') ||
           (letter >= 'A' && letter <= 'Z');
}

/* Clang 22 crashes where `kernel` is said of what is no function ("kernel int x;"), on PTX's terms, which are the
 * host's too. What may be that has a copy to crash in: behind it is more than words before a parenthesis. A macro's
 * name for `kernel` in a header is not seen. */
static bool may_mark_a_variable(const char *source, size_t bytes)
{
    static const char word[] = "kernel";
    const size_t length = sizeof word - 1;
    const char *end = source + bytes, *at = source;

    while ((at = memmem(at, (size_t)(end - at), word, length))) {
        const char *begin = at;

        at += length;
        while (begin > source && begin[-1] == '_')
            begin--;
        if ((begin > source && is_of_word(begin[-1])) || (at < end && is_of_word(*at) && *at != '_'))
            continue;
        const char *next = at;
        while (next < end && (is_of_word(*next) || (*next && strchr(" \t\r\n", *next))))
            next++;
        if (next == end || *next != '(')
            return true;
    }
    return false;
}

static enum facet_status compile_where_it_can(const struct job *job)
{
    const struct facet_backend_request *request = job->request;
    bool apart =
        strncmp(request->target, "spirv", 5) == 0 || request->bytes > job->stack / STACK_OF_BYTE ||
        (request->source_kind == FACET_SOURCE_OPENCL_C && may_mark_a_variable(request->source, request->bytes));
    enum facet_status status = FACET_OK;

    if (!apart) {
        pthread_rwlock_rdlock(&company);
        status = compile_here(request, job->stack, &apart, job->result, job->error);
        pthread_rwlock_unlock(&company);
    }
    if (!apart)
        return status;
    clear(job->result);
    return compile_apart(request, job->result, job->error);
}

static void *work(void *argument)
{
    struct job *job = argument;
    stack_t stack;

    /* lld has LLVM put up a signal stack of its own, which stays when this thread has gone. */
    sigaltstack(NULL, &stack);
    job->status = compile_where_it_can(job);
    sigaltstack(&stack, NULL);
    return NULL;
}

/*
 * clang and LLVM recurse as deep as a source is nested, and the caller's stack may be small. Untouched stack costs
 * address space only; where that is short, less will do. The caller's signals are not for this thread.
 */
static int start(struct job *job, pthread_t *ret_thread)
{
    int failed = EAGAIN;

    for (size_t bytes = STACK_MOST; failed && bytes >= STACK_LEAST; bytes /= 4) {
        pthread_attr_t attributes;
        sigset_t all;

        sigfillset(&all);
        pthread_attr_init(&attributes);
        pthread_attr_setsigmask_np(&attributes, &all);
        pthread_attr_setstacksize(&attributes, bytes);
        pthread_attr_setguardsize(&attributes, STACK_GUARD);
        job->stack = bytes;
        failed = pthread_create(ret_thread, &attributes, work, job);
        pthread_attr_destroy(&attributes);
    }
    return failed;
}

static enum facet_status compile(const struct facet_backend_request *request, struct facet_backend_result *ret_result,
                                 struct facet_error *error)
{
    struct job job = {.request = request, .result = ret_result, .error = error};
    pthread_t thread;

    *ret_result = (struct facet_backend_result){0};
    int failed = start(&job, &thread);
    if (failed)
        return facet_error_set(error, FACET_NO_MEMORY, "cannot start a thread for a compile: %s", strerror(failed));
    pthread_join(thread, NULL);
    return job.status;
}

static void install(void)
{
    LLVMInstallFatalErrorHandler(give_up);
}

__attribute__((visibility("default"))) const struct facet_backend *facet_kernel_backend(void);

const struct facet_backend *facet_kernel_backend(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static const struct facet_backend backend = {
        .abi = FACET_BACKEND_ABI,
        .version = "facet " FACET_VERSION ", LLVM " FACET_LLVM_VERSION,
        .compile = compile,
        .clear = clear,
        .knows = facet_compile_knows,
    };

    pthread_once(&once, install);
    return &backend;
}
