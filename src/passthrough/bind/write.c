/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes that may never return.
 *
 * Owns: the child that makes the write in place of this process, its deadline, and abandoning it.
 * Never: waits for a child beyond its deadline, or lets the child keep descriptors that it does not need. The child
 * needs the locks of the groups: as long as the kernel may still carry out the write, no other process can lock a
 * group, even if this process is killed.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hidden.h"
#include "passthrough/bind/host.h"
#include "passthrough/scan/tree.h"

enum { KILLED_WAIT_NS = 300000000, KEPT_MAX = BIND_LOCKS_MAX + 2 };

/* The descriptors that a child may keep, in rising order. */
struct kept {
    int fds[KEPT_MAX];
    size_t count;
};

static void keep_descriptor(struct kept *kept, int fd)
{
    size_t at = kept->count;

    if (fd < 0 || kept->count == KEPT_MAX)
        return;
    for (; at > 0 && kept->fds[at - 1] > fd; at--)
        kept->fds[at] = kept->fds[at - 1];
    kept->fds[at] = fd;
    kept->count++;
}

/* Closes all other descriptors of the child, including standard output, whose reader would wait for a hanging child. */
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

/* A child's message to its parent. */
struct answer {
    pid_t writer; /* the process that does the work for the child, and may hang; 0: `errnum` is the result */
    int errnum;
};

static _Noreturn void send_errno(int fd, int errnum)
{
    const struct answer answer = {.errnum = errnum};

    _exit(write(fd, &answer, sizeof answer) == (ssize_t)sizeof answer ? 0 : 1);
}

/* The errno that the child sent; EPIPE when it ended without a message, ETIMEDOUT when none came in time. */
static int take_answer(int fd, uint64_t deadline_ns, pid_t *writer)
{
    uint64_t now = facet_clock_now_ns(), end = deadline_ns > UINT64_MAX - now ? UINT64_MAX : now + deadline_ns;
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    struct answer answer;

    for (; now < end; now = facet_clock_now_ns()) {
        struct timespec left = facet_ns_timespec(end - now);
        int count = ppoll(&poll_fd, 1, &left, NULL);

        if (count < 0 && errno != EINTR)
            return errno;
        if (count <= 0)
            continue;
        if (read(fd, &answer, sizeof answer) != (ssize_t)sizeof answer)
            return EPIPE;
        if (answer.writer == 0)
            return answer.errnum;
        *writer = answer.writer;
    }
    return ETIMEDOUT;
}

/* Waits for the child's answer, and kills it at the deadline. A child in uninterruptible sleep is abandoned: init reaps
 * it after this process has ended. */
static int wait_for(struct bind_host *host, pid_t pid, int fd, uint64_t deadline_ns, struct bind_stuck *ret_stuck)
{
    pid_t writer = pid;
    int answer = take_answer(fd, deadline_ns, &writer);

    if (answer == ETIMEDOUT) {
        uint64_t start = bind_start_of(host->root, writer);

        kill(pid, SIGKILL);
        int late = take_answer(fd, KILLED_WAIT_NS, &writer);
        if (late == ETIMEDOUT) {
            *ret_stuck = (struct bind_stuck){.pid = writer, .start = start};
            facet_hidden_wait(pid, WNOHANG);
            return ETIMEDOUT;
        }
        answer = late == EPIPE ? ETIMEDOUT : late;
    }
    facet_hidden_wait(pid, 0);
    return answer;
}

/* ---- writing ---- */

/* Makes only calls that are allowed after fork() in a program with threads. */
static _Noreturn void write_in_child(int fd, const char *text, size_t length, int answer_fd, const struct kept *kept)
{
    close_others(kept);
    if (write(fd, text, length) != (ssize_t)length)
        send_errno(answer_fd, errno ? errno : EIO);
    send_errno(answer_fd, 0);
}

int bind_write(struct bind_host *host, const char *path, const char *text, uint64_t deadline_ns,
               struct bind_stuck *ret_stuck)
{
    FACET_CLEANUP_FD int fd = tree_open_writable(host->root, path);
    FACET_CLEANUP_FD int reader = -1;
    int ends[2];
    struct kept kept = {.count = 0};

    if (fd < 0)
        return errno;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return errno;
    reader = ends[0];
    keep_descriptor(&kept, fd);
    keep_descriptor(&kept, ends[1]);
    for (size_t i = 0; i < host->lock_count; i++)
        keep_descriptor(&kept, host->locks[i]);
    errno = 0;
    pid_t pid = facet_hidden_fork();
    if (pid == 0)
        write_in_child(fd, text, strlen(text), ends[1], &kept);
    int failure = errno;
    close(ends[1]);
    return pid < 0 ? failure : wait_for(host, pid, reader, deadline_ns, ret_stuck);
}

/* ---- modules ---- */

static _Noreturn void run_modprobe(const char *module, int answer_fd)
{
    static const char *const places[] = {"/sbin/modprobe", "/usr/sbin/modprobe", "/bin/modprobe"};
    char *arguments[] = {(char *)"modprobe", (char *)"-q", (char *)"--", (char *)module, NULL};
    char *environment[] = {(char *)"PATH=/sbin:/usr/sbin:/bin:/usr/bin", NULL};
    int quiet = open("/dev/null", O_RDWR);

    fcntl(answer_fd, F_SETFD, 0); /* modprobe inherits it, so that its end closes the pipe */
    if (quiet >= 0)
        for (int i = 0; i < 3; i++)
            dup2(quiet, i);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        execve(places[i], arguments, environment);
    send_errno(answer_fd, errno);
}

/*
 * When modprobe ends, its parent gets a signal, and a wait() of the parent returns it. The surrounding program must
 * notice neither, so modprobe's parent is a hidden child of the program, which waits for modprobe. If that child is
 * killed, the kernel kills modprobe, too, as soon as it can.
 */
static _Noreturn void load_in_child(const char *module, int answer_fd)
{
    pid_t parent = getpid();

    signal(SIGCHLD, SIG_DFL); /* the program's own handler must not run in this child */
    if (answer_fd <= STDERR_FILENO)
        answer_fd = fcntl(answer_fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    close_others(&(struct kept){.fds = {answer_fd}, .count = 1});
    pid_t program = facet_hidden_fork();
    if (program < 0)
        send_errno(answer_fd, errno);
    if (program == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent)
            run_modprobe(module, answer_fd);
        _exit(1);
    }
    const struct answer started = {.writer = program};
    if (write(answer_fd, &started, sizeof started) != (ssize_t)sizeof started)
        _exit(1);
    send_errno(answer_fd, facet_hidden_wait(program, 0) == 0 ? 0 : ENOENT);
}

/* Whether `root` is this machine's own root. If `root` is a copy of another machine's files, no module is loaded. */
static bool is_this_machine(int root)
{
    struct stat ours, theirs;

    return stat("/", &ours) == 0 && fstat(root, &theirs) == 0 && ours.st_dev == theirs.st_dev &&
           ours.st_ino == theirs.st_ino;
}

/* Runs modprobe. Success does not mean that the driver exists; the caller checks the list of drivers. */
int bind_load(struct bind_host *host, const char *module, uint64_t deadline_ns, struct bind_stuck *ret_stuck)
{
    FACET_CLEANUP_FD int reader = -1;
    int ends[2];

    if (!is_this_machine(host->root))
        return EXDEV;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return errno;
    reader = ends[0];
    pid_t pid = facet_hidden_fork();
    if (pid == 0)
        load_in_child(module, ends[1]);
    int failure = errno;
    close(ends[1]);
    return pid < 0 ? failure : wait_for(host, pid, reader, deadline_ns, ret_stuck);
}
