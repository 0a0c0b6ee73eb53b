/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of the count of processes that could not enter. Never: starts such a process. */
#include "segment_fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "limiter/refused.h"

static void path_of(const struct fixture *fixture, char *path, size_t size)
{
    snprintf(path, size, "%s/%s", fixture->dir, FACET_REFUSED_FILE);
}

static void test_refusals_are_counted(void **state)
{
    struct fixture *fixture = *state;
    char reason[FACET_REFUSED_RECORD], longer[2 * FACET_REFUSED_RECORD];

    assert_int_equal(facet_refused_read(fixture->dir, reason), 0);
    assert_string_equal(reason, "");
    facet_refused_note(fixture->dir, "first");
    facet_refused_note(fixture->dir, "second\nline \xff");
    assert_int_equal(facet_refused_read(fixture->dir, reason), 2);
    assert_string_equal(reason, "second?line ?");
    memset(longer, 'a', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    facet_refused_note(fixture->dir, longer);
    assert_int_equal(facet_refused_read(fixture->dir, reason), 3);
    assert_int_equal(strlen(reason), FACET_REFUSED_RECORD - 1);
}

static void test_file_does_not_grow_for_ever(void **state)
{
    struct fixture *fixture = *state;
    char reason[FACET_REFUSED_RECORD], path[256];
    struct stat status;

    for (uint32_t i = 0; i < FACET_REFUSED_MOST + 10; i++)
        facet_refused_note(fixture->dir, "no");
    assert_int_equal(facet_refused_read(fixture->dir, reason), FACET_REFUSED_MOST);
    path_of(fixture, path, sizeof path);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_size, FACET_REFUSED_MOST * FACET_REFUSED_RECORD);
}

/* The program that could not enter its virtual GPU is a tenant's: no signal for our write ends it. */
static void test_file_that_may_not_grow(void **state)
{
    struct fixture *fixture = *state;
    char reason[FACET_REFUSED_RECORD];
    struct rlimit before;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    facet_refused_note(fixture->dir, "no");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(facet_refused_read(fixture->dir, reason), 0);
}

static void test_a_foreign_file_holds_no_reason(void **state)
{
    struct fixture *fixture = *state;
    char reason[FACET_REFUSED_RECORD], path[256];

    path_of(fixture, path, sizeof path);
    assert_int_equal(symlink("/dev/zero", path), 0);
    facet_refused_note(fixture->dir, "no");
    assert_int_equal(facet_refused_read(fixture->dir, reason), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    facet_refused_note(fixture->dir, "no");
    assert_int_equal(facet_refused_read(fixture->dir, reason), 0);
    assert_int_equal(unlink(path), 0);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, "short", 5), 5);
    close(fd);
    assert_int_equal(facet_refused_read(fixture->dir, reason), 0);
    facet_refused_note("/nowhere", "no");
    assert_int_equal(facet_refused_read("/nowhere", reason), 0);
}

static void test_the_folder_is_removed_with_its_reason(void **state)
{
    struct fixture *fixture = *state;
    struct facet_error error;

    facet_refused_note(fixture->dir, "no");
    assert_int_equal(facet_owner_remove(fixture->dir, &error), FACET_OK);
    assert_int_equal(access(fixture->dir, F_OK), -1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_refusals_are_counted),
        TEST(test_file_does_not_grow_for_ever),
        TEST(test_file_that_may_not_grow),
        TEST(test_a_foreign_file_holds_no_reason),
        TEST(test_the_folder_is_removed_with_its_reason),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
