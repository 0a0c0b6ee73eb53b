/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes that may never come back.
 *
 * Owns: the child that hangs in our place, its deadline, and leaving it behind.
 * Never: waits for a child beyond its deadline; lets it hold what it does not need. It keeps the locks of the groups:
 * as long as the kernel may still do what was written, nobody else has the group in hand, even if we are killed.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "passthrough/bind/host.h"
#include "passthrough/scan/tree.h"

enum { KILLED_WAIT_NS = 300000000, KEPT_MOST = BIND_LOCKS_MOST + 2 };

/* What a child may keep, by rising number. */
struct kept {
    int fds[KEPT_MOST];
    size_t count;
};

static void keep(struct kept *kept, int fd)
{
    size_t at = kept->count;

    if (fd < 0 || kept->count == KEPT_MOST)
        return;
    for (; at > 0 && kept->fds[at - 1] > fd; at--)
        kept->fds[at] = kept->fds[at - 1];
    kept->fds[at] = fd;
    kept->count++;
}

/* In the child: standard output as well, whose reader would otherwise wait for a child that hangs. */
static void close_others(const struct kept *kept)
{
    unsigned from = 0;

    for (size_t i = 0; i < kept->count; i++) {
        if ((unsigned)kept->fds[i] > from)
            close_range(from, (unsigned)kept->fds[i] - 1, 0);
        from = (unsigned)kept->fds[i] + 1;
    }
    close_range(from, ~0U, 0);
}

/* ---- waiting for an answer ---- */

/* The errno that the child sent; EPIPE when it ended without a word, ETIMEDOUT when nothing came. */
static int take_answer(int fd, uint64_t deadline_ns)
{
    uint64_t now = facet_clock_now_ns(), end = deadline_ns > UINT64_MAX - now ? UINT64_MAX : now + deadline_ns;
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    int answer = 0;

    for (; now < end; now = facet_clock_now_ns()) {
        struct timespec left = facet_ns_timespec(end - now);
        int count = ppoll(&poll_fd, 1, &left, NULL);

        if (count < 0 && errno != EINTR)
            return errno;
        if (count > 0)
            return read(fd, &answer, sizeof answer) == (ssize_t)sizeof answer ? answer : EPIPE;
    }
    return ETIMEDOUT;
}

/* The exit status; 0 where somebody else takes the children of this program. */
static int reap(pid_t pid, int options)
{
    int status = 0;

    while (waitpid(pid, &status, options) < 0)
        if (errno != EINTR)
            return 0;
    return status;
}

/* A child that sleeps where signals do not reach is left behind; who ends us, or the machine, buries it. */
static int wait_for(struct bind_host *host, pid_t pid, int fd, uint64_t deadline_ns, struct bind_stuck *ret_stuck,
                    int *ret_exit)
{
    int answer = take_answer(fd, deadline_ns);

    if (answer == ETIMEDOUT) {
        uint64_t start = bind_start_of(host->root, pid);

        kill(pid, SIGKILL);
        int late = take_answer(fd, KILLED_WAIT_NS);
        if (late == ETIMEDOUT) {
            *ret_stuck = (struct bind_stuck){.pid = pid, .start = start};
            reap(pid, WNOHANG);
            return ETIMEDOUT;
        }
        answer = late == EPIPE ? ETIMEDOUT : late;
    }
    *ret_exit = reap(pid, 0);
    return answer;
}

/* ---- writing ---- */

/* Only calls that are allowed after fork() in a program with threads. */
static _Noreturn void write_in_child(int fd, const char *text, size_t length, int answer_fd, const struct kept *kept)
{
    int answer = 0;

    close_others(kept);
    if (write(fd, text, length) != (ssize_t)length)
        answer = errno ? errno : EIO;
    if (write(answer_fd, &answer, sizeof answer) != (ssize_t)sizeof answer)
        _exit(1);
    _exit(0);
}

int bind_write(struct bind_host *host, const char *path, const char *text, uint64_t deadline_ns,
               struct bind_stuck *ret_stuck)
{
    FACET_CLEANUP_FD int fd = tree_writable(host->root, path);
    FACET_CLEANUP_FD int reader = -1;
    int ends[2];
    struct kept kept = {.count = 0};

    if (fd < 0)
        return errno;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return errno;
    reader = ends[0];
    keep(&kept, fd);
    keep(&kept, ends[1]);
    for (size_t i = 0; i < host->lock_count; i++)
        keep(&kept, host->locks[i]);
    errno = 0;
    pid_t pid = fork();
    if (pid == 0)
        write_in_child(fd, text, strlen(text), ends[1], &kept);
    int failure = errno;
    close(ends[1]);
    int status = 0;
    return pid < 0 ? failure : wait_for(host, pid, reader, deadline_ns, ret_stuck, &status);
}

/* ---- modules ---- */

static _Noreturn void run_modprobe(const char *module, int answer_fd)
{
    static const char *const places[] = {"/sbin/modprobe", "/usr/sbin/modprobe", "/bin/modprobe"};
    char *arguments[] = {(char *)"modprobe", (char *)"-q", (char *)"--", (char *)module, NULL};
    char *environment[] = {(char *)"PATH=/sbin:/usr/sbin:/bin:/usr/bin", NULL};
    int quiet = open("/dev/null", O_RDWR);

    fcntl(answer_fd, F_SETFD, 0); /* its end is told by this descriptor's */
    if (quiet >= 0)
        for (int i = 0; i < 3; i++)
            dup2(quiet, i);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        execve(places[i], arguments, environment);
    int answer = errno;
    if (write(answer_fd, &answer, sizeof answer) < 0)
        _exit(2);
    _exit(127);
}

/* Modules are of the kernel that runs: never because of a copy of another machine's files. */
static bool is_this_machine(int root)
{
    struct stat ours, theirs;

    return stat("/", &ours) == 0 && fstat(root, &theirs) == 0 && ours.st_dev == theirs.st_dev &&
           ours.st_ino == theirs.st_ino;
}

/* Its end closes the pipe; whether it did what it should shows in the list of drivers. */
int bind_load(struct bind_host *host, const char *module, uint64_t deadline_ns, struct bind_stuck *ret_stuck)
{
    FACET_CLEANUP_FD int reader = -1;
    int ends[2];

    if (!is_this_machine(host->root))
        return EXDEV;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return errno;
    reader = ends[0];
    pid_t pid = fork();
    if (pid == 0)
        run_modprobe(module, ends[1]);
    int failure = errno;
    close(ends[1]);
    if (pid < 0)
        return failure;
    int status = 0;
    int answer = wait_for(host, pid, reader, deadline_ns, ret_stuck, &status);
    if (answer == EPIPE)
        return status == 0 ? 0 : ENOENT;
    return answer;
}
