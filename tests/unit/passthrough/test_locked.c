/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs about reading files that the kernel may lock. A reader that hangs is left behind, each function has at
 * most one such reader, and the function is read again after its reader has returned. Never: needs a device that
 * hangs. The reader's lock is wrapped (the linker's --wrap); in tests/integration/passthrough/hang.sh a real kernel
 * hangs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "machine.h"
#include "passthrough/scan/snapshot.h"

enum { FUNCTIONS = 4 };

/* The readers' actions, in memory that they share with the test. */
static struct {
    _Atomic int locks;    /* locks that all readers took or asked for */
    _Atomic int hang_at;  /* a reader hangs once it has this lock, counted from 1; 0: none */
    _Atomic int busy_at;  /* this lock is held by another process */
    _Atomic int end_at;   /* readers end before this lock, and before all later ones */
    _Atomic pid_t reader; /* the reader that hangs */
    _Atomic int no_clone; /* 1: no reader can be started */
} * readers;

int __real_flock(int fd, int operation);
int __wrap_flock(int fd, int operation);
long __real_syscall(long number, ...);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);

/* The test itself locks by syscalls, which are not wrapped. */
int __wrap_flock(int fd, int operation)
{
    int lock = atomic_fetch_add(&readers->locks, 1) + 1;

    if (readers->end_at && lock >= readers->end_at)
        _exit(3);
    if (lock == readers->busy_at) {
        errno = EWOULDBLOCK;
        return -1;
    }
    int result = __real_flock(fd, operation);
    if (lock == readers->hang_at) {
        atomic_store(&readers->reader, getpid());
        for (;;)
            pause();
    }
    return result;
}

long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    if (number == SYS_clone && readers->no_clone) {
        errno = EAGAIN;
        return -1;
    }
    return __real_syscall(number, a, b, c, d, e, f);
}

struct tree {
    struct machine machine;
    struct facet_pci_function functions[FUNCTIONS];
    struct facet_pci_snapshot snapshot;
};

static void path_of(const struct tree *tree, int index, const char *name, char *path, size_t size)
{
    snprintf(path, size, "%s/sys/bus/pci/devices/0000:00:%02x.0/%s", tree->machine.path, index + 1, name);
}

static void put_file(const struct tree *tree, int index, const char *name, const char *text)
{
    char path[160];

    path_of(tree, index, name, path, sizeof path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static int set_up(void **state)
{
    static struct tree tree;
    static const char *const parts[] = {"sys", "sys/bus", "sys/bus/pci", "sys/bus/pci/devices"};
    char path[160];

    readers = mmap(NULL, sizeof *readers, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(readers, MAP_FAILED);
    machine_make(&tree.machine);
    readers->locks = 0; /* forgets the locks that machine_make() took */
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", tree.machine.path, parts[i]);
        assert_int_equal(mkdir(path, 0755), 0);
    }
    for (int i = 0; i < FUNCTIONS; i++) {
        path_of(&tree, i, "", path, sizeof path);
        assert_int_equal(mkdir(path, 0755), 0);
        put_file(&tree, i, "driver_override", i % 2 ? "vfio-pci\n" : "(null)\n");
    }
    tree.snapshot = (struct facet_pci_snapshot){.functions = tree.functions, .count = FUNCTIONS};
    *state = &tree;
    return 0;
}

static int tear_down(void **state)
{
    machine_remove(&((struct tree *)*state)->machine);
    munmap(readers, sizeof *readers);
    return 0;
}

static void read_locked(struct tree *tree)
{
    for (int i = 0; i < FUNCTIONS; i++)
        tree->functions[i] = (struct facet_pci_function){.address = {.device = (uint8_t)(i + 1)},
                                                         .unread[FACET_PCI_OVERRIDE] = SCAN_PENDING};
    scan_locked(tree->machine.root, &tree->snapshot);
}

/* Expects function `index` to be unread for the reason `unread`, and all others to be read; -1: all are read. */
static void expect_all_but(const struct tree *tree, int index, uint32_t unread)
{
    for (int i = 0; i < FUNCTIONS; i++) {
        assert_int_equal(tree->functions[i].unread[FACET_PCI_OVERRIDE], i == index ? unread : FACET_PCI_READ);
        assert_string_equal(tree->functions[i].driver_override, i % 2 && i != index ? "vfio-pci" : "");
    }
}

static void expect_no_children(void)
{
    assert_int_equal(waitpid(-1, NULL, __WALL | WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

/* Locks a file, as the reader of another scan does. */
static int lock_file(const struct tree *tree, int index, const char *name)
{
    char path[160];

    path_of(tree, index, name, path, sizeof path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(__real_syscall(SYS_flock, fd, LOCK_EX | LOCK_NB), 0);
    return fd;
}

static void functions_that_do_not_hang_are_read_by_one_child(void **state)
{
    struct tree *tree = *state;

    read_locked(tree);
    expect_all_but(tree, -1, 0);
    assert_int_equal(readers->locks, FUNCTIONS);
    expect_no_children();
}

static void only_marked_functions_are_read(void **state)
{
    struct tree *tree = *state;

    for (int i = 0; i < FUNCTIONS; i++)
        tree->functions[i] = (struct facet_pci_function){.address = {.device = (uint8_t)(i + 1)}};
    tree->functions[2].unread[FACET_PCI_OVERRIDE] = FACET_PCI_UNREAD_SKIPPED;
    scan_locked(tree->machine.root, &tree->snapshot);
    assert_int_equal(readers->locks, 0);
    assert_int_equal(tree->functions[2].unread[FACET_PCI_OVERRIDE], FACET_PCI_UNREAD_SKIPPED);
}

/* Expects that the hanging reader has not inherited the pipe: no writer is left once this process closes ends[1]. */
static void expect_end_of_pipe(const int ends[2])
{
    struct pollfd end = {.fd = ends[0], .events = POLLIN};

    close(ends[1]);
    assert_int_equal(poll(&end, 1, 10000), 1);
    assert_true(end.revents & POLLHUP);
    close(ends[0]);
}

static void a_reader_that_hangs_is_left_behind_once(void **state)
{
    struct tree *tree = *state;
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0); /* so that this process can reap the reader */
    readers->hang_at = 2;
    read_locked(tree);
    expect_all_but(tree, 1, FACET_PCI_UNREAD_STUCK);
    pid_t reader = readers->reader;
    assert_true(reader > 0);
    assert_int_equal(kill(reader, 0), 0);
    expect_end_of_pipe(ends);

    /* Later scans find that reader, and leave no further one behind. */
    for (int i = 0; i < 3; i++) {
        read_locked(tree);
        expect_all_but(tree, 1, FACET_PCI_UNREAD_STUCK);
        assert_int_equal(readers->reader, reader);
    }

    /* The reader returns, and the function is read again. */
    assert_int_equal(kill(reader, SIGKILL), 0);
    assert_int_equal(waitpid(reader, NULL, __WALL), reader);
    read_locked(tree);
    expect_all_but(tree, -1, 0);
    expect_no_children();
    prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
}

static void one_function_alone_hangs_as_well(void **state)
{
    struct tree *tree = *state;
    struct facet_pci_address address = {.device = 2};
    char text[40];

    assert_int_equal(scan_override(tree->machine.root, &address, text, sizeof text), FACET_PCI_READ);
    assert_string_equal(text, "vfio-pci");
    int fd = lock_file(tree, 1, "driver_override");
    assert_int_equal(scan_override(tree->machine.root, &address, text, sizeof text), FACET_PCI_UNREAD_STUCK);
    assert_string_equal(text, "");
    close(fd);
    address.device = 31;
    assert_int_equal(scan_override(tree->machine.root, &address, text, sizeof text), FACET_PCI_UNREAD_ABSENT);
}

/* Another reader may hold the lock for a moment. */
static void the_lock_of_another_reader_is_waited_for(void **state)
{
    struct tree *tree = *state;

    readers->busy_at = 2;
    read_locked(tree);
    expect_all_but(tree, -1, 0);
    assert_int_equal(readers->locks, FUNCTIONS + 1);
}

/* Any user may lock a file that the user can read. Such a lock must not keep root from reading it. */
static void only_the_lock_of_a_file_of_root_counts_as_stuck(void **state)
{
    struct tree *tree = *state;

    put_file(tree, 1, "rescan", "");
    int fd = lock_file(tree, 1, "driver_override");
    read_locked(tree);
    expect_all_but(tree, -1, 0);
    close(fd);
    fd = lock_file(tree, 1, "rescan");
    read_locked(tree);
    expect_all_but(tree, 1, FACET_PCI_UNREAD_STUCK);
    close(fd);
}

static void a_function_that_could_not_be_read_is_not_stuck(void **state)
{
    struct tree *tree = *state;

    readers->no_clone = 1;
    read_locked(tree);
    for (int i = 0; i < FUNCTIONS; i++)
        assert_int_equal(tree->functions[i].unread[FACET_PCI_OVERRIDE], FACET_PCI_UNREAD_IO);
    readers->no_clone = 0;
    readers->end_at = 4;
    read_locked(tree);
    expect_all_but(tree, 3, FACET_PCI_UNREAD_IO);
    expect_no_children();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(functions_that_do_not_hang_are_read_by_one_child, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_marked_functions_are_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_reader_that_hangs_is_left_behind_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_function_alone_hangs_as_well, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_lock_of_another_reader_is_waited_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_the_lock_of_a_file_of_root_counts_as_stuck, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_function_that_could_not_be_read_is_not_stuck, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
