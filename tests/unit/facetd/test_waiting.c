/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of which connection is closed to make room. Never: asks a server (daemon/test_refusals.py does). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/socket.h>
#include <unistd.h>

#include "waiting.h"

enum { CALLERS = 4 };

static struct waiting waiting;
static int ends[CALLERS][2];

static int set_up(void **state)
{
    waiting_init(&waiting);
    for (int i = 0; i < CALLERS; i++)
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends[i]) < 0)
            return -1;
    return 0;
}

static int tear_down(void **state)
{
    for (int i = 0; i < CALLERS; i++) {
        close(ends[i][0]);
        close(ends[i][1]);
    }
    waiting_clear(&waiting);
    return 0;
}

static bool was_hung_up_on(int caller)
{
    char byte;

    return recv(ends[caller][1], &byte, 1, 0) == 0;
}

static void the_connection_that_has_waited_longest_goes_first(void **state)
{
    static const uint64_t since_ns[CALLERS] = {30, 10, 40, 20};
    static const int order[CALLERS] = {1, 3, 0, 2};

    for (int i = 0; i < CALLERS; i++)
        waiting_begin(&waiting, ends[i][0], since_ns[i]);
    for (int i = 0; i < CALLERS; i++) {
        assert_false(was_hung_up_on(order[i]));
        assert_true(waiting_hang_up(&waiting, WAITING_LEAST_NS + 100));
        assert_true(was_hung_up_on(order[i]));
        assert_false(waiting_end(&waiting, ends[order[i]][0]));
    }
    assert_false(waiting_hang_up(&waiting, UINT64_MAX));
}

static void a_connection_that_has_just_begun_is_kept(void **state)
{
    waiting_begin(&waiting, ends[0][0], 10);
    assert_false(waiting_hang_up(&waiting, WAITING_LEAST_NS + 9));
    assert_true(waiting_hang_up(&waiting, WAITING_LEAST_NS + 10));
}

static void a_connection_whose_caller_did_its_part_is_kept(void **state)
{
    waiting_begin(&waiting, ends[0][0], 0);
    waiting_begin(&waiting, ends[1][0], 1);
    assert_true(waiting_end(&waiting, ends[0][0]));
    assert_true(waiting_hang_up(&waiting, UINT64_MAX));
    assert_false(was_hung_up_on(0));
    assert_true(was_hung_up_on(1));
}

static void a_full_list_takes_no_further_connection(void **state)
{
    for (int i = 0; i < WAITING_MOST; i++)
        waiting_begin(&waiting, ends[0][0], 0);
    waiting_begin(&waiting, ends[1][0], 0);
    assert_false(waiting_end(&waiting, ends[1][0]));
}

#define WITH_SETUP(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SETUP(the_connection_that_has_waited_longest_goes_first),
        WITH_SETUP(a_connection_that_has_just_begun_is_kept),
        WITH_SETUP(a_connection_whose_caller_did_its_part_is_kept),
        WITH_SETUP(a_full_list_takes_no_further_connection),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
