/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: making the Nth call into the system fail, for every N, while a device table opens.
 * Whichever call fails, the open fails with a reason, and leaves no child, no descriptor and no table behind.
 */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "device/table.h"
#include "fixtures.h"

static int countdown; /* the call that brings it to 0 fails */

static bool fails(int errnum)
{
    if (countdown == 0 || --countdown > 0)
        return false;
    errno = errnum;
    return true;
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    return fails(ENOMEM) ? NULL : __real_calloc(count, size);
}

pid_t __real_fork(void);
pid_t __wrap_fork(void);
pid_t __wrap_fork(void)
{
    return fails(EAGAIN) ? -1 : __real_fork();
}

void *__real_mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
    return fails(ENOMEM) ? MAP_FAILED : __real_mmap64(address, length, protection, flags, fd, offset);
}

int __real_pipe2(int ends[2], int flags);
int __wrap_pipe2(int ends[2], int flags);
int __wrap_pipe2(int ends[2], int flags)
{
    return fails(EMFILE) ? -1 : __real_pipe2(ends, flags);
}

typedef int (*filter)(const struct dirent *);
typedef int (*order)(const struct dirent **, const struct dirent **);

int __real_scandir64(const char *folder, struct dirent ***entries, filter wanted, order before);
int __wrap_scandir64(const char *folder, struct dirent ***entries, filter wanted, order before);
int __wrap_scandir64(const char *folder, struct dirent ***entries, filter wanted, order before)
{
    return fails(EACCES) ? -1 : __real_scandir64(folder, entries, wanted, before);
}

char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
char *__wrap_strdup(const char *text)
{
    return fails(ENOMEM) ? NULL : __real_strdup(text);
}

static int open_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;

    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

/* The number of calls that failed before an open succeeded. */
static int open_until_success(const char *paths)
{
    int before = open_descriptors();

    for (int n = 1; n < 100; n++) {
        struct facet_device_table *table = NULL;
        struct facet_error error = {0};

        countdown = n;
        enum facet_status status = facet_device_table_open(paths, &table, &error);
        bool spared = countdown > 0;
        countdown = 0;
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
        assert_int_equal(errno, ECHILD);
        assert_int_equal(open_descriptors(), before);
        if (spared) {
            assert_int_equal(status, FACET_OK);
            facet_device_table_close(table);
            return n - 1;
        }
        assert_int_not_equal(status, FACET_OK);
        assert_int_equal(error.status, status);
        assert_string_not_equal(error.message, "");
        assert_null(table);
    }
    fail_msg("still failing after 99 calls");
    return 0;
}

static void every_call_may_fail(void **state)
{
    char paths[2048];

    snprintf(paths, sizeof paths, "%s:%s", fixture("good"), fixture("refuses"));
    /* table, records, copy of the path; for each provider memory, pipe, process; devices */
    assert_int_equal(open_until_success(paths), 3 + 2 * 3 + 1);
}

static void a_folder_may_be_unreadable(void **state)
{
    char folder[] = "/tmp/facet-test-faults-XXXXXX";

    assert_non_null(mkdtemp(folder));
    assert_int_equal(open_until_success(folder), 3 + 1 + 1);
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_may_fail),
        cmocka_unit_test(a_folder_may_be_unreadable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
