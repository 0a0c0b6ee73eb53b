/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs that a scheduler is woken by each of its words, with and without the kernel's help, and that a file that
 * a process cut does not keep a processor busy. Never: asserts how soon a wait ends: a wait that is not ended by a word
 * lasts a minute.
 */
#include "listen.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "limiter/segment.h"

#define LONG_NS (60 * FACET_NS_PER_S)

static _Atomic uint32_t words[LISTEN_WORDS];
static struct listen listening;

/* Both kinds of wait; without the kernel's call only that by threads. */
static int count_kinds(void)
{
    return listen_can_wait_for_many() ? 2 : 1;
}

static void start(int kind, uint32_t count)
{
    listen_init(&listening, kind == 0);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(listen_add(&listening, i, &words[i], NULL), FACET_OK);
}

static void stop(void)
{
    for (uint32_t i = 0; i < LISTEN_WORDS; i++)
        listen_remove(&listening, i);
}

static void wait_long(void)
{
    struct listen_wait wait;

    listen_prepare(&listening, &wait);
    listen_wait(&wait, LONG_NS);
}

static void raise_word(_Atomic uint32_t *word)
{
    atomic_fetch_add(word, 1);
    facet_futex_wake(word);
}

static void *raise_later(void *word)
{
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    raise_word(word);
    return NULL;
}

/* A wait of a minute, several times: the test runs into its limit where one of them is not ended. */
static void each_word_ends_the_wait(void **state)
{
    for (int kind = 0; kind < count_kinds(); kind++) {
        start(kind, 5);
        for (uint32_t i = 0; i < 5; i++) {
            pthread_t thread;

            listen_note(&listening);
            assert_int_equal(pthread_create(&thread, NULL, raise_later, &words[i]), 0);
            wait_long();
            pthread_join(thread, NULL);
        }
        stop();
    }
}

static void a_change_before_the_wait_ends_it(void **state)
{
    for (int kind = 0; kind < count_kinds(); kind++) {
        start(kind, 3);
        for (int round = 0; round < 100; round++) {
            listen_note(&listening);
            raise_word(&words[round % 3]);
            wait_long();
        }
        listen_note(&listening);
        listen_wake(&listening);
        wait_long();
        stop();
    }
}

static void a_removed_word_may_be_unmapped(void **state)
{
    for (int kind = 0; kind < count_kinds(); kind++) {
        _Atomic uint32_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

        start(kind, 2);
        assert_int_equal(listen_add(&listening, 7, page, NULL), FACET_OK);
        listen_note(&listening);
        listen_remove(&listening, 7);
        munmap(page, 4096);
        listen_note(&listening);
        raise_word(&words[1]);
        wait_long();
        stop();
    }
}

/* The kernel cannot wait for the word of a file that was cut. Other words are noticed, and the wait still sleeps. */
static void a_file_that_was_cut_does_not_end_the_wait_at_once(void **state)
{
    char path[] = "/tmp/facet-listen-XXXXXX";
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    unlink(path);
    if (count_kinds() == 1) {
        close(fd);
        skip();
    }
    assert_int_equal(ftruncate(fd, 4096), 0);
    _Atomic uint32_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    start(1, 2);
    assert_int_equal(listen_add(&listening, 2, page, NULL), FACET_OK);
    listen_note(&listening);
    assert_int_equal(ftruncate(fd, 0), 0);
    uint64_t began_ns = facet_clock_now_ns();
    wait_long();
    assert_true(facet_clock_now_ns() - began_ns >= FACET_NS_PER_MS / 2);
    listen_remove(&listening, 2);
    munmap(page, 4096);
    close(fd);
    stop();
}

/* More words than the kernel waits for at once: the wait is short, so that none stays unnoticed. */
static void all_places_can_be_used(void **state)
{
    for (int kind = 0; kind < count_kinds(); kind++) {
        start(kind, LISTEN_WORDS);
        for (uint32_t i = 0; i < LISTEN_WORDS; i += LISTEN_WORDS - 1) {
            listen_note(&listening);
            raise_word(&words[i]);
            wait_long();
        }
        stop();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_word_ends_the_wait),
        cmocka_unit_test(a_change_before_the_wait_ends_it),
        cmocka_unit_test(a_removed_word_may_be_unmapped),
        cmocka_unit_test(a_file_that_was_cut_does_not_end_the_wait_at_once),
        cmocka_unit_test(all_places_can_be_used),
    };

    return cmocka_run_group_tests_name("facetd/listen", tests, NULL, NULL);
}
