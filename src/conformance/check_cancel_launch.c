/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the checks of cancelling one launch (since ABI 1.4) of a queue that a pause holds, so that the launch cannot
 * have begun. Never: counts a launch that completed before the call as cancelled.
 */
#include <inttypes.h>

#include "base/cleanup.h"
#include "conformance/kernel.h"

enum { MIDDLE = 4, LAST = FACET_CHECK_QUEUE - 1 }; /* the launches that are cancelled, from 0 */

static bool set_paused(struct facet_check *check, const struct facet_check_kernel *kernel, uint32_t paused)
{
    return EXPECT_OK(check, "execution.pause: before and after launches are cancelled",
                     check->execution_ops.pause(check->instance, kernel->context, paused, &check->error));
}

static enum facet_status cancel_one(struct facet_check *check, const struct facet_check_kernel *kernel,
                                    uint64_t sequence)
{
    return check->execution_ops.cancel_launch(check->instance, kernel->context, kernel->stream, sequence,
                                              &check->error);
}

/* Every launch except the two cancelled ones wrote its word. */
static void expect_others(struct facet_check *check, const struct facet_check_kernel *kernel, uint64_t address)
{
    uint64_t words[FACET_CHECK_QUEUE] = {0};
    uint32_t others = 0;

    EXPECT_OK(check, "memory.read: what a queue wrote of which two were cancelled",
              facet_check_queue_words(check, kernel, address, words));
    for (uint32_t i = 0; i < FACET_CHECK_QUEUE; i++)
        others += i != MIDDLE && i != LAST && words[i] == i + 1;
    EXPECT_TRUE(check, "execution.cancel_launch: what was cancelled never runs", words[MIDDLE] == 0 && words[LAST] == 0,
                "expected: words %d and %u as they were\ngot: %" PRIu64 " and %" PRIu64, MIDDLE, LAST, words[MIDDLE],
                words[LAST]);
    EXPECT_NUMBER(check, "execution.cancel_launch: launches before and behind a cancelled one run",
                  FACET_CHECK_QUEUE - 2, others);
}

static void expect_records(struct facet_check *check, const struct facet_check_kernel *kernel, uint64_t before)
{
    struct facet_check_tally tally = {.text = "execution.records: a cancelled launch has a record under its number"};
    uint32_t count = 0, cancelled = 0;

    if (!facet_check_claims(check, FACET_CAN_RECORD))
        return;
    FACET_CLEANUP_FREE struct facet_launch_record *all =
        facet_check_fetch_records(check, kernel->context, kernel->stream, before, &count);
    if (!all)
        return;
    facet_check_begin(check, "%s", tally.text);
    for (uint32_t i = 0; i < count; i++) {
        bool is_cancelled = all[i].sequence == before + MIDDLE + 1 || all[i].sequence == before + LAST + 1;

        cancelled += is_cancelled;
        if (all[i].status != (is_cancelled ? FACET_BAD_STATE : FACET_OK) || (is_cancelled && all[i].groups > 0))
            facet_check_tally_miss(
                &tally, "expected: bad_state of launches %" PRIu64 " and %" PRIu64 " alone\ngot: %s of launch %" PRIu64,
                before + MIDDLE + 1, before + LAST + 1, facet_status_name((enum facet_status)all[i].status),
                all[i].sequence);
    }
    if (count != FACET_CHECK_QUEUE || cancelled != 2)
        facet_check_tally_miss(&tally,
                               "expected: %u records, 2 of cancelled launches\ngot: %" PRIu32 " records, %" PRIu32
                               " of cancelled launches",
                               FACET_CHECK_QUEUE, count, cancelled);
    facet_check_report_tallies(check, &tally, 1);
}

static void cancel_middle_launch(struct facet_check *check, const struct facet_check_kernel *kernel, uint64_t address)
{
    struct facet_stream_state state = {0};

    EXPECT_OK(check, "execution.query: before one is cancelled", facet_check_kernel_query(check, kernel, &state));
    const uint64_t before = state.launched;
    if (!set_paused(check, kernel, 1) || !EXPECT_OK(check, "execution.launch: of which two will be cancelled",
                                                    facet_check_queue_fill(check, kernel, address)))
        return;
    EXPECT_OK(check, "execution.cancel_launch: one in the middle", cancel_one(check, kernel, before + MIDDLE + 1));
    EXPECT_OK(check, "execution.cancel_launch: the last one", cancel_one(check, kernel, before + LAST + 1));
    EXPECT_STATUS(check, "execution.cancel_launch: a second time is not found", FACET_NOT_FOUND,
                  cancel_one(check, kernel, before + MIDDLE + 1));
    EXPECT_STATUS(check, "execution.cancel_launch: a number that was not given yet is not found", FACET_NOT_FOUND,
                  cancel_one(check, kernel, before + LAST + 2));
    if (!set_paused(check, kernel, 0))
        return;
    EXPECT_OK(check, "execution.synchronize: with a queue of which two were cancelled",
              facet_check_kernel_wait(check, kernel, FACET_CHECK_KERNEL_NS));
    expect_others(check, kernel, address);
    EXPECT_OK(check, "execution.query: after two were cancelled", facet_check_kernel_query(check, kernel, &state));
    EXPECT_TRUE(check, "execution.cancel_launch: what was cancelled counts as begun and complete",
                state.completed == state.launched && state.begun == state.launched,
                "expected: %" PRIu64 " begun and complete\ngot: %" PRIu64 " begun, %" PRIu64 " complete",
                state.launched, state.begun, state.completed);
    expect_records(check, kernel, before);
    EXPECT_STATUS(check, "execution.cancel_launch: a launch that is complete is not found", FACET_NOT_FOUND,
                  cancel_one(check, kernel, before + 1));
}

/* Cancels a launch that may be running or complete. The launches behind it run in any case. */
static void cancel_first_launch(struct facet_check *check, const struct facet_check_kernel *kernel, uint64_t address)
{
    struct facet_stream_state state = {0};
    uint64_t words[FACET_CHECK_QUEUE] = {0};
    uint32_t others = 0;

    EXPECT_OK(check, "execution.query: before one is cancelled", facet_check_kernel_query(check, kernel, &state));
    if (!EXPECT_OK(check, "execution.launch: a queue of which the first is cancelled",
                   facet_check_queue_fill(check, kernel, address)))
        return;
    facet_check_begin(check, "execution.cancel_launch: one that may be running");
    enum facet_status status = cancel_one(check, kernel, state.launched + 1);
    facet_check_judge(check, status == FACET_OK || status == FACET_NOT_FOUND,
                      "expected: ok or not_found from execution.cancel_launch\ngot: %s", facet_status_name(status));
    EXPECT_OK(check, "execution.synchronize: with a queue of which the first was cancelled",
              facet_check_kernel_wait(check, kernel, FACET_CHECK_KERNEL_NS));
    EXPECT_OK(check, "memory.read: what is behind a launch that was cancelled",
              facet_check_queue_words(check, kernel, address, words));
    for (uint32_t i = 1; i < FACET_CHECK_QUEUE; i++)
        others += words[i] == i + 1;
    EXPECT_NUMBER(check, "execution.cancel_launch: launches behind one that was running run", FACET_CHECK_QUEUE - 1,
                  others);
}

void facet_check_cancel_launch(struct facet_check *check, const struct facet_check_kernel *kernel, uint64_t address)
{
    cancel_middle_launch(check, kernel, address);
    cancel_first_launch(check, kernel, address);
}
