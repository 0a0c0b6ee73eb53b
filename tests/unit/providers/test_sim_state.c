/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs about the folder that processes share. The folder outlives them, a process killed at any moment leaves a
 * complete state, a failing call leaves the old state, and foreign files are refused.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sim_core_fixture.h"
#include "state.h"

/* --- The Nth call into the system fails. --- */

static int countdown; /* the call that brings it to 0 fails */

static bool call_fails(int errnum)
{
    if (countdown == 0 || --countdown > 0)
        return false;
    errno = errnum;
    return true;
}

ssize_t __real_write(int fd, const void *data, size_t length);
ssize_t __wrap_write(int fd, const void *data, size_t length);
ssize_t __wrap_write(int fd, const void *data, size_t length)
{
    return call_fails(ENOSPC) ? -1 : __real_write(fd, data, length);
}

int __real_openat64(int folder, const char *path, int flags, mode_t mode);
int __wrap_openat64(int folder, const char *path, int flags, mode_t mode);
int __wrap_openat64(int folder, const char *path, int flags, mode_t mode)
{
    return call_fails(EMFILE) ? -1 : __real_openat64(folder, path, flags, mode);
}

int __real_renameat(int old_folder, const char *old_path, int new_folder, const char *new_path);
int __wrap_renameat(int old_folder, const char *old_path, int new_folder, const char *new_path);
int __wrap_renameat(int old_folder, const char *old_path, int new_folder, const char *new_path)
{
    return call_fails(EROFS) ? -1 : __real_renameat(old_folder, old_path, new_folder, new_path);
}

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    return call_fails(EIO) ? -1 : __real_fsync(fd);
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    return call_fails(ENOMEM) ? NULL : __real_calloc(count, size);
}

void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size)
{
    return call_fails(ENOMEM) ? NULL : __real_realloc(old, size);
}

int __real_flock(int fd, int operation);
int __wrap_flock(int fd, int operation);
int __wrap_flock(int fd, int operation)
{
    return operation != LOCK_UN && call_fails(EIO) ? -1 : __real_flock(fd, operation);
}

static void a_failing_call_changes_nothing(void **state)
{
    const char *folder = make_folder();
    struct facet_provider_instance *instance = open_machine("a100-40gb", folder, NULL);
    struct facet_partition_info info, infos[64];
    int failed = 0;

    assert_int_equal(create_partition(instance, 0, "3g.20gb", 0, &info, NULL), FACET_OK);
    for (enum facet_status status = FACET_INTERNAL; status != FACET_OK; failed++) {
        struct facet_error error = {0};

        assert_true(failed < 40);
        countdown = failed + 1;
        status = create_partition(instance, 0, "1g.5gb", 5, &info, &error);
        bool no_call_failed = countdown > 0;
        countdown = 0;
        assert_int_equal(no_call_failed, status == FACET_OK);
        assert_int_equal(list_partitions(instance, 0, infos), no_call_failed ? 2 : 1);
        assert_true(no_call_failed || error.message[0]);
    }
    assert_true(failed > 8); /* at least lock, copies, growth, open, write, fsync and rename */
    sim_device_ops.close(instance);
    remove_folder(folder);
}

/* --- Sharing. --- */

static void the_state_outlives_the_process(void **state)
{
    const char *folder = make_folder();
    struct facet_provider_instance *instance = open_machine("h200x8", folder, NULL);
    struct facet_partition_info first, second, infos[64];
    struct facet_worker_limit limit = {.size = sizeof limit};

    assert_int_equal(create_partition(instance, 3, "2g.35gb", 2, &first, NULL), FACET_OK);
    assert_int_equal(sim_limit_ops.set_memory(instance, 5, "anna", UINT64_C(7) << 30, NULL), FACET_OK);
    assert_int_equal(sim_limit_ops.set_compute(instance, 5, "anna", 250, NULL), FACET_OK);
    sim_device_ops.close(instance);
    instance = open_machine("h200x8", folder, NULL);
    assert_int_equal(list_partitions(instance, 3, infos), 1);
    assert_memory_equal(&infos[0], &first, sizeof first);
    assert_int_equal(sim_limit_ops.get(instance, 5, "anna", &limit, NULL), FACET_OK);
    assert_int_equal(limit.memory_bytes, UINT64_C(7) << 30);
    assert_int_equal(limit.compute_units, 33);
    assert_int_equal(sim_partition_ops.destroy(instance, 3, first.uuid, NULL), FACET_OK);
    assert_int_equal(create_partition(instance, 3, "2g.35gb", 2, &second, NULL), FACET_OK);
    assert_string_not_equal(first.uuid, second.uuid); /* an equal partition, but a new one */
    sim_device_ops.close(instance);
    remove_folder(folder);
}

static void changes_by_other_processes_are_seen_and_reported(void **state)
{
    const char *folder = make_folder();
    struct facet_provider_instance *one = open_machine("a100-40gb", folder, NULL);
    struct facet_provider_instance *other = open_machine("a100-40gb", folder, NULL);
    struct facet_partition_info info, infos[64];
    struct facet_event events[256];

    assert_int_equal(create_partition(one, 0, "4g.20gb", 0, &info, NULL), FACET_OK);
    assert_int_equal(list_partitions(other, 0, infos), 1);
    assert_string_equal(infos[0].uuid, info.uuid);
    assert_refused(create_partition(other, 0, "1g.5gb", 3, &infos[1], &error), FACET_NO_SPACE, info.uuid);
    assert_refused(sim_limit_ops.set_memory(other, 0, "bert", 1 << 20, &error), FACET_BUSY, info.uuid);
    assert_int_equal(list_events(other, 0, events), 1);
    assert_int_equal(events[0].kind, FACET_EVENT_PARTITION);
    assert_int_equal(events[0].value, 1);
    assert_string_equal(events[0].uuid, info.uuid);
    assert_int_equal(sim_partition_ops.destroy(other, 0, info.uuid, NULL), FACET_OK);
    assert_int_equal(list_partitions(one, 0, infos), 0);
    assert_int_equal(list_events(one, 1, events), 1);
    assert_int_equal(events[0].value, 0);
    sim_device_ops.close(one);
    sim_device_ops.close(other);
    remove_folder(folder);
}

/* Another profile has a file of its own in the folder. */
static void profiles_have_separate_states(void **state)
{
    const char *folder = make_folder();
    struct facet_provider_instance *one = open_machine("a100-40gb", folder, NULL);
    struct facet_provider_instance *other = open_machine("h100", folder, NULL);
    struct facet_partition_info info;

    assert_int_equal(create_partition(one, 0, "7g.40gb", 0, &info, NULL), FACET_OK);
    assert_int_equal(create_partition(other, 0, "7g.80gb", 0, &info, NULL), FACET_OK);
    sim_device_ops.close(one);
    sim_device_ops.close(other);
    remove_folder(folder);
}

/* --- Killing. --- */

static void create_and_destroy_forever(const char *folder, unsigned short seed)
{
    struct facet_provider_instance *instance = open_machine("a100-40gb", folder, NULL);
    static const char *const templates[] = {"1g.5gb", "1g.5gb+me", "1g.10gb", "2g.10gb", "3g.20gb"};
    unsigned short random[3] = {seed, 1, 2};

    for (;;) {
        struct facet_partition_info info, infos[64];
        uint32_t count = list_partitions(instance, 0, infos);

        if (count > 0 && nrand48(random) % 2)
            sim_partition_ops.destroy(instance, 0, infos[(uint32_t)nrand48(random) % count].uuid, NULL);
        else
            create_partition(instance, 0, templates[nrand48(random) % 5], FACET_PLACEMENT_ANY, &info, NULL);
    }
}

static pid_t start_worker(const char *folder, unsigned short seed)
{
    pid_t worker = fork();

    if (worker == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failing test must leave no child behind */
        create_and_destroy_forever(folder, seed);
        _exit(0);
    }
    assert_true(worker > 0);
    return worker;
}

/* No two partitions overlap, the folder can be used at once, and its state is not older than before. */
static void check_rules(struct facet_provider_instance *instance, uint64_t *serial)
{
    struct facet_partition_info infos[64];
    struct sim_record *record;
    uint32_t count = list_partitions(instance, 0, infos);

    for (uint32_t i = 1; i < count; i++)
        assert_true(infos[i - 1].start + infos[i - 1].length <= infos[i].start);
    assert_int_equal(sim_state_begin(instance, &record, NULL), FACET_OK);
    assert_true(record->serial >= *serial); /* the state is not older than the last one seen */
    *serial = record->serial;
    assert_int_equal(sim_state_end(instance, FACET_OK, NULL), FACET_OK);
}

static void killing_at_any_moment_leaves_a_whole_state(void **state)
{
    const char *folder = make_folder();
    struct facet_provider_instance *instance = open_machine("a100-40gb", folder, NULL);
    unsigned short random[3] = {3, 4, 5};
    uint64_t serial = 0;

    for (unsigned short round = 0; round < 60; round++) {
        const struct timespec pause = {.tv_nsec = 1000000 + nrand48(random) % 12000000};
        pid_t workers[2] = {start_worker(folder, round), start_worker(folder, (unsigned short)(round + 1000))};

        nanosleep(&pause, NULL);
        for (unsigned i = 0; i < 2; i++) {
            int status;

            assert_int_equal(kill(workers[i], SIGKILL), 0);
            assert_int_equal(waitpid(workers[i], &status, 0), workers[i]);
            assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL); /* no failed check has ended it */
            check_rules(instance, &serial);
        }
    }
    assert_true(serial > 60); /* the workers did work */
    sim_device_ops.close(instance);
    remove_folder(folder);
}

/* --- Damaged and foreign files. --- */

static char *state_path(const char *folder)
{
    static char path[128];

    snprintf(path, sizeof path, "%s/a100-40gb.state", folder);
    return path;
}

static size_t read_state(const char *folder, char *text, size_t size)
{
    FILE *file = fopen(state_path(folder), "r");
    size_t length;

    assert_non_null(file);
    length = fread(text, 1, size, file);
    fclose(file);
    return length;
}

static void write_state(const char *folder, const char *text, size_t length)
{
    FILE *file = fopen(state_path(folder), "w");

    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

static void check_unreadable(struct facet_provider_instance *instance, enum facet_status expected, const char *what)
{
    struct facet_partition_info info = {.size = sizeof info}, infos[64];
    struct facet_error error = {0};
    uint32_t count = 4711;

    if (sim_partition_ops.list(instance, 0, infos, sizeof *infos, 64, &count, &error) != expected)
        fail_msg("%s: %s", what, error.message);
    assert_int_equal(error.status, expected);
    assert_int_equal(count, 4711);
    assert_non_null(strstr(error.message, "a100-40gb.state"));
    assert_int_equal(sim_partition_ops.create(instance, 0, "1g.5gb", 5, &info, NULL), expected);
    assert_int_equal(sim_limit_ops.set_memory(instance, 0, "anna", 1, NULL), expected);
}

enum { VERSION_AT = 16 }; /* the version's digit in the file */

static void every_cut_or_edited_file_is_refused(void **state)
{
    const char *folder = make_folder();
    struct facet_provider_instance *instance = open_machine("a100-40gb", folder, NULL);
    struct facet_partition_info info, infos[64];
    char text[2048], copy[2048];
    size_t length;

    assert_int_equal(create_partition(instance, 0, "3g.20gb", 4, &info, NULL), FACET_OK);
    length = read_state(folder, text, sizeof text);
    for (size_t cut = 0; cut < length; cut++) {
        write_state(folder, text, cut);
        check_unreadable(instance, FACET_CORRUPT, "cut");
    }
    for (size_t at = 0; at < length; at++) {
        memcpy(copy, text, length);
        copy[at] ^= 1;
        write_state(folder, copy, length);
        check_unreadable(instance, copy[at] == '0' && at == VERSION_AT ? FACET_ABI_MISMATCH : FACET_CORRUPT, "one bit");
    }
    memcpy(copy, text, length);
    copy[length] = '\n';
    write_state(folder, copy, length + 1);
    check_unreadable(instance, FACET_CORRUPT, "longer");
    write_state(folder, text, length);
    assert_int_equal(list_partitions(instance, 0, infos), 1);
    sim_device_ops.close(instance);
    remove_folder(folder);
}

static void another_version_is_refused_as_such(void **state)
{
    const char *folder = make_folder();
    struct facet_provider_instance *instance = open_machine("a100-40gb", folder, NULL);
    struct facet_partition_info info;
    char text[2048];
    size_t length;

    assert_int_equal(create_partition(instance, 0, "3g.20gb", 4, &info, NULL), FACET_OK);
    length = read_state(folder, text, sizeof text);
    assert_int_equal(text[VERSION_AT], '1');
    text[VERSION_AT] = '2';
    write_state(folder, text, length);
    assert_refused(create_partition(instance, 0, "1g.5gb", 0, &info, &error), FACET_ABI_MISMATCH, "version 2");
    sim_device_ops.close(instance);
    remove_folder(folder);
}

/* The checksum is right, but the record does not fit this machine. */
static void a_record_of_another_machine_is_refused(void **state)
{
    const char *folder = make_folder();
    struct facet_provider_instance *small = open_machine("a100-40gb", folder, NULL), *large;
    struct sim_partition partition = {.device = 7, .start = 4, .uuid = "some"};
    struct sim_record record = {.partition_count = 1, .partitions = &partition};
    char *text;
    size_t length;

    large = open_machine("h200x8", NULL, NULL);
    memcpy(large->machine->name, small->machine->name, sizeof small->machine->name);
    assert_int_equal(sim_record_write(&record, large->machine, &text, &length, NULL), FACET_OK);
    write_state(folder, text, length);
    free(text);
    check_unreadable(small, FACET_CORRUPT, "device 7");
    partition.device = 0;
    partition.start = 4; /* "1g.18gb" is no template of this device */
    assert_int_equal(sim_record_write(&record, large->machine, &text, &length, NULL), FACET_OK);
    write_state(folder, text, length);
    free(text);
    check_unreadable(small, FACET_CORRUPT, "template");
    partition.template = 3; /* a 2g.10gb does not begin at 5 */
    partition.start = 5;
    assert_int_equal(sim_record_write(&record, small->machine, &text, &length, NULL), FACET_OK);
    write_state(folder, text, length);
    free(text);
    check_unreadable(small, FACET_CORRUPT, "start");
    sim_device_ops.close(small);
    sim_device_ops.close(large);
    remove_folder(folder);
}

static void an_unusable_folder_is_refused(void **state)
{
    struct facet_provider_instance *instance = NULL;

    assert_refused(try_open("h100", "/dev/null/folder", NULL, &instance, &error), FACET_IO, "FACET_SIM_STATE");
    assert_refused(try_open("h100", "/dev/null", NULL, &instance, &error), FACET_IO, "FACET_SIM_STATE");
    assert_null(instance);
}

/* A process that is stopped while it holds the folder's lock does not block this process forever. */
static void a_folder_that_stays_locked_is_busy(void **state)
{
    const char *folder = make_folder();
    struct facet_provider_instance *instance = open_machine("a100-40gb", folder, NULL);
    char path[128];
    struct facet_partition_info info;
    int fd;

    snprintf(path, sizeof path, "%s/a100-40gb.state.lock", folder);
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_refused(create_partition(instance, 0, "1g.5gb", 0, &info, &error), FACET_BUSY, folder);
    close(fd);
    assert_int_equal(create_partition(instance, 0, "1g.5gb", 0, &info, NULL), FACET_OK);
    sim_device_ops.close(instance);
    remove_folder(folder);
}

/* A link in the place of the new state is replaced, and its target stays as it was. */
static void links_are_not_followed(void **state)
{
    const char *folder = make_folder();
    struct facet_provider_instance *instance = open_machine("a100-40gb", folder, NULL);
    struct facet_partition_info info;
    char victim[128], link[128];
    struct stat about;

    snprintf(victim, sizeof victim, "%s/victim", folder);
    snprintf(link, sizeof link, "%s/a100-40gb.state.new", folder);
    int fd = open(victim, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(symlink(victim, link), 0);
    assert_int_equal(create_partition(instance, 0, "1g.5gb", 0, &info, NULL), FACET_OK);
    assert_int_equal(stat(victim, &about), 0);
    assert_int_equal(about.st_size, 0);
    assert_int_equal(lstat(state_path(folder), &about), 0);
    assert_true(S_ISREG(about.st_mode));
    assert_int_equal(unlink(victim), 0);
    sim_device_ops.close(instance);
    remove_folder(folder);
}

/* A machine whose state was removed begins with an empty state, but not with earlier uuids. */
static void a_uuid_is_never_used_again(void **state)
{
    const char *folder = make_folder();
    struct facet_provider_instance *instance = open_machine("a100-40gb", folder, NULL);
    struct facet_partition_info before, after;

    assert_int_equal(create_partition(instance, 0, "1g.5gb", 0, &before, NULL), FACET_OK);
    assert_int_equal(unlink(state_path(folder)), 0);
    assert_int_equal(create_partition(instance, 0, "1g.5gb", 0, &after, NULL), FACET_OK);
    assert_string_not_equal(before.uuid, after.uuid);
    sim_device_ops.close(instance);
    remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_state_outlives_the_process),
        cmocka_unit_test(changes_by_other_processes_are_seen_and_reported),
        cmocka_unit_test(profiles_have_separate_states),
        cmocka_unit_test(a_failing_call_changes_nothing),
        cmocka_unit_test(killing_at_any_moment_leaves_a_whole_state),
        cmocka_unit_test(every_cut_or_edited_file_is_refused),
        cmocka_unit_test(another_version_is_refused_as_such),
        cmocka_unit_test(a_record_of_another_machine_is_refused),
        cmocka_unit_test(an_unusable_folder_is_refused),
        cmocka_unit_test(a_folder_that_stays_locked_is_busy),
        cmocka_unit_test(links_are_not_followed),
        cmocka_unit_test(a_uuid_is_never_used_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
