/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the detached process, its log and the pipe on which it reports. Never: talks HTTP. */
#include "start.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/paths.h"
#include "base/surroundings.h"
#include "terminal.h"

enum {
    READY_FD = 3,       /* the pipe's end in the daemon, for --ready-fd */
    PROGRESS_MS = 1000, /* from then on a terminal shows a note */
    DEADLINE_MS = 30000,
};

static enum facet_status log_path(char *ret_path, size_t size, struct facet_error *error)
{
    char runtime[FACET_PATH_SIZE];
    enum facet_status status = facet_path_runtime(runtime, sizeof runtime, error);

    if (status == FACET_OK && (size_t)snprintf(ret_path, size, "%s/facetd.log", runtime) >= size)
        status = facet_error_set(error, FACET_INVALID_ARGUMENT, "the runtime folder's path is too long: %s", runtime);
    return status;
}

enum facet_status daemon_start_failed(const char *socket_path, struct facet_error *error)
{
    char log[FACET_PATH_SIZE];

    if (log_path(log, sizeof log, NULL) != FACET_OK)
        snprintf(log, sizeof log, "its log");
    return facet_error_set(error, FACET_IO, "facetd was started but does not answer on %.150s; see %.150s", socket_path,
                           log);
}

static enum facet_status open_log(int *ret_fd, struct facet_error *error)
{
    char runtime[FACET_PATH_SIZE], path[FACET_PATH_SIZE];
    enum facet_status status = facet_path_runtime(runtime, sizeof runtime, error);

    if (status == FACET_OK)
        status = log_path(path, sizeof path, error);
    if (status == FACET_OK)
        status = facet_path_make_chosen(runtime, 0700, FACET_SETTING_RUNTIME_DIR, error);
    return status == FACET_OK ? facet_path_open_log(path, ret_fd, error) : status;
}

/*
 * Runs in the daemon's process. Keeps only the log, the pipe, and the variables that surroundings.h allows, because the
 * daemon serves all of this user's programs, not only the program that started it.
 */
_Noreturn static void become_daemon(const char *program, int log, int ready)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    facet_surroundings_reset();
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    if (ready == READY_FD)
        fcntl(READY_FD, F_SETFD, 0);
    else
        dup2(ready, READY_FD);
    close_range(READY_FD + 1, ~0U, 0);
    if (facet_surroundings_clean_environment(false))
        execl(program, "facetd", "--private", "--ready-fd", "3", (char *)NULL);
    dprintf(READY_FD, "cannot run %s: %s\n", program, strerror(errno));
    _exit(1);
}

/* Forks twice, so that init adopts the daemon and this process need not wait for it. */
static enum facet_status start_detached(const char *program, int log, int ready, struct facet_error *error)
{
    pid_t middle = fork();
    int status;

    if (middle < 0)
        return facet_error_errno(error, errno, "cannot start facetd");
    if (middle == 0) {
        setsid();
        pid_t daemon = fork();
        if (daemon == 0)
            become_daemon(program, log, ready);
        if (daemon < 0)
            dprintf(ready, "cannot start facetd: %s\n", strerror(errno));
        _exit(0);
    }
    while (waitpid(middle, &status, 0) < 0 && errno == EINTR)
        ;
    return FACET_OK;
}

static bool wait_readable(int fd, int timeout_ms)
{
    struct pollfd entry = {.fd = fd, .events = POLLIN};
    uint64_t deadline = facet_clock_now_ns() + (uint64_t)timeout_ms * FACET_NS_PER_MS;
    int ready;

    do {
        uint64_t now = facet_clock_now_ns();
        ready = poll(&entry, 1, now < deadline ? (int)((deadline - now) / FACET_NS_PER_MS) + 1 : 0);
    } while (ready < 0 && errno == EINTR);
    return ready > 0;
}

static bool wait_with_progress(int fd)
{
    bool ready = wait_readable(fd, PROGRESS_MS);

    if (ready)
        return true;
    terminal_note("starting facetd and looking for devices ...");
    ready = wait_readable(fd, DEADLINE_MS - PROGRESS_MS);
    terminal_note_end();
    return ready;
}

/* The daemon writes an empty line, or closes the pipe, for success; else it writes the reason of its failure. */
static enum facet_status read_verdict(int fd, struct facet_error *error)
{
    char line[320];
    size_t used = 0;
    ssize_t got;

    do {
        got = read(fd, line + used, sizeof line - 1 - used);
        if (got > 0)
            used += (size_t)got;
    } while ((got > 0 && used > 1 && used < sizeof line - 1 && line[used - 1] != '\n') || (got < 0 && errno == EINTR));
    if (got < 0)
        return facet_error_errno(error, errno, "cannot read the report of facetd");
    if (used <= 1)
        return FACET_OK;
    line[used] = '\0';
    line[strcspn(line, "\n")] = '\0';
    return facet_error_set(error, FACET_IO, "cannot start the daemon: %s", line);
}

enum facet_status daemon_start(struct facet_error *error)
{
    char program[FACET_PATH_SIZE], log_name[FACET_PATH_SIZE];
    FACET_CLEANUP_FD int log = -1;
    int ends[2];
    enum facet_status status = facet_path_shipped("facetd", program, sizeof program, error);

    if (status == FACET_OK)
        status = log_path(log_name, sizeof log_name, error);
    if (status == FACET_OK)
        status = open_log(&log, error);
    if (status != FACET_OK)
        return status;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return facet_error_errno(error, errno, "cannot start facetd");
    FACET_CLEANUP_FD int read_end = ends[0];
    status = start_detached(program, log, ends[1], error);
    close(ends[1]);
    if (status != FACET_OK)
        return status;
    if (!wait_with_progress(read_end))
        return facet_error_set(error, FACET_TIMEOUT, "facetd was not ready after %d s; see %s", DEADLINE_MS / 1000,
                               log_name);
    return read_verdict(read_end, error);
}
