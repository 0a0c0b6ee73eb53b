/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs about mapped pages that exist before the first access. Kernels that cannot do this are simulated. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/page_view.h"

#define HUGE     FACET_HUGE_BYTES
#define POPULATE 23 /* MADV_POPULATE_WRITE */
#define COLLAPSE 25 /* MADV_COLLAPSE */

/* The errno values with which madvise() fails (0: none): each collapse except number `collapse_at`, and each populating
 * of pages. `collapses` counts the collapses. */
static struct {
    int collapse, populate, collapses, collapse_at;
} errors;

int __real_madvise(void *at, size_t bytes, int advice);
int __wrap_madvise(void *at, size_t bytes, int advice);
int __wrap_madvise(void *at, size_t bytes, int advice)
{
    int failed = 0;

    if (advice == COLLAPSE && ++errors.collapses != errors.collapse_at)
        failed = errors.collapse;
    else if (advice == POPULATE)
        failed = errors.populate;

    if (!failed)
        return __real_madvise(at, bytes, advice);
    errno = failed;
    return -1;
}

struct fixture {
    struct facet_page_view view;
    int file;
};

static int set_up(void **state)
{
    static struct fixture fixture;

    memset(&errors, 0, sizeof errors);
    fixture = (struct fixture){.file = memfd_create("test", MFD_CLOEXEC)};
    assert_true(fixture.file >= 0);
    assert_int_equal(ftruncate(fixture.file, 16 * HUGE), 0);
    assert_true(facet_page_view_open(&fixture.view, 16 * HUGE - 4096));
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    facet_page_view_close(&fixture->view);
    facet_page_view_close(&fixture->view); /* does nothing */
    assert_null(facet_page_view_at(&fixture->view, 0));
    close(fixture->file);
    return 0;
}

static uint64_t resident_bytes(const struct fixture *fixture)
{
    struct stat stat;

    assert_int_equal(fstat(fixture->file, &stat), 0);
    return (uint64_t)stat.st_blocks * 512;
}

static void give_back(struct fixture *fixture, uint64_t offset, uint64_t bytes)
{
    assert_int_equal(fallocate(fixture->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes),
                     0);
    facet_page_view_forget(&fixture->view, offset, bytes);
}

/* The pages hold the file's bytes, and can be committed again after they were given back. */
static void test_pages_exist_before_the_first_access(void **state)
{
    struct fixture *fixture = *state;
    char word[4] = {0};

    for (int i = 0; i < 3; i++) {
        assert_int_equal(facet_page_view_commit(&fixture->view, fixture->file, 2 * HUGE, 3 * HUGE), 0);
        assert_int_equal(resident_bytes(fixture), 3 * HUGE);
        char *at = facet_page_view_at(&fixture->view, 2 * HUGE);
        assert_int_equal((uintptr_t)at % HUGE, 0);
        for (uint64_t byte = 0; byte < 3 * HUGE; byte += 512)
            assert_int_equal(at[byte], 0);
        memcpy(at + HUGE + 5, "here", 4);
        assert_int_equal(pread(fixture->file, word, 4, 3 * HUGE + 5), 4);
        assert_memory_equal(word, "here", 4);
        if (fixture->view.huge_bytes != 3 * HUGE)
            print_message("this kernel has %llu bytes of huge pages of %llu\n",
                          (unsigned long long)fixture->view.huge_bytes, (unsigned long long)(3 * HUGE));
        give_back(fixture, 2 * HUGE, 3 * HUGE);
        assert_int_equal(resident_bytes(fixture), 0);
        assert_int_equal(fixture->view.huge_bytes, 0);
    }
}

/* A size that is no multiple of a huge page works as well. */
static void test_parts_of_huge_pages_are_committed(void **state)
{
    static const struct {
        uint64_t offset, bytes, huge_bytes_max;
    } parts[] = {{4096, 4096, 0},
                 {HUGE - 4096, HUGE + 8192, HUGE},
                 {5 * HUGE + 4096, 2 * HUGE - 8192, 0},
                 {9 * HUGE, HUGE, HUGE},
                 {12 * HUGE, 4096, 0}};
    struct fixture *fixture = *state;

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        assert_int_equal(facet_page_view_commit(&fixture->view, fixture->file, parts[i].offset, parts[i].bytes), 0);
        assert_int_equal(resident_bytes(fixture), parts[i].bytes);
        assert_true(fixture->view.huge_bytes <= parts[i].huge_bytes_max);
        memset(facet_page_view_at(&fixture->view, parts[i].offset), 1, parts[i].bytes);
        give_back(fixture, parts[i].offset, parts[i].bytes);
        assert_int_equal(resident_bytes(fixture), 0);
        assert_int_equal(fixture->view.huge_bytes, 0);
    }
}

/* Where huge pages are missing, small ones are populated. Where this fails too, pages appear when they are touched. */
static void test_small_pages_are_populated_without_huge_pages(void **state)
{
    struct fixture *fixture = *state;

    errors.collapse = ENOMEM;
    assert_int_equal(facet_page_view_commit(&fixture->view, fixture->file, 0, 2 * HUGE), 0);
    assert_int_equal(fixture->view.huge_bytes, 0);
    assert_int_equal(resident_bytes(fixture), 2 * HUGE);
    errors.collapses = 0;
    errors.collapse_at = 2; /* the collapse of the whole range fails, that of the first huge page alone succeeds */
    assert_int_equal(facet_page_view_commit(&fixture->view, fixture->file, 8 * HUGE, 2 * HUGE), 0);
    assert_true(fixture->view.huge_bytes <= HUGE);
    assert_int_equal(resident_bytes(fixture), 4 * HUGE);
    give_back(fixture, 8 * HUGE, 2 * HUGE);
    errors.populate = EINVAL;
    assert_int_equal(facet_page_view_commit(&fixture->view, fixture->file, 4 * HUGE, 2 * HUGE), 0);
    memset(facet_page_view_at(&fixture->view, 4 * HUGE), 1, 2 * HUGE);
    assert_int_equal(resident_bytes(fixture), 4 * HUGE);
    assert_int_equal(fixture->view.huge_bytes, 0);
    give_back(fixture, 0, 6 * HUGE);
    assert_int_equal(resident_bytes(fixture), 0);
}

static void test_no_memory_is_reported(void **state)
{
    struct fixture *fixture = *state;

    errors.collapse = errors.populate = ENOMEM;
    assert_int_equal(facet_page_view_commit(&fixture->view, fixture->file, 0, 2 * HUGE), ENOMEM);
    assert_int_equal(fixture->view.huge_bytes, 0);
    assert_false(facet_page_view_open(&(struct facet_page_view){0}, UINT64_C(1) << 60));
}

int main(void)
{
#define WITH_SETUP(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH_SETUP(test_pages_exist_before_the_first_access), WITH_SETUP(test_parts_of_huge_pages_are_committed),
        WITH_SETUP(test_small_pages_are_populated_without_huge_pages), WITH_SETUP(test_no_memory_is_reported)};
    return cmocka_run_group_tests_name("page_view", tests, NULL, NULL);
}
