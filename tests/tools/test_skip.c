/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the proof that TAP has "ok" and the SKIP directive for a skipped case, and "not ok" for a failed one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sys/wait.h>
#include <unistd.h>

static void skipped(void **state)
{
    skip();
}

static void failed(void **state)
{
    fail();
}

static void run_group(int descriptor)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(skipped), cmocka_unit_test(failed)};

    dup2(descriptor, STDOUT_FILENO);
    close(STDERR_FILENO);
    setenv("CMOCKA_MESSAGE_OUTPUT", "TAP", 1);
    _exit(cmocka_run_group_tests(tests, NULL, NULL));
}

static void test_a_skipped_case_is_printed_as_ok(void **state)
{
    char output[4096] = "";
    size_t length = 0;
    ssize_t got;
    int ends[2], status;

    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0)
        run_group(ends[1]);
    assert_true(pid > 0);
    close(ends[1]);
    while ((got = read(ends[0], output + length, sizeof output - 1 - length)) > 0)
        length += (size_t)got;
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    assert_non_null(strstr(output, "\nok 1 # SKIP skipped\n"));
    assert_non_null(strstr(output, "\nnot ok 2 - failed\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_skipped_case_is_printed_as_ok)};

    return cmocka_run_group_tests_name("skip", tests, NULL, NULL);
}
