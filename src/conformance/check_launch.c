/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the checks of the fields of a launch since version 1.2 of the ABI: dimensions and offset. Never: expects the
 * published kernel to use them.
 */
#include <inttypes.h>
#include <string.h>

#include "conformance/kernel.h"

enum { WORDS = 16 };

static enum facet_status launch_sized(struct facet_check *check, const struct facet_check_kernel *kernel,
                                      const struct facet_launch *like, uint64_t address, uint64_t value)
{
    const uint64_t arguments[] = {address, WORDS, value};
    struct facet_launch made = *like;

    made.module = kernel->module;
    made.argument_bytes = sizeof arguments;
    memcpy(made.kernel, kernel->name, sizeof made.kernel);
    return check->execution_ops.launch(check->instance, kernel->context, kernel->stream, &made, arguments,
                                       &check->error);
}

static void expect_word(struct facet_check *check, const struct facet_check_kernel *kernel, uint64_t address,
                        uint64_t value)
{
    uint64_t word = 0;

    EXPECT_OK(check, "execution.synchronize: with launches of all forms",
              check->execution_ops.synchronize(check->instance, kernel->context, kernel->stream, FACET_CHECK_KERNEL_NS,
                                               &check->error));
    EXPECT_OK(check, "memory.read: what launches of all forms wrote",
              check->memory_ops.read(check->instance, kernel->context, address, sizeof word, &word, &check->error));
    EXPECT_NUMBER(check, "execution.launch: with an offset, the kernel runs", value, word);
}

/* A launch as a caller of version 1.1 makes it: the bytes behind its smaller struct may be anything. */
static struct facet_launch launch_with_abi_1_1(void)
{
    struct facet_launch old = {.size = offsetof(struct facet_launch, offset), .grid = {1, 1, 1}, .group = {1, 1, 1}};

    memset(old.offset, 0xff, sizeof old - old.size);
    return old;
}

void facet_check_launch_forms(struct facet_check *check, const struct facet_check_kernel *kernel, uint64_t address)
{
    struct facet_launch one = {.size = sizeof one, .grid = {1, 1, 1}, .group = {1, 1, 1}};
    const struct facet_launch old = launch_with_abi_1_1();

    EXPECT_OK(check, "execution.launch: as a caller of version 1.1 has it",
              launch_sized(check, kernel, &old, address, 1));
    if (check->provider->abi_minor < 2)
        return;
    one.dimensions = 4;
    EXPECT_STATUS(check, "execution.launch: 4 dimensions are out of range", FACET_OUT_OF_RANGE,
                  launch_sized(check, kernel, &one, address, 2));
    one.dimensions = 1;
    EXPECT_OK(check, "execution.launch: of 1 dimension", launch_sized(check, kernel, &one, address, 3));
    one.dimensions = 3;
    one.offset[0] = 5;
    one.offset[2] = 9;
    /* A device that counts only from 0 may refuse the offset, but must not ignore it. */
    enum facet_status status = launch_sized(check, kernel, &one, address, 4);
    EXPECT_STATUS(check, "execution.launch: of 3 dimensions, with an offset that it has or refuses",
                  status == FACET_UNSUPPORTED ? FACET_UNSUPPORTED : FACET_OK, status);
    expect_word(check, kernel, address, status == FACET_OK ? 4 : 3);
}
