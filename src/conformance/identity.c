/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The devices as another process saw them before this one loads the provider.
 *
 * Owns: the other process, from its fork to its end.
 * Never: makes an assertion; forks after this process has loaded a provider, because vendors' runtimes do not survive a
 * fork.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "conformance/check.h"

static bool write_all(int fd, const void *bytes, size_t count)
{
    const char *at = bytes;

    while (count > 0) {
        ssize_t written = write(fd, at, count);

        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        at += written;
        count -= (size_t)written;
    }
    return true;
}

/* Up to `count` bytes; fewer when the other end is closed. */
static size_t read_all(int fd, void *ret_bytes, size_t count)
{
    size_t done = 0;

    while (done < count) {
        ssize_t bytes = read(fd, (char *)ret_bytes + done, count - done);

        if (bytes < 0 && errno == EINTR)
            continue;
        if (bytes <= 0)
            break;
        done += (size_t)bytes;
    }
    return done;
}

/* Runs in the forked process. Its assertions go to /dev/null, because the group makes the same ones. */
static _Noreturn void read_and_send_identity(struct facet_check *check, int fd)
{
    int null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

    check->report_fd = null_fd;
    if (null_fd < 0 || !facet_check_load(check) || !facet_check_open(check))
        _exit(EXIT_FAILURE);
    for (uint32_t i = 0; i < check->device_count; i++) {
        struct facet_check_identity one;

        memcpy(one.uuid, check->devices[i].uuid, sizeof one.uuid);
        memcpy(one.name, check->devices[i].name, sizeof one.name);
        if (!write_all(fd, &one, sizeof one))
            _exit(EXIT_FAILURE);
    }
    facet_check_close(check);
    _exit(EXIT_SUCCESS);
}

static int wait_for(pid_t pid)
{
    int status = -1;

    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

/* The forked process stays in this process's group, and so is killed with it at a deadline. */
void facet_check_open_before(struct facet_check *check)
{
    FACET_CLEANUP_FREE struct facet_check_identity *seen = calloc(FACET_CHECK_ITEMS, sizeof *seen);
    struct facet_check copy = *check;
    int ends[2];

    if (!seen || pipe2(ends, O_CLOEXEC) < 0)
        return;
    FACET_CLEANUP_FD int read_end = ends[0];
    FACET_CLEANUP_FD int write_end = ends[1];
    pid_t pid = fork();
    if (pid == 0)
        read_and_send_identity(&copy, write_end);
    close(FACET_TAKE_FD(write_end));
    size_t bytes = read_all(read_end, seen, FACET_CHECK_ITEMS * sizeof *seen);
    if (pid < 0 || wait_for(pid) != EXIT_SUCCESS)
        return;
    check->earlier_count = (uint32_t)(bytes / sizeof *seen);
    check->earlier_devices = FACET_TAKE_PTR(seen);
}
