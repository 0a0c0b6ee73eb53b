/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: tests that one thread at a time has the lock, and that no thread waits for it without end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "interpose/kit/timed_lock.h"

#define THREADS 4
#define TURNS   20000

static struct facet_timed_lock lock;
static uint64_t count; /* under the lock */

static void *take_often(void *unused)
{
    for (int i = 0; i < TURNS; i++) {
        while (!facet_timed_lock_take(&lock, FACET_NS_PER_S))
            ;
        count++;
        facet_timed_lock_release(&lock);
    }
    return NULL;
}

static void test_one_thread_at_a_time_has_the_lock(void **state)
{
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_often, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(count, THREADS * TURNS);
    assert_true(facet_timed_lock_take(&lock, 0));
    facet_timed_lock_release(&lock);
}

static void test_a_lock_that_is_held_is_not_taken_again(void **state)
{
    assert_true(facet_timed_lock_take(&lock, 0));
    assert_false(facet_timed_lock_take(&lock, FACET_NS_PER_S));
    facet_timed_lock_release(&lock);
    assert_true(facet_timed_lock_take(&lock, 0));
    facet_timed_lock_release(&lock);
}

/* The result of a thread. */
enum { LOCK_TAKEN = 1, GAVE_UP };

static void *take_or_give_up(void *most_ns)
{
    bool taken = facet_timed_lock_take(&lock, (uintptr_t)most_ns);

    if (taken)
        facet_timed_lock_release(&lock);
    return (void *)(uintptr_t)(taken ? LOCK_TAKEN : GAVE_UP);
}

static uintptr_t take_in_another_thread(uint64_t most_ns)
{
    pthread_t thread;
    void *result = NULL;

    /* NOLINTNEXTLINE(performance-no-int-to-ptr): a number */
    assert_int_equal(pthread_create(&thread, NULL, take_or_give_up, (void *)(uintptr_t)most_ns), 0);
    pthread_join(thread, &result);
    return (uintptr_t)result;
}

static void test_no_thread_waits_without_end(void **state)
{
    assert_true(facet_timed_lock_take(&lock, 0));
    assert_int_equal(take_in_another_thread(0), GAVE_UP);
    assert_int_equal(take_in_another_thread(FACET_NS_PER_MS), GAVE_UP);
    facet_timed_lock_release(&lock);
    assert_int_equal(take_in_another_thread(0), LOCK_TAKEN);
}

static void test_a_child_finds_the_lock_free(void **state)
{
    int status = -1;

    assert_true(facet_timed_lock_take(&lock, 0));
    pid_t pid = fork();
    if (pid == 0) {
        facet_timed_lock_forked(&lock);
        _exit(facet_timed_lock_take(&lock, 0) ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    facet_timed_lock_release(&lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_thread_at_a_time_has_the_lock),
        cmocka_unit_test(test_a_lock_that_is_held_is_not_taken_again),
        cmocka_unit_test(test_no_thread_waits_without_end),
        cmocka_unit_test(test_a_child_finds_the_lock_free),
    };

    return cmocka_run_group_tests_name("timed lock", tests, NULL, NULL);
}
