/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the checks of a stream that waits for another stream (since ABI 1.4).
 * Never: lets a device that does not wait pass because it is fast: the work that must come first is the slower one, so
 * without waiting it writes its word last.
 */
#include <inttypes.h>

#include "base/cleanup.h"
#include "conformance/kernel.h"

enum { LAST = FACET_CHECK_QUEUE - 1, BEHIND = 77 };

static enum facet_status wait_for(struct facet_check *check, const struct facet_check_kernel *kernel,
                                  const struct facet_check_kernel *other)
{
    return check->execution_ops.wait(check->instance, kernel->context, kernel->stream, other->stream, &check->error);
}

static enum facet_status launch_word(struct facet_check *check, const struct facet_check_kernel *kernel,
                                     uint64_t address)
{
    return facet_check_kernel_launch(check, kernel, address, 1, BEHIND);
}

/* The waiting stream is queried first: between the two queries the other stream can only have advanced. */
static void expect_not_begun(struct facet_check *check, const struct facet_check_kernel *waits,
                             const struct facet_check_kernel *other)
{
    struct facet_stream_state own_state = {0}, other_state = {0};

    EXPECT_OK(check, "execution.query: of a stream that waits", facet_check_kernel_query(check, waits, &own_state));
    EXPECT_OK(check, "execution.query: of one that is waited for",
              facet_check_kernel_query(check, other, &other_state));
    EXPECT_NUMBER(check, "execution.wait: counts as a launch of its stream", 2, own_state.launched);
    EXPECT_TRUE(check, "execution.query: what is behind a wait has not begun",
                own_state.begun < 2 || other_state.completed == other_state.launched,
                "expected: fewer than 2 launches begun before the other stream is complete\ngot: %" PRIu64
                " begun, with %" PRIu64 " of %" PRIu64 " complete in the other stream",
                own_state.begun, other_state.completed, other_state.launched);
}

static void expect_times(struct facet_check *check, const struct facet_check_kernel *waits,
                         const struct facet_check_kernel *other, uint64_t last)
{
    uint32_t own_count = 0, other_count = 0;

    if (!facet_check_claims(check, FACET_CAN_RECORD))
        return;
    FACET_CLEANUP_FREE struct facet_launch_record *behind =
        facet_check_fetch_records(check, waits->context, waits->stream, 1, &own_count);
    FACET_CLEANUP_FREE struct facet_launch_record *before =
        facet_check_fetch_records(check, other->context, other->stream, last - 1, &other_count);
    if (behind && before &&
        EXPECT_TRUE(check, "execution.records: the launch behind a wait has the number behind it",
                    own_count == 1 && other_count == 1 && behind[0].sequence == 2 && before[0].sequence == last,
                    "expected: record 2 alone, and record %" PRIu64 " alone of the other stream\ngot: %" PRIu32
                    " records, and %" PRIu32 " of the other stream",
                    last, own_count, other_count))
        EXPECT_TRUE(check, "execution.records: what is behind a wait began when the other was done",
                    behind[0].start_ns >= before[0].end_ns,
                    "expected: a start at %" PRIu64 " ns or later\ngot: %" PRIu64 " ns", before[0].end_ns,
                    behind[0].start_ns);
}

static void check_wait_order(struct facet_check *check, const struct facet_check_kernel *kernel, uint64_t address)
{
    struct facet_check_kernel waiting;
    struct facet_stream_state state = {0};
    uint64_t words[FACET_CHECK_QUEUE] = {0};

    if (!facet_check_kernel_add_stream(check, kernel, &waiting) ||
        !EXPECT_OK(check, "execution.launch: a queue to be waited for",
                   facet_check_queue_fill(check, kernel, address)) ||
        !EXPECT_OK(check, "execution.wait: for a queue", wait_for(check, &waiting, kernel)) ||
        !EXPECT_OK(check, "execution.launch: behind a wait",
                   launch_word(check, &waiting, address + LAST * sizeof(uint64_t))))
        return;
    expect_not_begun(check, &waiting, kernel);
    EXPECT_OK(check, "execution.synchronize: a stream that waits for another",
              facet_check_kernel_wait(check, &waiting, FACET_CHECK_KERNEL_NS));
    EXPECT_OK(check, "execution.query: of one that was waited for", facet_check_kernel_query(check, kernel, &state));
    EXPECT_NUMBER(check, "execution.wait: all that the other was given is complete", state.launched, state.completed);
    EXPECT_OK(check, "memory.read: what both streams wrote", facet_check_queue_words(check, kernel, address, words));
    EXPECT_NUMBER(check, "execution.wait: what comes behind it begins when the other stream is done", BEHIND,
                  words[LAST]);
    expect_times(check, &waiting, kernel, state.launched);
}

/* Two streams wait for each other; a wait covers only work that was queued before it. */
static void wait_for_past(struct facet_check *check, const struct facet_check_kernel *kernel, uint64_t address)
{
    struct facet_check_kernel waiting;
    enum facet_status status;

    if (!facet_check_kernel_add_stream(check, kernel, &waiting))
        return;
    facet_check_begin(check, "execution.wait: of two streams for each other");
    status = launch_word(check, kernel, address);
    if (status == FACET_OK)
        status = wait_for(check, &waiting, kernel);
    if (status == FACET_OK)
        status = launch_word(check, &waiting, address);
    if (status == FACET_OK)
        status = wait_for(check, kernel, &waiting);
    if (status == FACET_OK)
        status = launch_word(check, kernel, address);
    facet_check_status(check, FACET_OK, status);
    EXPECT_OK(check, "execution.wait: what the other stream is given later is not waited for",
              facet_check_kernel_wait(check, kernel, FACET_CHECK_KERNEL_NS));
    EXPECT_OK(check, "execution.wait: for a stream that waits as well",
              facet_check_kernel_wait(check, &waiting, FACET_CHECK_KERNEL_NS));
    EXPECT_OK(check, "execution.wait: a stream for itself", wait_for(check, kernel, kernel));
    EXPECT_OK(check, "execution.synchronize: a stream that waited for itself",
              facet_check_kernel_wait(check, kernel, FACET_CHECK_KERNEL_NS));
}

/* The context is paused until the cancel, so the cancelled work cannot have begun. */
static void wait_for_cancelled(struct facet_check *check, const struct facet_check_kernel *kernel, uint64_t address)
{
    const struct facet_execution_ops *ops = &check->execution_ops;
    struct facet_check_kernel waiting;
    enum facet_status status;
    uint64_t words[FACET_CHECK_QUEUE] = {0};

    if (!facet_check_kernel_add_stream(check, kernel, &waiting))
        return;
    facet_check_begin(check, "execution.wait: for what will be cancelled");
    status = ops->pause(check->instance, kernel->context, 1, &check->error);
    if (status == FACET_OK)
        status = facet_check_queue_fill(check, kernel, address);
    if (status == FACET_OK)
        status = wait_for(check, &waiting, kernel);
    if (status == FACET_OK)
        status = launch_word(check, &waiting, address);
    if (status == FACET_OK)
        status = ops->cancel(check->instance, kernel->context, kernel->stream, &check->error);
    if (status == FACET_OK)
        status = ops->pause(check->instance, kernel->context, 0, &check->error);
    facet_check_status(check, FACET_OK, status);
    EXPECT_OK(check, "execution.wait: what is cancelled need not be waited for",
              facet_check_kernel_wait(check, &waiting, FACET_CHECK_KERNEL_NS));
    EXPECT_OK(check, "memory.read: what was behind a wait for what was cancelled",
              facet_check_queue_words(check, kernel, address, words));
    EXPECT_NUMBER(check, "execution.wait: launches behind a wait are not cancelled with the work that it waits for",
                  BEHIND, words[0]);
}

void facet_check_wait(struct facet_check *check, const struct facet_check_kernel *kernel, uint64_t address)
{
    check_wait_order(check, kernel, address);
    wait_for_past(check, kernel, address);
    wait_for_cancelled(check, kernel, address);
}
