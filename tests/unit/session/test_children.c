/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs that sessions work however a program handles its children: a session opens, reports how a provider
 * ended, is opened again and closes, whether SIGCHLD is ignored or a handler waits for every child. The program itself
 * notices nothing: it gets no signal, and wait() neither returns a child of a session nor waits for one.
 */
#include "session_fixture.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#include "full.h"

static volatile sig_atomic_t signals, reaped;

static void count_signal(int number)
{
    signals++;
}

/* A usual handler of SIGCHLD, which reaps all children that have ended. */
static void reap_ended(int number)
{
    int before = errno;

    while (waitpid(-1, NULL, WNOHANG) > 0)
        reaped++;
    errno = before;
}

/* This handler waits without WNOHANG, and does not return as long as there is a child. */
static void reap_all(int number)
{
    int before = errno;

    while (waitpid(-1, NULL, 0) > 0)
        reaped++;
    errno = before;
}

static void handle_children(void (*handler)(int number), int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};

    signals = reaped = 0;
    sigemptyset(&action.sa_mask);
    assert_int_equal(sigaction(SIGCHLD, &action, NULL), 0);
}

static enum facet_status ask_health(struct facet_session *session, uint32_t device, struct facet_error *error)
{
    uint32_t health = 0;

    return facet_session_provider(session)->device->health(facet_session_instance(session), device, &health, error);
}

/* Opens a session, lets its provider crash, opens another and closes it. Errors must have the same reasons as in a
 * program that does not handle SIGCHLD. */
static void use_session_with_crash(void)
{
    struct facet_session *session = open_session("full", FACET_SESSION_CHILD);
    struct facet_error error = {0};

    assert_int_equal(ask_health(session, 0, &error), FACET_OK);
    assert_int_equal(ask_health(session, FULL_CRASH, &error), FACET_DEVICE_LOST);
    assert_string_equal(error.message, "crashed with signal 11 (Segmentation fault) during device.health");
    assert_int_equal(facet_session_restart(session, &error), FACET_OK);
    assert_int_equal(ask_health(session, FULL_EXIT, &error), FACET_DEVICE_LOST);
    assert_string_equal(error.message, "called exit(3) during device.health");
    if (facet_session_restart(session, &error) != FACET_OK)
        fail_msg("%s", error.message);
    facet_session_close(session);
}

static void use_session_in_child(void)
{
    use_session_with_crash();
    assert_no_child_is_left();
}

static void a_program_may_ignore_its_children(void **state)
{
    handle_children(SIG_IGN, 0);
    use_session_in_child();
    handle_children(SIG_DFL, SA_NOCLDWAIT);
    use_session_in_child();
    handle_children(SIG_DFL, 0);
}

static void a_program_may_wait_for_all_its_children(void **state)
{
    struct facet_session *session;

    handle_children(reap_ended, 0);
    use_session_in_child();
    assert_int_equal(reaped, 0);
    handle_children(reap_all, SA_RESTART);
    use_session_in_child();
    session = open_session("full", FACET_SESSION_CHILD);
    pid_t child = fork();
    if (child == 0)
        _exit(7);
    while (reaped == 0) /* the handler returns although a session is open */
        poll(NULL, 0, 1);
    assert_int_equal(reaped, 1);
    facet_session_close(session);
    handle_children(SIG_DFL, 0);
}

static void no_signal_and_no_child_is_noticed(void **state)
{
    int status = 0;

    handle_children(count_signal, 0);
    struct facet_session *session = open_session("full", FACET_SESSION_CHILD);
    assert_int_equal(waitpid(-1, &status, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    pid_t child = fork();
    if (child == 0)
        _exit(7);
    pid_t waited = wait(&status);
    while (waited < 0 && errno == EINTR)
        waited = wait(&status);
    assert_int_equal(waited, child);
    assert_int_equal(WEXITSTATUS(status), 7);
    assert_int_equal(wait(NULL), -1); /* no child is left to wait for */
    assert_int_equal(errno, ECHILD);
    assert_int_equal(signals, 1);
    facet_session_close(session);
    use_session_in_child();
    assert_int_equal(signals, 1);
    handle_children(SIG_DFL, 0);
}

static void *open_and_close(void *data)
{
    for (int i = 0; i < 5; i++)
        use_session_with_crash();
    return NULL;
}

/* Several threads open sessions, while others start and reap children of their own. */
static void threads_reap_only_their_own_children(void **state)
{
    pthread_t threads[3];

    for (size_t i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, open_and_close, NULL), 0);
    for (int i = 0; i < 50; i++) {
        int status = 0;
        pid_t child = fork();
        if (child == 0)
            _exit(i);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(WEXITSTATUS(status), i);
    }
    for (size_t i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    assert_no_child_is_left();
}

/* Like a container's first process, this process adopts orphans. A session must leave none for it to reap. */
static void a_process_that_adopts_orphans_gets_none(void **state)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    use_session_in_child();
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    assert_int_equal(waitpid(-1, NULL, __WALL | WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

/* Without a supervisor no process learns how the provider ends, so the provider must end with its supervisor. */
static void a_supervisor_that_is_killed_takes_its_child_along(void **state)
{
    struct facet_session *session = open_session("full", FACET_SESSION_CHILD);
    struct facet_error error = {0};
    pid_t supervisor = provider_process_find(getpid(), true);

    assert_true(supervisor > 0);
    assert_true(provider_process(getpid()) > 0);
    kill(supervisor, SIGKILL);
    assert_true(provider_processes_end(getpid()));
    assert_false(facet_session_alive(session, &error));
    assert_string_equal(error.message, "ended its process between two calls");
    assert_int_equal(facet_session_restart(session, &error), FACET_OK);
    facet_session_close(session);
    assert_no_child_is_left();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_may_ignore_its_children),
        cmocka_unit_test(a_program_may_wait_for_all_its_children),
        cmocka_unit_test(no_signal_and_no_child_is_noticed),
        cmocka_unit_test(threads_reap_only_their_own_children),
        cmocka_unit_test(a_process_that_adopts_orphans_gets_none),
        cmocka_unit_test(a_supervisor_that_is_killed_takes_its_child_along),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
