/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: one round of a thread's calls in a context of its own: transfers in a stream, shares, and records of transfers.
 * Never: launches kernels; thread_work.c does.
 */
#include <string.h>

#include <facet/limits.h>

#include "conformance/thread.h"

enum { PIECE = 1024 };

static void transfer_in_stream(struct facet_check_thread *thread, uint64_t context, uint64_t stream)
{
    const unsigned char own_value = (unsigned char)(thread->number + 1);
    unsigned char expected[2 * PIECE], got[2 * PIECE] = {0};
    uint64_t address = 0;

    memset(expected, own_value, sizeof expected);
    memset(expected, own_value + 100, 8);
    if (!FACET_THREAD_EXPECT(thread, FACET_OK, memory, alloc, context, sizeof got, &address))
        return;
    FACET_THREAD_EXPECT(thread, FACET_OK, execution, fill, context, stream, address, own_value, PIECE);
    FACET_THREAD_EXPECT(thread, FACET_OK, execution, copy, context, stream, address + PIECE, address, PIECE);
    FACET_THREAD_EXPECT(thread, FACET_OK, execution, write, context, stream, address, expected, 8);
    FACET_THREAD_EXPECT(thread, FACET_OK, execution, synchronize, context, stream, FACET_CHECK_KERNEL_NS);
    FACET_THREAD_EXPECT(thread, FACET_OK, memory, read, context, address, sizeof got, got);
    if (memcmp(expected, got, sizeof got) != 0)
        facet_thread_complain(thread, "memory.read: not what this thread's transfers wrote");
}

static void set_share_and_priority(struct facet_check_thread *thread, uint64_t context, uint64_t stream)
{
    FACET_THREAD_EXPECT(thread, FACET_OK, execution, set_share, context, 100 * thread->number, 1000,
                        FACET_PRIORITY_NORMAL);
    FACET_THREAD_EXPECT(thread, FACET_OK, execution, set_priority, context, stream, thread->number % 3);
}

static void read_records(struct facet_check_thread *thread, uint64_t context, uint64_t stream)
{
    struct facet_launch_record records[8];
    uint32_t count = 0;

    if (FACET_THREAD_EXPECT(thread, FACET_OK, execution, records, context, stream, 0, records, sizeof records[0], 8,
                            &count) &&
        count != (facet_check_claims(&thread->check, FACET_CAN_ENQUEUE) ? 3 : 0))
        facet_thread_complain(thread, "execution.records: not one for each of this thread's transfers");
}

void facet_thread_use_queue(struct facet_check_thread *thread)
{
    const struct facet_check *check = &thread->check;
    uint64_t context = 0, stream = 0;

    if (!facet_thread_context(thread, &context))
        return;
    if (FACET_THREAD_EXPECT(thread, FACET_OK, execution, create_stream, context, &stream)) {
        if (facet_check_claims(check, FACET_CAN_ENQUEUE))
            transfer_in_stream(thread, context, stream);
        if (facet_check_claims(check, FACET_CAN_SHARE))
            set_share_and_priority(thread, context, stream);
        if (facet_check_claims(check, FACET_CAN_RECORD))
            read_records(thread, context, stream);
        FACET_THREAD_EXPECT(thread, FACET_OK, execution, destroy_stream, context, stream);
    }
    facet_thread_drop_context(thread, context);
}
