/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: becoming a background process. Never: keeps a descriptor of the starting process; a caller that reads from one
 * to its end would wait for the daemon.
 */
#include "detach.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/paths.h"

/* A log longer than this is emptied at the next start. */
#define LOG_MAX ((off_t)1 << 20)

static void close_others(int keep)
{
    if (keep > STDERR_FILENO + 1)
        close_range(STDERR_FILENO + 1, (unsigned)keep - 1, 0);
    close_range(keep > STDERR_FILENO ? (unsigned)keep + 1 : STDERR_FILENO + 1, ~0U, 0);
}

static enum facet_status open_log(const char *path, int *ret_fd, struct facet_error *error)
{
    struct stat file;
    int fd = -1;
    enum facet_status status = facet_path_open_log(path, &fd, error);

    if (status != FACET_OK)
        return status;
    if (fstat(fd, &file) == 0 && file.st_size > LOG_MAX && ftruncate(fd, 0) < 0) {
        status = facet_error_errno(error, errno, "shortening log '%s'", path);
        close(fd);
        return status;
    }
    *ret_fd = fd;
    return FACET_OK;
}

/* Runs in the process that was started: waits for the background's result, and passes it on. */
_Noreturn static void wait_for_result(int fd)
{
    char line[1024];
    size_t used = 0;
    ssize_t length;

    while (used < sizeof line - 1) {
        length = read(fd, line + used, sizeof line - 1 - used);
        if (length < 0 && errno == EINTR)
            continue;
        if (length <= 0)
            break;
        used += (size_t)length;
    }
    line[used] = '\0';
    if (strcmp(line, "\n") == 0)
        _exit(0);
    dprintf(STDERR_FILENO, "facetd: %s", used ? line : "ended while it started\n");
    _exit(1);
}

static void redirect_streams(int null, int log)
{
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
}

enum facet_status detach(const char *log_path, struct ready *ready, struct facet_error *error)
{
    FACET_CLEANUP_FD int log = -1;
    int ends[2];

    close_others(ready->requested_fd);
    FACET_CLEANUP_FD int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0)
        return facet_error_errno(error, errno, "opening /dev/null");
    enum facet_status status = open_log(log_path, &log, error);
    if (status != FACET_OK)
        return status;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return facet_error_errno(error, errno, "making a pipe");

    pid_t child = fork();
    if (child < 0)
        return facet_error_errno(error, errno, "starting the background process");
    if (child > 0) {
        close(ends[1]);
        if (ready->requested_fd >= 0)
            close(ready->requested_fd);
        wait_for_result(ends[0]);
    }
    close(ends[0]);
    setsid();
    redirect_streams(null, log);
    ready->parent_fd = ends[1];
    return chdir("/") == 0 ? FACET_OK : facet_error_errno(error, errno, "changing to folder /");
}

/* Reports `line`. That its reader is gone is no failure of the daemon. */
static void report_to(int *fd, const char *line)
{
    if (*fd < 0)
        return;
    while (write(*fd, line, strlen(line)) < 0 && errno == EINTR)
        ;
    close(*fd);
    *fd = -1;
}

void ready_succeeded(struct ready *ready)
{
    report_to(&ready->parent_fd, "\n");
    report_to(&ready->requested_fd, "\n");
}

void ready_failed(struct ready *ready, const struct facet_error *error)
{
    char line[sizeof error->message + 2];

    snprintf(line, sizeof line, "%s\n", error->message);
    report_to(&ready->parent_fd, line);
    report_to(&ready->requested_fd, line);
}
