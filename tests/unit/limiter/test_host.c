/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs that facet/limiter.h keeps its promises, function by function, and refuses invalid calls. */
#include "host_fixture.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

#include "limiter/owner.h"

static struct facet_limiter_verdict verdict = {.size = sizeof verdict};
static struct facet_error error;

/* ---- the folder ---- */

static void test_a_folder_has_one_manager(void **state)
{
    struct host *host = *state;
    struct facet_limiter *second;

    assert_int_equal(facet_limiter_open(host->dir, &second, &error), FACET_BUSY);
    assert_non_null(strstr(error.message, host->dir));
    facet_limiter_close(host->limiter);
    assert_int_equal(facet_limiter_open(host->dir, &second, NULL), FACET_OK);
    host->limiter = second;
}

/* In the folder that this user's facetd would manage, the lock is facetd's own. */
static void test_default_folder_keeps_facetd_out(void **state)
{
    struct host *host = *state;
    struct facet_limiter *limiter, *second;
    char path[128];

    setenv("FACET_RUNTIME_DIR", host->root, 1);
    facet_limiter_close(host->limiter);
    assert_int_equal(facet_limiter_open(NULL, &limiter, NULL), FACET_OK);
    snprintf(path, sizeof path, "%s/facetd.lock", host->root);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    assert_int_equal(fcntl(fd, F_OFD_SETLK, &whole), -1);
    assert_int_equal(facet_limiter_open(host->dir, &second, NULL), FACET_BUSY); /* the same folder by its name */
    facet_limiter_close(limiter);
    assert_int_equal(fcntl(fd, F_OFD_SETLK, &whole), 0);
    assert_int_equal(facet_limiter_open(NULL, &limiter, &error), FACET_BUSY);
    close(fd);
    assert_int_equal(facet_limiter_open(NULL, &host->limiter, NULL), FACET_OK);
    unsetenv("FACET_RUNTIME_DIR");
}

static void test_open_refuses_wrong_arguments(void **state)
{
    struct host *host = *state;
    struct facet_limiter *limiter = NULL;
    char file[128], longest[3000];

    assert_int_equal(facet_limiter_open("", &limiter, &error), FACET_INVALID_ARGUMENT);
    assert_string_equal(error.argument, "dir");
    assert_int_equal(facet_limiter_open(host->dir, NULL, &error), FACET_INVALID_ARGUMENT);
    memset(longest, 'x', sizeof longest - 1);
    longest[0] = '/';
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(facet_limiter_open(longest, &limiter, &error), FACET_OUT_OF_RANGE);
    snprintf(file, sizeof file, "%s/file", host->root);
    close(open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    assert_int_not_equal(facet_limiter_open(file, &limiter, &error), FACET_OK);
    assert_null(limiter);
    facet_limiter_close(NULL);
}

static void test_open_refuses_folders_that_others_can_change(void **state)
{
    struct host *host = *state;
    struct facet_limiter *limiter = NULL;
    char outer[128], inner[160];

    snprintf(outer, sizeof outer, "%s/outer", host->root);
    snprintf(inner, sizeof inner, "%s/inner", outer);
    assert_int_equal(mkdir(outer, 0700), 0);
    assert_int_equal(mkdir(inner, 0700), 0);
    assert_int_equal(chmod(inner, 0770), 0);
    assert_int_equal(facet_limiter_open(inner, &limiter, &error), FACET_PERMISSION);
    assert_int_equal(chmod(inner, 0700), 0);
    assert_int_equal(chmod(outer, 0777), 0);
    assert_int_equal(facet_limiter_open(inner, &limiter, &error), FACET_PERMISSION);
    assert_non_null(strstr(error.message, "may be written by any user (mode 0777)"));
    assert_int_equal(rmdir(inner), 0);
    assert_int_equal(rmdir(outer), 0);
}

/* ---- workers ---- */

static void refuse_create(const struct host *host, const struct facet_limiter_worker *worker,
                          enum facet_status expected, const char *argument)
{
    assert_int_equal(facet_limiter_worker_create(host->limiter, worker, &error), expected);
    assert_string_equal(error.argument, argument);
    assert_int_equal(facet_limiter_worker_adopt(host->limiter, worker, &error), expected);
    assert_string_equal(error.argument, argument);
}

static void test_create_refuses_wrong_arguments(void **state)
{
    struct host *host = *state;
    const struct facet_limiter_worker good = host->worker;
    struct facet_limiter_worker bad = good;
    char text[400];

    assert_int_equal(facet_limiter_worker_create(NULL, &good, &error), FACET_INVALID_ARGUMENT);
    refuse_create(host, NULL, FACET_INVALID_ARGUMENT, "worker");
    refuse_create(host, &good, FACET_ALREADY_EXISTS, "id");
    bad.size = sizeof bad - 1;
    refuse_create(host, &bad, FACET_INVALID_ARGUMENT, "worker");
    bad = good, bad.id = NULL;
    refuse_create(host, &bad, FACET_INVALID_ARGUMENT, "id");
    bad.id = "../w";
    refuse_create(host, &bad, FACET_INVALID_ARGUMENT, "id");
    bad = good, bad.id = "x", bad.device_id = NULL;
    refuse_create(host, &bad, FACET_INVALID_ARGUMENT, "device_id");
    bad.device_id = "../../bell";
    refuse_create(host, &bad, FACET_INVALID_ARGUMENT, "device_id");
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = '\0';
    bad.device_id = text;
    refuse_create(host, &bad, FACET_OUT_OF_RANGE, "device_id");
    bad = good, bad.id = "x", bad.device_address = text;
    refuse_create(host, &bad, FACET_OUT_OF_RANGE, "device_address");
    bad = good, bad.id = "x", bad.limits.memory_bytes = bad.device_memory_bytes + 1;
    refuse_create(host, &bad, FACET_OUT_OF_RANGE, "memory");
    bad.limits.memory_bytes = bad.device_memory_bytes = 0;
    refuse_create(host, &bad, FACET_INVALID_ARGUMENT, "memory");
    bad = good, bad.id = "x", bad.limits.compute_limit_milli = 0;
    refuse_create(host, &bad, FACET_OUT_OF_RANGE, "compute");
}

static void test_a_worker_without_a_quota_gets_the_devices_memory(void **state)
{
    struct host *host = *state;

    host->worker.limits.memory_bytes = 0;
    assert_int_equal(facet_limiter_worker_remove(host->limiter, "w", false, NULL), FACET_OK);
    host_create_worker(host);
    assert_int_equal(host_state(host).memory_limit_bytes, 1024 * MIB);
}

static void test_workers_outlive_the_handle(void **state)
{
    struct host *host = *state;

    host_register(host, getpid());
    assert_int_equal(host_check_memory(host, getpid(), 5 * (int64_t)MIB).admitted, 1);
    host_check_compute(host, getpid(), 7);
    facet_limiter_close(host->limiter);
    host_open(host);
    assert_int_equal(facet_limiter_worker_state(host->limiter, "w", &(struct facet_limiter_state){.size = 4096}, NULL),
                     FACET_NOT_FOUND);
    assert_int_equal(facet_limiter_worker_create(host->limiter, &host->worker, NULL), FACET_ALREADY_EXISTS);
    host_adopt_worker(host);

    struct facet_limiter_state after = host_state(host);
    assert_int_equal(after.processes, 0); /* closing the handle ends registrations */
    assert_int_equal(after.memory_bytes, 0);
    assert_int_equal(after.memory_peak_bytes, 5 * MIB);
    assert_int_equal(after.busy_ns, 7);
    host_register(host, getpid());
}

static void test_adopt_refuses_wrong_arguments(void **state)
{
    struct host *host = *state;
    struct facet_limiter_worker other = host->worker;

    other.id = "another";
    assert_int_equal(facet_limiter_worker_adopt(host->limiter, &other, &error), FACET_NOT_FOUND);
    facet_limiter_close(host->limiter);
    host_open(host);
    other = host->worker;
    other.device_address = "elsewhere";
    assert_int_equal(facet_limiter_worker_adopt(host->limiter, &other, &error), FACET_CORRUPT);
    host_adopt_worker(host);
}

/*
 * A segment of another version of Facet gets another error than a broken segment. Both are removed only by force, and
 * can then be created again.
 */
static void test_a_segment_of_another_version_is_distinguished(void **state)
{
    struct host *host = *state;
    const uint32_t older = FACET_SEGMENT_VERSION_LEAST - 1;
    char path[128];

    facet_limiter_close(host->limiter);
    snprintf(path, sizeof path, "%s/w/policy", host->dir);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, &older, sizeof older, offsetof(struct facet_policy, version)), sizeof older);
    close(fd);
    host_open(host);
    assert_int_equal(facet_limiter_worker_adopt(host->limiter, &host->worker, &error), FACET_ABI_MISMATCH);
    assert_int_equal(facet_limiter_worker_remove(host->limiter, "w", false, &error), FACET_ABI_MISMATCH);
    assert_int_equal(facet_limiter_worker_remove(host->limiter, "w", true, &error), FACET_OK);
    host_create_worker(host);
}

static void test_removing_a_busy_worker_needs_force(void **state)
{
    struct host *host = *state;
    pid_t pid = host_start_process();
    char path[128];

    host_register(host, pid);
    assert_int_equal(facet_limiter_worker_remove(host->limiter, "w", false, &error), FACET_BUSY);
    assert_int_equal(facet_limiter_worker_remove(host->limiter, "w", true, &error), FACET_OK);
    assert_int_equal(facet_limiter_memory_check(host->limiter, "w", pid, 1, &verdict, &error), FACET_NOT_FOUND);
    assert_int_equal(facet_limiter_worker_remove(host->limiter, "w", true, &error), FACET_NOT_FOUND);
    snprintf(path, sizeof path, "%s/w", host->dir);
    assert_int_not_equal(access(path, F_OK), 0);
    host_create_worker(host);
    host_register(host, pid);
    host_end_process(pid);
    assert_int_equal(facet_limiter_worker_remove(host->limiter, "w", false, &error), FACET_OK);

    assert_int_equal(facet_limiter_worker_remove(NULL, "w", false, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_limiter_worker_remove(host->limiter, NULL, false, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_limiter_worker_remove(host->limiter, "../vgpu", true, &error), FACET_INVALID_ARGUMENT);
}

/* A link may stand in the place of a worker's folder, or of a folder that is being made. Its target is neither read nor
 * changed. */
static void test_links_are_not_followed(void **state)
{
    struct host *host = *state;
    struct facet_limiter_worker other = host->worker;
    char outside[96], file[128], link[128];

    snprintf(outside, sizeof outside, "%s/outside", host->root);
    assert_int_equal(mkdir(outside, 0700), 0);
    snprintf(file, sizeof file, "%s/policy", outside);
    close(open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    snprintf(link, sizeof link, "%s/w2", host->dir);
    assert_int_equal(symlink(outside, link), 0);
    snprintf(link, sizeof link, "%s/w3~new", host->dir);
    assert_int_equal(symlink(outside, link), 0);

    other.id = "w2";
    assert_int_equal(facet_limiter_worker_adopt(host->limiter, &other, &error), FACET_IO);
    assert_int_equal(facet_limiter_worker_create(host->limiter, &other, &error), FACET_ALREADY_EXISTS);
    assert_int_equal(facet_limiter_worker_remove(host->limiter, "w2", false, &error), FACET_IO);
    assert_int_equal(facet_limiter_worker_remove(host->limiter, "w2", true, &error), FACET_IO);
    other.id = "w3";
    assert_int_equal(facet_limiter_worker_create(host->limiter, &other, &error), FACET_ALREADY_EXISTS);

    assert_int_equal(access(file, F_OK), 0);
    snprintf(file, sizeof file, "%s/bell", outside);
    assert_int_not_equal(access(file, F_OK), 0);
    snprintf(file, sizeof file, "%s/usage", outside);
    assert_int_not_equal(access(file, F_OK), 0);
}

static void test_a_worker_of_an_earlier_handle_can_be_removed(void **state)
{
    struct host *host = *state;

    facet_limiter_close(host->limiter);
    host_open(host);
    assert_int_equal(facet_limiter_worker_remove(host->limiter, "w", false, &error), FACET_OK);
    assert_int_equal(facet_limiter_worker_adopt(host->limiter, &host->worker, &error), FACET_NOT_FOUND);
}

static void test_new_limits_hold_at_once(void **state)
{
    struct host *host = *state;
    struct facet_limits limits = host->worker.limits;

    host_register(host, getpid());
    host_check_memory(host, getpid(), 10 * (int64_t)MIB);
    limits.memory_bytes = 4 * MIB;
    assert_int_equal(facet_limiter_worker_set_limits(host->limiter, "w", &limits, NULL), FACET_OK);
    assert_int_equal(host_state(host).memory_limit_bytes, 4 * MIB);
    assert_int_equal(host_check_memory(host, getpid(), 1).admitted, 0);
    assert_int_equal(host_check_memory(host, getpid(), 0).available, 0);
    limits.memory_bytes = 2048 * MIB;
    assert_int_equal(facet_limiter_worker_set_limits(host->limiter, "w", &limits, &error), FACET_OUT_OF_RANGE);
    assert_int_equal(facet_limiter_worker_set_limits(host->limiter, "w", NULL, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(host_state(host).memory_limit_bytes, 4 * MIB);
}

/* ---- processes ---- */

static void test_register_refuses_wrong_arguments(void **state)
{
    struct host *host = *state;
    pid_t ended = host_start_process();

    host_end_process(ended);
    assert_int_equal(facet_limiter_process_register(host->limiter, "w", ended, &error), FACET_NOT_FOUND);
    assert_string_equal(error.argument, "pid");
    assert_int_equal(facet_limiter_process_register(host->limiter, "w", 0, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_limiter_process_register(host->limiter, "w", -1, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_limiter_process_register(host->limiter, "nobody", getpid(), &error), FACET_NOT_FOUND);
    assert_int_equal(facet_limiter_process_register(host->limiter, NULL, getpid(), &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_limiter_process_register(NULL, "w", getpid(), &error), FACET_INVALID_ARGUMENT);
    host_register(host, getpid());
    assert_int_equal(facet_limiter_process_register(host->limiter, "w", getpid(), &error), FACET_ALREADY_EXISTS);
    assert_int_equal(host_state(host).processes, 1);
}

/* A process that has ended but was not reaped holds nothing, and another process may get its pid later. */
static void test_ended_processes_are_unknown(void **state)
{
    struct host *host = *state;
    pid_t pid = host_start_process();
    siginfo_t info;

    host_register(host, pid);
    host_check_memory(host, pid, 64 * (int64_t)MIB);
    kill(pid, SIGKILL);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(facet_limiter_process_register(host->limiter, "w", pid, &error), FACET_NOT_FOUND);
    assert_int_equal(host_state(host).memory_bytes, 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* All slots but the last two are locked, as if other processes held them. */
static void test_slots_run_out_and_are_reused(void **state)
{
    struct host *host = *state;
    struct flock range = {.l_type = F_WRLCK,
                          .l_whence = SEEK_SET,
                          .l_start = FACET_SLOT_LOCK_OFFSET(0),
                          .l_len = FACET_SEGMENT_SLOTS - 2};
    pid_t pids[3];
    char path[256];

    snprintf(path, sizeof path, "%s/w/usage", host->dir);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_OFD_SETLK, &range), 0);
    for (int i = 0; i < 3; i++)
        pids[i] = host_start_process();
    host_register(host, pids[0]);
    host_register(host, pids[1]);
    assert_int_equal(facet_limiter_process_register(host->limiter, "w", pids[2], &error), FACET_BUSY);
    host_end_process(pids[0]);
    host_register(host, pids[2]);
    assert_int_equal(host_state(host).processes, 2);
    host_end_process(pids[1]);
    host_end_process(pids[2]);
    close(fd);
    assert_int_equal(host_state(host).processes, 0);
}

/* ---- memory ---- */

static void test_memory_is_exact_to_the_byte(void **state)
{
    struct host *host = *state;
    pid_t self = getpid(), other = host_start_process();

    host_register(host, self);
    host_register(host, other);
    verdict = host_check_memory(host, self, 40 * (int64_t)MIB);
    assert_int_equal(verdict.admitted, 1);
    assert_int_equal(verdict.available, 24 * MIB);
    assert_int_equal(verdict.wait_ns, 0);
    verdict = host_check_memory(host, other, 24 * (int64_t)MIB + 1);
    assert_int_equal(verdict.admitted, 0);
    assert_int_equal(verdict.available, 24 * MIB);
    assert_int_equal(host_check_memory(host, other, 24 * (int64_t)MIB).admitted, 1);
    assert_int_equal(host_check_memory(host, self, INT64_MAX).admitted, 0);
    assert_int_equal(host_state(host).memory_bytes, 64 * MIB);
    assert_int_equal(host_state(host).denied, 2);
    assert_int_equal(host_check_memory(host, self, -40 * (int64_t)MIB).available, 40 * MIB);
    assert_int_equal(host_state(host).memory_peak_bytes, 64 * MIB);
    host_end_process(other);
}

static void test_memory_refuses_wrong_arguments(void **state)
{
    struct host *host = *state;
    const int64_t least = INT64_MIN;

    host_register(host, getpid());
    host_check_memory(host, getpid(), 100);
    verdict.size = sizeof verdict;
    assert_int_equal(facet_limiter_memory_check(host->limiter, "w", getpid(), -101, &verdict, &error),
                     FACET_OUT_OF_RANGE);
    assert_string_equal(error.argument, "bytes");
    assert_int_equal(facet_limiter_memory_check(host->limiter, "w", getpid(), least, &verdict, &error),
                     FACET_OUT_OF_RANGE);
    assert_int_equal(host_state(host).memory_bytes, 100);
    assert_int_equal(facet_limiter_memory_check(host->limiter, "w", 1, 1, &verdict, &error), FACET_NOT_FOUND);
    assert_int_equal(facet_limiter_memory_check(host->limiter, "w", 0, 1, &verdict, &error), FACET_NOT_FOUND);
    assert_int_equal(facet_limiter_memory_check(host->limiter, "x", getpid(), 1, &verdict, &error), FACET_NOT_FOUND);
    assert_int_equal(facet_limiter_memory_check(host->limiter, NULL, getpid(), 1, &verdict, &error),
                     FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_limiter_memory_check(NULL, "w", getpid(), 1, &verdict, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_limiter_memory_check(host->limiter, "w", getpid(), 1, NULL, &error), FACET_INVALID_ARGUMENT);
    verdict.size = 8;
    assert_int_equal(facet_limiter_memory_check(host->limiter, "w", getpid(), 1, &verdict, &error),
                     FACET_INVALID_ARGUMENT);
    assert_int_equal(host_state(host).memory_bytes, 100);
}

static void test_memory_of_the_dead_is_freed_before_a_refusal(void **state)
{
    struct host *host = *state;
    pid_t other = host_start_process();

    host_register(host, getpid());
    host_register(host, other);
    assert_int_equal(host_check_memory(host, other, 60 * (int64_t)MIB).admitted, 1);
    assert_int_equal(host_check_memory(host, getpid(), 32 * (int64_t)MIB).admitted, 0);
    host_end_process(other);
    assert_int_equal(host_check_memory(host, getpid(), 32 * (int64_t)MIB).admitted, 1);
    verdict.size = sizeof verdict;
    assert_int_equal(facet_limiter_memory_check(host->limiter, "w", other, 1, &verdict, &error), FACET_NOT_FOUND);
}

/* The process for which memory is asked may have ended before the refusal. */
static void test_a_process_that_ended_is_unknown_rather_than_refused(void **state)
{
    struct host *host = *state;
    pid_t other = host_start_process();

    host_register(host, other);
    host_end_process(other);
    verdict.size = sizeof verdict;
    assert_int_equal(facet_limiter_memory_check(host->limiter, "w", other, INT64_MAX, &verdict, &error),
                     FACET_NOT_FOUND);
}

static void test_heartbeat_frees_memory_of_dead_processes(void **state)
{
    struct host *host = *state;
    struct facet_usage_totals totals;
    char path[128];
    pid_t pid = host_start_process();

    host_register(host, pid);
    host_check_memory(host, pid, (int64_t)MIB);
    host_end_process(pid);
    assert_int_equal(facet_limiter_worker_heartbeat(host->limiter, "w", &error), FACET_OK);
    snprintf(path, sizeof path, "%s/w", host->dir);
    assert_int_equal(facet_segment_read_totals(path, &totals, NULL), FACET_OK);
    assert_int_equal(totals.memory_bytes, 0);
    assert_int_equal(totals.processes, 0);
    assert_int_equal(facet_limiter_worker_heartbeat(host->limiter, "x", &error), FACET_NOT_FOUND);
    assert_int_equal(facet_limiter_worker_heartbeat(NULL, "w", &error), FACET_INVALID_ARGUMENT);
}

static void test_heartbeat_reports_damage(void **state)
{
    struct host *host = *state;
    char path[128];

    snprintf(path, sizeof path, "%s/w/usage", host->dir);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, "nonsense", 8, 0), 8);
    close(fd);
    assert_int_equal(facet_limiter_worker_heartbeat(host->limiter, "w", &error), FACET_CORRUPT);
}

/* The struct cannot mark a number as damaged. If a number is damaged, the call fails and fills nothing in. */
static void test_state_fails_while_a_number_is_damaged(void **state)
{
    struct host *host = *state;
    struct facet_limiter_state result = {.size = sizeof result};
    const uint64_t wrong[] = {UINT64_MAX, UINT64_C(1) << 63, 65 * MIB}; /* above the quota of 64 MiB */
    char path[128];

    assert_int_equal(facet_limiter_worker_state(host->limiter, "w", &result, &error), FACET_OK);
    snprintf(path, sizeof path, "%s/w/usage", host->dir);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(pwrite(fd, &wrong[i], 8, offsetof(struct facet_usage, memory_peak_bytes)), 8);
        assert_int_equal(facet_limiter_worker_state(host->limiter, "w", &result, &error), FACET_CORRUPT);
        assert_non_null(strstr(error.message, "written over"));
    }
    assert_int_equal(result.memory_peak_bytes, 0);
    close(fd);
}

static void test_state_refuses_wrong_arguments(void **state)
{
    struct host *host = *state;
    struct facet_limiter_state result = {.size = sizeof result - 1};

    assert_int_equal(facet_limiter_worker_state(host->limiter, "w", &result, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_limiter_worker_state(host->limiter, "w", NULL, &error), FACET_INVALID_ARGUMENT);
    result.size = sizeof result;
    assert_int_equal(facet_limiter_worker_state(host->limiter, "x", &result, &error), FACET_NOT_FOUND);
    assert_int_equal(facet_limiter_worker_state(NULL, "w", &result, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(result.memory_limit_bytes, 0);
}

/* ---- threads ---- */

struct quota_user {
    const struct host *host;
    pid_t pid;
    unsigned seed;
    _Atomic uint64_t *held, *peak;
};

static void *quota_user_main(void *argument)
{
    struct quota_user *quota_user = argument;
    struct facet_limiter_verdict answer = {.size = sizeof answer};
    int64_t own_bytes = 0;

    for (int i = 0; i < 20000; i++) {
        int64_t bytes = rand_r(&quota_user->seed) % (12 * (int64_t)MIB) + 1;

        if (i % 64 == 0)
            facet_limiter_worker_heartbeat(quota_user->host->limiter, "w", NULL);
        if (i % 97 == 0)
            facet_limiter_compute_check(quota_user->host->limiter, "w", quota_user->pid, 1000, &answer, NULL);
        if (own_bytes > 20 * (int64_t)MIB) {
            atomic_fetch_sub(quota_user->held, (uint64_t)own_bytes);
            facet_limiter_memory_check(quota_user->host->limiter, "w", quota_user->pid, -own_bytes, &answer, NULL);
            own_bytes = 0;
        } else if (facet_limiter_memory_check(quota_user->host->limiter, "w", quota_user->pid, bytes, &answer, NULL) ==
                       FACET_OK &&
                   answer.admitted) {
            uint64_t sum = atomic_fetch_add(quota_user->held, (uint64_t)bytes) + (uint64_t)bytes;
            uint64_t peak = atomic_load(quota_user->peak);

            own_bytes += bytes;
            while (sum > peak && !atomic_compare_exchange_weak(quota_user->peak, &peak, sum))
                ;
        }
    }
    atomic_fetch_sub(quota_user->held, (uint64_t)own_bytes);
    facet_limiter_memory_check(quota_user->host->limiter, "w", quota_user->pid, -own_bytes, &answer, NULL);
    return NULL;
}

static void test_eight_threads_never_exceed_the_quota(void **state)
{
    struct host *host = *state;
    _Atomic uint64_t held = 0, peak = 0;
    struct quota_user users[8];
    pthread_t threads[8];
    pid_t other = host_start_process();

    host_register(host, getpid());
    host_register(host, other);
    for (unsigned i = 0; i < 8; i++) {
        users[i] = (struct quota_user){host, i % 2 ? other : getpid(), i + 1, &held, &peak};
        assert_int_equal(pthread_create(&threads[i], NULL, quota_user_main, &users[i]), 0);
    }
    for (unsigned i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    assert_true(atomic_load(&peak) <= 64 * MIB);
    assert_true(atomic_load(&peak) > 20 * MIB); /* more than one thread alone holds */
    assert_int_equal(host_state(host).memory_bytes, 0);
    /* Each of the 8 threads reports 1000 ns at every 97th of its 20000 steps, the first step included. */
    assert_int_equal(host_state(host).busy_ns, 8 * 1000 * ((20000 + 96) / 97));
    host_end_process(other);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, host_setup, host_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_folder_has_one_manager),
        TEST(test_default_folder_keeps_facetd_out),
        TEST(test_open_refuses_wrong_arguments),
        TEST(test_open_refuses_folders_that_others_can_change),
        TEST(test_create_refuses_wrong_arguments),
        TEST(test_a_worker_without_a_quota_gets_the_devices_memory),
        TEST(test_workers_outlive_the_handle),
        TEST(test_adopt_refuses_wrong_arguments),
        TEST(test_a_segment_of_another_version_is_distinguished),
        TEST(test_removing_a_busy_worker_needs_force),
        TEST(test_links_are_not_followed),
        TEST(test_a_worker_of_an_earlier_handle_can_be_removed),
        TEST(test_new_limits_hold_at_once),
        TEST(test_register_refuses_wrong_arguments),
        TEST(test_ended_processes_are_unknown),
        TEST(test_slots_run_out_and_are_reused),
        TEST(test_memory_is_exact_to_the_byte),
        TEST(test_memory_refuses_wrong_arguments),
        TEST(test_memory_of_the_dead_is_freed_before_a_refusal),
        TEST(test_a_process_that_ended_is_unknown_rather_than_refused),
        TEST(test_heartbeat_frees_memory_of_dead_processes),
        TEST(test_heartbeat_reports_damage),
        TEST(test_state_fails_while_a_number_is_damaged),
        TEST(test_state_refuses_wrong_arguments),
        TEST(test_eight_threads_never_exceed_the_quota),
    };
    return cmocka_run_group_tests_name("host", tests, NULL, NULL);
}
