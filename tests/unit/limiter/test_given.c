/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs that a process in several containers' vGPUs is noticed. Never: attaches to one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "limiter/given.h"

#define ONE   "FACET_VGPU_DIR_0123456789abcdef"
#define OTHER "FACET_VGPU_DIR_fedcba9876543210"

static int unset_all(void **state)
{
    unsetenv(ONE);
    unsetenv(OTHER);
    return 0;
}

static void a_process_without_such_variables_may_enter(void **state)
{
    setenv("FACET_VGPU_DIR_0123", "/elsewhere", 1); /* no id: some other variable */
    assert_int_equal(facet_given_check("/run/a", NULL), FACET_OK);
    assert_int_equal(facet_given_check("", NULL), FACET_OK);
    unsetenv("FACET_VGPU_DIR_0123");
}

static void every_vgpu_that_was_given_must_be_among_the_folders(void **state)
{
    struct facet_error error;

    setenv(ONE, "/run/a", 1);
    assert_int_equal(facet_given_check("/run/a", NULL), FACET_OK);
    assert_int_equal(facet_given_check("/run/b:/run/a", NULL), FACET_OK);
    setenv(OTHER, "/run/b", 1);
    assert_int_equal(facet_given_check("/run/b:/run/a", NULL), FACET_OK);
    for (size_t i = 0; i < 5; i++) {
        static const char *const folders[] = {"/run/b", "/run/a", "/run/ab:/run/b", "/run/b:/run/a/", ""};

        assert_int_equal(facet_given_check(folders[i], &error), FACET_BAD_STATE);
        assert_non_null(strstr(error.message, "several virtual GPUs"));
    }
}

static void the_variable_of_an_id_is_recognized(void **state)
{
    char name[64];

    facet_given_variable("0123456789abcdef", name, sizeof name);
    assert_string_equal(name, ONE);
    assert_true(facet_given_is_variable(ONE "=x"));
    assert_false(facet_given_is_variable(ONE));
    assert_false(facet_given_is_variable(ONE "0=x"));
    assert_false(facet_given_is_variable("FACET_VGPU_DIR_0123456789ABCDEF=x"));
    assert_false(facet_given_is_variable("FACET_VGPU_DIR=x"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_process_without_such_variables_may_enter, unset_all),
        cmocka_unit_test_setup(every_vgpu_that_was_given_must_be_among_the_folders, unset_all),
        cmocka_unit_test_setup(the_variable_of_an_id_is_recognized, unset_all),
    };

    return cmocka_run_group_tests(tests, NULL, unset_all);
}
