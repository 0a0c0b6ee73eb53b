/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs of the real operations: writes by a child, its deadline, and that the child keeps the group's lock when
 * its parent is killed. Never: needs privileges.
 *
 * A write hangs here because the file may not grow, which raises SIGXFSZ, and the signal's handler sleeps.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "passthrough/bind/host.h"

struct target_folder {
    char path[64];
    struct bind_host host;
};

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    return remove(path);
}

static int setup(void **state)
{
    struct target_folder *target_folder = calloc(1, sizeof *target_folder);

    assert_non_null(target_folder);
    snprintf(target_folder->path, sizeof target_folder->path, "/tmp/facet-write-XXXXXX");
    assert_non_null(mkdtemp(target_folder->path));
    target_folder->host.ops = &bind_host_real;
    target_folder->host.root = open(target_folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    target_folder->host.state = target_folder->host.root;
    int fd = openat(target_folder->host.root, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
    *state = target_folder;
    return 0;
}

static int teardown(void **state)
{
    struct target_folder *target_folder = *state;

    close(target_folder->host.root);
    nftw(target_folder->path, remove_entry, 4, FTW_DEPTH | FTW_PHYS);
    free(target_folder);
    return 0;
}

static void read_file(const struct target_folder *target_folder, char *text, size_t size)
{
    int fd = openat(target_folder->host.root, "file", O_RDONLY | O_CLOEXEC);
    ssize_t length = read(fd, text, size - 1);

    assert_true(length >= 0);
    text[length] = '\0';
    close(fd);
}

static void test_written_value_reaches_the_file(void **state)
{
    struct target_folder *target_folder = *state;
    struct bind_stuck stuck = {.pid = 0};
    char text[32];

    assert_int_equal(bind_write(&target_folder->host, "/file", "vfio-pci", 10 * FACET_NS_PER_S, &stuck), 0);
    read_file(target_folder, text, sizeof text);
    assert_string_equal(text, "vfio-pci");
    assert_int_equal(stuck.pid, 0);
    assert_int_equal(bind_write(&target_folder->host, "/none", "x", FACET_NS_PER_S, &stuck), ENOENT);
    assert_int_equal(waitpid(-1, NULL, __WALL | WNOHANG), -1); /* all children are reaped */
    assert_int_equal(errno, ECHILD);
}

/* Only an existing regular file below the root is written. */
static void test_only_regular_files_are_written(void **state)
{
    struct target_folder *target_folder = *state;
    struct bind_stuck stuck = {.pid = 0};

    assert_int_equal(mkfifoat(target_folder->host.root, "pipe", 0600), 0);
    assert_int_equal(symlinkat("/etc/passwd-facet-none", target_folder->host.root, "outside"), 0);
    assert_int_not_equal(bind_write(&target_folder->host, "/pipe", "x", FACET_NS_PER_S, &stuck), 0);
    assert_int_not_equal(bind_write(&target_folder->host, "/outside", "x", FACET_NS_PER_S, &stuck), 0);
    assert_int_not_equal(bind_write(&target_folder->host, "/../../etc/none", "x", FACET_NS_PER_S, &stuck), 0);
    assert_int_equal(bind_load(&target_folder->host, "vfio-pci", FACET_NS_PER_S, &stuck),
                     EXDEV); /* the root is not that of this machine */
    assert_int_equal(bind_host_real.set_owner(&target_folder->host, "/file", geteuid(), getegid()), ENOTTY);
}

/* ---- hanging ---- */

static void sleep_forever(int number)
{
    for (;;)
        pause();
}

static void limit_files(void (*handler)(int number))
{
    struct sigaction action = {.sa_handler = handler};
    struct rlimit limit = {0};

    sigemptyset(&action.sa_mask);
    assert_int_equal(sigaction(SIGXFSZ, &action, NULL), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = handler == SIG_DFL ? limit.rlim_max : 0;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void test_late_write_is_abandoned(void **state)
{
    struct target_folder *target_folder = *state;
    struct bind_stuck stuck = {.pid = 0};

    limit_files(sleep_forever);
    int errnum = bind_write(&target_folder->host, "/file", "vfio-pci", FACET_NS_PER_S / 5, &stuck);
    limit_files(SIG_DFL);
    assert_int_equal(errnum, ETIMEDOUT);
    assert_int_equal(stuck.pid, 0); /* the writer could be killed */
    assert_int_equal(waitpid(-1, NULL, __WALL | WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

/* ---- the program's own children ---- */

static volatile sig_atomic_t signals;

static void reap_all(int number)
{
    signals++;
    while (waitpid(-1, NULL, 0) > 0)
        ;
}

static void test_a_handler_of_sigchld_takes_no_child_of_facet(void **state)
{
    struct target_folder *target_folder = *state;
    struct bind_host machine = {
        .ops = &bind_host_real, .root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), .state = -1};
    struct bind_stuck stuck = {.pid = 0};
    void (*const handlers[])(int) = {SIG_IGN, reap_all, SIG_DFL};
    char text[32];

    for (size_t i = 0; i < sizeof handlers / sizeof handlers[0]; i++) {
        signal(SIGCHLD, handlers[i]);
        snprintf(text, sizeof text, "vfio-%zu", i);
        assert_int_equal(bind_write(&target_folder->host, "/file", text, 1000 * FACET_NS_PER_S, &stuck), 0);
        /* A missing module, or a missing program to load it, is reported, and nothing is changed. */
        assert_int_equal(bind_load(&machine, "facet-there-is-none", 1000 * FACET_NS_PER_S, &stuck), ENOENT);
        assert_int_equal(stuck.pid, 0);
        assert_int_equal(signals, 0);
        assert_int_equal(waitpid(-1, NULL, __WALL | WNOHANG), -1);
        assert_int_equal(errno, ECHILD);
    }
    read_file(target_folder, text, sizeof text);
    assert_string_equal(text, "vfio-2");
    close(machine.root);
}

/* ---- killed while a write hangs ---- */

/* In another process, takes a lock and makes a write that does not return. */
static _Noreturn void hold_and_hang(struct target_folder *target_folder, int ready)
{
    struct bind_stuck stuck = {.pid = 0};
    int lock = -1;

    if (bind_host_real.lock(&target_folder->host, "group-1.lock", 0, &lock) != 0)
        _exit(1);
    target_folder->host.locks = &lock;
    target_folder->host.lock_count = 1;
    if (write(ready, "x", 1) != 1)
        _exit(1);
    limit_files(sleep_forever);
    bind_write(&target_folder->host, "/file", "vfio-pci", 1000 * FACET_NS_PER_S, &stuck);
    _exit(2);
}

static pid_t child_of(pid_t parent)
{
    char path[64], text[32] = "";

    snprintf(path, sizeof path, "/proc/%d/task/%d/children", parent, parent);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    return length > 0 ? atoi(text) : 0;
}

static void test_lock_is_held_until_the_write_ends(void **state)
{
    struct target_folder *target_folder = *state;
    int ends[2], fd = -1;
    char byte;

    if (access("/proc/self/task", F_OK) != 0)
        skip();
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0)
        hold_and_hang(target_folder, ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    pid_t writer = 0;
    for (int i = 0; i < 1000 && writer == 0; i++) {
        poll(NULL, 0, 10);
        writer = child_of(pid);
    }
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    close(ends[0]);
    close(ends[1]);
    if (writer == 0) /* this kernel does not list children */
        skip();
    assert_int_equal(bind_host_real.lock(&target_folder->host, "group-1.lock", 0, &fd), EBUSY);
    kill(writer, SIGKILL);
    assert_int_equal(bind_host_real.lock(&target_folder->host, "group-1.lock", 10 * FACET_NS_PER_S, &fd), 0);
    close(fd);
}

/* ---- live processes ---- */

static void test_live_writer_is_recognised(void **state)
{
    struct bind_host host = {
        .ops = &bind_host_real, .root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), .state = -1};
    struct bind_stuck self = {.pid = getpid(), .start = bind_start_of(host.root, getpid())};

    assert_true(self.start != 0);
    assert_true(bind_is_alive(&host, &self));
    self.start++;
    assert_false(bind_is_alive(&host, &self)); /* another process with the same number */
    assert_false(bind_is_alive(&host, &(struct bind_stuck){.pid = 0}));
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    siginfo_t ended;
    assert_int_equal(waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOWAIT), 0);
    assert_int_equal(bind_start_of(host.root, pid), 0); /* a zombie has returned from its write */
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    close(host.root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_written_value_reaches_the_file, setup, teardown),
        cmocka_unit_test_setup_teardown(test_only_regular_files_are_written, setup, teardown),
        cmocka_unit_test_setup_teardown(test_late_write_is_abandoned, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_handler_of_sigchld_takes_no_child_of_facet, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lock_is_held_until_the_write_ends, setup, teardown),
        cmocka_unit_test(test_live_writer_is_recognised),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
