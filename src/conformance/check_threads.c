/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: starting eight threads at once, and the check that each called every operation.
 * Never: calls an operation for a thread: the functions of thread.h, one round each, make the calls and record them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "conformance/slices.h"
#include "conformance/thread.h"

enum { ROUNDS = 100, ROUNDS_OF_SNAPSHOTS = 15 };

/* Whether each thread has called each operation, by enum facet_operation_id, since the group began. */
static unsigned char called[FACET_CHECK_THREADS][FACET_OPERATION_COUNT];

/* A thread goes on after a complaint, so that the other threads run beside it to the end. */
static void *run_thread(void *argument)
{
    struct facet_check_thread *thread = argument;

    pthread_barrier_wait(&thread->team->barrier);
    for (uint32_t i = 0; i < thread->rounds; i++)
        thread->use_once(thread);
    return NULL;
}

static void start_thread(struct facet_check_thread *thread, pthread_t *ret_id)
{
    snprintf(thread->worker, sizeof thread->worker, "conformance-%" PRIu32, thread->number);
    thread->called = called[thread->number];
    if (pthread_create(ret_id, NULL, run_thread, thread) != 0)
        _exit(EXIT_FAILURE);
}

/* Runs all threads at once. The first complaint becomes the assertion's. */
static void check_all_together(struct facet_check *check, struct facet_check_team *team, const char *text,
                               void (*round)(struct facet_check_thread *thread), uint32_t rounds)
{
    static struct facet_check_thread threads[FACET_CHECK_THREADS];
    pthread_t ids[FACET_CHECK_THREADS];
    const char *complaint = NULL;

    facet_check_begin(check, "%s", text);
    pthread_barrier_init(&team->barrier, NULL, FACET_CHECK_THREADS);
    for (uint32_t i = 0; i < FACET_CHECK_THREADS; i++) {
        threads[i] = (struct facet_check_thread){
            .check = *check, .team = team, .number = i, .rounds = rounds, .use_once = round};
        start_thread(&threads[i], &ids[i]);
    }
    for (uint32_t i = 0; i < FACET_CHECK_THREADS; i++) {
        pthread_join(ids[i], NULL);
        if (!complaint && threads[i].complaint[0])
            complaint = threads[i].complaint;
    }
    pthread_barrier_destroy(&team->barrier);
    facet_check_judge(check, !complaint, "expected: the answers that one thread alone would get\ngot: %s", complaint);
}

static void check_readers(struct facet_check *check)
{
    struct facet_check_team team = {0};

    check_all_together(check, &team, "threads: 8 read all there is to read", facet_thread_read, ROUNDS);
}

static void check_memory(struct facet_check *check)
{
    struct facet_check_team team = {0};

    check_all_together(check, &team, "threads: 8 use memory of their own", facet_thread_use_memory, ROUNDS);
}

static void check_limits(struct facet_check *check)
{
    struct facet_check_team team = {0};

    check_all_together(check, &team, "threads: 8 set and clear limits of their own", facet_thread_use_limits, ROUNDS);
}

static void check_compute_limits(struct facet_check *check)
{
    if (!facet_check_claims(check, FACET_CAN_LIMIT_MEMORY))
        check_limits(check);
}

/* Finds the published kernel, if any. */
static void find_kernel(struct facet_check *check, struct facet_check_team *team)
{
    static char kernel[64], image[8192];

    if (facet_check_property(check, "conformance_kernel", kernel, sizeof kernel) &&
        facet_check_property(check, "conformance_image", image, sizeof image)) {
        team->kernel = kernel;
        team->image = image;
    }
}

static void check_streams(struct facet_check *check)
{
    struct facet_check_team team = {0};

    find_kernel(check, &team);
    check_all_together(check, &team, "threads: 8 launch on streams of their own", facet_thread_use_streams, ROUNDS);
}

static void check_queues(struct facet_check *check)
{
    struct facet_check_team team = {0};

    if (check->devices[check->device].capabilities & (FACET_CAN_ENQUEUE | FACET_CAN_SHARE | FACET_CAN_RECORD))
        check_all_together(check, &team, "threads: 8 queue transfers, set shares and read records",
                           facet_thread_use_queue, ROUNDS);
}

static void check_control(struct facet_check *check)
{
    struct facet_check_team team = {0};

    if (check->devices[check->device].capabilities & (FACET_CAN_CONTROL | FACET_CAN_SCHEDULE | FACET_CAN_MATH))
        check_all_together(check, &team, "threads: 8 pause, wait, set policies and multiply", facet_thread_control,
                           ROUNDS);
}

static void check_snapshots(struct facet_check *check)
{
    struct facet_check_team team = {0};

    check_all_together(check, &team, "threads: 8 have their worker saved and brought back", facet_thread_use_snapshots,
                       ROUNDS_OF_SNAPSHOTS);
}

static void use_everything(struct facet_check_thread *thread)
{
    facet_thread_read(thread);
    if (facet_check_claims(&thread->check, FACET_CAN_MEMORY))
        facet_thread_use_memory(thread);
    if (facet_check_claims(&thread->check, FACET_CAN_MEMORY | FACET_CAN_EXECUTE))
        facet_thread_use_streams(thread);
    if (thread->number % 2)
        facet_thread_use_partitions(thread);
    if (facet_check_claims(&thread->check, FACET_CAN_LIMIT_MEMORY) ||
        facet_check_claims(&thread->check, FACET_CAN_LIMIT_COMPUTE))
        facet_thread_use_limits(thread);
}

/* Existing partitions are never removed; while there are any, no thread creates one. */
static void check_partitions(struct facet_check *check)
{
    struct facet_check_team team = {0};
    uint32_t count = 0;
    FACET_CLEANUP_FREE struct facet_partition_template *all = facet_check_templates(check, &count);
    uint32_t existing = facet_check_partition_count(check);

    if (count > 0 && existing == 0)
        team.smallest = facet_check_smallest(all, count)->id;
    find_kernel(check, &team);
    check_all_together(check, &team, "threads: 8 create and destroy partitions", facet_thread_use_partitions, ROUNDS);
    check_all_together(check, &team, "threads: 8 do everything at once", use_everything, ROUNDS);
    EXPECT_NUMBER(check, "threads: no partition is left", existing, facet_check_partition_count(check));
}

/* Whether every thread called the operation; *ret_thread is the first that did not. */
static bool every_operation_called(enum facet_operation_id operation, uint32_t *ret_thread)
{
    for (uint32_t i = 0; i < FACET_CHECK_THREADS; i++)
        if (!called[i][operation]) {
            *ret_thread = i;
            return false;
        }
    return true;
}

/* Asserts that every thread called every promised operation; new operations of the ABI are included. */
static void expect_all_called(struct facet_check *check)
{
    struct facet_check_tally tally = {.text = "threads: each of the 8 called every operation that is promised"};
    uint32_t thread = 0;

    for (int i = 0; i < FACET_OPERATION_COUNT; i++)
        if (facet_check_is_promised(check, (enum facet_operation_id)i) &&
            !every_operation_called((enum facet_operation_id)i, &thread))
            facet_check_tally_miss(&tally, "expected: %s called by all\ngot: not by thread %" PRIu32,
                                   facet_check_operation_name((enum facet_operation_id)i), thread);
    facet_check_report_tallies(check, &tally, 1);
}

static const struct facet_check_case cases[] = {
    {check_readers, 0},
    {check_memory, FACET_CAN_MEMORY},
    {check_limits, FACET_CAN_LIMIT_MEMORY},
    {check_compute_limits, FACET_CAN_LIMIT_COMPUTE},
    {check_streams, FACET_CAN_MEMORY | FACET_CAN_EXECUTE},
    {check_queues, FACET_CAN_MEMORY | FACET_CAN_EXECUTE},
    {check_control, FACET_CAN_MEMORY | FACET_CAN_EXECUTE},
    {check_snapshots, FACET_CAN_MEMORY | FACET_CAN_SNAPSHOT},
    {check_partitions, FACET_CAN_PARTITION},
    {expect_all_called, 0},
    {NULL, 0},
};

const struct facet_check_group facet_check_threads = {
    .name = "threads", .about = "8 threads at once on every operation", .cases = cases};
