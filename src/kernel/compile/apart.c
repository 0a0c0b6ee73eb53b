/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: a whole compile in a copy of this process (fork), on a stack that is deep enough for real sources; the result,
 *       which comes back through a pipe; the error that says how the copy ended without a result. No source can crash
 *       more than the copy. Nor is there state of an earlier compile: LLVM's generator of SPIR-V keeps labels of basic
 *       blocks in a global table, by addresses that are used again, so that the second module of a process may be
 *       wrong; lld keeps its state in globals. A copy that takes too long is ended, and reported like a crash.
 * Never: lets the copy return, or keeps files that it left. A program that itself uses the same LLVM in another thread
 *        may hold one of LLVM's locks during the fork; this file cannot detect that.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "kernel/compile/compile.h"

/* clang and LLVM recurse as deep as a source is nested. Untouched stack costs address space only; when address space is
 * short, a smaller stack is tried. */
#define STACK_MAX_BYTES ((size_t)1 << 30)
#define STACK_MIN_BYTES ((size_t)1 << 24)
/* The guard behind the stack: no function has a larger frame, so none reaches beyond the guard. */
#define STACK_GUARD_BYTES ((size_t)1 << 20)
#define PART_MAX_BYTES    ((uint64_t)1 << 32)
#define NO_TEXT           UINT64_MAX
/* A fault at most this far from the stack's end means that the stack is used up. */
#define STACK_END_BYTES ((uintptr_t)1 << 20)
/* How long a copy that is told to end may take to report its place in the source. */
#define KILL_AFTER_SECONDS 5u

enum { PLACE_SIZE = 128 };
enum end { END_COMPLETE, END_STACK_FULL, END_CRASHED };

/* The first bytes through the pipe; with END_COMPLETE, an outcome and the result's parts follow. */
struct message {
    uint32_t end, signal;
    uint64_t source_bytes;      /* that clang had read of the source; 0: it was not reading the source */
    struct facet_folder folder; /* the folder that a crash left; its path is "" when there is none */
};

/* The result of a compile. The receiver uses the counts in `result`, and ignores its pointers. */
struct outcome {
    enum facet_status status;
    struct facet_error error;
    struct facet_backend_result result;
};

/* --- the copy: the result ----------------------------------------------------------------------------------------- */

static void write_bytes(int fd, const void *bytes, size_t size)
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

static void put_text(int fd, const char *text)
{
    uint64_t length = text ? strlen(text) : NO_TEXT;

    write_bytes(fd, &length, sizeof length);
    write_bytes(fd, text, text ? length : 0);
}

static void put_result(int fd, const struct outcome *outcome)
{
    const struct message message = {.end = END_COMPLETE};
    const struct facet_backend_result *result = &outcome->result;

    write_bytes(fd, &message, sizeof message);
    write_bytes(fd, outcome, sizeof *outcome);
    write_bytes(fd, result->image, result->bytes);
    put_text(fd, result->description);
    for (uint32_t i = 0; i < result->diagnostic_count; i++) {
        write_bytes(fd, &result->diagnostics[i], sizeof result->diagnostics[i]);
        put_text(fd, result->diagnostics[i].file);
        put_text(fd, result->diagnostics[i].text);
    }
    for (uint32_t i = 0; i < result->read_count; i++) {
        write_bytes(fd, &result->reads[i], sizeof result->reads[i]);
        put_text(fd, result->reads[i].path);
    }
}

/* --- the copy: its end -------------------------------------------------------------------------------------------- */

static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP};

/* State of a copy: the pipe to its parent, how much of the source clang has read, and the end of its stack. */
static struct {
    int fd;
    volatile size_t source_bytes;
    struct facet_folder folder;
    uintptr_t stack_end;
    char stack[1 << 16]; /* for the signal that reports an exhausted stack */
} in_copy;

void facet_compile_copy_progress(void *context, size_t bytes)
{
    (void)context;
    in_copy.source_bytes = bytes;
}

void facet_compile_copy_folder(const struct facet_folder *folder)
{
    in_copy.folder = folder ? *folder : (struct facet_folder){.path = ""};
}

static void report_crash(int signal, siginfo_t *info, void *context)
{
    uintptr_t address = (uintptr_t)info->si_addr;
    bool deep = signal == SIGSEGV && address - (in_copy.stack_end - STACK_END_BYTES) < 2 * STACK_END_BYTES;
    const struct message message = {.end = deep ? END_STACK_FULL : END_CRASHED,
                                    .signal = (uint32_t)signal,
                                    .source_bytes = in_copy.source_bytes,
                                    .folder = in_copy.folder};

    (void)context;
    write_bytes(in_copy.fd, &message, sizeof message);
    _exit(1);
}

static void watch_stack(void)
{
    const stack_t own = {.ss_sp = in_copy.stack, .ss_size = sizeof in_copy.stack};
    pthread_attr_t attributes;
    void *begin = NULL;
    size_t bytes = 0;

    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        pthread_attr_getstack(&attributes, &begin, &bytes);
        pthread_attr_destroy(&attributes);
    }
    in_copy.stack_end = (uintptr_t)begin;
    sigaltstack(&own, NULL);
}

/* Replaces the program's own handlers, which must not run in a copy. */
static void watch_signals(void)
{
    struct sigaction action = {.sa_sigaction = report_crash, .sa_flags = SA_SIGINFO | SA_ONSTACK | (int)SA_RESETHAND};
    sigset_t watched;

    sigemptyset(&watched);
    for (size_t i = 0; i < sizeof crashes / sizeof crashes[0]; i++) {
        sigaction(crashes[i], &action, NULL);
        sigaddset(&watched, crashes[i]);
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file that exceeds the limit is an error of the compile */
    pthread_sigmask(SIG_UNBLOCK, &watched, NULL);
}

/* Closes the program's files, which the copy would otherwise keep open. */
static void close_others(int fd)
{
    if (fd > STDERR_FILENO + 1)
        close_range(STDERR_FILENO + 1, (unsigned)fd - 1, 0);
    close_range((unsigned)fd + 1, ~0u, 0);
}

/* The main function of the thread that compiles. */
static void *compile_and_end(void *argument)
{
    const struct facet_compile_copy *copy = argument;
    struct outcome outcome = {.status = FACET_OK};
    struct rusage usage;

    watch_stack();
    watch_signals();
    outcome.status = copy->compile(copy->request, &outcome.result, &outcome.error);
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        outcome.result.peak_bytes = (uint64_t)usage.ru_maxrss * 1024;
    put_result(in_copy.fd, &outcome);
    _exit(0);
}

static int start_thread(struct facet_compile_copy *copy, pthread_t *ret_thread)
{
    int failed = EAGAIN;

    for (size_t bytes = STACK_MAX_BYTES; failed && bytes >= STACK_MIN_BYTES; bytes /= 4) {
        pthread_attr_t attributes;

        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, bytes);
        pthread_attr_setguardsize(&attributes, STACK_GUARD_BYTES);
        failed = pthread_create(ret_thread, &attributes, compile_and_end, copy);
        pthread_attr_destroy(&attributes);
    }
    return failed;
}

/* Moves a descriptor above the standard ones: a program may have closed its standard files, so that the pipe got one of
 * their numbers. */
static int move_descriptor_high(int fd)
{
    return fd > STDERR_FILENO ? fd : fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
}

/* LLVM prints its own messages, which quote the input: none of them belongs on a terminal. */
static void close_standard_streams(void)
{
    FACET_CLEANUP_FD int nowhere = move_descriptor_high(open("/dev/null", O_WRONLY | O_CLOEXEC));

    if (nowhere < 0)
        return;
    (void)dup2(nowhere, STDOUT_FILENO);
    (void)dup2(nowhere, STDERR_FILENO);
}

static _Noreturn void compile_in_copy(struct facet_compile_copy *copy, int fd)
{
    pthread_t thread;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGCHLD, SIG_DFL); /* the copy runs programs and waits for them, however the program treats its children */
    fd = move_descriptor_high(fd);
    in_copy.fd = fd;
    close_others(fd);
    close_standard_streams();
    int failed = start_thread(copy, &thread);
    if (!failed)
        pthread_join(thread, NULL); /* does not return: the thread ends the process */
    struct outcome outcome = {.status = FACET_NO_MEMORY};
    facet_error_set(&outcome.error, FACET_NO_MEMORY, "cannot start a thread for a compile: %s", strerror(failed));
    put_result(fd, &outcome);
    _exit(0);
}

/* --- this process: the result ------------------------------------------------------------------------------------- */

static bool read_bytes(int fd, void *bytes, size_t size)
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

/* Returns bytes with a NUL behind them; NULL: the copy has died, or memory ran out. */
static void *get_bytes(int fd, uint64_t size)
{
    FACET_CLEANUP_FREE char *bytes = size < PART_MAX_BYTES ? malloc(size + 1) : NULL;

    if (!bytes || !read_bytes(fd, bytes, size))
        return NULL;
    bytes[size] = '\0';
    return FACET_TAKE_PTR(bytes);
}

static bool get_text(int fd, char **ret_text)
{
    uint64_t length;

    *ret_text = NULL;
    if (!read_bytes(fd, &length, sizeof length))
        return false;
    if (length != NO_TEXT)
        *ret_text = get_bytes(fd, length);
    return length == NO_TEXT || *ret_text;
}

static bool get_diagnostics(int fd, uint32_t count, struct facet_backend_result *result)
{
    result->diagnostics = calloc((size_t)count + 1, sizeof *result->diagnostics);
    for (uint32_t i = 0; result->diagnostics && i < count; i++) {
        struct facet_backend_diagnostic *one = &result->diagnostics[i];

        if (!read_bytes(fd, one, sizeof *one))
            return false;
        one->file = one->text = NULL;
        result->diagnostic_count++;
        if (!get_text(fd, &one->file) || !get_text(fd, &one->text))
            return false;
    }
    return result->diagnostics;
}

static bool get_reads(int fd, uint32_t count, struct facet_backend_result *result)
{
    result->reads = calloc((size_t)count + 1, sizeof *result->reads);
    for (uint32_t i = 0; result->reads && i < count; i++) {
        if (!read_bytes(fd, &result->reads[i], sizeof result->reads[i]) || !get_text(fd, &result->reads[i].path))
            return false;
        result->read_count++;
    }
    return result->reads;
}

/* The caller clears the partial result in any case. */
static bool get_result(int fd, struct outcome *ret_outcome, struct facet_backend_result *result)
{
    const struct facet_backend_result *sent_result = &ret_outcome->result;

    if (!read_bytes(fd, ret_outcome, sizeof *ret_outcome))
        return false;
    *result = *sent_result;
    result->image = result->description = NULL;
    result->diagnostics = NULL;
    result->reads = NULL;
    result->diagnostic_count = result->read_count = 0;
    if (sent_result->image && !(result->image = get_bytes(fd, sent_result->bytes)))
        return false;
    return get_text(fd, &result->description) && get_diagnostics(fd, sent_result->diagnostic_count, result) &&
           get_reads(fd, sent_result->read_count, result);
}

/* --- this process: the copy --------------------------------------------------------------------------------------- */

/* `how` is the status from waitpid(); it is 0, too, when another thread of this process has waited for the child. */
static enum facet_status explain_death(const char *name, int how, struct facet_error *error)
{
    if (WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL)
        return facet_error_set(error, FACET_NO_MEMORY,
                               "%.80s: the process that compiled was killed; the machine may be short of memory", name);
    return facet_error_set(error, FACET_INTERNAL, "%.80s: the process that compiled ended without a result", name);
}

/* Writes clang's place in the source as "name:line:column". False: clang was not reading the source. */
static bool find_place(const struct facet_backend_request *request, uint64_t at, char *ret_place, size_t size)
{
    const char *source = request->source;
    size_t line = 1, begin = 0;

    snprintf(ret_place, size, "%.80s", request->name);
    if (!at || at > request->bytes)
        return false;
    for (size_t i = 0; i + 1 < at; i++)
        if (source[i] == '\n') {
            line++;
            begin = i + 1;
        }
    snprintf(ret_place, size, "%.80s:%zu:%zu", request->name, line, (size_t)at - begin);
    return true;
}

/* The last construct that the copy read is the likely cause of the crash. */
static enum facet_status explain_crash(const struct facet_backend_request *request, const struct message *message,
                                       struct facet_error *error)
{
    char place[PLACE_SIZE];

    if (!find_place(request, message->source_bytes, place, sizeof place))
        return facet_error_set(error, FACET_INTERNAL, "%s: the compiler crashed (signal %u)", place, message->signal);
    return facet_error_set(error, FACET_INTERNAL,
                           "%s: the compiler crashed here (signal %u); is 'kernel' before something other than a "
                           "function?",
                           place, message->signal);
}

static enum facet_status explain_timeout(const struct facet_backend_request *request, const struct message *message,
                                         struct facet_error *error)
{
    char place[PLACE_SIZE];

    find_place(request, message->source_bytes, place, sizeof place);
    return facet_error_argument(error, FACET_TIMEOUT, "seconds",
                                "%s: the compile took more than %u s and was ended; does it include a pipe, or unroll "
                                "a loop of many steps?",
                                place, request->seconds);
}

static enum facet_status explain_outcome(const struct facet_backend_request *request, const struct message *message,
                                         struct facet_error *error)
{
    const char *name = request->name;

    if (message->end == END_COMPLETE)
        return facet_error_set(error, FACET_NO_MEMORY, "%.80s: no memory for what the compile made", name);
    if (message->end == END_CRASHED)
        return explain_crash(request, message, error);
    return facet_error_argument(error, FACET_OUT_OF_RANGE, "source",
                                "%.80s: the compiler ran out of stack: the source nests too deep; move parts of its "
                                "expressions into variables, and parts of its statements into functions",
                                name);
}

/* The copy must not take signals of the program, so it and its thread begin with all signals blocked. */
static pid_t copy_process(void)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    pid_t process = fork();
    if (process != 0)
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    return process;
}

enum facet_status facet_compile_copy_start(struct facet_compile_copy *copy, struct facet_error *error)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return facet_error_errno(error, errno, "cannot make a pipe");
    copy->process = copy_process();
    if (copy->process == 0)
        compile_in_copy(copy, ends[1]);
    int failed = errno;
    close(ends[1]);
    copy->fd = ends[0];
    if (copy->process > 0)
        return FACET_OK;
    close(copy->fd);
    return facet_error_errno(error, failed, "cannot copy this process (fork) to compile in it");
}

/* Whether the copy writes or ends within `seconds`. */
static bool wait_in_time(const struct facet_compile_copy *copy, uint32_t seconds)
{
    struct pollfd end = {.fd = copy->fd, .events = POLLIN};
    uint64_t deadline = facet_clock_now_ns() + seconds * UINT64_C(1000000000), now;
    int ready = 0;

    while (ready <= 0 && (now = facet_clock_now_ns()) < deadline)
        ready = poll(&end, 1, (int)((deadline - now) / 1000000 + 1));
    return ready > 0;
}

/* Ends a copy that takes too long. As in a crash, it reports its place in the source and the folder that it left. */
static bool kill_late_child(const struct facet_compile_copy *copy)
{
    if (wait_in_time(copy, copy->request->seconds))
        return false;
    kill(copy->process, SIGABRT);
    if (!wait_in_time(copy, KILL_AFTER_SECONDS))
        kill(copy->process, SIGKILL);
    return true;
}

enum facet_status facet_compile_copy_finish(struct facet_compile_copy *copy, struct facet_backend_result *ret_result,
                                            struct facet_error *error)
{
    struct outcome outcome;
    struct message message = {.end = END_CRASHED};
    int how = 0;
    bool late = kill_late_child(copy), reported = read_bytes(copy->fd, &message, sizeof message);
    bool complete = reported && message.end == END_COMPLETE && get_result(copy->fd, &outcome, ret_result);

    close(copy->fd); /* ends a copy that still writes */
    while (waitpid(copy->process, &how, 0) < 0 && errno == EINTR)
        ;
    if (reported) {
        message.folder.lock = -1; /* the copy held the lock */
        facet_folder_remove(&message.folder);
    }
    if (late && !complete)
        return explain_timeout(copy->request, &message, error);
    if (!reported)
        return explain_death(copy->request->name, how, error);
    if (!complete)
        return explain_outcome(copy->request, &message, error);
    if (outcome.status != FACET_OK && error)
        *error = outcome.error;
    return outcome.status;
}
