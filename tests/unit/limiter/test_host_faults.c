/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: making the Nth call into the system fail, for every N, while a limiter opens, makes, adopts and fills a worker.
 * Whichever call fails, the step fails with a reason, leaves no descriptor open, and succeeds when it is tried again.
 */
#include "host_fixture.h"

#include <dirent.h>
#include <errno.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/stat.h>

static int countdown; /* the call that brings it to 0 fails */

static bool call_fails(int errnum)
{
    if (countdown == 0 || --countdown > 0)
        return false;
    errno = errnum;
    return true;
}

#define WRAP(type, name, parameters, arguments, errnum, failure)                                                       \
    type __real_##name parameters;                                                                                     \
    type __wrap_##name parameters;                                                                                     \
    type __wrap_##name parameters                                                                                      \
    {                                                                                                                  \
        return call_fails(errnum) ? (failure) : __real_##name arguments;                                               \
    }

WRAP(void *, calloc, (size_t count, size_t size), (count, size), ENOMEM, NULL)
WRAP(int, linkat, (int a, const char *from, int b, const char *to, int flags), (a, from, b, to, flags), EIO, -1)
WRAP(int, mkdir, (const char *path, mode_t mode), (path, mode), ENOSPC, -1)
WRAP(void *, mmap64, (void *at, size_t length, int protection, int flags, int fd, off_t offset),
     (at, length, protection, flags, fd, offset), ENOMEM, MAP_FAILED)
WRAP(int, open64, (const char *path, int flags, mode_t mode), (path, flags, mode), EMFILE, -1)
WRAP(int, openat64, (int dir, const char *path, int flags, mode_t mode), (dir, path, flags, mode), EMFILE, -1)
WRAP(int, pidfd_open, (pid_t pid, unsigned flags), (pid, flags), EMFILE, -1)
WRAP(int, renameat2, (int a, const char *from, int b, const char *to, unsigned flags), (a, from, b, to, flags), EIO, -1)
WRAP(int, posix_fallocate64, (int fd, off_t offset, off_t length), (fd, offset, length), ENOSPC, ENOSPC)

static int open_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;

    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

/* The steps of a host, each of which begins in the state that the previous one left. */
static enum facet_status step_open(struct host *host, struct facet_error *error)
{
    return facet_limiter_open(host->dir, &host->limiter, error);
}

static enum facet_status step_create(struct host *host, struct facet_error *error)
{
    return facet_limiter_worker_create(host->limiter, &host->worker, error);
}

static enum facet_status step_register(struct host *host, struct facet_error *error)
{
    return facet_limiter_process_register(host->limiter, "w", getpid(), error);
}

static enum facet_status step_adopt(struct host *host, struct facet_error *error)
{
    return facet_limiter_worker_adopt(host->limiter, &host->worker, error);
}

static void leave_worker_behind(struct host *host)
{
    facet_limiter_close(host->limiter);
    host_open(host);
}

static void remove_everything(struct host *host)
{
    assert_int_equal(facet_limiter_worker_remove(host->limiter, "w", true, NULL), FACET_OK);
    facet_limiter_close(host->limiter);
    host->limiter = NULL;
    assert_int_equal(nftw(host->dir, host_remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
}

/* Fails each call of a step once and then completes the step. Returns the number of its calls. */
static int fail_each(struct host *host, enum facet_status (*step)(struct host *, struct facet_error *))
{
    for (int n = 1; n < 200; n++) {
        struct facet_error error = {.status = FACET_OK};
        int before = open_descriptors();

        countdown = n;
        enum facet_status status = step(host, &error);
        bool reached = countdown == 0;
        countdown = 0;
        if (!reached) {
            assert_ok(status, &error);
            return n - 1;
        }
        assert_int_not_equal(status, FACET_OK);
        assert_int_equal(error.status, status);
        assert_true(error.message[0] != '\0');
        assert_int_equal(open_descriptors(), before);
    }
    fail_msg("the step never succeeds");
    return 0;
}

static void test_every_call_may_fail(void **state)
{
    struct host *host = *state;

    remove_everything(host);
    /* At least so many calls of each step are wrapped, so that the test is known to reach them. */
    assert_true(fail_each(host, step_open) >= 3);
    assert_true(fail_each(host, step_create) >= 10);
    assert_true(fail_each(host, step_register) >= 1);
    leave_worker_behind(host);
    assert_true(fail_each(host, step_adopt) >= 6);
    assert_int_equal(host_state(host).memory_limit_bytes, 64 * MIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_call_may_fail, host_setup, host_teardown),
    };
    return cmocka_run_group_tests_name("host_faults", tests, NULL, NULL);
}
