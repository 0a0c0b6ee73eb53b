/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the tests of snapshots as files: saving and restoring them, refusing damaged files, and the failure of each
 * call of libc or xxHash while a snapshot is saved or restored.
 */
#include "session_fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <facet/snapshot.h>

#include "full.h"

static int countdown; /* the call that brings it to 0 fails */

static bool call_fails(int errnum)
{
    if (countdown == 0 || --countdown > 0)
        return false;
    errno = errnum;
    return true;
}

#define WRAP(type, name, failure, errnum, parameters, arguments)                                                       \
    type __real_##name parameters;                                                                                     \
    type __wrap_##name parameters;                                                                                     \
    type __wrap_##name parameters                                                                                      \
    {                                                                                                                  \
        return call_fails(errnum) ? (failure) : __real_##name arguments;                                               \
    }
WRAP(void *, XXH3_createState, NULL, ENOMEM, (void), ())
WRAP(void *, calloc, NULL, ENOMEM, (size_t count, size_t size), (count, size))
WRAP(int, fsync, -1, EIO, (int fd), (fd))
WRAP(off_t, lseek64, -1, EIO, (int fd, off_t offset, int whence), (fd, offset, whence))
WRAP(int, mkostemp64, -1, EACCES, (char *name, int flags), (name, flags))
WRAP(ssize_t, pread64, -1, EIO, (int fd, void *bytes, size_t size, off_t at), (fd, bytes, size, at))
WRAP(ssize_t, pwrite64, -1, ENOSPC, (int fd, const void *bytes, size_t size, off_t at), (fd, bytes, size, at))
WRAP(int, renameat2, -1, EROFS, (int from, const char *old, int to, const char *new, unsigned flags),
     (from, old, to, new, flags))

static char folder[] = "/tmp/facet-test-snapshot-XXXXXX";
static char path[128];
static struct facet_session *session;

static int set_up(void **state)
{
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/worker.snapshot", folder);
    return 0;
}

static int tear_down(void **state)
{
    return rmdir(folder);
}

static int open_in_process(void **state)
{
    session = open_session("full", FACET_SESSION_IN_PROCESS);
    return 0;
}

static int open_in_child(void **state)
{
    session = open_session("full", FACET_SESSION_CHILD);
    return 0;
}

static int close_session(void **state)
{
    facet_session_close(session);
    unlink(path);
    return 0;
}

static enum facet_status save_worker(const char *worker, struct facet_error *error)
{
    return facet_snapshot_save(session, 0, worker, path, error);
}

static enum facet_status restore_worker(const char *worker, struct facet_error *error)
{
    return facet_snapshot_restore(session, 0, worker, path, error);
}

static int count_files(void)
{
    DIR *entries = opendir(folder);
    int count = -2; /* "." and ".." */

    while (readdir(entries))
        count++;
    closedir(entries);
    return count;
}

/* Whether the worker is off the device: the fixture then refuses to take a snapshot of it. */
static bool is_away(void)
{
    const struct facet_snapshot_ops *ops = facet_session_provider(session)->snapshot;
    struct facet_provider_instance *instance = facet_session_instance(session);

    if (ops->snapshot(instance, 0, "w", -1, NULL) == FACET_BAD_STATE)
        return true;
    assert_int_equal(ops->resume(instance, 0, "w", -1, NULL), FACET_OK);
    return false;
}

static void a_snapshot_is_saved_and_restored(void **state)
{
    struct facet_error error = {0};
    struct stat info;

    if (save_worker("worker-1", &error) != FACET_OK)
        fail_msg("%s", error.message);
    assert_int_equal(count_files(), 1);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_true(is_away());
    assert_int_equal(restore_worker("worker-1", &error), FACET_OK);
    assert_false(is_away());
    assert_int_equal(restore_worker("worker-1", &error), FACET_OK); /* the file stays after the first restore */
}

static void a_snapshot_of_all_workers_is_restored_for_all(void **state)
{
    struct facet_error error;

    assert_int_equal(save_worker(NULL, &error), FACET_OK);
    assert_int_equal(restore_worker("worker-1", &error), FACET_UNSUPPORTED);
    assert_string_equal(error.message, "a snapshot of every worker, expected worker-1");
    assert_int_equal(restore_worker(NULL, &error), FACET_OK);
}

static void a_snapshot_is_restored_in_another_process(void **state)
{
    struct facet_error error;

    assert_int_equal(save_worker("worker-1", &error), FACET_OK);
    facet_session_close(session);
    session = open_session("full", FACET_SESSION_CHILD);
    assert_int_equal(restore_worker("worker-1", &error), FACET_OK);
}

static void a_snapshot_of_another_worker_or_device_is_refused(void **state)
{
    struct facet_error error;

    assert_int_equal(save_worker("worker-1", &error), FACET_OK);
    assert_int_equal(restore_worker("worker-2", &error), FACET_UNSUPPORTED);
    assert_string_equal(error.message, "a snapshot of worker-1, expected worker-2");
    assert_int_equal(facet_snapshot_restore(session, 1, "worker-1", path, &error), FACET_UNSUPPORTED);
    assert_string_equal(error.message, "a snapshot of device Fixture 0, expected Fixture 1");
    assert_int_equal(facet_snapshot_restore(session, 2, "worker-1", path, &error), FACET_NOT_FOUND);
    assert_int_equal(facet_snapshot_save(session, 2, "worker-1", path, &error), FACET_NOT_FOUND);
    assert_true(is_away());
}

static void an_existing_file_is_not_replaced(void **state)
{
    struct facet_error error;
    int fd = open(path, O_CREAT | O_WRONLY, 0600);

    assert_int_equal(write(fd, "precious", 8), 8);
    close(fd);
    assert_int_equal(save_worker("worker-1", &error), FACET_ALREADY_EXISTS);
    assert_false(is_away());
    assert_int_equal(count_files(), 1);
    assert_int_equal(restore_worker("worker-1", &error), FACET_CORRUPT);
    assert_non_null(strstr(error.message, "is not a snapshot"));
}

static void bad_arguments_are_refused(void **state)
{
    char worker[100];
    struct facet_error error;

    memset(worker, 'w', sizeof worker - 1);
    worker[sizeof worker - 1] = '\0';
    assert_int_equal(save_worker(worker, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(save_worker("unknown", &error), FACET_NOT_FOUND);
    assert_int_equal(facet_snapshot_save(NULL, 0, "w", path, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_snapshot_save(session, 0, "w", NULL, NULL), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_snapshot_restore(session, 0, "w", NULL, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_snapshot_restore(NULL, 0, "w", path, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(restore_worker("w", &error), FACET_NOT_FOUND);
    assert_int_equal(facet_snapshot_save(session, 0, "w", "/no/such/folder/file", &error), FACET_NOT_FOUND);
    assert_int_equal(facet_snapshot_restore(session, 0, "w", "/dev/null", &error), FACET_CORRUPT);
    assert_int_equal(facet_snapshot_restore(session, 0, "w", folder, &error), FACET_IO);
    assert_false(is_away());
    assert_int_equal(count_files(), 0);
}

/* A provider that dies during a snapshot leaves no file. */
static void a_crash_leaves_no_file(void **state)
{
    struct facet_error error;

    assert_int_equal(save_worker("crash", &error), FACET_DEVICE_LOST);
    assert_string_equal(error.message, "crashed with signal 11 (Segmentation fault) during snapshot.snapshot");
    assert_int_equal(count_files(), 0);
    assert_int_equal(facet_session_restart(session, NULL), FACET_OK);
    assert_int_equal(save_worker("worker-1", &error), FACET_OK);
}

/* Reads the file, and returns its size. */
static size_t read_file(char *bytes, size_t room)
{
    FILE *file = fopen(path, "rb");
    size_t size = fread(bytes, 1, room, file);

    fclose(file);
    assert_true(size > 0 && size < room);
    return size;
}

static void write_file(const char *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");

    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* Asserts that restoring is refused before the provider gets any byte, and that the worker stays away. */
static void assert_refused(void)
{
    struct facet_error error = {0};

    assert_int_equal(restore_worker("worker-1", &error), FACET_CORRUPT);
    assert_string_equal(error.argument, "path");
    assert_non_null(strstr(error.message, path));
    assert_true(is_away());
}

static void a_file_cut_short_or_too_long_is_refused(void **state)
{
    static char bytes[65536];

    assert_int_equal(save_worker("worker-1", NULL), FACET_OK);
    size_t size = read_file(bytes, sizeof bytes);
    for (size_t cut = 0; cut < size; cut += cut < 400 ? 1 : 97) {
        write_file(bytes, cut);
        assert_refused();
    }
    write_file(bytes, size - 1);
    assert_refused();
    write_file(bytes, size + 1);
    assert_refused();
    write_file(bytes, size);
    assert_int_equal(restore_worker("worker-1", NULL), FACET_OK);
}

static void a_changed_byte_is_refused(void **state)
{
    static char bytes[65536];

    assert_int_equal(save_worker("worker-1", NULL), FACET_OK);
    size_t size = read_file(bytes, sizeof bytes);
    for (size_t at = 0; at < size; at += at < 400 ? 1 : 89) {
        bytes[at] ^= (char)(1 << (at % 8));
        write_file(bytes, size);
        assert_refused();
        bytes[at] ^= (char)(1 << (at % 8));
    }
    write_file(bytes, size);
    assert_int_equal(restore_worker("worker-1", NULL), FACET_OK);
}

/* On a full disk no file is left, and the worker stays on the device. */
static void a_full_disk_leaves_the_worker_on_the_device(void **state)
{
    struct rlimit old, small;
    struct facet_error error;

    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    for (rlim_t limit = 0; limit < 9000; limit += 1500) {
        small.rlim_cur = limit;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        assert_int_not_equal(save_worker("worker-1", &error), FACET_OK);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        assert_int_equal(count_files(), 0);
        assert_false(is_away());
    }
    signal(SIGXFSZ, SIG_DFL);
}

/* Fails each call in turn, until saving makes too few calls for one to fail. */
static void a_failed_call_while_saving_leaves_the_worker_on_the_device(void **state)
{
    int files = count_entries("fd");

    for (int n = 1; n < 100; n++) {
        struct facet_error error = {0};

        countdown = n;
        enum facet_status status = save_worker("worker-1", &error);
        bool no_call_failed = countdown > 0;
        countdown = 0;
        assert_int_equal(count_entries("fd"), files);
        if (no_call_failed) {
            assert_int_equal(status, FACET_OK);
            assert_int_equal(count_files(), 1);
            assert_true(n > 10); /* saving makes at least ten of the calls above */
            return;
        }
        assert_int_not_equal(status, FACET_OK);
        assert_int_equal(error.status, status);
        assert_string_not_equal(error.message, "");
        assert_int_equal(count_files(), 0);
        assert_false(is_away());
    }
    fail_msg("call 99 still fails, expected fewer calls");
}

static void a_failed_call_while_restoring_leaves_the_worker_away(void **state)
{
    assert_int_equal(save_worker("worker-1", NULL), FACET_OK);
    int files = count_entries("fd");

    for (int n = 1; n < 100; n++) {
        struct facet_error error = {0};

        countdown = n;
        enum facet_status status = restore_worker("worker-1", &error);
        bool no_call_failed = countdown > 0;
        countdown = 0;
        assert_int_equal(count_entries("fd"), files);
        assert_int_equal(count_files(), 1);
        if (no_call_failed) {
            assert_int_equal(status, FACET_OK);
            assert_true(n > 5); /* restoring makes at least five of the calls above */
            return;
        }
        assert_int_not_equal(status, FACET_OK);
        assert_string_not_equal(error.message, "");
        assert_true(is_away());
    }
    fail_msg("call 99 still fails, expected fewer calls");
}

int main(void)
{
#define IN_PROCESS(test) cmocka_unit_test_setup_teardown(test, open_in_process, close_session)
#define IN_CHILD(test)   cmocka_unit_test_setup_teardown(test, open_in_child, close_session)
    const struct CMUnitTest tests[] = {
        IN_PROCESS(a_snapshot_is_saved_and_restored),
        IN_CHILD(a_snapshot_is_saved_and_restored),
        IN_PROCESS(a_snapshot_of_all_workers_is_restored_for_all),
        IN_CHILD(a_snapshot_is_restored_in_another_process),
        IN_PROCESS(a_snapshot_of_another_worker_or_device_is_refused),
        IN_CHILD(an_existing_file_is_not_replaced),
        IN_PROCESS(bad_arguments_are_refused),
        IN_CHILD(a_crash_leaves_no_file),
        IN_PROCESS(a_file_cut_short_or_too_long_is_refused),
        IN_PROCESS(a_changed_byte_is_refused),
        IN_PROCESS(a_full_disk_leaves_the_worker_on_the_device),
        IN_PROCESS(a_failed_call_while_saving_leaves_the_worker_on_the_device),
        IN_PROCESS(a_failed_call_while_restoring_leaves_the_worker_away),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
