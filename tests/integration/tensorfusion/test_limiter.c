/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: tests of the limiter functions that hypervisor and hooks call. Never: starts a process: the process of all
 * workers is the test itself.
 */
#include <dirent.h>
#include <ftw.h>
#include <inttypes.h>
#include <math.h>
#include <time.h>

#include "library.h"

#define MIB     (UINT64_C(1) << 20)
#define THREADS 8
#define ROUNDS  200

static char folder[64];
static char device[UUID_STRING_LENGTH];
static char own_pid[32];

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *place)
{
    return remove(path);
}

static int set_up(void **state)
{
    snprintf(folder, sizeof folder, "/tmp/facet-tf-XXXXXX");
    snprintf(own_pid, sizeof own_pid, "%ld", (long)getpid());
    if (!mkdtemp(folder))
        return -1;
    tf_init_sim("h100");
    tf_uuid(0, device);
    if (tf.LimiterInit(folder) != ACCEL_SUCCESS)
        fail_msg("LimiterInit: %s", tf_log.last);
    return 0;
}

static int tear_down(void **state)
{
    assert_int_equal(tf.LimiterShutdown(), ACCEL_SUCCESS);
    tf_end();
    return nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static LimiterDeviceConfig config_of(uint32_t percent, uint64_t bytes)
{
    LimiterDeviceConfig config = {.deviceIdx = 0, .upLimit = percent, .memLimit = bytes, .totalCudaCores = 16896};

    memcpy(config.deviceUUID, device, sizeof config.deviceUUID);
    return config;
}

static void create_worker(const char *space, const char *pod, uint32_t percent, uint64_t bytes)
{
    LimiterDeviceConfig config = config_of(percent, bytes);

    if (tf.LimiterCreateWorker(space, pod, &config, 1) != ACCEL_SUCCESS)
        fail_msg("LimiterCreateWorker: %s", tf_log.last);
}

static MemoryOpRecord record_memory(int64_t bytes)
{
    MemoryOpRecord record = {0};

    if (tf.CheckAndRecordMemoryOps(own_pid, device, bytes, &record) != ACCEL_SUCCESS)
        fail_msg("CheckAndRecordMemoryOps: %s", tf_log.last);
    assert_string_equal(record.deviceUUID, device);
    assert_true(record.bytesDiff == bytes);
    return record;
}

static ComputeOpRecord record_compute(uint64_t tokens)
{
    ComputeOpRecord record = {0};

    if (tf.CheckAndRecordComputeOps(own_pid, device, tokens, &record) != ACCEL_SUCCESS)
        fail_msg("CheckAndRecordComputeOps: %s", tf_log.last);
    assert_true(record.computeTokens == tokens);
    return record;
}

/* ---- beginning and end ---- */

static void nothing_works_before_init(void **state)
{
    LimiterDeviceConfig config = {.deviceUUID = "x", .memLimit = 1};
    MemoryOpRecord memory_record;
    ComputeOpRecord compute_record;
    WorkerFreezeState frozen;

    tf_listen();
    assert_int_equal(tf.LimiterShutdown(), ACCEL_SUCCESS);
    assert_int_equal(tf.LimiterCreateWorker("ns", "pod", &config, 1), ACCEL_ERROR_OPERATION_FAILED);
    assert_int_equal(tf.LimiterRemoveWorker("ns", "pod"), ACCEL_ERROR_OPERATION_FAILED);
    assert_int_equal(tf.LimiterRegisterPID("ns", "pod", 1), ACCEL_ERROR_OPERATION_FAILED);
    assert_int_equal(tf.LimiterUpdateERL("ns", "pod", 0, 50, 1.0, 1), ACCEL_ERROR_OPERATION_FAILED);
    assert_int_equal(tf.LimiterUpdateHeartbeat("ns", "pod", 1), ACCEL_ERROR_OPERATION_FAILED);
    assert_int_equal(tf.LimiterSetPodMemoryUsed("ns", "pod", 0, 1), ACCEL_ERROR_OPERATION_FAILED);
    assert_int_equal(tf.CheckAndRecordMemoryOps("1", "x", 1, &memory_record), ACCEL_ERROR_OPERATION_FAILED);
    assert_int_equal(tf.CheckAndRecordComputeOps("1", "x", 1, &compute_record), ACCEL_ERROR_OPERATION_FAILED);
    assert_int_equal(tf.FreezeWorker("pod", &frozen), ACCEL_ERROR_OPERATION_FAILED);
    assert_int_equal(tf.ResumeWorker("pod", &frozen), ACCEL_ERROR_OPERATION_FAILED);
    assert_int_equal(tf.AutoFreeze("pod", "x", "memory"), ACCEL_ERROR_OPERATION_FAILED);
    assert_int_equal(tf.AutoResume("pod", "x", "memory"), ACCEL_ERROR_OPERATION_FAILED);
    assert_int_equal(tf.AddWorkerProcess("x", "1"), ACCEL_ERROR_OPERATION_FAILED);
    assert_int_equal(tf_log.errors, 13);
}

static void init_is_counted_and_refuses_another_folder(void **state)
{
    assert_int_equal(tf.LimiterInit(folder), ACCEL_SUCCESS);
    assert_int_equal(tf.LimiterInit("/tmp/elsewhere"), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.LimiterInit(NULL), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.LimiterShutdown(), ACCEL_SUCCESS);
    create_worker("ns", "pod", 50, MIB); /* the limiter is still open */
}

static void workers_outlive_the_hypervisor(void **state)
{
    create_worker("ns", "pod", 50, 100);
    assert_int_equal(tf.LimiterShutdown(), ACCEL_SUCCESS);
    assert_int_equal(tf.LimiterInit(folder), ACCEL_SUCCESS);
    assert_int_equal(tf.LimiterUpdateHeartbeat("ns", "pod", 1), ACCEL_ERROR_NOT_FOUND);
    create_worker("ns", "pod", 50, 100); /* adopts the existing worker */
    assert_int_equal(tf.LimiterUpdateHeartbeat("ns", "pod", 1), ACCEL_SUCCESS);
    assert_int_equal(tf.LimiterRemoveWorker("ns", "pod"), ACCEL_SUCCESS);
}

/* ---- workers ---- */

static void workers_refuse_wrong_arguments(void **state)
{
    LimiterDeviceConfig good = config_of(50, MIB), over_100_percent = config_of(101, MIB), unknown_device = good,
                        unterminated = good;
    LimiterDeviceConfig same_device_twice[2] = {good, good};
    char long_name[300];

    memset(long_name, 'a', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    strcpy(unknown_device.deviceUUID, "GPU-nobody");
    memset(unterminated.deviceUUID, 'x', sizeof unterminated.deviceUUID);
    static const char *const names[] = {NULL,   "",        "a/b",   "..",     "a..b",
                                        "a\\b", ".hidden", "-dash", "sp ace", "n\xc3\xa4"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(tf.LimiterCreateWorker(names[i], "pod", &good, 1), ACCEL_ERROR_INVALID_PARAM);
        assert_int_equal(tf.LimiterCreateWorker("ns", names[i], &good, 1), ACCEL_ERROR_INVALID_PARAM);
        assert_int_equal(tf.LimiterRemoveWorker(names[i], "pod"), ACCEL_ERROR_INVALID_PARAM);
    }
    assert_int_equal(tf.LimiterCreateWorker("ns", long_name, &good, 1), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.LimiterCreateWorker("ns", "pod", NULL, 1), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.LimiterCreateWorker("ns", "pod", &good, 0), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.LimiterCreateWorker("ns", "pod", &good, 1000000), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.LimiterCreateWorker("ns", "pod", &over_100_percent, 1), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.LimiterCreateWorker("ns", "pod", &unknown_device, 1), ACCEL_ERROR_NOT_FOUND);
    assert_int_equal(tf.LimiterCreateWorker("ns", "pod", &unterminated, 1), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.LimiterCreateWorker("ns", "pod", same_device_twice, 2), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.LimiterRemoveWorker("ns", "pod"), ACCEL_ERROR_NOT_FOUND); /* the refused calls left no worker */
    create_worker("ns", "pod", 50, MIB);
    assert_int_equal(tf.LimiterCreateWorker("ns", "pod", &good, 1), ACCEL_ERROR_OPERATION_FAILED);
    assert_int_equal(tf.LimiterRemoveWorker("ns", "pod"), ACCEL_SUCCESS);
    assert_int_equal(tf.LimiterRemoveWorker("ns", "pod"), ACCEL_ERROR_NOT_FOUND);
}

/* If the second device is refused, nothing may stay of the worker's part on the first device. */
static void a_worker_is_made_whole_or_not_at_all(void **state)
{
    LimiterDeviceConfig configs[2] = {config_of(50, MIB), config_of(50, UINT64_C(1) << 50)};

    configs[1].deviceIdx =
        1; /* this limit exceeds the device's memory, which is checked after the first part is made */
    assert_int_equal(tf.LimiterCreateWorker("ns", "pod", configs, 2), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AddWorkerProcess(device, own_pid), ACCEL_ERROR_NOT_FOUND);
    create_worker("ns", "pod", 50, MIB);
}

static void long_names_that_differ_at_the_end_are_two_workers(void **state)
{
    char ends_in_p[254], ends_in_q[254];

    memset(ends_in_p, 'p', sizeof ends_in_p - 1);
    ends_in_p[sizeof ends_in_p - 1] = '\0';
    memcpy(ends_in_q, ends_in_p, sizeof ends_in_q);
    ends_in_q[sizeof ends_in_q - 2] = 'q';
    create_worker("ns", ends_in_p, 50, MIB);
    create_worker("ns", ends_in_q, 50, MIB);
    assert_int_equal(tf.LimiterRemoveWorker("ns", ends_in_p), ACCEL_SUCCESS);
    assert_int_equal(tf.LimiterUpdateHeartbeat("ns", ends_in_q, 1), ACCEL_SUCCESS);
}

/* ---- memory ---- */

static void memory_is_admitted_to_the_byte(void **state)
{
    create_worker("ns", "pod", 50, 1000);
    assert_int_equal(tf.LimiterRegisterPID("ns", "pod", (uint32_t)getpid()), ACCEL_SUCCESS);
    assert_int_equal(tf.LimiterRegisterPID("ns", "pod", (uint32_t)getpid()), ACCEL_SUCCESS); /* may be repeated */
    assert_true(record_memory(0).availableBytes == 1000);
    assert_false(record_memory(600).shouldBlock);
    MemoryOpRecord refused = record_memory(401);
    assert_true(refused.shouldBlock && refused.availableBytes == 400);
    assert_false(record_memory(400).shouldBlock);
    assert_true(record_memory(1).shouldBlock);
    assert_false(record_memory(-1000).shouldBlock);
    assert_true(record_memory(0).availableBytes == 1000);
}

static void memory_refuses_wrong_arguments(void **state)
{
    MemoryOpRecord record = {.bytesDiff = 77};

    create_worker("ns", "pod", 50, 1000);
    assert_int_equal(tf.CheckAndRecordMemoryOps(own_pid, device, 1, &record),
                     ACCEL_ERROR_NOT_FOUND); /* the process is in no worker yet */
    assert_int_equal(tf.LimiterRegisterPID("ns", "pod", (uint32_t)getpid()), ACCEL_SUCCESS);
    assert_int_equal(tf.CheckAndRecordMemoryOps(own_pid, device, -1, &record),
                     ACCEL_ERROR_INVALID_PARAM); /* the process has no memory to give back */
    assert_int_equal(tf.CheckAndRecordMemoryOps(own_pid, device, INT64_MIN, &record), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.CheckAndRecordMemoryOps(NULL, device, 1, &record), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.CheckAndRecordMemoryOps("", device, 1, &record), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.CheckAndRecordMemoryOps("12x", device, 1, &record), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.CheckAndRecordMemoryOps("-4", device, 1, &record), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.CheckAndRecordMemoryOps("99999999999999999999", device, 1, &record), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.CheckAndRecordMemoryOps(own_pid, NULL, 1, &record), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.CheckAndRecordMemoryOps(own_pid, "GPU-nobody", 1, &record), ACCEL_ERROR_NOT_FOUND);
    assert_int_equal(tf.CheckAndRecordMemoryOps(own_pid, device, 1, NULL), ACCEL_ERROR_INVALID_PARAM);
    assert_true(record.bytesDiff == 77);
    assert_int_equal(tf.LimiterRegisterPID("ns", "pod", 0), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.LimiterRegisterPID("ns", "pod", UINT32_MAX), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.LimiterRegisterPID("ns", "nobody", 1), ACCEL_ERROR_NOT_FOUND);
}

static void memory_measured_by_the_hypervisor_counts_once(void **state)
{
    create_worker("ns", "pod", 50, 1000);
    assert_int_equal(tf.LimiterRegisterPID("ns", "pod", (uint32_t)getpid()), ACCEL_SUCCESS);
    assert_int_equal(tf.LimiterSetPodMemoryUsed("ns", "pod", 0, 700), ACCEL_SUCCESS);
    assert_true(record_memory(0).availableBytes == 300);
    assert_int_equal(tf.LimiterSetPodMemoryUsed("ns", "pod", 0, 700), ACCEL_SUCCESS); /* a repetition adds nothing */
    assert_true(record_memory(0).availableBytes == 300);
    assert_int_equal(tf.LimiterSetPodMemoryUsed("ns", "pod", 0, 100), ACCEL_SUCCESS);
    assert_true(record_memory(0).availableBytes == 900);
    assert_int_equal(tf.LimiterSetPodMemoryUsed("ns", "pod", 0, UINT64_MAX),
                     ACCEL_SUCCESS); /* more than the worker's limit */
    assert_int_equal(tf_log.warnings, 1);
    assert_true(record_memory(1).shouldBlock);
    assert_int_equal(tf.LimiterSetPodMemoryUsed("ns", "pod", 0, 0), ACCEL_SUCCESS);
    assert_true(record_memory(0).availableBytes == 1000);
    assert_int_equal(tf.LimiterSetPodMemoryUsed("ns", "pod", 9, 0), ACCEL_ERROR_NOT_FOUND);
    assert_int_equal(tf.LimiterSetPodMemoryUsed("ns", "nobody", 0, 0), ACCEL_ERROR_NOT_FOUND);
}

/* ---- compute ---- */

static void compute_is_device_time_in_microseconds(void **state)
{
    ComputeOpRecord record = {0};

    create_worker("ns", "pod", 10, MIB);
    assert_int_equal(tf.LimiterRegisterPID("ns", "pod", (uint32_t)getpid()), ACCEL_SUCCESS);
    /* A tenth of a device earns a second of device time in ten seconds, so the second request exceeds the credit. */
    assert_false(record_compute(1000000).shouldBlock);
    ComputeOpRecord refused = record_compute(1000000);
    assert_true(refused.shouldBlock);
    assert_int_equal(tf.LimiterUpdateERL("ns", "pod", 0, 100, 87.5, 1), ACCEL_SUCCESS); /* removes the limit */
    assert_false(record_compute(1000000).shouldBlock);
    assert_int_equal(tf.CheckAndRecordComputeOps(own_pid, device, UINT64_MAX, &record), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.CheckAndRecordComputeOps(own_pid, "GPU-nobody", 1, &record), ACCEL_ERROR_NOT_FOUND);
    assert_int_equal(tf.CheckAndRecordComputeOps("x", device, 1, &record), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.CheckAndRecordComputeOps(own_pid, device, 1, NULL), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.LimiterUpdateERL("ns", "pod", 0, 0, 1, 1), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.LimiterUpdateERL("ns", "pod", 0, 101, 1, 1), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.LimiterUpdateERL("ns", "pod", 0, 50, (double)NAN, 1), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.LimiterUpdateERL("ns", "pod", 0, 50, -1, 1), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.LimiterUpdateERL("ns", "pod", 1, 50, 1, 1), ACCEL_ERROR_NOT_FOUND);
}

/* ---- the worker of a process ---- */

static void a_process_without_a_worker_joins_the_only_worker(void **state)
{
    assert_int_equal(tf.AddWorkerProcess(device, own_pid), ACCEL_ERROR_NOT_FOUND);
    create_worker("ns", "pod", 50, 1000);
    assert_int_equal(tf.AddWorkerProcess(device, "0"), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AddWorkerProcess(NULL, own_pid), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AddWorkerProcess(device, own_pid), ACCEL_SUCCESS);
    assert_true(record_memory(0).availableBytes == 1000);
    create_worker("ns", "other", 50, 2000);
    assert_int_equal(tf.AddWorkerProcess(device, own_pid), ACCEL_SUCCESS); /* the process is in a worker already */
    assert_int_equal(tf.AddWorkerProcess(device, "1"), ACCEL_ERROR_INVALID_PARAM);
    assert_non_null(strstr(tf_log.last, "several workers"));
}

/* ---- freezing ---- */

static void freezing_blocks_memory_and_compute_until_resumed(void **state)
{
    WorkerFreezeState frozen;
    uint64_t before = (uint64_t)time(NULL) * 1000;

    create_worker("ns", "pod", 100, 1000);
    assert_int_equal(tf.LimiterRegisterPID("ns", "pod", (uint32_t)getpid()), ACCEL_SUCCESS);
    assert_int_equal(tf.FreezeWorker("ns/pod", &frozen), ACCEL_SUCCESS);
    assert_true(frozen.isFrozen && frozen.freezeTimeMs >= before);
    assert_string_equal(frozen.workerId, "ns/pod");
    assert_true(record_memory(1).shouldBlock);
    assert_true(record_compute(1).shouldBlock);
    uint64_t since = frozen.freezeTimeMs;
    assert_int_equal(tf.FreezeWorker("pod", &frozen),
                     ACCEL_SUCCESS); /* the pod's name is enough; a freeze may be repeated */
    assert_true(frozen.freezeTimeMs == since);
    assert_int_equal(tf.AutoResume("pod", device, "memory"), ACCEL_SUCCESS);
    assert_true(record_memory(1).shouldBlock); /* AutoResume() does not end a freeze by FreezeWorker() */
    assert_int_equal(tf.ResumeWorker("ns/pod", &frozen), ACCEL_SUCCESS);
    assert_true(!frozen.isFrozen && frozen.freezeTimeMs == 0);
    assert_false(record_memory(1).shouldBlock);
    assert_false(record_compute(1).shouldBlock);
}

static void freezing_refuses_wrong_arguments(void **state)
{
    WorkerFreezeState frozen;

    create_worker("one", "pod", 50, 1000);
    create_worker("two", "pod", 50, 1000);
    assert_int_equal(tf.FreezeWorker(NULL, &frozen), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.FreezeWorker("", &frozen), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.FreezeWorker("one/pod", NULL), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.FreezeWorker("pod", &frozen),
                     ACCEL_ERROR_INVALID_PARAM); /* two namespaces have a pod of this name */
    assert_int_equal(tf.FreezeWorker("three/pod", &frozen), ACCEL_ERROR_NOT_FOUND);
    assert_int_equal(tf.ResumeWorker("nobody", &frozen), ACCEL_ERROR_NOT_FOUND);
    assert_int_equal(tf.AutoFreeze("one/pod", device, "disk"), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AutoFreeze("one/pod", device, NULL), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AutoFreeze("one/pod", NULL, "memory"), ACCEL_ERROR_INVALID_PARAM);
    assert_int_equal(tf.AutoFreeze("one/pod", "GPU-nobody", "memory"), ACCEL_ERROR_NOT_FOUND);
    assert_int_equal(tf.AutoResume("nobody", device, "compute"), ACCEL_ERROR_NOT_FOUND);
    setenv("FACET_TENSORFUSION_IDLE_MS", "soon", 1);
    assert_int_equal(tf.AutoFreeze("one/pod", device, "memory"), ACCEL_ERROR_INVALID_PARAM);
    unsetenv("FACET_TENSORFUSION_IDLE_MS");
}

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/*
 * Leaves the worker idle for 120 ms, uses it if `use` is set, and returns whether it is frozen then. The ABI has no
 * query for this. So the worker is frozen once more: FreezeWorker() reports the beginning of the earliest freeze, which
 * is before the call if idleness had frozen the worker.
 */
static bool is_frozen_by_idleness(bool use)
{
    WorkerFreezeState frozen, resumed;

    usleep(100000);
    assert_int_equal(tf.LimiterUpdateHeartbeat("ns", "pod", 1), ACCEL_SUCCESS);
    usleep(20000);
    uint64_t asked_ms = now_ms();
    if (use) {
        assert_false(record_memory(1).shouldBlock);
        assert_false(record_compute(1).shouldBlock);
    }
    assert_int_equal(tf.FreezeWorker("ns/pod", &frozen), ACCEL_SUCCESS);
    assert_true(frozen.isFrozen);
    assert_int_equal(tf.ResumeWorker("ns/pod", &resumed), ACCEL_SUCCESS);
    assert_false(resumed.isFrozen);
    return frozen.freezeTimeMs < asked_ms;
}

static void an_idle_worker_freezes_and_use_resumes_it(void **state)
{
    create_worker("ns", "pod", 100, 1000);
    assert_int_equal(tf.LimiterRegisterPID("ns", "pod", (uint32_t)getpid()), ACCEL_SUCCESS);
    assert_false(is_frozen_by_idleness(false)); /* AutoFreeze() was not called yet */
    setenv("FACET_TENSORFUSION_IDLE_MS", "50", 1);
    assert_int_equal(tf.AutoFreeze("ns/pod", device, "memory"), ACCEL_SUCCESS);
    assert_int_equal(tf.AutoFreeze("ns/pod", device, "compute"), ACCEL_SUCCESS);
    unsetenv("FACET_TENSORFUSION_IDLE_MS");
    assert_true(is_frozen_by_idleness(false));
    assert_false(is_frozen_by_idleness(true));
    assert_true(is_frozen_by_idleness(false));
    assert_int_equal(tf.AutoResume("ns/pod", device, "memory"), ACCEL_SUCCESS);
    assert_int_equal(tf.AutoResume("ns/pod", device, "compute"), ACCEL_SUCCESS);
    assert_false(record_memory(1).shouldBlock);
}

/* ---- threads ---- */

struct job {
    unsigned number;
    bool passed;
};

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            return false;                                                                                              \
    } while (0)

static bool use_worker(unsigned number, int round)
{
    LimiterDeviceConfig config = config_of(50, 1000);
    MemoryOpRecord record = {0};
    ComputeOpRecord computed = {0};
    char pod[32];

    snprintf(pod, sizeof pod, "pod-%u", number);
    CHECK(tf.CheckAndRecordMemoryOps(own_pid, device, 10, &record) == ACCEL_SUCCESS && !record.shouldBlock);
    CHECK(record.availableBytes <= MIB - 10);
    CHECK(tf.CheckAndRecordComputeOps(own_pid, device, 1, &computed) == ACCEL_SUCCESS);
    CHECK(tf.CheckAndRecordMemoryOps(own_pid, device, -10, &record) == ACCEL_SUCCESS);
    CHECK(tf.LimiterUpdateHeartbeat("ns", "shared", 1) == ACCEL_SUCCESS);
    if (round % 50)
        return true;
    config.deviceIdx = number;
    CHECK(tf.LimiterCreateWorker("ns", pod, &config, 1) == ACCEL_SUCCESS);
    CHECK(tf.LimiterUpdateERL("ns", pod, number, 10, 5.0, 1) == ACCEL_SUCCESS);
    return tf.LimiterRemoveWorker("ns", pod) == ACCEL_SUCCESS;
}

static void *use_repeatedly(void *argument)
{
    struct job *job = argument;

    job->passed = true;
    for (int round = 0; round < ROUNDS && job->passed; round++)
        job->passed = use_worker(job->number, round);
    return NULL;
}

static void eight_threads_share_a_worker(void **state)
{
    struct job jobs[THREADS];
    pthread_t threads[THREADS];

    create_worker("ns", "shared", 100, MIB);
    assert_int_equal(tf.LimiterRegisterPID("ns", "shared", (uint32_t)getpid()), ACCEL_SUCCESS);
    for (unsigned i = 0; i < THREADS; i++) {
        jobs[i] = (struct job){i, false};
        assert_int_equal(pthread_create(&threads[i], NULL, use_repeatedly, &jobs[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        if (!jobs[i].passed)
            fail_msg("thread %u: %s", i, tf_log.last);
    }
    assert_true(record_memory(0).availableBytes == MIB);
}

#define OVER_A_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_works_before_init),
        OVER_A_FOLDER(init_is_counted_and_refuses_another_folder),
        OVER_A_FOLDER(workers_outlive_the_hypervisor),
        OVER_A_FOLDER(workers_refuse_wrong_arguments),
        OVER_A_FOLDER(a_worker_is_made_whole_or_not_at_all),
        OVER_A_FOLDER(long_names_that_differ_at_the_end_are_two_workers),
        OVER_A_FOLDER(memory_is_admitted_to_the_byte),
        OVER_A_FOLDER(memory_refuses_wrong_arguments),
        OVER_A_FOLDER(memory_measured_by_the_hypervisor_counts_once),
        OVER_A_FOLDER(compute_is_device_time_in_microseconds),
        OVER_A_FOLDER(a_process_without_a_worker_joins_the_only_worker),
        OVER_A_FOLDER(freezing_blocks_memory_and_compute_until_resumed),
        OVER_A_FOLDER(freezing_refuses_wrong_arguments),
        OVER_A_FOLDER(an_idle_worker_freezes_and_use_resumes_it),
        OVER_A_FOLDER(eight_threads_share_a_worker),
    };

    tf_open();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
