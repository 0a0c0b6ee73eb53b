/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attributes that the kernel reads under the device's own lock, which a driver that does not let go of a device keeps.
 *
 * Owns: the child that hangs in our place.
 * Never: waits longer than a deadline for each function, or for the child once it hangs. It sends no signal at its end:
 * whoever calls us may have children of his own to wait for.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "passthrough/scan/snapshot.h"
#include "passthrough/scan/tree.h"

enum { PATIENCE_MS = 500 };

/* What the child says of one function: fewer bytes than a pipe takes at once. */
struct answer {
    uint32_t index;
    uint32_t unread;
    char text[sizeof(((struct facet_pci_function *)NULL)->driver_override)];
};

static bool is_wanted(const struct facet_pci_function *function)
{
    return function->unread[FACET_PCI_OVERRIDE] == FACET_PCI_UNREAD_STUCK;
}

/* ---- the child ---- */

/* Only what may be called after a fork in a program with threads. */
static _Noreturn void answer_all(int root, const struct facet_pci_snapshot *snapshot, size_t from, int fd)
{
    char name[FACET_PCI_ADDRESS_SIZE], path[80];

    for (size_t i = from; i < snapshot->count; i++) {
        struct answer answer = {.index = (uint32_t)i};

        if (!is_wanted(&snapshot->functions[i]))
            continue;
        facet_pci_address_print(&snapshot->functions[i].address, name);
        snprintf(path, sizeof path, SCAN_DEVICES "/%s/driver_override", name);
        answer.unread = tree_text(root, path, answer.text, sizeof answer.text);
        if (write(fd, &answer, sizeof answer) != (ssize_t)sizeof answer)
            _exit(1);
    }
    _exit(0);
}

/* As fork(), without a signal at the child's end. */
static pid_t start(int root, const struct facet_pci_snapshot *snapshot, size_t from, int *ret_fd)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    pid_t pid = (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, NULL);
    if (pid == 0)
        answer_all(root, snapshot, from, ends[1]);
    close(ends[1]);
    if (pid < 0)
        close(ends[0]);
    else
        *ret_fd = ends[0];
    return pid;
}

/* ---- the parent ---- */

/* 1: an answer; 0: the child has ended; -1: it hangs. */
static int take_answer(int fd, struct answer *ret_answer)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    uint64_t end = facet_clock_now_ns() + PATIENCE_MS * FACET_NS_PER_MS;

    for (uint64_t now = facet_clock_now_ns(); now < end; now = facet_clock_now_ns()) {
        int count = poll(&ready, 1, (int)((end - now) / FACET_NS_PER_MS) + 1);

        if (count > 0)
            return read(fd, ret_answer, sizeof *ret_answer) == (ssize_t)sizeof *ret_answer ? 1 : 0;
        if (count < 0 && errno != EINTR)
            return 0;
    }
    return -1;
}

static void keep_answer(struct facet_pci_snapshot *snapshot, const struct answer *answer)
{
    struct facet_pci_function *function = &snapshot->functions[answer->index];

    function->unread[FACET_PCI_OVERRIDE] = (uint8_t)answer->unread;
    if (strcmp(answer->text, "(null)") != 0) /* what the kernel prints for none */
        memcpy(function->driver_override, answer->text, sizeof function->driver_override);
}

/* One child's answers. Returns the function at which it hangs; the end of all when it does not. */
static size_t take_answers(struct facet_pci_snapshot *snapshot, size_t from, int fd, pid_t pid)
{
    struct answer answer;
    int got;

    while ((got = take_answer(fd, &answer)) > 0) {
        keep_answer(snapshot, &answer);
        from = answer.index + 1;
    }
    if (got < 0)
        kill(pid, SIGKILL); /* which does not reach it before it has the lock */
    waitpid(pid, NULL, __WALL | (got < 0 ? WNOHANG : 0));
    if (got == 0)
        return snapshot->count;
    while (from < snapshot->count && !is_wanted(&snapshot->functions[from]))
        from++;
    return from;
}

void scan_locked(int root, struct facet_pci_snapshot *snapshot)
{
    for (size_t from = 0; from < snapshot->count; from++) {
        int fd = -1;
        pid_t pid = start(root, snapshot, from, &fd);

        if (pid < 0)
            return;
        from = take_answers(snapshot, from, fd, pid);
        close(fd);
    }
}
