/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attributes that the kernel reads under the device's own lock. A process that unbinds a device keeps that lock until
 * the driver has released the device. This takes forever if the driver waits for a process that has the device open.
 *
 * Owns: the reader, a child that may hang in place of this process. There is at most one on the machine for each
 * function, and this process never has to reap it.
 * Never: waits beyond a deadline for each function, or for a child that hangs. The child sends no signal at its end,
 * because the calling program may wait for children of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hidden.h"
#include "passthrough/scan/snapshot.h"
#include "passthrough/scan/tree.h"

enum {
    ANSWER_MS = 500,   /* how long to wait for an answer of the reader */
    ANSWER_WAITS = 20, /* how many such waits, while the machine is too busy to run the reader */
    BUSY_TRIES = 5,    /* the first try is made at once, the others after 20, 40, 80 and 160 ms */
    BUSY_MS = 20,
};

/* PENDING: not read yet. BUSY: being read by the reader of another scan, which may have begun a moment ago, or hang. */
enum { PENDING = SCAN_PENDING, BUSY };

/* The reader's answer for one function: fewer bytes than a pipe takes at once. */
struct answer {
    uint32_t index; /* of the function; READER in the first answer, whose `unread` is the reader's process number */
    uint32_t unread;
    char text[sizeof(((struct facet_pci_function *)NULL)->driver_override)];
};

#define READER UINT32_MAX

static bool is_wanted(const struct facet_pci_function *function)
{
    return function->unread[FACET_PCI_OVERRIDE] >= PENDING;
}

/* ---- the child, which calls only functions that are allowed after fork() in a program with threads ---- */

/*
 * Closes the child's other descriptors, because a peer that waits for the end of this program's output or connections
 * must not wait for the child.
 */
static void close_others(int a, int b)
{
    int low = a < b ? a : b, high = a < b ? b : a;

    if (low > 0)
        close_range(0, (unsigned)low - 1, 0);
    if (low >= 0 && high > low + 1)
        close_range((unsigned)low + 1, (unsigned)high - 1, 0);
    close_range((unsigned)high + 1, ~0U, 0);
}

/*
 * Opens the file on which the reader holds a lock for the function. If permitted, this is a file that only root can
 * open for writing, so that no other user can keep root from reading. Nothing is written.
 */
static int open_gate(int root, const char *name)
{
    char path[80];

    snprintf(path, sizeof path, SCAN_DEVICES "/%s/rescan", name);
    int fd = tree_open_writable(root, path);
    if (fd >= 0)
        return fd;
    snprintf(path, sizeof path, SCAN_DEVICES "/%s/driver_override", name);
    return tree_open_file(root, path);
}

static uint32_t read_override(int root, const struct facet_pci_function *function, char *text, size_t size)
{
    char name[FACET_PCI_ADDRESS_SIZE], path[80];

    facet_pci_address_print(&function->address, name);
    FACET_CLEANUP_FD int gate = open_gate(root, name);
    if (gate >= 0 && flock(gate, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
        return BUSY;
    snprintf(path, sizeof path, SCAN_DEVICES "/%s/driver_override", name);
    return tree_read_text(root, path, text, size);
}

static _Noreturn void answer_all(int root, const struct facet_pci_snapshot *snapshot, size_t from, int fd)
{
    struct answer self = {.index = READER, .unread = (uint32_t)getpid()};

    close_others(root, fd);
    if (write(fd, &self, sizeof self) != (ssize_t)sizeof self)
        _exit(1);
    for (size_t i = from; i < snapshot->count; i++) {
        struct answer answer = {.index = (uint32_t)i};

        if (!is_wanted(&snapshot->functions[i]))
            continue;
        answer.unread = read_override(root, &snapshot->functions[i], answer.text, sizeof answer.text);
        if (write(fd, &answer, sizeof answer) != (ssize_t)sizeof answer)
            _exit(1);
    }
    _exit(0);
}

/* Starts the reader under a parent, which can be killed when the reader cannot; init then reaps the reader. */
static _Noreturn void read_in_child(int root, const struct facet_pci_snapshot *snapshot, size_t from, int fd)
{
    pid_t reader = facet_hidden_fork();

    if (reader == 0)
        answer_all(root, snapshot, from, fd);
    close(fd);
    if (reader > 0)
        facet_hidden_wait(reader, 0);
    _exit(reader < 0);
}

static pid_t start_child(int root, const struct facet_pci_snapshot *snapshot, size_t from, int *ret_fd)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    pid_t pid = facet_hidden_fork();
    if (pid == 0)
        read_in_child(root, snapshot, from, ends[1]);
    close(ends[1]);
    if (pid < 0)
        close(ends[0]);
    else
        *ret_fd = ends[0];
    return pid;
}

/* ---- the parent ---- */

/* Waits for an answer. 1: it came; 0: the child has ended; -1: no answer came within ANSWER_MS. */
static int take_answer(int fd, struct answer *ret_answer)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    uint64_t end = facet_clock_now_ns() + ANSWER_MS * FACET_NS_PER_MS;

    for (uint64_t now = facet_clock_now_ns(); now < end; now = facet_clock_now_ns()) {
        int count = poll(&ready, 1, (int)((end - now) / FACET_NS_PER_MS) + 1);

        if (count > 0)
            return read(fd, ret_answer, sizeof *ret_answer) == (ssize_t)sizeof *ret_answer ? 1 : 0;
        if (count < 0 && errno != EINTR)
            return 0;
    }
    return -1;
}

/* Whether the reader runs or is runnable. A reader that the kernel blocks is neither. */
static bool is_runnable(uint32_t reader)
{
    char path[40], line[256];

    if (reader == 0) /* the reader's number is not known before its first answer */
        return true;
    snprintf(path, sizeof path, "/proc/%u/stat", reader);
    FACET_CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, line, sizeof line - 1);
    line[length < 0 ? 0 : length] = '\0';
    const char *name_end = strrchr(line, ')');
    return name_end && strncmp(name_end, ") R", 3) == 0;
}

/* Like take_answer(), but waits longer for a reader that is runnable and only lacks a processor. */
static int wait_answer(int fd, uint32_t reader, struct answer *ret_answer)
{
    int got = take_answer(fd, ret_answer);

    for (int i = 1; got < 0 && i < ANSWER_WAITS && is_runnable(reader); i++)
        got = take_answer(fd, ret_answer);
    return got;
}

static void keep_answer(struct facet_pci_snapshot *snapshot, const struct answer *answer)
{
    struct facet_pci_function *function = &snapshot->functions[answer->index];

    function->unread[FACET_PCI_OVERRIDE] = (uint8_t)answer->unread;
    if (strcmp(answer->text, "(null)") != 0) /* the kernel's text for no override */
        memcpy(function->driver_override, answer->text, sizeof function->driver_override);
}

static size_t first_wanted(const struct facet_pci_snapshot *snapshot, size_t from)
{
    while (from < snapshot->count && !is_wanted(&snapshot->functions[from]))
        from++;
    return from;
}

/* Takes one child's answers. Returns the index behind the function at which it hangs; `count` when it does not hang. */
static size_t take_answers(struct facet_pci_snapshot *snapshot, size_t from, int fd, pid_t pid)
{
    struct answer answer;
    uint32_t reader = 0;
    int got;

    while ((got = wait_answer(fd, reader, &answer)) > 0) {
        if (answer.index == READER) {
            reader = answer.unread;
            continue;
        }
        keep_answer(snapshot, &answer);
        from = answer.index + 1;
    }
    if (got < 0)
        kill(pid, SIGKILL);
    facet_hidden_wait(pid, 0);
    if (got == 0)
        return snapshot->count;
    from = first_wanted(snapshot, from);
    if (from < snapshot->count)
        snapshot->functions[from++].unread[FACET_PCI_OVERRIDE] = FACET_PCI_UNREAD_STUCK;
    return from;
}

static void read_wanted(int root, struct facet_pci_snapshot *snapshot)
{
    for (size_t from = first_wanted(snapshot, 0); from < snapshot->count; from = first_wanted(snapshot, from)) {
        int fd = -1;
        pid_t pid = start_child(root, snapshot, from, &fd);

        if (pid < 0)
            return;
        from = take_answers(snapshot, from, fd, pid);
        close(fd);
    }
}

/* Gives a final reason to functions that are still unread: their reader did not start, ended early, or was busy. */
static void give_up_pending(struct facet_pci_snapshot *snapshot)
{
    for (size_t i = 0; i < snapshot->count; i++) {
        uint8_t *unread = &snapshot->functions[i].unread[FACET_PCI_OVERRIDE];

        if (*unread >= PENDING)
            *unread = *unread == BUSY ? FACET_PCI_UNREAD_STUCK : FACET_PCI_UNREAD_IO;
    }
}

void scan_locked(int root, struct facet_pci_snapshot *snapshot)
{
    read_wanted(root, snapshot);
    for (int i = 0; i + 1 < BUSY_TRIES && first_wanted(snapshot, 0) < snapshot->count; i++) {
        struct timespec pause = facet_ns_timespec((BUSY_MS * FACET_NS_PER_MS) << i);

        nanosleep(&pause, NULL);
        read_wanted(root, snapshot);
    }
    give_up_pending(snapshot);
}

enum facet_pci_unread scan_override(int root, const struct facet_pci_address *address, char *text, size_t size)
{
    struct facet_pci_function function = {.address = *address};
    struct facet_pci_snapshot one = {.functions = &function, .count = 1};

    function.unread[FACET_PCI_OVERRIDE] = SCAN_PENDING;
    scan_locked(root, &one);
    snprintf(text, size, "%s", function.driver_override);
    return function.unread[FACET_PCI_OVERRIDE];
}
