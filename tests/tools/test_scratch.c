/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs that a killed test's folder is removed, that a running test's folder stays, and that a file disappears
 * with its descriptors. Never: sleeps. */
#include "../scratch.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/wait.h>

static char kind[32]; /* has this process's id, so that no other test's folders count */

/* Makes an unreadable folder in the folder `path`. */
static bool fill_folder(const char *path)
{
    char inside[96], link[112];

    snprintf(inside, sizeof inside, "%s/closed", path);
    snprintf(link, sizeof link, "%s/link", inside);
    return mkdir(inside, 0700) == 0 && symlink("nowhere", link) == 0 && chmod(inside, 0) == 0;
}

/* Starts a child that makes a folder and waits to be killed. Returns its pid, and the folder's path. */
static pid_t start_holder(char path[64])
{
    int ready[2];

    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (scratch_folder(kind, path, 64) < 0 || !fill_folder(path) || write(ready[1], path, 64) != 64)
            _exit(1);
        for (;;)
            pause();
    }
    assert_true(pid > 0);
    close(ready[1]);
    assert_int_equal(read(ready[0], path, 64), 64);
    close(ready[0]);
    return pid;
}

static void stop_holder(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_the_next_test_removes_the_folder_of_a_killed_test(void **state)
{
    char first[64], second[64], third[64];
    pid_t killed = start_holder(first), living = start_holder(second);

    stop_holder(killed);
    assert_int_equal(access(first, F_OK), 0);
    int folder = scratch_folder(kind, third, sizeof third);
    assert_true(folder >= 0);
    assert_int_equal(access(first, F_OK), -1);
    assert_int_equal(access(second, F_OK), 0);
    stop_holder(living);
    int other = scratch_folder(kind, first, sizeof first);
    assert_int_equal(access(second, F_OK), -1);
    assert_int_equal(access(third, F_OK), 0); /* this process holds this folder */
    assert_true(scratch_remove(third) && scratch_remove(first));
    close(folder);
    close(other);
}

/* A killed test's folder stays as long as a child of the test lives. */
static void test_a_folder_stays_while_a_child_has_it(void **state)
{
    char path[64], own[64];
    int folder = scratch_folder(kind, path, sizeof path);
    pid_t pid = fork();

    if (pid == 0)
        for (;;)
            pause();
    assert_true(folder >= 0 && pid > 0);
    close(folder);
    for (int turn = 0; turn < 2; turn++) {
        folder = scratch_folder(kind, own, sizeof own);
        assert_int_equal(access(path, F_OK), turn ? -1 : 0);
        assert_true(scratch_remove(own));
        close(folder);
        if (!turn)
            stop_holder(pid);
    }
}

static void test_a_file_is_found_by_other_processes_and_disappears_when_closed(void **state)
{
    char path[64];
    int status, file = scratch_file(path, sizeof path);

    assert_true(file >= 0 && write(file, "here", 4) == 4);
    pid_t pid = fork();
    if (pid == 0) {
        char text[8] = "";
        int found = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        _exit(found >= 0 && read(found, text, 4) == 4 && strcmp(text, "here") == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    close(file);
    assert_int_equal(access(path, F_OK), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_next_test_removes_the_folder_of_a_killed_test),
        cmocka_unit_test(test_a_folder_stays_while_a_child_has_it),
        cmocka_unit_test(test_a_file_is_found_by_other_processes_and_disappears_when_closed),
    };

    snprintf(kind, sizeof kind, "own%d", (int)getpid());
    return cmocka_run_group_tests_name("scratch", tests, NULL, NULL);
}
