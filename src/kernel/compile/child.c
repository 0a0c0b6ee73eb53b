/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: children that read a file and write to a pipe. Never: leaves a child running, or as a zombie. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "kernel/compile/files.h"

extern char **environ;

enum { READ_CHUNK_BYTES = 65536 };

struct pipes {
    int output[2], text[2]; /* [0] to read from, [1] to write to */
};

static void close_pipe(int *ends)
{
    for (int i = 0; i < 2; i++)
        if (ends[i] >= 0)
            close(ends[i]);
    ends[0] = ends[1] = -1;
}

static enum facet_status open_pipes(struct pipes *pipes, struct facet_error *error)
{
    *pipes = (struct pipes){.output = {-1, -1}, .text = {-1, -1}};
    if (pipe2(pipes->output, O_CLOEXEC) == 0 && pipe2(pipes->text, O_CLOEXEC) == 0)
        return FACET_OK;
    facet_error_errno(error, errno, "cannot make a pipe");
    close_pipe(pipes->output);
    return error ? error->status : FACET_IO;
}

static int start_child(const char *const *arguments, const struct pipes *pipes, pid_t *ret_child)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, default_action;

    sigemptyset(&none);
    sigemptyset(&default_action);
    sigaddset(&default_action, SIGPIPE);
    sigaddset(&default_action, SIGABRT);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, pipes->output[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, pipes->text[1], STDERR_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &default_action);
    int failed = posix_spawnp(ret_child, arguments[0], &actions, &attributes, (char *const *)arguments, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return failed;
}

/*
 * Processor time used by a child: a busy machine does not count against it. A child that gets no processor time is
 * bounded by the time limit of the whole compile.
 */
static int64_t used_ms(pid_t process)
{
    struct timespec used = {0};
    clockid_t clock;

    if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &used) != 0)
        return 0;
    return (int64_t)used.tv_sec * 1000 + used.tv_nsec / 1000000;
}

/* Reads a part of the output. False at the end of the pipe, or without memory. */
static bool take_output(int fd, struct facet_child *child, bool *no_memory)
{
    void *grown = realloc(child->output, child->bytes + READ_CHUNK_BYTES);

    if (!grown) {
        *no_memory = true;
        return false;
    }
    child->output = grown;
    ssize_t got = read(fd, (char *)grown + child->bytes, READ_CHUNK_BYTES);
    if (got > 0)
        child->bytes += (size_t)got;
    return got > 0 || (got < 0 && errno == EINTR);
}

/* Output beyond the buffer is read and dropped: the child must not block on the pipe. */
static bool take_text(int fd, struct facet_child *child)
{
    char rest[1024];
    size_t used = strlen(child->text), room = sizeof child->text - 1 - used;
    ssize_t got = read(fd, rest, sizeof rest);

    if (got > 0)
        memcpy(child->text + used, rest, (size_t)got < room ? (size_t)got : room);
    return got > 0 || (got < 0 && errno == EINTR);
}

static enum facet_status listen_to(const struct pipes *pipes, pid_t process, unsigned seconds, size_t max,
                                   struct facet_child *child, struct facet_error *error)
{
    struct pollfd ends[2] = {{.fd = pipes->output[0], .events = POLLIN}, {.fd = pipes->text[0], .events = POLLIN}};
    bool no_memory = false;

    while (ends[0].fd >= 0 || ends[1].fd >= 0) {
        int64_t left = (int64_t)seconds * 1000 - used_ms(process);

        if (left <= 0)
            return facet_error_set(error, FACET_TIMEOUT, "it used more than %u s of processor time", seconds);
        int ready = poll(ends, 2, (int)left);
        if (ready < 0 && errno != EINTR)
            return facet_error_errno(error, errno, "cannot wait for it");
        if (ready <= 0)
            continue;
        if (ends[0].fd >= 0 && ends[0].revents && !take_output(ends[0].fd, child, &no_memory))
            ends[0].fd = -1;
        if (ends[1].fd >= 0 && ends[1].revents && !take_text(ends[1].fd, child))
            ends[1].fd = -1;
        if (no_memory)
            return facet_error_set(error, FACET_NO_MEMORY, "no memory for its output");
        if (child->bytes > max)
            return facet_error_set(error, FACET_OUT_OF_RANGE, "it wrote more than %zu bytes", max);
    }
    return FACET_OK;
}

static void reap_child(pid_t process, bool end_it, struct facet_child *child)
{
    int status = 0;

    if (end_it)
        kill(process, SIGKILL);
    while (waitpid(process, &status, 0) < 0 && errno == EINTR)
        ;
    child->exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    child->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

enum facet_status facet_child_run(const char *const *arguments, unsigned seconds, size_t max,
                                  struct facet_child *ret_child, struct facet_error *error)
{
    struct facet_child child = {0};
    struct pipes pipes;
    pid_t process = -1;
    enum facet_status status = open_pipes(&pipes, error);

    if (status != FACET_OK)
        return status;
    int failed = start_child(arguments, &pipes, &process);
    close(pipes.output[1]);
    close(pipes.text[1]);
    pipes.output[1] = pipes.text[1] = -1;
    if (!failed) {
        status = listen_to(&pipes, process, seconds, max, &child, error);
        reap_child(process, status != FACET_OK, &child);
    }
    close_pipe(pipes.output);
    close_pipe(pipes.text);
    if (failed == ENOENT)
        return facet_error_set(error, FACET_NOT_FOUND, "there is no program '%s'", arguments[0]);
    if (failed)
        return facet_error_errno(error, failed, "cannot run '%s'", arguments[0]);
    if (status == FACET_OK) {
        *ret_child = child;
        return FACET_OK;
    }
    free(child.output);
    return facet_error_prefix(error, "%s", arguments[0]);
}
