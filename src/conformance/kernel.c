/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the published test kernel. Never: judges what it did. */
#include "conformance/kernel.h"

#include <stdio.h>
#include <string.h>

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
