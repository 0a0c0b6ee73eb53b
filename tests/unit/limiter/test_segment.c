/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs that segments are created whole or not at all, adopted, and refused when corrupt. */
#include "segment_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

static void reopen_owner(struct fixture *fixture)
{
    facet_owner_close(fixture->owner);
    fixture->owner = NULL;
    assert_int_equal(facet_owner_adopt(fixture->dir, &fixture->spec, &fixture->owner, NULL), FACET_OK);
}

static void test_adoption_keeps_usage(void **state)
{
    struct fixture *fixture = *state;
    struct facet_tenant tenant = fixture_attach(fixture);

    assert_true(facet_tenant_reserve(&tenant, 5 * MIB));
    fixture->spec.limits.memory_bytes = 6 * MIB;
    reopen_owner(fixture);
    assert_int_equal(fixture_totals(fixture).memory_bytes, 5 * MIB);
    assert_false(facet_tenant_reserve(&tenant, 2 * MIB));
    assert_true(facet_tenant_reserve(&tenant, 1 * MIB));
    facet_tenant_detach(&tenant);
}

static void write_at(const struct fixture *fixture, const char *file, off_t offset, const void *bytes, size_t size)
{
    char path[128];

    snprintf(path, sizeof path, "%s/%s", fixture->dir, file);
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, size, offset), size);
    close(fd);
}

static void assert_refused(const struct fixture *fixture, enum facet_status expected)
{
    struct facet_owner *owner;
    struct facet_tenant tenant;
    struct facet_error error;

    assert_int_equal(facet_owner_adopt(fixture->dir, &fixture->spec, &owner, &error), expected);
    assert_int_equal(error.status, expected);
    assert_non_null(strstr(error.message, fixture->dir));
    assert_int_not_equal(facet_tenant_attach(fixture->dir, &tenant, &error), FACET_OK);
}

static void test_corrupt_files_are_refused(void **state)
{
    struct fixture *fixture = *state;
    const uint64_t wrong = 0x1122334455667788;
    const uint32_t version = 99, slots = 100000;
    const uint64_t usage_magic = FACET_USAGE_MAGIC, policy_magic = FACET_POLICY_MAGIC;
    const uint32_t good_version = FACET_SEGMENT_VERSION, zero = 0;

    write_at(fixture, "usage", 0, &wrong, 8);
    assert_refused(fixture, FACET_CORRUPT);
    write_at(fixture, "usage", 0, &usage_magic, 8);
    write_at(fixture, "usage", offsetof(struct facet_usage, slots_used), &slots, 4);
    assert_refused(fixture, FACET_CORRUPT);
    write_at(fixture, "usage", offsetof(struct facet_usage, slots_used), &zero, 4);
    write_at(fixture, "policy", 8, &version, 4);
    assert_refused(fixture, FACET_ABI_MISMATCH);
    write_at(fixture, "policy", 8, &good_version, 4);
    write_at(fixture, "policy", 0, &wrong, 8);
    assert_refused(fixture, FACET_CORRUPT);
    write_at(fixture, "policy", 0, &policy_magic, 8);
    reopen_owner(fixture);
}

static void test_truncated_and_missing_files_are_refused(void **state)
{
    static const char *const files[] = {"policy", "usage"};
    struct fixture *fixture = *state;
    char path[128];

    facet_owner_close(fixture->owner);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", fixture->dir, files[i]);
        assert_int_equal(truncate(path, 100), 0);
        assert_refused(fixture, FACET_CORRUPT);
        unlink(path);
        assert_refused(fixture, FACET_CORRUPT);
        facet_owner_remove(fixture->dir, NULL);
        assert_int_equal(facet_owner_create(fixture->dir, &fixture->spec, fixture->lock, &fixture->owner, NULL),
                         FACET_OK);
        facet_owner_close(fixture->owner);
    }
    fixture->owner = NULL;
}

static void test_wrong_identity_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct facet_owner_spec other = fixture->spec;
    struct facet_owner *owner;
    struct facet_error error;

    other.vgpu_id = "4567";
    assert_int_equal(facet_owner_adopt(fixture->dir, &other, &owner, &error), FACET_CORRUPT);
    other = fixture->spec;
    snprintf(other.device.address, sizeof other.device.address, "another");
    assert_int_equal(facet_owner_adopt(fixture->dir, &other, &owner, &error), FACET_CORRUPT);
}

static void test_missing_folder_is_not_found(void **state)
{
    struct fixture *fixture = *state;
    struct facet_owner *owner;

    assert_int_equal(facet_owner_adopt("/nonexistent/vgpu", &fixture->spec, &owner, NULL), FACET_NOT_FOUND);
}

static void test_existing_folder_is_not_replaced(void **state)
{
    struct fixture *fixture = *state;
    struct facet_owner *owner;
    struct facet_error error;

    assert_int_equal(facet_owner_create(fixture->dir, &fixture->spec, fixture->lock, &owner, &error),
                     FACET_ALREADY_EXISTS);
    reopen_owner(fixture);
}

static void test_missing_lock_file_leaves_nothing_behind(void **state)
{
    struct fixture *fixture = *state;
    struct facet_owner *owner;
    char dir[128], fresh[136];

    snprintf(dir, sizeof dir, "%s/second", fixture->root);
    snprintf(fresh, sizeof fresh, "%s~new", dir);
    assert_int_equal(facet_owner_create(dir, &fixture->spec, "/nonexistent/lock", &owner, NULL), FACET_NOT_FOUND);
    assert_int_not_equal(access(dir, F_OK), 0);
    assert_int_not_equal(access(fresh, F_OK), 0);
}

/* Runs in a child with mounts of its own, on a tmpfs that is too small for a segment. Returns 77 where this user may
 * not mount, and another number than 0 for a failure. */
static int create_on_full_disk(const struct fixture *fixture)
{
    struct facet_owner *owner;
    struct facet_error error;
    char dir[128], path[128];

    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("none", fixture->root, "tmpfs", 0, "size=16k") < 0)
        return 77;
    snprintf(dir, sizeof dir, "%s/vgpu", fixture->root);
    snprintf(path, sizeof path, "%s/b", fixture->root);
    if (facet_device_lock_make(path, &error) != FACET_OK)
        return 1;
    if (facet_owner_create(dir, &fixture->spec, path, &owner, &error) != FACET_NO_SPACE)
        return 2;
    return access(dir, F_OK) == 0 ? 3 : 0;
}

static void test_full_disk_is_an_error(void **state)
{
    pid_t child = fork();
    int status;

    if (child == 0)
        _exit(create_on_full_disk(*state));
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_a_holder_keeps_a_segment_in_use(void **state)
{
    struct fixture *fixture = *state;
    int fd, second;

    assert_false(facet_owner_in_use(fixture->owner));
    assert_int_equal(facet_hold_acquire(fixture->dir, &fd, NULL), FACET_OK);
    assert_true(facet_owner_in_use(fixture->owner));
    assert_int_equal(facet_hold_acquire(fixture->dir, &second, NULL), FACET_BUSY);
    close(fd);
    assert_false(facet_owner_in_use(fixture->owner));
}

/* The file stays the same one, because processes hold its lock. */
static void test_an_existing_lock_file_is_used_again(void **state)
{
    struct fixture *fixture = *state;
    struct stat before, after;

    assert_int_equal(stat(fixture->lock, &before), 0);
    assert_int_equal(facet_device_lock_make(fixture->lock, NULL), FACET_OK);
    assert_int_equal(stat(fixture->lock, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
}

static void test_a_link_to_another_lock_file_is_replaced(void **state)
{
    struct fixture *fixture = *state;
    struct stat device, linked;
    char path[128];

    snprintf(path, sizeof path, "%s/device", fixture->dir);
    assert_int_equal(unlink(path), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(facet_owner_link_device(fixture->dir, fixture->lock, NULL), FACET_OK);
        assert_int_equal(stat(fixture->lock, &device), 0);
        assert_int_equal(stat(path, &linked), 0);
        assert_int_equal(device.st_ino, linked.st_ino);
        unlink(fixture->lock); /* the second time it is another file */
        assert_int_equal(facet_device_lock_make(fixture->lock, NULL), FACET_OK);
    }
    struct facet_tenant tenant = fixture_attach(fixture);
    facet_tenant_detach(&tenant);
}

static void test_damaged_segment_is_noticed(void **state)
{
    struct fixture *fixture = *state;
    const uint64_t wrong = 1;

    assert_false(facet_owner_damaged(fixture->owner));
    write_at(fixture, "usage", 0, &wrong, 8);
    assert_true(facet_owner_damaged(fixture->owner));
}

static void test_totals_are_read_from_outside(void **state)
{
    struct fixture *fixture = *state;
    struct facet_tenant tenant = fixture_attach(fixture);
    struct facet_usage_totals totals;

    assert_true(facet_tenant_reserve(&tenant, 3 * MIB));
    assert_int_equal(facet_segment_read_totals(fixture->dir, &totals, NULL), FACET_OK);
    assert_int_equal(totals.memory_bytes, 3 * MIB);
    facet_tenant_detach(&tenant);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

static bool is_of_segment(const struct fixture *fixture, pid_t pid)
{
    struct facet_segment_process processes[FACET_SEGMENT_SLOTS];
    struct facet_process_identity identity;
    uint32_t count = 0;
    bool found = false;

    assert_int_equal(facet_segment_read_processes(fixture->dir, processes, &count, NULL), FACET_OK);
    if (!facet_process_identify(pid, &identity))
        return false;
    for (uint32_t i = 0; i < count; i++)
        found |= facet_segment_process_is(&processes[i], &identity);
    return found;
}

static void test_processes_are_known_by_number_and_start(void **state)
{
    struct fixture *fixture = *state;

    assert_false(is_of_segment(fixture, getpid()));
    struct facet_tenant tenant = fixture_attach(fixture);
    assert_true(is_of_segment(fixture, getpid()));
    assert_false(is_of_segment(fixture, getppid()));
    assert_false(is_of_segment(fixture, 0));
    assert_false(is_of_segment(fixture, INT32_MAX));
    atomic_fetch_add(&tenant.slot->start_ticks, 1); /* the number belonged to an earlier process */
    assert_false(is_of_segment(fixture, getpid()));
    facet_tenant_detach(&tenant);
    assert_false(is_of_segment(fixture, getpid()));
    assert_int_equal(facet_segment_read_processes("/nonexistent", NULL, NULL, NULL), FACET_NOT_FOUND);
}

/* A link in the place of a segment's folder could lead to another user's files. */
static void test_segments_are_not_read_through_a_link(void **state)
{
    struct fixture *fixture = *state;
    struct facet_segment_process processes[FACET_SEGMENT_SLOTS];
    struct facet_segment_device device;
    struct facet_usage_totals totals;
    char link[320];
    uint32_t count;
    bool in_use;

    snprintf(link, sizeof link, "%s-link", fixture->dir);
    assert_int_equal(symlink(fixture->dir, link), 0);
    assert_int_not_equal(facet_segment_read_processes(link, processes, &count, NULL), FACET_OK);
    assert_int_not_equal(facet_segment_read_device(link, &device, NULL), FACET_OK);
    assert_int_not_equal(facet_segment_read_totals(link, &totals, NULL), FACET_OK);
    assert_int_not_equal(facet_segment_in_use(link, &in_use, NULL), FACET_OK);
    assert_int_equal(unlink(link), 0);
    assert_int_equal(facet_segment_read_device(fixture->dir, &device, NULL), FACET_OK);
}

/*
 * Runs in a forked process, and starts another that attaches as process 1 of a PID namespace of its own, and stays
 * until the pipe of `stay_fd` is closed. Writes the pid that the inner process has outside, or 0 where no such
 * namespace can be made.
 */
static void live_in_another_namespace(const struct fixture *fixture, int pid_fd, int stay_fd)
{
    pid_t inner = unshare(CLONE_NEWPID) == 0 ? fork() : 0;
    bool is_inner = inner == 0 && getpid() == 1;
    char word;

    if (is_inner) {
        fixture_attach(fixture);
        _exit(read(stay_fd, &word, 1) == 0 ? 0 : 1);
    }
    if (write(pid_fd, &inner, sizeof inner) == sizeof inner && inner > 0)
        waitpid(inner, NULL, 0);
    _exit(0);
}

static void test_processes_of_other_namespaces_are_known(void **state)
{
    struct fixture *fixture = *state;
    int pid_pipe[2], stay_pipe[2];
    pid_t inner = 0;

    assert_int_equal(pipe2(pid_pipe, O_CLOEXEC) | pipe2(stay_pipe, O_CLOEXEC), 0);
    pid_t middle = fork();
    if (middle == 0) {
        close(stay_pipe[1]);
        live_in_another_namespace(fixture, pid_pipe[1], stay_pipe[0]);
    }
    assert_int_equal(read(pid_pipe[0], &inner, sizeof inner), sizeof inner);
    if (inner > 0) {
        while (!is_of_segment(fixture, inner))
            assert_int_equal(waitpid(middle, NULL, WNOHANG), 0);
        assert_false(is_of_segment(fixture, middle));
    }
    close(stay_pipe[1]);
    assert_int_equal(waitpid(middle, NULL, 0), middle);
    close(stay_pipe[0]);
    close(pid_pipe[0]);
    close(pid_pipe[1]);
    if (inner <= 0)
        skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_adoption_keeps_usage),
        TEST(test_corrupt_files_are_refused),
        TEST(test_truncated_and_missing_files_are_refused),
        TEST(test_wrong_identity_is_refused),
        TEST(test_missing_folder_is_not_found),
        TEST(test_existing_folder_is_not_replaced),
        TEST(test_missing_lock_file_leaves_nothing_behind),
        TEST(test_full_disk_is_an_error),
        TEST(test_a_holder_keeps_a_segment_in_use),
        TEST(test_an_existing_lock_file_is_used_again),
        TEST(test_a_link_to_another_lock_file_is_replaced),
        TEST(test_damaged_segment_is_noticed),
        TEST(test_totals_are_read_from_outside),
        TEST(test_processes_are_known_by_number_and_start),
        TEST(test_segments_are_not_read_through_a_link),
        TEST(test_processes_of_other_namespaces_are_known),
    };
    return cmocka_run_group_tests_name("segment", tests, NULL, NULL);
}
