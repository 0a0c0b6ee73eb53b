/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: checks of bounds of a context (since ABI 1.4), by the records of its launches. Never: expects that launches
 * overlap without bounds: a device that runs one launch at a time keeps any bound. */
#include <inttypes.h>

#include "base/cleanup.h"
#include "conformance/kernel.h"

enum { LAUNCHES_PER_STREAM = 8 };

static bool set_bounds(struct facet_check *check, const struct facet_check_kernel *kernel, uint32_t units,
                       uint32_t launches, const char *text)
{
    return EXPECT_OK(check, text,
                     check->execution_ops.set_bounds(check->instance, kernel->context, units, launches, &check->error));
}

/* Launches in both streams by turns, so that both have queued work all the time. */
static bool launch_both(struct facet_check *check, const struct facet_check_kernel *one,
                        const struct facet_check_kernel *two, uint64_t address)
{
    enum facet_status status = FACET_OK;

    facet_check_begin(check, "execution.launch: in two streams of a context with bounds");
    for (int i = 0; status == FACET_OK && i < LAUNCHES_PER_STREAM; i++) {
        status = facet_check_kernel_launch(check, one, address, 1, 1);
        if (status == FACET_OK)
            status = facet_check_kernel_launch(check, two, address + sizeof(uint64_t), 1, 1);
    }
    return facet_check_status(check, FACET_OK, status) &&
           EXPECT_OK(check, "execution.synchronize: one of two streams with bounds",
                     facet_check_kernel_wait(check, one, FACET_CHECK_KERNEL_NS)) &&
           EXPECT_OK(check, "execution.synchronize: the other of two streams with bounds",
                     facet_check_kernel_wait(check, two, FACET_CHECK_KERNEL_NS));
}

static bool launches_overlap(const struct facet_launch_record *a, const struct facet_launch_record *b)
{
    return a->start_ns < b->end_ns && b->start_ns < a->end_ns;
}

static void check_records(struct facet_check *check, const struct facet_check_kernel *one,
                          const struct facet_check_kernel *two)
{
    struct facet_check_tally tallies[] = {
        {.text = "execution.set_bounds: launches in flight stay within the bound"},
        {.text = "execution.set_bounds: the units of a launch stay within the bound"},
    };
    uint32_t first_count = 0, second_count = 0;
    FACET_CLEANUP_FREE struct facet_launch_record *first =
        facet_check_fetch_records(check, one->context, one->stream, 0, &first_count);
    FACET_CLEANUP_FREE struct facet_launch_record *second =
        facet_check_fetch_records(check, two->context, two->stream, 0, &second_count);

    if (!first || !second ||
        !EXPECT_NUMBER(check, "execution.records: one for each launch of two streams",
                       UINT64_C(2) * LAUNCHES_PER_STREAM, first_count + second_count))
        return;
    facet_check_begin(check, "%s", tallies[0].text);
    for (uint32_t i = 0; i < first_count; i++)
        for (uint32_t j = 0; j < second_count; j++) {
            if (launches_overlap(&first[i], &second[j]))
                facet_check_tally_miss(
                    &tallies[0],
                    "expected: launches of two streams one after the other\ngot: a launch from %" PRIu64 " to %" PRIu64
                    " ns, and a launch from %" PRIu64 " to %" PRIu64 " ns",
                    first[i].start_ns, first[i].end_ns, second[j].start_ns, second[j].end_ns);
            if (first[i].units > 1 || second[j].units > 1)
                facet_check_tally_miss(&tallies[1],
                                       "expected: 1 unit for each launch\ngot: %" PRIu32 " and %" PRIu32 " units",
                                       first[i].units, second[j].units);
        }
    facet_check_report_tallies(check, tallies, 2);
}

void facet_check_bounds(struct facet_check *check, const struct facet_check_kernel *kernel, uint64_t address)
{
    struct facet_check_kernel one, two;

    if (!facet_check_claims(check, FACET_CAN_RECORD)) {
        facet_check_skip(check, "execution.set_bounds: launches in flight stay within the bound",
                         "the device keeps no records");
        return;
    }
    if (!facet_check_kernel_add_stream(check, kernel, &one) || !facet_check_kernel_add_stream(check, kernel, &two) ||
        !set_bounds(check, kernel, 1, 1, "execution.set_bounds: to one launch on one unit"))
        return;
    if (launch_both(check, &one, &two, address))
        check_records(check, &one, &two);
    set_bounds(check, kernel, 0, 0, "execution.set_bounds: back to none, when all is done");
    EXPECT_OK(check, "execution.launch: when bounds are gone", facet_check_kernel_launch(check, &one, address, 1, 1));
    EXPECT_OK(check, "execution.synchronize: when bounds are gone",
              facet_check_kernel_wait(check, &one, FACET_CHECK_KERNEL_NS));
}
