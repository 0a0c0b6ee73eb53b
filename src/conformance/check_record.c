/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the checks of launch records (since ABI 1.2).
 * Never: compares times of the provider's clock with times of the host's clock.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "conformance/kernel.h"

enum { LAUNCHES = 3, GROUPS = 6, CANCELLED = 32, CANCELLED_GROUPS = 1 << 16, UNKNOWN = 0x7fffffff };

/* The stream whose records are listed, and the sequence number after which they begin. */
struct subject {
    uint64_t context, stream, after;
};

static enum facet_status call_records(struct facet_check *check, const void *subject, void *items, uint32_t item_size,
                                      uint32_t capacity, uint32_t *ret_count)
{
    const struct subject *range = subject;

    return check->execution_ops.records(check->instance, range->context, range->stream, range->after, items, item_size,
                                        capacity, ret_count, &check->error);
}

static struct facet_check_list records_list(const struct subject *subject)
{
    return (struct facet_check_list){"execution.records", sizeof(struct facet_launch_record), false, call_records,
                                     subject};
}

static struct facet_launch_record *fetch_records(struct facet_check *check, const struct subject *subject,
                                                 uint32_t *ret_count)
{
    const struct facet_check_list list = records_list(subject);

    *ret_count = 0;
    return facet_check_fetch(check, &list, ret_count);
}

struct facet_launch_record *facet_check_fetch_records(struct facet_check *check, uint64_t context, uint64_t stream,
                                                      uint64_t after, uint32_t *ret_count)
{
    const struct subject subject = {context, stream, after};

    return fetch_records(check, &subject, ret_count);
}

static void refuse_unknown(struct facet_check *check, const struct subject *range)
{
    const struct facet_execution_ops *ops = &check->execution_ops;
    uint32_t count;

    EXPECT_REFUSED(check, "execution.records: an unknown context is not found", FACET_NOT_FOUND, &count, sizeof count,
                   ops->records(check->instance, UNKNOWN, range->stream, 0, NULL, sizeof(struct facet_launch_record), 0,
                                &count, NULL));
    EXPECT_REFUSED(check, "execution.records: an unknown stream is not found", FACET_NOT_FOUND, &count, sizeof count,
                   ops->records(check->instance, range->context, UNKNOWN, 0, NULL, sizeof(struct facet_launch_record),
                                0, &count, &check->error));
}

static void check_new_stream(struct facet_check *check, const struct subject *range)
{
    uint32_t count = 0;
    FACET_CLEANUP_FREE struct facet_launch_record *all = fetch_records(check, range, &count);

    if (all)
        EXPECT_NUMBER(check, "execution.records: a new stream has none", 0, count);
}

static bool in_order(const struct facet_launch_record *record, uint64_t before_ns)
{
    return record->start_ns > 0 && record->queued_ns <= record->start_ns && record->start_ns <= record->end_ns &&
           before_ns <= record->end_ns;
}

static bool is_possible_time(const struct facet_launch_record *record)
{
    return record->busy_ns > 0 && record->longest_ns <= record->busy_ns && record->units > 0;
}

static bool names_kernel_and_ended_well(const struct facet_launch_record *record,
                                        const struct facet_check_kernel *kernel)
{
    return record->status == FACET_OK && strncmp(record->kernel, kernel->name, sizeof record->kernel) == 0;
}

static void judge_all(struct facet_check *check, const struct facet_check_kernel *kernel,
                      const struct facet_launch_record *all, uint32_t count)
{
    struct facet_check_tally tallies[] = {
        {.text = "execution.records: each has the next number of its stream"},
        {.text = "execution.records: each was queued, began and ended in that order, one after the other"},
        {.text = "execution.records: all work-groups are counted"},
        {.text = "execution.records: each has device time, the longest work-group no more than all, and a unit"},
        {.text = "execution.records: each names its kernel, and ended well"},
    };

    facet_check_begin(check, "%s", tallies[0].text);
    for (uint32_t i = 0; i < count; i++) {
        const struct facet_launch_record *record = &all[i];

        if (record->sequence != i + 1)
            facet_check_tally_miss(&tallies[0], "expected: sequence %" PRIu32 "\ngot: %" PRIu64, i + 1,
                                   record->sequence);
        if (!in_order(record, i ? all[i - 1].end_ns : 0))
            facet_check_tally_miss(
                &tallies[1],
                "expected: queued, start and end in order, behind the record before\ngot: queued %" PRIu64
                " ns, start %" PRIu64 " ns, end %" PRIu64 " ns of record %" PRIu32,
                record->queued_ns, record->start_ns, record->end_ns, i);
        if (record->groups != GROUPS)
            facet_check_tally_miss(&tallies[2], "expected: %d work-groups\ngot: %" PRIu64, GROUPS, record->groups);
        if (!is_possible_time(record))
            facet_check_tally_miss(
                &tallies[3],
                "expected: a busy time, a longest work-group within it, and a unit\ngot: busy %" PRIu64
                " ns, longest %" PRIu64 " ns, %" PRIu32 " units",
                record->busy_ns, record->longest_ns, record->units);
        if (!names_kernel_and_ended_well(record, kernel))
            facet_check_tally_miss(&tallies[4], "expected: status ok of kernel %s\ngot: status %s of kernel '%.63s'",
                                   kernel->name, facet_status_name((enum facet_status)record->status), record->kernel);
    }
    facet_check_report_tallies(check, tallies, sizeof tallies / sizeof tallies[0]);
}

static void check_launch_records(struct facet_check *check, const struct facet_check_kernel *kernel, uint64_t address)
{
    const struct subject subject = {kernel->context, kernel->stream, 0};
    const struct facet_check_list list = records_list(&subject);
    enum facet_status status = FACET_OK;
    uint32_t count = 0;

    facet_check_begin(check, "execution.launch: to be recorded");
    for (int i = 0; i < LAUNCHES && status == FACET_OK; i++)
        status = facet_check_kernel_launch(check, kernel, address, 1, 1);
    facet_check_status(check, FACET_OK, status);
    EXPECT_OK(check, "execution.synchronize: with what is recorded",
              check->execution_ops.synchronize(check->instance, kernel->context, kernel->stream, FACET_CHECK_KERNEL_NS,
                                               &check->error));
    FACET_CLEANUP_FREE struct facet_launch_record *all = fetch_records(check, &subject, &count);
    if (!all || !EXPECT_NUMBER(check, "execution.records: one for each launch", LAUNCHES, count))
        return;
    judge_all(check, kernel, all, count);
    facet_check_list_rules(check, &list);
}

static void check_records_after(struct facet_check *check, const struct facet_check_kernel *kernel)
{
    const struct subject last = {kernel->context, kernel->stream, LAUNCHES - 1};
    const struct subject beyond = {kernel->context, kernel->stream, LAUNCHES};
    uint32_t count = 0;
    FACET_CLEANUP_FREE struct facet_launch_record *record = fetch_records(check, &last, &count);

    if (record)
        EXPECT_TRUE(check, "execution.records: only what is after `after`",
                    count == 1 && record[0].sequence == LAUNCHES, "expected: record %d alone\ngot: %" PRIu32 " records",
                    LAUNCHES, count);
    FACET_CLEANUP_FREE struct facet_launch_record *none = fetch_records(check, &beyond, &count);
    if (none)
        EXPECT_NUMBER(check, "execution.records: none after the last", 0, count);
}

/* The record of a completed launch is ok and counts all its work-groups; that of a cancelled one is a bad state. */
static void check_cancelled_records(struct facet_check *check, const struct facet_check_kernel *template_kernel,
                                    uint64_t address)
{
    struct facet_check_tally tally = {.text = "execution.records: cancelled launches differ from completed ones"};
    struct facet_check_kernel kernel = *template_kernel;
    const struct facet_execution_ops *ops = &check->execution_ops;
    uint32_t count = 0;

    kernel.work_groups = CANCELLED_GROUPS;
    if (!EXPECT_OK(check, "execution.create_stream: to be cancelled",
                   ops->create_stream(check->instance, kernel.context, &kernel.stream, &check->error)))
        return;
    for (int i = 0; i < CANCELLED; i++)
        facet_check_kernel_launch(check, &kernel, address, 1, 1);
    EXPECT_OK(check, "execution.cancel: what is recorded",
              ops->cancel(check->instance, kernel.context, kernel.stream, &check->error));
    EXPECT_OK(check, "execution.synchronize: after what was cancelled",
              ops->synchronize(check->instance, kernel.context, kernel.stream, FACET_CHECK_KERNEL_NS, &check->error));
    const struct subject subject = {kernel.context, kernel.stream, 0};
    FACET_CLEANUP_FREE struct facet_launch_record *all = fetch_records(check, &subject, &count);
    if (!all || !EXPECT_NUMBER(check, "execution.records: cancelled launches have records, too", CANCELLED, count))
        return;
    facet_check_begin(check, "%s", tally.text);
    for (uint32_t i = 0; i < count; i++)
        if (all[i].status == FACET_OK ? all[i].groups != CANCELLED_GROUPS
                                      : all[i].status != FACET_BAD_STATE || all[i].groups > CANCELLED_GROUPS)
            facet_check_tally_miss(
                &tally, "expected: ok with %d work-groups, or bad_state\ngot: %s with %" PRIu64 " work-groups",
                CANCELLED_GROUPS, facet_status_name((enum facet_status)all[i].status), all[i].groups);
    facet_check_report_tallies(check, &tally, 1);
}

static void check_transfer_record(struct facet_check *check, const struct facet_check_kernel *template_kernel,
                                  uint64_t address)
{
    struct subject subject = {.context = template_kernel->context};
    const struct facet_execution_ops *ops = &check->execution_ops;
    uint32_t count = 0;

    if (!facet_check_claims(check, FACET_CAN_ENQUEUE) ||
        !EXPECT_OK(check, "execution.create_stream: for a transfer that is recorded",
                   ops->create_stream(check->instance, subject.context, &subject.stream, &check->error)))
        return;
    EXPECT_OK(check, "execution.fill: to be recorded",
              ops->fill(check->instance, subject.context, subject.stream, address, 7, sizeof(uint64_t), &check->error));
    EXPECT_OK(check, "execution.synchronize: with a transfer that is recorded",
              ops->synchronize(check->instance, subject.context, subject.stream, FACET_CHECK_KERNEL_NS, &check->error));
    FACET_CLEANUP_FREE struct facet_launch_record *all = fetch_records(check, &subject, &count);
    if (all)
        EXPECT_TRUE(check, "execution.records: a transfer has one, without a kernel",
                    count == 1 && all[0].sequence == 1 && all[0].status == FACET_OK && !all[0].kernel[0],
                    "expected: 1 record with number 1, status ok and no kernel\ngot: %" PRIu32
                    " records, the first of kernel '%.63s'",
                    count, count ? all[0].kernel : "");
}

static void check_kernel_records(struct facet_check *check, uint64_t context)
{
    struct facet_check_kernel kernel = {0};
    uint64_t address = 0;

    if (!facet_check_kernel_published(check)) {
        facet_check_skip(check, "execution.records: of launches", "no property conformance_kernel is published");
        return;
    }
    if (!facet_check_kernel_open(check, context, &kernel) ||
        !EXPECT_OK(check, "memory.alloc: for kernels that are recorded",
                   check->memory_ops.alloc(check->instance, context, sizeof(uint64_t), &address, &check->error)))
        return;
    kernel.work_groups = GROUPS;
    check_launch_records(check, &kernel, address);
    check_records_after(check, &kernel);
    check_cancelled_records(check, &kernel, address);
    check_transfer_record(check, &kernel, address);
}

void facet_check_records(struct facet_check *check)
{
    struct subject subject = {0};

    if (!facet_check_context(check, FACET_CHECK_WORKER, &subject.context))
        return;
    if (EXPECT_OK(
            check, "execution.create_stream: to be recorded",
            check->execution_ops.create_stream(check->instance, subject.context, &subject.stream, &check->error))) {
        refuse_unknown(check, &subject);
        check_new_stream(check, &subject);
        check_kernel_records(check, subject.context);
    }
    facet_check_drop_context(check, subject.context);
}
