/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the proof that a write raises no signal in the surrounding program, and takes no pending signal away. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/quiet.h"

static volatile sig_atomic_t signals;

static void count_signal(int number)
{
    signals++;
}

/* Lets each write to a file fail with EFBIG and SIGXFSZ. Returns the limit to be restored. */
static struct rlimit forbid_files(void)
{
    struct rlimit before;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    return before;
}

static void allow_files(struct rlimit before)
{
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
}

static ssize_t write_quietly(int fd)
{
    FACET_QUIET struct facet_quiet quiet = facet_quiet_begin();

    return write(fd, "x", 1);
}

static int lengthen_quietly(int fd)
{
    FACET_QUIET struct facet_quiet quiet = facet_quiet_begin();

    return ftruncate(fd, 10);
}

/* Without a handler, SIGXFSZ or SIGPIPE would end the program. */
static void failed_writes_raise_no_signal(void **state)
{
    void (*const handlers[])(int) = {SIG_DFL, SIG_IGN, count_signal};
    int file = memfd_create("quiet", MFD_CLOEXEC), ends[2];

    assert_true(file >= 0);
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    struct rlimit before = forbid_files();
    for (size_t i = 0; i < 3; i++) {
        signal(SIGXFSZ, handlers[i]);
        signal(SIGPIPE, handlers[i]);
        assert_int_equal(write_quietly(file), -1);
        assert_int_equal(errno, EFBIG);
        assert_int_equal(lengthen_quietly(file), -1);
        assert_int_equal(errno, EFBIG);
        assert_int_equal(write_quietly(ends[1]), -1);
        assert_int_equal(errno, EPIPE);
    }
    assert_int_equal(signals, 0);
    allow_files(before);
    assert_int_equal(write_quietly(file), 1);
    signal(SIGXFSZ, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    close(file);
    close(ends[1]);
}

static void signals_that_the_program_blocked_stay_pending(void **state)
{
    int file = memfd_create("quiet", MFD_CLOEXEC);
    sigset_t mask, blocked, before;

    assert_true(file >= 0);
    signal(SIGXFSZ, count_signal);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGXFSZ);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &blocked, &before), 0);
    raise(SIGXFSZ);
    struct rlimit limit = forbid_files();
    assert_int_equal(write_quietly(file), -1);
    allow_files(limit);
    assert_int_equal(signals, 0);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &before, &mask), 0);
    assert_int_equal(sigismember(&mask, SIGXFSZ), 1); /* blocked as it was */
    assert_int_equal(signals, 1);                     /* the pending signal arrived */
    signal(SIGXFSZ, SIG_DFL);
    close(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(failed_writes_raise_no_signal),
                                       cmocka_unit_test(signals_that_the_program_blocked_stay_pending)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
