/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the proof that the surrounding program notices nothing of a hidden process, whose end is still reported: no
 * signal arrives, and wait() finds no child. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hidden.h"

extern char **environ;

static volatile sig_atomic_t signals;

static void count_signal(int number)
{
    signals++;
}

static void assert_nothing_is_noticed(void)
{
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    assert_int_equal(signals, 0);
}

/* The program may handle SIGCHLD, ignore it, or leave it its default action. */
static void the_end_of_a_hidden_child_is_reported(void **state)
{
    void (*const handlers[])(int) = {SIG_DFL, SIG_IGN, count_signal};

    for (size_t i = 0; i < 3; i++) {
        signal(SIGCHLD, handlers[i]);
        pid_t child = facet_hidden_fork();
        if (child == 0)
            _exit(7);
        assert_true(child > 0);
        assert_nothing_is_noticed();
        int status = facet_hidden_wait(child, 0);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 7);
        assert_nothing_is_noticed();
        assert_int_equal(facet_hidden_wait(child, 0), -1); /* the end is reported once */
    }
    signal(SIGCHLD, SIG_DFL);
}

static void a_wait_without_delay_leaves_a_running_process(void **state)
{
    int ends[2];
    char byte;

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t child = facet_hidden_fork();
    if (child == 0)
        _exit(read(ends[0], &byte, 1) != 1);
    assert_int_equal(facet_hidden_wait(child, WNOHANG), 0);
    kill(child, SIGKILL);
    int status = facet_hidden_wait(child, 0);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
    close(ends[0]);
    close(ends[1]);
}

/* Runs a program as a hidden process, and reads its output to the end. */
static int run_program(const char *path, const char *script, char *text, size_t size, int *ret_pidfd)
{
    char *const arguments[] = {(char *)"sh", (char *)"-c", (char *)(uintptr_t)script, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    size_t length = 0;
    ssize_t got;
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    sigemptyset(&none);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    int errnum =
        facet_hidden_spawn(&(struct facet_hidden_program){path, arguments, environ, &actions, &attributes}, ret_pidfd);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close(ends[1]);
    while ((got = read(ends[0], text + length, size - 1 - length)) > 0)
        length += (size_t)got;
    text[length] = '\0';
    close(ends[0]);
    return errnum;
}

static void an_orphan_is_none_of_our_children(void **state)
{
    void (*const handlers[])(int) = {SIG_DFL, SIG_IGN, count_signal};

    for (size_t i = 0; i < 3; i++) {
        int pidfd = -1, parent = 0;
        char text[64], rest[16];

        signal(SIGCHLD, handlers[i]);
        assert_int_equal(run_program("/bin/sh", "echo $PPID there", text, sizeof text, &pidfd), 0);
        assert_int_equal(sscanf(text, "%d %15s", &parent, rest), 2);
        assert_string_equal(rest, "there");
        assert_int_not_equal(parent, getpid());
        assert_true(pidfd >= 0);
        assert_true(fcntl(pidfd, F_GETFD) & FD_CLOEXEC);
        assert_nothing_is_noticed();
        assert_int_equal(poll(&(struct pollfd){.fd = pidfd, .events = POLLIN}, 1, 60000), 1); /* the orphan ended */
        facet_hidden_reap(pidfd); /* does nothing: it is not this process's child */
        close(pidfd);
    }
    signal(SIGCHLD, SIG_DFL);
}

static void a_program_that_cannot_start_gives_the_reason(void **state)
{
    int pidfd = -7;
    char text[16];

    assert_int_equal(run_program("/no/such/program", "", text, sizeof text, &pidfd), ENOENT);
    assert_int_equal(pidfd, -7);
    assert_int_equal(run_program("/etc/passwd", "", text, sizeof text, &pidfd), EACCES);
    assert_string_equal(text, "");
    assert_int_equal(waitpid(-1, NULL, __WALL | WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

/* This process adopts orphans, as the first process of a PID namespace does. */
static void an_orphan_that_this_process_adopts_is_reaped(void **state)
{
    int pidfd = -1;
    char text[16];

    prctl(PR_SET_CHILD_SUBREAPER, 1);
    assert_int_equal(run_program("/bin/sh", "exit 3", text, sizeof text, &pidfd), 0);
    facet_hidden_reap(pidfd);
    assert_int_equal(waitpid(-1, NULL, __WALL | WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    close(pidfd);
    facet_hidden_reap(-1);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
}

/* After the call the caller's signal mask is as before, and signals that the caller blocked stay blocked. */
static void the_signal_mask_is_left_as_it_was(void **state)
{
    sigset_t before, after;
    int pidfd = -1;
    char text[16];

    sigemptyset(&before);
    sigaddset(&before, SIGUSR1);
    sigprocmask(SIG_SETMASK, &before, NULL);
    assert_int_equal(run_program("/bin/sh", "kill -s USR1 $$; echo alive", text, sizeof text, &pidfd), 0);
    assert_string_equal(text, ""); /* SIGUSR1 ended the program: its mask is the empty one that was asked for */
    sigprocmask(SIG_SETMASK, NULL, &after);
    for (int number = 1; number < NSIG; number++)
        assert_int_equal(sigismember(&after, number), sigismember(&before, number));
    sigemptyset(&before);
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(pidfd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_end_of_a_hidden_child_is_reported),
        cmocka_unit_test(a_wait_without_delay_leaves_a_running_process),
        cmocka_unit_test(an_orphan_is_none_of_our_children),
        cmocka_unit_test(a_program_that_cannot_start_gives_the_reason),
        cmocka_unit_test(an_orphan_that_this_process_adopts_is_reaped),
        cmocka_unit_test(the_signal_mask_is_left_as_it_was),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
