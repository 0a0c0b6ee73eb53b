/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: generating code in a copy of this process. LLVM 22's generator of SPIR-V keeps labels of basic blocks in a
 * global table from one module to the next, by addresses that come again: the second module of a process may be wrong.
 *       A copy has a table that nobody has used.
 * Never: forks while another compile is in LLVM, whose locks the copy would find taken (backend.c sees to that); lets
 *        the copy return.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "kernel/compile/compile.h"

#define MESSAGE_MOST ((uint64_t)1 << 30)

enum kind { CODE, REMARK, FAILURE };

/* One message through the pipe; its bytes follow. CODE or FAILURE is the last one. */
struct message {
    uint32_t kind, severity;
    uint64_t bytes;
};

/* --- the copy ----------------------------------------------------------------------------------------------------- */

static void put(int fd, const void *bytes, size_t size)
{
    const char *at = bytes;

    while (size) {
        ssize_t wrote = write(fd, at, size);
        if (wrote < 0 && errno != EINTR)
            _exit(1);
        at += wrote > 0 ? wrote : 0;
        size -= wrote > 0 ? (size_t)wrote : 0;
    }
}

static void tell(int fd, enum kind kind, uint32_t severity, const void *bytes, size_t size)
{
    const struct message message = {kind, severity, size};

    put(fd, &message, sizeof message);
    put(fd, bytes, size);
}

_Noreturn void facet_compile_last_words(int fd, const char *reason)
{
    tell(fd, FAILURE, 0, reason, strlen(reason));
    _exit(1);
}

static _Noreturn void generate(struct facet_compilation *compilation, LLVMCodeGenFileType kind, int fd)
{
    const struct facet_backend_result *result = compilation->result;
    uint32_t known = result->diagnostic_count;
    LLVMMemoryBufferRef code = NULL;
    char *message = NULL;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    facet_compile_guard_apart(fd);
    if (LLVMTargetMachineEmitToMemoryBuffer(compilation->machine, compilation->module, kind, &message, &code))
        facet_compile_last_words(fd, message ? message : "");
    for (uint32_t i = known; i < result->diagnostic_count; i++)
        tell(fd, REMARK, result->diagnostics[i].severity, result->diagnostics[i].text,
             strlen(result->diagnostics[i].text));
    tell(fd, CODE, 0, LLVMGetBufferStart(code), LLVMGetBufferSize(code));
    _exit(0);
}

/* --- this process ------------------------------------------------------------------------------------------------- */

static bool get(int fd, void *bytes, size_t size)
{
    char *at = bytes;

    while (size) {
        ssize_t got = read(fd, at, size);
        if (got == 0 || (got < 0 && errno != EINTR))
            return false;
        at += got > 0 ? got : 0;
        size -= got > 0 ? (size_t)got : 0;
    }
    return true;
}

/* The next message's bytes, with a NUL behind them; NULL: the copy has died. */
static char *next(int fd, struct message *ret_message)
{
    if (!get(fd, ret_message, sizeof *ret_message) || ret_message->bytes > MESSAGE_MOST)
        return NULL;
    FACET_CLEANUP_FREE char *bytes = malloc(ret_message->bytes + 1);
    if (!bytes || !get(fd, bytes, ret_message->bytes))
        return NULL;
    bytes[ret_message->bytes] = '\0';
    return FACET_TAKE_PTR(bytes);
}

static enum facet_status listen_to(struct facet_compilation *compilation, int fd, LLVMMemoryBufferRef *ret_code,
                                   struct facet_error *error)
{
    for (;;) {
        struct message message;
        FACET_CLEANUP_FREE char *bytes = next(fd, &message);

        if (!bytes)
            return facet_error_set(error, FACET_INTERNAL, "the code generator died");
        if (message.kind == FAILURE)
            return facet_error_set(error, FACET_INTERNAL, "the code generator gave up: %s", bytes);
        if (message.kind == REMARK) {
            facet_compile_remark(compilation, message.severity, 0, 0, NULL, bytes);
            continue;
        }
        *ret_code = LLVMCreateMemoryBufferWithMemoryRangeCopy(bytes, message.bytes, "code");
        return FACET_OK;
    }
}

enum facet_status facet_compile_emit_apart(struct facet_compilation *compilation, LLVMCodeGenFileType kind,
                                           LLVMMemoryBufferRef *ret_code, struct facet_error *error)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return facet_error_errno(error, errno, "cannot make a pipe");
    FACET_CLEANUP_FD int from = ends[0];
    pid_t copy = fork();
    if (copy == 0)
        generate(compilation, kind, ends[1]);
    int failed = errno;
    close(ends[1]);
    if (copy < 0)
        return facet_error_errno(error, failed, "cannot copy this process for the code generator");
    enum facet_status status = listen_to(compilation, from, ret_code, error);
    if (status != FACET_OK)
        kill(copy, SIGKILL);
    while (waitpid(copy, NULL, 0) < 0 && errno == EINTR)
        ;
    return status;
}
