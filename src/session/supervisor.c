/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the supervisor's loop. Never: signals a process number that is no longer its child's. */
#include "session/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "session/control.h"

/* Handles an order to kill the child. When the session is gone, the child notices by its own socket and ends. */
static void follow_session(pid_t child, struct pollfd *session)
{
    char order;
    ssize_t got = recv(FACET_SUPERVISOR_FD, &order, sizeof order, MSG_DONTWAIT);

    if (got > 0)
        kill(-child, SIGKILL);
    else if (got == 0 || (errno != EAGAIN && errno != EINTR))
        session->fd = -1;
}

/* Waits for the child's end. When there is no pidfd for it, take_end() waits, and orders are not read. */
static void wait_for_end(pid_t child)
{
    struct pollfd ends[2] = {{.fd = pidfd_open(child, 0), .events = POLLIN},
                             {.fd = FACET_SUPERVISOR_FD, .events = POLLIN}};

    while (ends[0].fd >= 0 && ends[0].revents == 0)
        if (poll(ends, 2, -1) > 0 && ends[1].revents)
            follow_session(child, &ends[1]);
}

/* Kills the processes that the child started. The child is reaped afterwards, so its group's number is not reused. */
static struct facet_end_packet take_end(pid_t child)
{
    siginfo_t info = {0};

    while (waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR)
        ;
    kill(-child, SIGKILL);
    waitpid(child, NULL, 0);
    return (struct facet_end_packet){.code = info.si_code, .status = info.si_status};
}

/* A pipe by which the supervisor tells the child that it has closed its copy of the child's socket; -1: no pipe. */
struct latch {
    int wait, open;
};

static struct latch make_latch(void)
{
    int ends[2] = {-1, -1};

    (void)!pipe2(ends, O_CLOEXEC);
    return (struct latch){.wait = ends[0], .open = ends[1]};
}

/* Waits until the supervisor has closed its copy. Otherwise the session would see the socket open after the child's
 * end, for as long as the supervisor is not scheduled. */
static void latch_wait(struct latch latch)
{
    char none;

    if (latch.wait < 0)
        return;
    close(latch.open);
    while (read(latch.wait, &none, 1) < 0 && errno == EINTR)
        ;
    close(latch.wait);
}

static void latch_open(struct latch latch)
{
    if (latch.wait < 0)
        return;
    close(latch.wait);
    close(latch.open);
}

static _Noreturn void supervise_child(pid_t child, int errnum, struct latch latch)
{
    struct facet_end_packet end = {.status = errnum};

    close(FACET_CONTROL_FD);
    latch_open(latch);
    if (child > 0) {
        setpgid(child, child);
        wait_for_end(child);
        end = take_end(child);
    }
    send(FACET_SUPERVISOR_FD, &end, sizeof end, MSG_NOSIGNAL);
    _exit(EXIT_SUCCESS);
}

void facet_supervisor_split(void)
{
    pid_t supervisor = getpid();
    struct latch latch = make_latch();
    sigset_t all, before;

    /* The supervisor blocks all signals. So when a signal to the whole service ends the child, it can report that. */
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t child = fork();
    if (child != 0)
        supervise_child(child, errno, latch);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != supervisor)
        _exit(EXIT_FAILURE);
    setpgid(0, 0);
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(FACET_SUPERVISOR_FD);
    latch_wait(latch);
}
