/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the rounds of partitions and limits, for which the threads compete.
 * Never: uses a partition or limit of another thread.
 */
#include <string.h>

#include "conformance/thread.h"

/* Creates and destroys a partition. Destroying fails if another thread was given the same partition. */
void facet_thread_use_partitions(struct facet_check_thread *thread)
{
    const char *template_id = thread->team->smallest ? thread->team->smallest : "no such template";
    struct facet_partition_info made = {.size = sizeof made, .uuid = "no such partition"};
    enum facet_status status =
        FACET_THREAD_CALL(thread, partition, create, thread->check.device, template_id, FACET_PLACEMENT_ANY, &made);

    if (!thread->team->smallest)
        facet_thread_expect(thread, FACET_OPERATION_partition_create, FACET_NOT_FOUND, status);
    else if (status != FACET_NO_SPACE && status != FACET_BUSY && status != FACET_BAD_STATE)
        facet_thread_expect(thread, FACET_OPERATION_partition_create, FACET_OK, status);
    if (status == FACET_OK)
        FACET_THREAD_EXPECT(thread, FACET_OK, partition, destroy, thread->check.device, made.uuid);
    FACET_THREAD_EXPECT(thread, FACET_NOT_FOUND, partition, destroy, thread->check.device, made.uuid);
}

static bool set_memory(struct facet_check_thread *thread)
{
    const uint64_t bytes = facet_check_info(&thread->check)->memory_bytes / (2 * FACET_CHECK_THREADS);
    enum facet_status status =
        FACET_THREAD_CALL(thread, limit, set_memory, thread->check.device, thread->worker, bytes);

    if (status == FACET_BUSY && facet_thread_may_be_busy(thread))
        return false;
    if (!facet_thread_expect(thread, FACET_OPERATION_limit_set_memory, FACET_OK, status))
        return false;
    FACET_THREAD_EXPECT(thread, FACET_BAD_STATE, limit, set_memory, thread->check.device, thread->worker, bytes);
    return true;
}

/* Where shares are rounded up to steps, eight of them may exceed the device: FACET_NO_SPACE is allowed. */
static bool set_compute(struct facet_check_thread *thread)
{
    const uint32_t milli = FACET_MILLI_WHOLE / (2 * FACET_CHECK_THREADS);
    enum facet_status status =
        FACET_THREAD_CALL(thread, limit, set_compute, thread->check.device, thread->worker, milli);

    if (status == FACET_NO_SPACE || (status == FACET_BUSY && facet_thread_may_be_busy(thread)))
        return false;
    if (!facet_thread_expect(thread, FACET_OPERATION_limit_set_compute, FACET_OK, status))
        return false;
    FACET_THREAD_EXPECT(thread, FACET_BAD_STATE, limit, set_compute, thread->check.device, thread->worker, milli);
    return true;
}

void facet_thread_use_limits(struct facet_check_thread *thread)
{
    struct facet_worker_limit limit = {.size = sizeof limit};
    bool memory = facet_check_claims(&thread->check, FACET_CAN_LIMIT_MEMORY) && set_memory(thread);
    bool compute = facet_check_claims(&thread->check, FACET_CAN_LIMIT_COMPUTE) && set_compute(thread);
    const enum facet_status expected = memory || compute ? FACET_OK : FACET_NOT_FOUND;

    FACET_THREAD_EXPECT(thread, expected, limit, get, thread->check.device, thread->worker, &limit);
    if (expected == FACET_OK && strncmp(limit.worker, thread->worker, sizeof limit.worker) != 0)
        facet_thread_complain(thread, "limit.get: another worker's limit");
    if (!!(limit.valid & FACET_WORKER_HAS_MEMORY) != memory || !!(limit.valid & FACET_WORKER_HAS_COMPUTE) != compute)
        facet_thread_complain(thread, "limit.get: other limits than this thread set");
    FACET_THREAD_EXPECT(thread, expected, limit, clear, thread->check.device, thread->worker);
    FACET_THREAD_EXPECT(thread, FACET_NOT_FOUND, limit, clear, thread->check.device, thread->worker);
}
