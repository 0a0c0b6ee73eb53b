/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of the count of processes that could not enter a vGPU, and of the last reason. Never: starts a process.
 */
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

/* Returns -1 if the file is not believed. */
static int refusal_count(const char *dir, char reason[FACET_REFUSED_REASON_SIZE])
{
    uint32_t number = 4711;

    return facet_refused_read(dir, &number, reason) ? (int)number : -1;
}

static void test_refusals_are_counted(void **state)
{
    struct fixture *fixture = *state;
    char reason[FACET_REFUSED_REASON_SIZE], longer[2 * FACET_REFUSED_RECORD_SIZE];

    assert_int_equal(refusal_count(fixture->dir, reason), 0);
    assert_string_equal(reason, "");
    facet_refused_note(fixture->dir, "first");
    facet_refused_note(fixture->dir, "second\nline \xff");
    assert_int_equal(refusal_count(fixture->dir, reason), 2);
    assert_string_equal(reason, "second?line ?");
    memset(longer, 'a', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    facet_refused_note(fixture->dir, longer);
    assert_int_equal(refusal_count(fixture->dir, reason), 3);
    assert_int_equal(strlen(reason), FACET_REFUSED_REASON_SIZE - 1);
}

static void test_file_size_is_bounded(void **state)
{
    struct fixture *fixture = *state;
    char reason[FACET_REFUSED_REASON_SIZE], path[256];
    struct stat status;

    for (uint32_t i = 0; i < FACET_REFUSED_RECORDS_MAX + 10; i++)
        facet_refused_note(fixture->dir, "no");
    assert_int_equal(refusal_count(fixture->dir, reason), FACET_REFUSED_RECORDS_MAX);
    path_of(fixture, path, sizeof path);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_size, FACET_REFUSED_RECORDS_MAX * FACET_REFUSED_RECORD_SIZE);
}

/* The program that could not enter its vGPU is a tenant's, so Facet's write may raise no signal that ends it. */
static void test_a_file_that_may_not_grow_raises_no_signal(void **state)
{
    struct fixture *fixture = *state;
    char reason[FACET_REFUSED_REASON_SIZE];
    struct rlimit before;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    facet_refused_note(fixture->dir, "no");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(refusal_count(fixture->dir, reason), 0);
}

static void test_a_foreign_file_holds_no_reason(void **state)
{
    struct fixture *fixture = *state;
    char reason[FACET_REFUSED_REASON_SIZE], path[256];

    path_of(fixture, path, sizeof path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/dev/zero", path), 0);
    facet_refused_note(fixture->dir, "no");
    assert_int_equal(refusal_count(fixture->dir, reason), -1);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    facet_refused_note(fixture->dir, "no");
    assert_int_equal(refusal_count(fixture->dir, reason), -1);
    assert_int_equal(unlink(path), 0);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, "short", 5), 5);
    close(fd);
    assert_int_equal(refusal_count(fixture->dir, reason), -1);
    facet_refused_note("/nowhere", "no");
    assert_int_equal(refusal_count("/nowhere", reason), 0);
}

/* Each byte of each record is changed in turn, and the file is cut within a record. */
static void test_damaged_records_are_not_believed(void **state)
{
    struct fixture *fixture = *state;
    char reason[FACET_REFUSED_REASON_SIZE], path[256], whole[3 * FACET_REFUSED_RECORD_SIZE];

    path_of(fixture, path, sizeof path);
    for (int i = 0; i < 3; i++)
        facet_refused_note(fixture->dir, "no");
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(pread(fd, whole, sizeof whole, 0), sizeof whole);
    for (off_t at = 0; at < (off_t)sizeof whole; at++) {
        const char wrong = (char)(whole[at] ^ 0x20);

        assert_int_equal(pwrite(fd, &wrong, 1, at), 1);
        assert_int_equal(refusal_count(fixture->dir, reason), -1);
        assert_string_equal(reason, "");
        assert_int_equal(pwrite(fd, &whole[at], 1, at), 1);
    }
    assert_int_equal(refusal_count(fixture->dir, reason), 3);
    assert_int_equal(ftruncate(fd, sizeof whole - 1), 0);
    assert_int_equal(refusal_count(fixture->dir, reason), -1);
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(ftruncate(fd, 50 << 20), 0);
    assert_int_equal(refusal_count(fixture->dir, reason), -1);
    close(fd);
}

/* The limit of the file's size would leave room for a part of a record only. */
static void test_no_part_of_a_record_is_written(void **state)
{
    struct fixture *fixture = *state;
    char reason[FACET_REFUSED_REASON_SIZE];
    struct rlimit before;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit less = {.rlim_cur = FACET_REFUSED_RECORD_SIZE + 1, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &less), 0);
    facet_refused_note(fixture->dir, "first");
    facet_refused_note(fixture->dir, "second");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(refusal_count(fixture->dir, reason), 1);
    assert_string_equal(reason, "first");
}

static void test_the_folder_is_removed_with_its_reason(void **state)
{
    struct fixture *fixture = *state;
    struct facet_error error;

    facet_refused_note(fixture->dir, "no");
    assert_int_equal(facet_owner_remove(fixture->dir, &error), FACET_OK);
    assert_int_equal(access(fixture->dir, F_OK), -1);
}

/* A segment of an earlier daemon may lack the file, and a container needs it as a place to mount on. */
static void test_the_file_is_there_when_a_segment_is_made_or_adopted(void **state)
{
    struct fixture *fixture = *state;
    char path[256];

    path_of(fixture, path, sizeof path);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(unlink(path), 0);
    facet_owner_close(fixture->owner);
    assert_int_equal(facet_owner_adopt(fixture->dir, &fixture->spec, &fixture->owner, NULL), FACET_OK);
    assert_int_equal(access(path, F_OK), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_refusals_are_counted),
        TEST(test_file_size_is_bounded),
        TEST(test_a_file_that_may_not_grow_raises_no_signal),
        TEST(test_a_foreign_file_holds_no_reason),
        TEST(test_the_folder_is_removed_with_its_reason),
        TEST(test_damaged_records_are_not_believed),
        TEST(test_no_part_of_a_record_is_written),
        TEST(test_the_file_is_there_when_a_segment_is_made_or_adopted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
