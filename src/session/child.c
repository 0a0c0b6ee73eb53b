/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: every system call about the child process and its supervisor. Never: identifies a process by its number, which
 * may have been reused.
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
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hidden.h"
#include "base/paths.h"
#include "session/control.h"

extern char **environ;

/* A killed process can stay while a driver's system call holds it, so the wait for its end is bounded. */
#define KILL_TIMEOUT_NS (2 * FACET_NS_PER_S)

/* The ends of the two sockets on one side: the session's or the child's. */
struct ends {
    int control, supervisor;
};

/*
 * The child starts with the default signal handlers and an empty signal mask. Its output goes to /dev/null, so that it
 * does not mix with the caller's.
 */
static int set_up_spawn(posix_spawnattr_t *attributes, posix_spawn_file_actions_t *actions, const struct ends *theirs)
{
    sigset_t all, none;
    int errnum = 0;

    sigfillset(&all);
    sigemptyset(&none);
    posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setsigdefault(attributes, &all);
    posix_spawnattr_setsigmask(attributes, &none);
    posix_spawnattr_setpgroup(attributes, 0); /* of its own, so that the caller's terminal does not reach it */
    errnum = posix_spawn_file_actions_adddup2(actions, theirs->control, FACET_CONTROL_FD);
    if (errnum == 0)
        errnum = posix_spawn_file_actions_adddup2(actions, theirs->supervisor, FACET_SUPERVISOR_FD);
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO && errnum == 0; fd++)
        errnum = posix_spawn_file_actions_addopen(actions, fd, "/dev/null", O_RDWR, 0);
    if (errnum == 0)
        errnum = posix_spawn_file_actions_addclosefrom_np(actions, FACET_SUPERVISOR_FD + 1);
    return errnum;
}

static int spawn_host(const char *program, const char *path, uint16_t abi_minor, const struct ends *theirs,
                      int *ret_pidfd)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    char minor[16], user[16];
    char *const arguments[] = {(char *)(uintptr_t)FACET_HOST_PROGRAM, (char *)(uintptr_t)path, minor, user, NULL};
    const struct facet_hidden_program hidden = {program, arguments, environ, &actions, &attributes};

    snprintf(minor, sizeof minor, "%u", abi_minor);
    snprintf(user, sizeof user, "%d", (int)getpid());
    int errnum = posix_spawn_file_actions_init(&actions);
    if (errnum != 0)
        return errnum;
    errnum = posix_spawnattr_init(&attributes);
    if (errnum == 0) {
        errnum = set_up_spawn(&attributes, &actions, theirs);
        if (errnum == 0)
            errnum = facet_hidden_spawn(&hidden, ret_pidfd);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return errnum;
}

/* Waits until the child has ended, at most `timeout_ns`; true when it has. */
static bool wait_for_end(const struct facet_child *child, uint64_t timeout_ns)
{
    uint64_t deadline = facet_clock_now_ns() + timeout_ns;
    struct pollfd ended = {.fd = child->supervisor, .events = POLLIN};

    for (;;) {
        uint64_t now = facet_clock_now_ns();
        const struct timespec left = facet_ns_timespec(deadline > now ? deadline - now : 0);
        int count = ppoll(&ended, 1, &left, NULL);

        if (count >= 0 || errno != EINTR)
            return count > 0;
    }
}

/* The child's socket closes first; the supervisor's message comes only once the supervisor has been scheduled. */
bool facet_child_has_ended(const struct facet_child *child)
{
    struct pollfd ends[2] = {{.fd = child->supervisor, .events = POLLIN}, {.fd = child->control, .events = 0}};

    return poll(ends, 2, 0) > 0;
}

/* Reads the supervisor's report. False: there is none, because the supervisor was killed, and the child with it. */
static bool take_end(const struct facet_child *child, struct facet_end_packet *ret_end)
{
    return recv(child->supervisor, ret_end, sizeof *ret_end, MSG_DONTWAIT) == (ssize_t)sizeof *ret_end;
}

static void describe_end(const struct facet_end_packet *end, char *ret_how, size_t size)
{
    const char *name = sigdescr_np(end->status);

    if (end->code == CLD_EXITED)
        snprintf(ret_how, size, "called exit(%d)", end->status);
    else if (end->code != 0)
        snprintf(ret_how, size, "crashed with signal %d (%s)", end->status, name ? name : "unknown");
    else
        snprintf(ret_how, size, "got no process (%s)", strerrordesc_np(end->status));
}

bool facet_child_end(struct facet_child *child, uint64_t timeout_ns, char *ret_how, size_t size)
{
    struct facet_end_packet end = {0};

    if (child->supervisor < 0)
        return false;
    bool by_itself = wait_for_end(child, timeout_ns);
    if (!by_itself)
        send(child->supervisor, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    bool ended = by_itself || wait_for_end(child, KILL_TIMEOUT_NS), reported = ended && take_end(child, &end);
    if (ended)
        facet_hidden_reap(child->pidfd);
    if (by_itself && reported)
        describe_end(&end, ret_how, size);
    else
        snprintf(ret_how, size, "%s", by_itself ? "ended its process" : "closed its connection");
    close(child->control);
    close(child->supervisor);
    if (child->pidfd >= 0)
        close(child->pidfd);
    *child = FACET_CHILD_NONE;
    return by_itself && reported && end.code == CLD_EXITED && end.status == 0;
}

/* The descriptors of the child's ends are above FACET_SUPERVISOR_FD, so that dup2() in the child overwrites none. */
static enum facet_status open_pair(const char *path, int *ret_ours, int *ret_theirs, struct facet_error *error)
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return facet_error_errno(error, errno, "no socket to provider %s", path);
    FACET_CLEANUP_FD int ours = ends[0];
    FACET_CLEANUP_FD int theirs = ends[1];
    int clear = fcntl(theirs, F_DUPFD_CLOEXEC, FACET_SUPERVISOR_FD + 1);
    if (clear < 0)
        return facet_error_errno(error, errno, "no socket to provider %s", path);
    *ret_ours = FACET_TAKE_FD(ours);
    *ret_theirs = clear;
    return FACET_OK;
}

enum facet_status facet_child_start(const char *path, uint16_t abi_minor, struct facet_child *ret_child,
                                    struct facet_error *error)
{
    char program[FACET_PATH_SIZE];
    FACET_CLEANUP_FD int control = -1;
    FACET_CLEANUP_FD int supervisor = -1;
    FACET_CLEANUP_FD int their_control = -1;
    FACET_CLEANUP_FD int their_supervisor = -1;
    int pidfd = -1;
    enum facet_status status = facet_path_shipped(FACET_HOST_PROGRAM, program, sizeof program, error);

    if (status == FACET_OK)
        status = open_pair(path, &control, &their_control, error);
    if (status == FACET_OK)
        status = open_pair(path, &supervisor, &their_supervisor, error);
    if (status != FACET_OK)
        return status;
    const struct ends theirs = {their_control, their_supervisor};
    int errnum = spawn_host(program, path, abi_minor, &theirs, &pidfd);
    if (errnum != 0)
        return facet_error_errno(error, errnum, "cannot start %s for provider %s", program, path);
    *ret_child = (struct facet_child){FACET_TAKE_FD(control), FACET_TAKE_FD(supervisor), pidfd};
    return FACET_OK;
}
