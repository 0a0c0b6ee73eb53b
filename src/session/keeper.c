/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the supervisor's loop. Never: signals a process number that is no longer its child's. */
#include "session/keeper.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "session/control.h"

/* A session that is gone does not end the child: that has a socket of its own by which it notices. */
static void follow_session(pid_t child, struct pollfd *session)
{
    char order;
    ssize_t got = recv(FACET_KEEPER_FD, &order, sizeof order, MSG_DONTWAIT);

    if (got > 0)
        kill(-child, SIGKILL);
    else if (got == 0 || (errno != EAGAIN && errno != EINTR))
        session->fd = -1;
}

/* Without a descriptor for it there is only waiting. */
static void wait_for_end(pid_t child)
{
    struct pollfd ends[2] = {{.fd = pidfd_open(child, 0), .events = POLLIN}, {.fd = FACET_KEEPER_FD, .events = POLLIN}};

    while (ends[0].fd >= 0 && ends[0].revents == 0)
        if (poll(ends, 2, -1) > 0 && ends[1].revents)
            follow_session(child, &ends[1]);
}

/* Processes that the child started end with it, while the group's number cannot be reused yet. */
static struct facet_end_packet take_end(pid_t child)
{
    siginfo_t info = {0};

    while (waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR)
        ;
    kill(-child, SIGKILL);
    waitpid(child, NULL, 0);
    return (struct facet_end_packet){.code = info.si_code, .status = info.si_status};
}

static _Noreturn void keep(pid_t child, int errnum)
{
    struct facet_end_packet end = {.status = errnum};

    close(FACET_CONTROL_FD);
    if (child > 0) {
        setpgid(child, child);
        wait_for_end(child);
        end = take_end(child);
    }
    send(FACET_KEEPER_FD, &end, sizeof end, MSG_NOSIGNAL);
    _exit(EXIT_SUCCESS);
}

void facet_keeper_split(void)
{
    pid_t keeper = getpid();
    sigset_t all, before;

    /* A signal to a whole service is for the child to obey; its supervisor ends with it. */
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t child = fork();
    if (child != 0)
        keep(child, errno);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != keeper)
        _exit(EXIT_FAILURE);
    setpgid(0, 0);
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(FACET_KEEPER_FD);
}
