/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the arguments of FACET_CAN_CONTROL's operations (since ABI 1.4), and the kernel for the checks of their
 * effects. Never: checks an effect; check_pause.c, check_cancel_launch.c, check_wait.c and check_bounds.c do.
 */
#include "conformance/kernel.h"

enum { UNKNOWN = 0x7fffffff };

static void refuse_unknown(struct facet_check *check, uint64_t context, uint64_t stream)
{
    const struct facet_execution_ops *ops = &check->execution_ops;
    struct facet_provider_instance *instance = check->instance;

    EXPECT_STATUS(check, "execution.set_bounds: an unknown context is not found", FACET_NOT_FOUND,
                  ops->set_bounds(instance, UNKNOWN, 1, 1, NULL));
    EXPECT_STATUS(check, "execution.pause: an unknown context is not found", FACET_NOT_FOUND,
                  ops->pause(instance, UNKNOWN, 1, &check->error));
    EXPECT_STATUS(check, "execution.wait: an unknown context is not found", FACET_NOT_FOUND,
                  ops->wait(instance, UNKNOWN, stream, stream, NULL));
    EXPECT_STATUS(check, "execution.wait: of an unknown stream is not found", FACET_NOT_FOUND,
                  ops->wait(instance, context, UNKNOWN, stream, &check->error));
    EXPECT_STATUS(check, "execution.wait: for an unknown stream is not found", FACET_NOT_FOUND,
                  ops->wait(instance, context, stream, UNKNOWN, &check->error));
    EXPECT_STATUS(check, "execution.cancel_launch: an unknown context is not found", FACET_NOT_FOUND,
                  ops->cancel_launch(instance, UNKNOWN, stream, 1, &check->error));
    EXPECT_STATUS(check, "execution.cancel_launch: an unknown stream is not found", FACET_NOT_FOUND,
                  ops->cancel_launch(instance, context, UNKNOWN, 1, NULL));
    EXPECT_STATUS(check, "execution.cancel_launch: number 0 is not found", FACET_NOT_FOUND,
                  ops->cancel_launch(instance, context, stream, 0, &check->error));
    EXPECT_STATUS(check, "execution.cancel_launch: of a stream that has none is not found", FACET_NOT_FOUND,
                  ops->cancel_launch(instance, context, stream, 1, &check->error));
}

static void check_bound_limits(struct facet_check *check, uint64_t context)
{
    const struct facet_execution_ops *ops = &check->execution_ops;
    const struct facet_device_info *info = facet_check_info(check);

    if ((info->valid & FACET_DEVICE_HAS_COMPUTE_UNITS) && info->compute_units < UINT32_MAX)
        EXPECT_STATUS(check, "execution.set_bounds: more units than the device has are out of range",
                      FACET_OUT_OF_RANGE,
                      ops->set_bounds(check->instance, context, info->compute_units + 1, 0, &check->error));
    EXPECT_OK(check, "execution.set_bounds: one unit, one launch",
              ops->set_bounds(check->instance, context, 1, 1, &check->error));
    EXPECT_OK(check, "execution.set_bounds: none", ops->set_bounds(check->instance, context, 0, 0, &check->error));
}

/* To a context, another context's stream is unknown. */
static void refuse_others_stream(struct facet_check *check, uint64_t context, uint64_t stream)
{
    uint64_t other = 0, theirs = 0;

    if (!facet_check_context(check, FACET_CHECK_OTHER, &other))
        return;
    if (EXPECT_OK(check, "execution.create_stream: for another worker",
                  check->execution_ops.create_stream(check->instance, other, &theirs, &check->error)))
        EXPECT_STATUS(check, "execution.wait: for another context's stream is not found", FACET_NOT_FOUND,
                      check->execution_ops.wait(check->instance, context, stream, theirs, &check->error));
    facet_check_drop_context(check, other);
}

static void control_kernels(struct facet_check *check, uint64_t context)
{
    struct facet_check_kernel kernel = {0};
    uint64_t address = 0;

    if (!facet_check_kernel_published(check)) {
        facet_check_skip(check, "execution.pause: while work is queued", "no property conformance_kernel is published");
        return;
    }
    if (!facet_check_kernel_open(check, context, &kernel) ||
        !EXPECT_OK(check, "memory.alloc: for kernels that are controlled",
                   check->memory_ops.alloc(check->instance, context, FACET_CHECK_QUEUE * sizeof(uint64_t), &address,
                                           &check->error)) ||
        !facet_check_kernel_lengthen(check, &kernel, address))
        return;
    facet_check_pause(check, &kernel, address);
    facet_check_cancel_launch(check, &kernel, address);
    facet_check_wait(check, &kernel, address);
    facet_check_bounds(check, &kernel, address);
}

void facet_check_control(struct facet_check *check)
{
    uint64_t context = 0, stream = 0;

    if (!facet_check_context(check, FACET_CHECK_WORKER, &context))
        return;
    if (EXPECT_OK(check, "execution.create_stream: to be controlled",
                  check->execution_ops.create_stream(check->instance, context, &stream, &check->error))) {
        refuse_unknown(check, context, stream);
        check_bound_limits(check, context);
        refuse_others_stream(check, context, stream);
        control_kernels(check, context);
    }
    facet_check_drop_context(check, context);
}
