/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scheduling policies among the contexts of a device (since ABI 1.4), checked with two contexts that queue launches.
 *
 * Owns: two rivals, of which the first queues all its launches before the second queues any, and the checks of the
 * order in which the launches ended.
 * Never: expects an exact share: a quarter of a rival's launches is the bound.
 */
#include <inttypes.h>
#include <string.h>

#include <facet/limits.h>

#include "base/cleanup.h"
#include "conformance/kernel.h"

enum {
    UNKNOWN_POLICY = FACET_SCHEDULE_FIFO + 1,
    STREAMS = 4,
    LAUNCHES_PER_RIVAL = 16,
    QUARTER_OF_LAUNCHES = LAUNCHES_PER_RIVAL / 4,
    ATTEMPTS = 3
};

/* Several streams, so that at the end of a launch another launch of the rival can always begin. */
struct rival {
    struct facet_check_kernel kernels[STREAMS];
    uint64_t context, address, launched_before[STREAMS];    /* launches before this contest */
    struct facet_launch_record records[LAUNCHES_PER_RIVAL]; /* of this contest */
    uint64_t start_ns, end_ns;                              /* the start of the first launch and the end of the last */
};

static enum facet_status set_policy(struct facet_check *check, uint32_t policy, uint32_t preempt, uint64_t slice_ns)
{
    return check->execution_ops.set_policy(check->instance, check->device, policy, preempt, slice_ns, &check->error);
}

static void check_policy_forms(struct facet_check *check)
{
    facet_check_absent_device(check, "execution");
    EXPECT_STATUS(check, "execution.set_policy: an unknown policy is out of range", FACET_OUT_OF_RANGE,
                  set_policy(check, UNKNOWN_POLICY, 1, 0));
    EXPECT_OK(check, "execution.set_policy: in turns, of 2 ms",
              set_policy(check, FACET_SCHEDULE_ROUND_ROBIN, 1, UINT64_C(2000000)));
    EXPECT_OK(check, "execution.set_policy: by priority", set_policy(check, FACET_SCHEDULE_PRIORITY, 1, 0));
    EXPECT_OK(check, "execution.set_policy: fifo, without preemption", set_policy(check, FACET_SCHEDULE_FIFO, 0, 0));
    EXPECT_OK(check, "execution.set_policy: fair, as before the first call",
              set_policy(check, FACET_SCHEDULE_FAIR, 1, 0));
}

static bool prepare_rival(struct facet_check *check, const char *worker, struct rival *rival)
{
    bool prepared = facet_check_context(check, worker, &rival->context) &&
                    facet_check_kernel_open(check, rival->context, &rival->kernels[0]) &&
                    EXPECT_OK(check, "memory.alloc: for one of two rivals",
                              check->memory_ops.alloc(check->instance, rival->context, sizeof(uint64_t),
                                                      &rival->address, &check->error)) &&
                    facet_check_kernel_lengthen(check, &rival->kernels[0], rival->address);

    for (int i = 1; prepared && i < STREAMS; i++)
        prepared = facet_check_kernel_add_stream(check, &rival->kernels[0], &rival->kernels[i]);
    return prepared;
}

static enum facet_status fill_queues(struct facet_check *check, struct rival *rival)
{
    enum facet_status status = FACET_OK;

    for (int i = 0; status == FACET_OK && i < STREAMS; i++) {
        struct facet_stream_state state = {0};

        status = facet_check_kernel_query(check, &rival->kernels[i], &state);
        rival->launched_before[i] = state.launched;
    }
    for (int i = 0; status == FACET_OK && i < LAUNCHES_PER_RIVAL; i++)
        status = facet_check_kernel_launch(check, &rival->kernels[i % STREAMS], rival->address, 1, 1);
    return status;
}

static enum facet_status wait_for(struct facet_check *check, struct rival *rival)
{
    enum facet_status status = FACET_OK;

    for (int i = 0; status == FACET_OK && i < STREAMS; i++)
        status = facet_check_kernel_wait(check, &rival->kernels[i], FACET_CHECK_KERNEL_NS);
    return status;
}

static bool fetch_records(struct facet_check *check, struct rival *rival)
{
    uint32_t total = 0, count = 0;

    rival->start_ns = UINT64_MAX;
    rival->end_ns = 0;
    for (int i = 0; i < STREAMS; i++) {
        FACET_CLEANUP_FREE struct facet_launch_record *all = facet_check_fetch_records(
            check, rival->context, rival->kernels[i].stream, rival->launched_before[i], &count);

        for (uint32_t j = 0; all && j < count && total < LAUNCHES_PER_RIVAL; j++) {
            rival->records[total++] = all[j];
            rival->start_ns = all[j].start_ns < rival->start_ns ? all[j].start_ns : rival->start_ns;
            rival->end_ns = all[j].end_ns > rival->end_ns ? all[j].end_ns : rival->end_ns;
        }
    }
    return EXPECT_NUMBER(check, "execution.records: one for each launch of a rival", LAUNCHES_PER_RIVAL, total);
}

/* Queues all launches of the first rival, then those of the second, and fetches the records of both. */
static bool run_rivals(struct facet_check *check, struct rival *first, struct rival *second)
{
    enum facet_status status;

    facet_check_begin(check, "execution.launch: of two rivals");
    status = fill_queues(check, first);
    if (status == FACET_OK)
        status = fill_queues(check, second);
    if (status == FACET_OK)
        status = wait_for(check, first);
    if (status == FACET_OK)
        status = wait_for(check, second);
    return facet_check_status(check, FACET_OK, status) && fetch_records(check, first) && fetch_records(check, second);
}

/* How many launches of `rival` ended between `from` and `to`, both included. */
static uint32_t count_ended(const struct rival *rival, uint64_t from, uint64_t to)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < LAUNCHES_PER_RIVAL; i++)
        count += rival->records[i].end_ns >= from && rival->records[i].end_ns <= to;
    return count;
}

/* How many launches of the second rival ended before the last of the first. */
static uint32_t second_before_first_ended(const struct rival *first, const struct rival *second)
{
    return count_ended(second, 0, first->end_ns);
}

/* How many launches of the first rival ended between the start and the end of the second. */
static uint32_t first_while_second_ran(const struct rival *first, const struct rival *second)
{
    return count_ended(first, second->start_ns, second->end_ns);
}

/* Other load on the machine may spoil a contest, so one of several has to pass. */
static void expect_served(struct facet_check *check, struct rival *rivals, uint32_t policy, bool at_most,
                          uint32_t (*count)(const struct rival *first, const struct rival *second), const char *text)
{
    uint32_t got = 0;
    bool passed = false;

    if (!EXPECT_OK(check, "execution.set_policy: for two rivals", set_policy(check, policy, 1, 0)))
        return;
    for (int i = 0; i < ATTEMPTS && !passed; i++) {
        if (!run_rivals(check, &rivals[0], &rivals[1]))
            return;
        got = count(&rivals[0], &rivals[1]);
        passed = at_most ? got <= QUARTER_OF_LAUNCHES : got >= QUARTER_OF_LAUNCHES;
    }
    EXPECT_TRUE(check, text, passed, "expected: %s %d of %d launches\ngot: %" PRIu32, at_most ? "at most" : "at least",
                QUARTER_OF_LAUNCHES, LAUNCHES_PER_RIVAL, got);
}

static void check_without_preemption(struct facet_check *check, struct rival *rivals)
{
    struct facet_check_tally tally = {.text = "execution.set_policy: without preemption no launch is interrupted"};

    if (!EXPECT_OK(check, "execution.set_policy: fair, without preemption",
                   set_policy(check, FACET_SCHEDULE_FAIR, 0, 0)))
        return;
    if (run_rivals(check, &rivals[0], &rivals[1])) {
        facet_check_begin(check, "%s", tally.text);
        for (int i = 0; i < LAUNCHES_PER_RIVAL; i++)
            if (rivals[0].records[i].preemptions > 0 || rivals[1].records[i].preemptions > 0)
                facet_check_tally_miss(&tally,
                                       "expected: 0 preemptions\ngot: %" PRIu32 " of the first and %" PRIu32
                                       " of the second rival",
                                       rivals[0].records[i].preemptions, rivals[1].records[i].preemptions);
        facet_check_report_tallies(check, &tally, 1);
    }
}

static void check_policies(struct facet_check *check, struct rival *rivals)
{
    const struct facet_execution_ops *ops = &check->execution_ops;

    for (int i = 0; i < STREAMS; i++) /* both rivals' launches are as long as those of the first */
        rivals[1].kernels[i].work_groups = rivals[0].kernels[i].work_groups;
    expect_served(check, rivals, FACET_SCHEDULE_FIFO, true, second_before_first_ended,
                  "execution.set_policy: fifo serves the first context until its queue is empty");
    expect_served(check, rivals, FACET_SCHEDULE_FAIR, false, second_before_first_ended,
                  "execution.set_policy: fair serves the second context before the first has ended");
    expect_served(check, rivals, FACET_SCHEDULE_ROUND_ROBIN, false, second_before_first_ended,
                  "execution.set_policy: in turns, the second context is served before the first has ended");
    if (facet_check_claims(check, FACET_CAN_SHARE) &&
        EXPECT_OK(check, "execution.set_share: of low priority",
                  ops->set_share(check->instance, rivals[0].context, 500, 1000, FACET_PRIORITY_LOW, &check->error)) &&
        EXPECT_OK(check, "execution.set_share: of high priority",
                  ops->set_share(check->instance, rivals[1].context, 500, 1000, FACET_PRIORITY_HIGH, &check->error)))
        expect_served(check, rivals, FACET_SCHEDULE_PRIORITY, true, first_while_second_ran,
                      "execution.set_policy: by priority, the context of higher priority goes first");
    check_without_preemption(check, rivals);
    EXPECT_OK(check, "execution.set_policy: fair again", set_policy(check, FACET_SCHEDULE_FAIR, 1, 0));
}

void facet_check_schedule(struct facet_check *check)
{
    static struct rival rivals[2];

    memset(rivals, 0, sizeof rivals);
    check_policy_forms(check);
    if (!facet_check_claims(check, FACET_CAN_RECORD) || !facet_check_kernel_published(check)) {
        facet_check_skip(check, "execution.set_policy: of two rivals",
                         "no property conformance_kernel is published, or no records are kept");
        return;
    }
    if (prepare_rival(check, FACET_CHECK_WORKER, &rivals[0]) && prepare_rival(check, FACET_CHECK_OTHER, &rivals[1]))
        check_policies(check, rivals);
    for (int i = 0; i < 2; i++)
        if (rivals[i].context)
            facet_check_drop_context(check, rivals[i].context);
}
