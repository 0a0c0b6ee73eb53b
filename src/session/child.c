/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: every system call about the child process. Never: signals a process number that may be somebody else's by now.
 */
#include "session/child.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/paths.h"
#include "session/control.h"

extern char **environ;

/* Even a killed process can stay while a driver holds it; nobody waits longer for that. */
#define KILL_PATIENCE_NS (2 * FACET_NS_PER_S)

/* The caller's handlers and mask are not the child's, and what it prints must not spoil the caller's output. */
static int set_up(posix_spawnattr_t *attributes, posix_spawn_file_actions_t *actions, int control)
{
    sigset_t all, none;
    int errnum = 0;

    sigfillset(&all);
    sigemptyset(&none);
    posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setsigdefault(attributes, &all);
    posix_spawnattr_setsigmask(attributes, &none);
    posix_spawnattr_setpgroup(attributes, 0); /* of its own, so that helpers it starts can be ended with it */
    errnum = posix_spawn_file_actions_adddup2(actions, control, FACET_CONTROL_FD);
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO && errnum == 0; fd++)
        errnum = posix_spawn_file_actions_addopen(actions, fd, "/dev/null", O_RDWR, 0);
    if (errnum == 0)
        errnum = posix_spawn_file_actions_addclosefrom_np(actions, FACET_CONTROL_FD + 1);
    return errnum;
}

static int spawn(const char *program, const char *path, uint16_t abi_minor, int control, pid_t *ret_pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    char minor[16];
    char *const arguments[] = {(char *)(uintptr_t)FACET_HOST_PROGRAM, (char *)(uintptr_t)path, minor, NULL};

    snprintf(minor, sizeof minor, "%u", abi_minor);
    int errnum = posix_spawn_file_actions_init(&actions);
    if (errnum != 0)
        return errnum;
    errnum = posix_spawnattr_init(&attributes);
    if (errnum == 0) {
        errnum = set_up(&attributes, &actions, control);
        if (errnum == 0)
            errnum = posix_spawn(ret_pid, program, &actions, &attributes, arguments, environ);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return errnum;
}

/* Waits until the child ended, at most so long; true when it did. Without a descriptor it was gone from the start. */
static bool wait_for_end(const struct facet_child *child, uint64_t patience_ns)
{
    uint64_t deadline = facet_clock_now_ns() + patience_ns;
    struct pollfd ended = {.fd = child->pidfd, .events = POLLIN};

    while (child->pidfd >= 0) {
        uint64_t now = facet_clock_now_ns();
        const struct timespec left = facet_ns_timespec(deadline > now ? deadline - now : 0);
        int count = ppoll(&ended, 1, &left, NULL);

        if (count >= 0 || errno != EINTR)
            return count > 0;
    }
    return true;
}

bool facet_child_has_ended(const struct facet_child *child)
{
    return child->pid > 0 && wait_for_end(child, 0);
}

/* How the child ended, without reaping it: until then its number, and that of its group, are nobody else's. False when
 * the host program has SIGCHLD ignored or waited for the child itself. */
static bool look(const struct facet_child *child, siginfo_t *ret_info)
{
    *ret_info = (siginfo_t){0};
    return waitid(P_PID, (id_t)child->pid, ret_info, WEXITED | WNOWAIT | WNOHANG) == 0;
}

static void reap(const struct facet_child *child)
{
    siginfo_t info;

    waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG);
}

static void describe(const siginfo_t *info, bool ours, char *ret_how, size_t size)
{
    const char *name = sigdescr_np(info->si_status);

    if (info->si_pid == 0)
        snprintf(ret_how, size, "%s", ours ? "closed its connection" : "ended its process");
    else if (info->si_code == CLD_EXITED)
        snprintf(ret_how, size, "called exit(%d)", info->si_status);
    else
        snprintf(ret_how, size, "crashed with signal %d (%s)", info->si_status, name ? name : "unknown");
}

bool facet_child_end(struct facet_child *child, uint64_t patience_ns, char *ret_how, size_t size)
{
    siginfo_t info;

    if (child->pid <= 0)
        return false;
    wait_for_end(child, patience_ns);
    bool ours = look(child, &info);
    if (ours)
        kill(-child->pid, SIGKILL);
    if (info.si_pid == 0)
        wait_for_end(child, KILL_PATIENCE_NS);
    describe(&info, ours, ret_how, size);
    if (ours)
        reap(child);
    close(child->control);
    if (child->pidfd >= 0)
        close(child->pidfd);
    *child = (struct facet_child){.pidfd = -1, .control = -1};
    return info.si_pid != 0 && info.si_code == CLD_EXITED && info.si_status == 0;
}

/* A child that cannot be watched is not kept. */
static enum facet_status give_up(struct facet_child *child, int errnum, const char *path, struct facet_error *error)
{
    kill(child->pid, SIGKILL);
    waitpid(child->pid, NULL, 0);
    close(child->control);
    return facet_error_errno(error, errnum, "no descriptor to watch provider %s", path);
}

enum facet_status facet_child_start(const char *path, uint16_t abi_minor, struct facet_child *ret_child,
                                    struct facet_error *error)
{
    char program[FACET_PATH_SIZE];
    int ends[2];
    enum facet_status status = facet_path_shipped(FACET_HOST_PROGRAM, program, sizeof program, error);

    if (status != FACET_OK)
        return status;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return facet_error_errno(error, errno, "no socket to provider %s", path);
    FACET_CLEANUP_FD int ours = ends[0];
    FACET_CLEANUP_FD int theirs = ends[1];
    /* Clear of the numbers that the child's own files take while it is set up. */
    FACET_CLEANUP_FD int clear = fcntl(theirs, F_DUPFD_CLOEXEC, FACET_CONTROL_FD + 1);
    if (clear < 0)
        return facet_error_errno(error, errno, "no socket to provider %s", path);

    struct facet_child child = {.pidfd = -1};
    int errnum = spawn(program, path, abi_minor, clear, &child.pid);
    if (errnum != 0)
        return facet_error_errno(error, errnum, "cannot start %s for provider %s", program, path);
    child.control = FACET_TAKE_FD(ours);
    child.pidfd = pidfd_open(child.pid, 0);
    if (child.pidfd < 0 && errno != ESRCH)
        return give_up(&child, errno, path, error);
    *ret_child = child;
    return FACET_OK;
}
