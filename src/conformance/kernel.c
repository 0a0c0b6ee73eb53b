/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: loading, launching and waiting for the published test kernel. Never: judges the words that the kernel wrote. */
#include "conformance/kernel.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

enum { GROWTH = 4, MOST_GROUPS = 1 << 24 };

/* The device time that one launch should take, so that a queue of FACET_CHECK_QUEUE launches can be observed. */
#define LAUNCH_NS (4 * FACET_NS_PER_MS)

bool facet_check_kernel_published(struct facet_check *check)
{
    char text[64];

    return facet_check_property(check, "conformance_kernel", text, sizeof text) &&
           facet_check_property(check, "conformance_image", text, sizeof text);
}

bool facet_check_kernel_open(struct facet_check *check, uint64_t context, struct facet_check_kernel *ret_kernel)
{
    const struct facet_execution_ops *ops = &check->execution_ops;
    struct facet_check_kernel kernel = {.context = context, .work_groups = 1};
    char image[8192];

    if (!facet_check_property(check, "conformance_kernel", kernel.name, sizeof kernel.name) ||
        !facet_check_property(check, "conformance_image", image, sizeof image))
        return false;
    if (!EXPECT_OK(check, "execution.load: the published image",
                   ops->load(check->instance, context, image, strlen(image), &kernel.module, &check->error)) ||
        !EXPECT_OK(check, "execution.create_stream: one to launch on",
                   ops->create_stream(check->instance, context, &kernel.stream, &check->error)))
        return false;
    *ret_kernel = kernel;
    return true;
}

enum facet_status facet_check_kernel_launch(struct facet_check *check, const struct facet_check_kernel *kernel,
                                            uint64_t address, uint64_t words, uint64_t value)
{
    const uint64_t arguments[] = {address, words, value};
    struct facet_launch launch = {.size = sizeof launch,
                                  .argument_bytes = sizeof arguments,
                                  .module = kernel->module,
                                  .grid = {kernel->work_groups, 1, 1},
                                  .group = {1, 1, 1}};

    snprintf(launch.kernel, sizeof launch.kernel, "%s", kernel->name);
    return check->execution_ops.launch(check->instance, kernel->context, kernel->stream, &launch, arguments,
                                       &check->error);
}

enum facet_status facet_check_kernel_query(struct facet_check *check, const struct facet_check_kernel *kernel,
                                           struct facet_stream_state *ret_state)
{
    memset(ret_state, 0, sizeof *ret_state);
    ret_state->size = sizeof *ret_state;
    return check->execution_ops.query(check->instance, kernel->context, kernel->stream, ret_state, &check->error);
}

enum facet_status facet_check_kernel_wait(struct facet_check *check, const struct facet_check_kernel *kernel,
                                          uint64_t timeout_ns)
{
    return check->execution_ops.synchronize(check->instance, kernel->context, kernel->stream, timeout_ns,
                                            &check->error);
}

bool facet_check_kernel_lengthen(struct facet_check *check, struct facet_check_kernel *kernel, uint64_t address)
{
    struct facet_stream_state before, after;

    facet_check_begin(check, "execution.launch: with more and more work-groups");
    for (;;) {
        enum facet_status status = facet_check_kernel_query(check, kernel, &before);

        if (status == FACET_OK)
            status = facet_check_kernel_launch(check, kernel, address, 1, 1);
        if (status == FACET_OK)
            status = facet_check_kernel_wait(check, kernel, FACET_CHECK_KERNEL_NS);
        if (status == FACET_OK)
            status = facet_check_kernel_query(check, kernel, &after);
        if (status != FACET_OK || after.busy_ns - before.busy_ns >= LAUNCH_NS || kernel->work_groups >= MOST_GROUPS)
            return facet_check_status(check, FACET_OK, status);
        kernel->work_groups *= GROWTH;
    }
}

enum facet_status facet_check_queue_fill(struct facet_check *check, const struct facet_check_kernel *kernel,
                                         uint64_t address)
{
    enum facet_status status = check->memory_ops.fill(check->instance, kernel->context, address, 0,
                                                      FACET_CHECK_QUEUE * sizeof(uint64_t), &check->error);

    for (uint32_t i = 0; status == FACET_OK && i < FACET_CHECK_QUEUE; i++)
        status = facet_check_kernel_launch(check, kernel, address + i * sizeof(uint64_t), 1, i + 1);
    return status;
}

enum facet_status facet_check_queue_words(struct facet_check *check, const struct facet_check_kernel *kernel,
                                          uint64_t address, uint64_t *ret_words)
{
    return check->memory_ops.read(check->instance, kernel->context, address, FACET_CHECK_QUEUE * sizeof *ret_words,
                                  ret_words, &check->error);
}

bool facet_check_kernel_add_stream(struct facet_check *check, const struct facet_check_kernel *kernel,
                                   struct facet_check_kernel *ret_second)
{
    struct facet_check_kernel second = *kernel;

    if (!EXPECT_OK(check, "execution.create_stream: beside another",
                   check->execution_ops.create_stream(check->instance, kernel->context, &second.stream, &check->error)))
        return false;
    *ret_second = second;
    return true;
}
