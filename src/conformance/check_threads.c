/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: eight threads at once on every kind of operation, each checking its own answers.
 * Never: reports from a thread: each keeps its first complaint, and the group tells them afterwards.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "conformance/slices.h"

enum { THREADS = 8, ROUNDS = 150, PIECE = 8192, IDLE_ROUNDS = 400 };

/* One thread: what it does, and the first answer that was wrong. */
struct thread {
    struct facet_check *check;
    const char *smallest; /* template; NULL when the device is not to be partitioned */
    pthread_barrier_t *together;
    uint32_t number;
    enum facet_status wrong;
    char complaint[200];
};

static void complain(struct thread *thread, const char *what, enum facet_status status)
{
    if (thread->complaint[0])
        return;
    thread->wrong = status;
    snprintf(thread->complaint, sizeof thread->complaint, "thread %" PRIu32 ": %s: %s", thread->number, what,
             facet_status_name(status));
}

static void expect(struct thread *thread, const char *what, enum facet_status expected, enum facet_status got)
{
    if (got != expected)
        complain(thread, what, got);
}

/* The list must be the same in every thread, always. */
static void read_devices(struct thread *thread)
{
    struct facet_check *check = thread->check;
    FACET_CLEANUP_FREE struct facet_device_info *all = calloc((size_t)check->device_count + 1, sizeof *all);
    uint32_t count = 0, health = UINT32_MAX;

    if (!all)
        return;
    for (uint32_t i = 0; i < check->device_count; i++)
        all[i].size = sizeof *all;
    expect(thread, "device.list", FACET_OK,
           check->device_ops.list(check->instance, all, sizeof *all, check->device_count, &count, NULL));
    for (uint32_t i = 0; i < count && i < check->device_count; i++)
        if (strncmp(all[i].uuid, check->devices[i].uuid, sizeof all[i].uuid) != 0)
            complain(thread, "device.list: another uuid than before", FACET_CORRUPT);
    if (count != check->device_count)
        complain(thread, "device.list: another count than before", FACET_CORRUPT);
    if (check->device_ops.health && count > 0)
        expect(thread, "device.health", FACET_OK,
               check->device_ops.health(check->instance, check->device, &health, NULL));
}

static void read_metrics(struct thread *thread)
{
    struct facet_check *check = thread->check;
    struct facet_device_metrics metrics = {.size = sizeof metrics};

    if (!facet_check_claims(check, FACET_CAN_DEVICE_METRICS))
        return;
    expect(thread, "metrics.device", FACET_OK,
           check->metrics_ops.device(check->instance, check->device, &metrics, NULL));
    if (metrics.compute_active_milli > FACET_MILLI_WHOLE)
        complain(thread, "metrics.device: a share above 1000", FACET_CORRUPT);
}

/* Every thread has its own context, writes its own pattern, and must read it back. */
static void use_memory(struct thread *thread)
{
    struct facet_check *check = thread->check;
    const struct facet_memory_ops *ops = &check->memory_ops;
    struct facet_provider_instance *instance = check->instance;
    unsigned char wrote[PIECE], got[PIECE];
    uint64_t context = 0, address = 0;
    char worker[32];

    snprintf(worker, sizeof worker, "conformance-%" PRIu32, thread->number);
    memset(wrote, (int)(thread->number + 1), sizeof wrote);
    enum facet_status status = ops->create_context(instance, check->device, NULL, worker, &context, NULL);
    if (status == FACET_BUSY && thread->smallest)
        return; /* another thread has partitioned the device just now */
    expect(thread, "memory.create_context", FACET_OK, status);
    if (status != FACET_OK)
        return;
    expect(thread, "memory.alloc", FACET_OK, ops->alloc(instance, context, sizeof wrote, &address, NULL));
    expect(thread, "memory.write", FACET_OK, ops->write(instance, context, address, wrote, sizeof wrote, NULL));
    expect(thread, "memory.read", FACET_OK, ops->read(instance, context, address, sizeof got, got, NULL));
    if (memcmp(wrote, got, sizeof got) != 0)
        complain(thread, "memory.read: not what this thread wrote", FACET_CORRUPT);
    expect(thread, "memory.free", FACET_OK, ops->free(instance, context, address, NULL));
    expect(thread, "memory.destroy_context", FACET_OK, ops->destroy_context(instance, context, NULL));
}

/* What this thread creates is its own: nobody else may be given the same, or remove it. */
static void use_partitions(struct thread *thread)
{
    struct facet_check *check = thread->check;
    const struct facet_partition_ops *ops = &check->partition_ops;
    struct facet_partition_info made = {.size = sizeof made};
    enum facet_status status =
        ops->create(check->instance, check->device, thread->smallest, FACET_PLACEMENT_ANY, &made, NULL);

    if (status != FACET_OK) {
        if (status != FACET_NO_SPACE && status != FACET_BUSY && status != FACET_BAD_STATE)
            complain(thread, "partition.create", status);
        return;
    }
    expect(thread, "partition.destroy", FACET_OK, ops->destroy(check->instance, check->device, made.uuid, NULL));
    expect(thread, "partition.destroy: a second time", FACET_NOT_FOUND,
           ops->destroy(check->instance, check->device, made.uuid, NULL));
}

static void use_limits(struct thread *thread)
{
    struct facet_check *check = thread->check;
    const struct facet_limit_ops *ops = &check->limit_ops;
    struct facet_worker_limit limit = {.size = sizeof limit};
    uint64_t bytes = facet_check_info(check)->memory_bytes / (2 * THREADS);
    char worker[32];

    snprintf(worker, sizeof worker, "conformance-limit-%" PRIu32, thread->number);
    enum facet_status status = ops->set_memory(check->instance, check->device, worker, bytes, NULL);
    if (status == FACET_BUSY && thread->smallest)
        return;
    expect(thread, "limit.set_memory", FACET_OK, status);
    if (status != FACET_OK)
        return;
    expect(thread, "limit.set_memory: a second time", FACET_BAD_STATE,
           ops->set_memory(check->instance, check->device, worker, bytes, NULL));
    expect(thread, "limit.get", FACET_OK, ops->get(check->instance, check->device, worker, &limit, NULL));
    if (strncmp(limit.worker, worker, sizeof limit.worker) != 0)
        complain(thread, "limit.get: another worker's limit", FACET_CORRUPT);
    expect(thread, "limit.clear", FACET_OK, ops->clear(check->instance, check->device, worker, NULL));
}

static void *run_readers(void *argument)
{
    struct thread *thread = argument;

    pthread_barrier_wait(thread->together);
    for (int i = 0; i < IDLE_ROUNDS; i++) {
        read_devices(thread);
        if (thread->check->device_count > 0)
            read_metrics(thread);
    }
    return NULL;
}

static void *run_memory(void *argument)
{
    struct thread *thread = argument;

    pthread_barrier_wait(thread->together);
    for (int i = 0; i < ROUNDS; i++)
        use_memory(thread);
    return NULL;
}

static void *run_partitions(void *argument)
{
    struct thread *thread = argument;

    pthread_barrier_wait(thread->together);
    for (int i = 0; i < ROUNDS; i++)
        use_partitions(thread);
    return NULL;
}

static void *run_limits(void *argument)
{
    struct thread *thread = argument;

    pthread_barrier_wait(thread->together);
    for (int i = 0; i < ROUNDS; i++)
        use_limits(thread);
    return NULL;
}

static void *run_mixed(void *argument)
{
    struct thread *thread = argument;
    struct facet_check *check = thread->check;

    pthread_barrier_wait(thread->together);
    for (int i = 0; i < ROUNDS; i++) {
        read_devices(thread);
        read_metrics(thread);
        if (facet_check_claims(check, FACET_CAN_MEMORY))
            use_memory(thread);
        if (thread->smallest && thread->number % 2)
            use_partitions(thread);
        if (facet_check_claims(check, FACET_CAN_LIMIT_MEMORY))
            use_limits(thread);
    }
    return NULL;
}

/* Eight at once, all started before any goes; the first complaint is the assertion's. */
static void all_at_once(struct facet_check *check, const char *text, const char *smallest, void *(*run)(void *))
{
    struct thread threads[THREADS];
    pthread_t ids[THREADS];
    pthread_barrier_t together;
    const char *complaint = NULL;

    facet_check_begin(check, "%s", text);
    pthread_barrier_init(&together, NULL, THREADS);
    for (uint32_t i = 0; i < THREADS; i++) {
        threads[i] = (struct thread){.check = check, .smallest = smallest, .together = &together, .number = i};
        if (pthread_create(&ids[i], NULL, run, &threads[i]) != 0)
            _exit(EXIT_FAILURE);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        pthread_join(ids[i], NULL);
        if (!complaint && threads[i].complaint[0])
            complaint = threads[i].complaint;
    }
    pthread_barrier_destroy(&together);
    facet_check_judge(check, !complaint, "expected: the answers that one thread alone would get\ngot: %s", complaint);
}

static void readers(struct facet_check *check)
{
    all_at_once(check, "threads: 8 list devices and read health and metrics", NULL, run_readers);
}

static void memory(struct facet_check *check)
{
    all_at_once(check, "threads: 8 use memory of their own", NULL, run_memory);
}

static void limits(struct facet_check *check)
{
    all_at_once(check, "threads: 8 set and clear limits of their own", NULL, run_limits);
}

static void partitions(struct facet_check *check)
{
    uint32_t count = 0;
    FACET_CLEANUP_FREE struct facet_partition_template *all = facet_check_templates(check, &count);
    uint32_t there = facet_check_partition_count(check);

    if (count == 0 || there > 0)
        return;
    const char *smallest = facet_check_smallest(all, count)->id;
    all_at_once(check, "threads: 8 create and destroy partitions", smallest, run_partitions);
    all_at_once(check, "threads: 8 do everything at once", smallest, run_mixed);
    EXPECT_NUMBER(check, "threads: no partition is left", 0, facet_check_partition_count(check));
}

static const struct facet_check_case cases[] = {
    {readers, 0}, {memory, FACET_CAN_MEMORY}, {limits, FACET_CAN_LIMIT_MEMORY}, {partitions, FACET_CAN_PARTITION},
    {NULL, 0},
};

const struct facet_check_group facet_check_threads = {
    .name = "threads", .about = "8 threads at once on every operation", .cases = cases};
