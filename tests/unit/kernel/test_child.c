/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs of the limits of the kernel compiler's children, and of what it reports about these children.
 * Never: asserts how long a child takes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/compile/files.h"

enum { OUTPUT_MOST = 4096 };

static enum facet_status run_script(const char *script, unsigned seconds, struct facet_child *ret_child,
                                    struct facet_error *error)
{
    const char *const arguments[] = {"sh", "-c", script, NULL};

    return facet_child_run(arguments, seconds, OUTPUT_MOST, ret_child, error);
}

static void output_and_exit_status_are_returned(void **state)
{
    struct facet_child child = {0};
    struct facet_error error = {0};

    (void)state;
    assert_int_equal(run_script("echo out; echo why >&2; exit 3", 60, &child, &error), FACET_OK);
    assert_int_equal(child.exit_status, 3);
    assert_int_equal(child.bytes, 4);
    assert_memory_equal(child.output, "out\n", 4);
    assert_string_equal(child.text, "why\n");
    free(child.output);
    assert_int_equal(run_script("kill -9 $$", 60, &child, &error), FACET_OK);
    assert_int_equal(child.signal, SIGKILL);
    free(child.output);
}

/* A child that sleeps uses as little processor time as a child that a busy machine does not run. */
static void the_time_limit_counts_processor_time_alone(void **state)
{
    struct facet_child child = {0};
    struct facet_error error = {0};

    (void)state;
    if (run_script("sleep 1.2; echo done", 1, &child, &error) != FACET_OK)
        fail_msg("%s", error.message);
    assert_memory_equal(child.output, "done\n", 5);
    free(child.output);
}

static void a_child_that_works_or_writes_without_end_is_ended(void **state)
{
    struct facet_child child = {0};
    struct facet_error error = {0};

    (void)state;
    assert_int_equal(run_script("while :; do :; done", 1, &child, &error), FACET_TIMEOUT);
    assert_string_equal(error.message, "sh: it used more than 1 s of processor time");
    assert_int_equal(run_script("while :; do echo more; done", 60, &child, &error), FACET_OUT_OF_RANGE);
    assert_null(child.output);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(output_and_exit_status_are_returned),
        cmocka_unit_test(the_time_limit_counts_processor_time_alone),
        cmocka_unit_test(a_child_that_works_or_writes_without_end_is_ended),
    };
    return cmocka_run_group_tests_name("child", tests, NULL, NULL);
}
