/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the checks of which shares and priorities are accepted (since ABI 1.2).
 * Never: measures the resulting shares, because an idle device may give a context all of its time.
 */
#include <facet/limits.h>

#include "conformance/kernel.h"

enum { UNKNOWN = 0x7fffffff };

static void check_shares(struct facet_check *check, uint64_t context)
{
    const struct facet_execution_ops *ops = &check->execution_ops;
    struct facet_provider_instance *instance = check->instance;

    EXPECT_STATUS(check, "execution.set_share: an unknown context is not found", FACET_NOT_FOUND,
                  ops->set_share(instance, UNKNOWN, 300, 1000, FACET_PRIORITY_NORMAL, NULL));
    EXPECT_STATUS(check, "execution.set_share: a weight above the whole is out of range", FACET_OUT_OF_RANGE,
                  ops->set_share(instance, context, 1001, 1000, FACET_PRIORITY_NORMAL, &check->error));
    EXPECT_STATUS(check, "execution.set_share: a limit of 0 is out of range", FACET_OUT_OF_RANGE,
                  ops->set_share(instance, context, 0, 0, FACET_PRIORITY_NORMAL, &check->error));
    EXPECT_STATUS(check, "execution.set_share: a limit above the whole is out of range", FACET_OUT_OF_RANGE,
                  ops->set_share(instance, context, 300, 1001, FACET_PRIORITY_NORMAL, &check->error));
    EXPECT_STATUS(check, "execution.set_share: an unknown priority is out of range", FACET_OUT_OF_RANGE,
                  ops->set_share(instance, context, 300, 1000, FACET_PRIORITY_HIGH + 1, &check->error));
    EXPECT_OK(check, "execution.set_share: best effort under a cap, of low priority",
              ops->set_share(instance, context, 0, 1, FACET_PRIORITY_LOW, &check->error));
    EXPECT_OK(check, "execution.set_share: all of the device, of high priority",
              ops->set_share(instance, context, 1000, 1000, FACET_PRIORITY_HIGH, &check->error));
}

static void check_priorities(struct facet_check *check, uint64_t context, uint64_t stream)
{
    const struct facet_execution_ops *ops = &check->execution_ops;
    struct facet_provider_instance *instance = check->instance;

    EXPECT_STATUS(check, "execution.set_priority: an unknown context is not found", FACET_NOT_FOUND,
                  ops->set_priority(instance, UNKNOWN, stream, FACET_PRIORITY_NORMAL, &check->error));
    EXPECT_STATUS(check, "execution.set_priority: an unknown stream is not found", FACET_NOT_FOUND,
                  ops->set_priority(instance, context, UNKNOWN, FACET_PRIORITY_NORMAL, NULL));
    EXPECT_STATUS(check, "execution.set_priority: an unknown priority is out of range", FACET_OUT_OF_RANGE,
                  ops->set_priority(instance, context, stream, FACET_PRIORITY_HIGH + 1, &check->error));
    EXPECT_OK(check, "execution.set_priority: low",
              ops->set_priority(instance, context, stream, FACET_PRIORITY_LOW, &check->error));
    EXPECT_OK(check, "execution.set_priority: high",
              ops->set_priority(instance, context, stream, FACET_PRIORITY_HIGH, &check->error));
}

/* A launch completes with any share of its context. */
static void check_work_with_share(struct facet_check *check, uint64_t context)
{
    const struct facet_execution_ops *ops = &check->execution_ops;
    struct facet_check_kernel kernel = {0};
    uint64_t address = 0;

    if (!facet_check_kernel_published(check)) {
        facet_check_skip(check, "execution.set_share: work goes on", "no property conformance_kernel is published");
        return;
    }
    if (!facet_check_kernel_open(check, context, &kernel) ||
        !EXPECT_OK(check, "memory.alloc: for a kernel with a share",
                   check->memory_ops.alloc(check->instance, context, sizeof(uint64_t), &address, &check->error)))
        return;
    EXPECT_OK(check, "execution.launch: before the share changes",
              facet_check_kernel_launch(check, &kernel, address, 1, 1));
    EXPECT_OK(check, "execution.set_share: while work is queued",
              ops->set_share(check->instance, context, 0, 500, FACET_PRIORITY_LOW, &check->error));
    EXPECT_OK(check, "execution.set_priority: while work is queued",
              ops->set_priority(check->instance, context, kernel.stream, FACET_PRIORITY_HIGH, &check->error));
    EXPECT_OK(check, "execution.synchronize: work goes on with another share",
              ops->synchronize(check->instance, context, kernel.stream, FACET_CHECK_KERNEL_NS, &check->error));
}

void facet_check_share(struct facet_check *check)
{
    uint64_t context = 0, stream = 0;

    if (!facet_check_context(check, FACET_CHECK_WORKER, &context))
        return;
    check_shares(check, context);
    if (EXPECT_OK(check, "execution.create_stream: to be preferred",
                  check->execution_ops.create_stream(check->instance, context, &stream, &check->error))) {
        check_priorities(check, context, stream);
        check_work_with_share(check, context);
    }
    facet_check_drop_context(check, context);
}
