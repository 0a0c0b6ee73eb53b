/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the checks of transfers in the order of a stream (since ABI 1.2). Never: asserts at what
 * time a transfer is done; it asserts only the order of transfers. */
#include <inttypes.h>
#include <string.h>

#include "conformance/kernel.h"

enum { PIECE = 4096, WORD = 8, WORDS = 64, UNKNOWN = 0x7fffffff };

/* A context with a stream and two pieces of memory, another worker's context, and the expected and read bytes. */
struct area {
    struct facet_check *check;
    uint64_t context, other, stream, address;
    unsigned char expected[2 * PIECE], got[2 * PIECE];
};

static void refuse_unknown(struct facet_check *check, uint64_t context)
{
    const struct facet_execution_ops *ops = &check->execution_ops;
    struct facet_provider_instance *instance = check->instance;

    EXPECT_STATUS(check, "execution.write: an unknown context is not found", FACET_NOT_FOUND,
                  ops->write(instance, UNKNOWN, 1, 0, "data", 4, &check->error));
    EXPECT_STATUS(check, "execution.copy: an unknown context is not found", FACET_NOT_FOUND,
                  ops->copy(instance, UNKNOWN, 1, 0, 0, 4, NULL));
    EXPECT_STATUS(check, "execution.fill: an unknown context is not found", FACET_NOT_FOUND,
                  ops->fill(instance, UNKNOWN, 1, 0, 0, 4, &check->error));
    EXPECT_STATUS(check, "execution.write: an unknown stream is not found", FACET_NOT_FOUND,
                  ops->write(instance, context, UNKNOWN, 0, "data", 4, NULL));
    EXPECT_STATUS(check, "execution.copy: an unknown stream is not found", FACET_NOT_FOUND,
                  ops->copy(instance, context, UNKNOWN, 0, 0, 4, &check->error));
    EXPECT_STATUS(check, "execution.fill: an unknown stream is not found", FACET_NOT_FOUND,
                  ops->fill(instance, context, UNKNOWN, 0, 0, 4, &check->error));
}

static enum facet_status wait_and_read(struct area *area)
{
    struct facet_check *check = area->check;
    enum facet_status status = check->execution_ops.synchronize(check->instance, area->context, area->stream,
                                                                FACET_CHECK_KERNEL_NS, &check->error);

    if (status != FACET_OK)
        return status;
    return check->memory_ops.read(check->instance, area->context, area->address, sizeof area->got, area->got,
                                  &check->error);
}

static void expect_bytes(struct area *area, const char *text)
{
    size_t at = 0;

    while (at < sizeof area->got && area->got[at] == area->expected[at])
        at++;
    EXPECT_TRUE(area->check, text, at == sizeof area->got, "expected: byte %zu 0x%02x\ngot: 0x%02x", at,
                area->expected[at % sizeof area->expected], area->got[at % sizeof area->got]);
}

static void check_transfer_order(struct area *area)
{
    struct facet_check *check = area->check;
    const struct facet_execution_ops *ops = &check->execution_ops;
    unsigned char word[WORD + 1] = "in order";

    EXPECT_OK(check, "execution.fill: a piece",
              ops->fill(check->instance, area->context, area->stream, area->address, 0x11, PIECE, &check->error));
    EXPECT_OK(
        check, "execution.write: into a piece",
        ops->write(check->instance, area->context, area->stream, area->address + WORD, word, WORD, &check->error));
    memset(word, 0x99, WORD);
    EXPECT_OK(check, "execution.copy: one piece to another",
              ops->copy(check->instance, area->context, area->stream, area->address + PIECE, area->address, PIECE,
                        &check->error));
    EXPECT_OK(check, "execution.fill: a piece that was copied",
              ops->fill(check->instance, area->context, area->stream, area->address, 0x22, PIECE, &check->error));
    EXPECT_OK(check, "execution.synchronize: waits for transfers", wait_and_read(area));
    memset(area->expected, 0x22, PIECE);
    memset(area->expected + PIECE, 0x11, PIECE);
    memcpy(area->expected + PIECE + WORD, "in order", WORD);
    expect_bytes(area, "execution.write, copy, fill: in order, and what was written is as it was at the call");
}

/* Ranges are checked when a transfer is queued. */
static void refuse_outside(struct area *area)
{
    struct facet_check *check = area->check;
    const struct facet_execution_ops *ops = &check->execution_ops;
    struct facet_provider_instance *instance = check->instance;
    const uint64_t context = area->context, stream = area->stream, last = area->address + 2 * PIECE - 8;

    EXPECT_STATUS(check, "execution.write: NULL for the data is an invalid argument", FACET_INVALID_ARGUMENT,
                  ops->write(instance, context, stream, area->address, NULL, 8, &check->error));
    EXPECT_STATUS(check, "execution.write: an address that wraps around is out of range", FACET_OUT_OF_RANGE,
                  ops->write(instance, context, stream, UINT64_MAX - 7, "too far, by far", 16, &check->error));
    EXPECT_STATUS(check, "execution.fill: beyond a piece is out of range", FACET_OUT_OF_RANGE,
                  ops->fill(instance, context, stream, last, 0xee, UINT64_C(1) << 40, &check->error));
    EXPECT_STATUS(check, "execution.fill: a size that wraps around is out of range", FACET_OUT_OF_RANGE,
                  ops->fill(instance, context, stream, last, 0xee, UINT64_MAX - 4, NULL));
    EXPECT_STATUS(check, "execution.copy: to beyond a piece is out of range", FACET_OUT_OF_RANGE,
                  ops->copy(instance, context, stream, last, area->address, UINT64_C(1) << 40, &check->error));
    EXPECT_STATUS(
        check, "execution.copy: from an address without memory is out of range", FACET_OUT_OF_RANGE,
        ops->copy(instance, context, stream, area->address, area->address + (UINT64_C(1) << 50), 16, &check->error));
    EXPECT_OK(check, "memory.read: after transfers that were refused", wait_and_read(area));
    expect_bytes(area, "execution.write, copy, fill: what was refused changed nothing");
}

/* Transfers by another context's stream, to this context's memory. */
static void refuse_others_memory(struct area *area)
{
    struct facet_check *check = area->check;
    const struct facet_execution_ops *ops = &check->execution_ops;
    struct facet_provider_instance *instance = check->instance;
    uint64_t stream = 0;

    if (!EXPECT_OK(check, "execution.create_stream: for another worker",
                   ops->create_stream(instance, area->other, &stream, &check->error)))
        return;
    EXPECT_STATUS(check, "execution.write: another context's memory is out of range", FACET_OUT_OF_RANGE,
                  ops->write(instance, area->other, stream, area->address, "mine", 4, &check->error));
    EXPECT_STATUS(check, "execution.fill: another context's memory is out of range", FACET_OUT_OF_RANGE,
                  ops->fill(instance, area->other, stream, area->address, 0xcc, 16, &check->error));
    EXPECT_STATUS(check, "execution.copy: another context's stream is not found", FACET_NOT_FOUND,
                  ops->copy(instance, area->other, area->stream, area->address, area->address, 16, &check->error));
    EXPECT_OK(check, "memory.read: after another context's transfers", wait_and_read(area));
    expect_bytes(area, "execution.write, copy, fill: another context's changed nothing");
}

static void check_counts(struct area *area)
{
    struct facet_check *check = area->check;
    struct facet_stream_state state = {.size = sizeof state};

    EXPECT_OK(check, "execution.query: after transfers",
              check->execution_ops.query(check->instance, area->context, area->stream, &state, &check->error));
    EXPECT_TRUE(check, "execution.query: transfers that were waited for are complete, and none failed",
                state.completed == state.launched && state.failed == 0,
                "expected: all transfers complete, status of failure 0\ngot: %" PRIu64 " of %" PRIu64
                " complete, status of failure %" PRIu32,
                state.completed, state.launched, state.failed);
}

static enum facet_status queue_beside_launches(struct area *area, const struct facet_check_kernel *kernel)
{
    struct facet_check *check = area->check;
    const struct facet_execution_ops *ops = &check->execution_ops;
    struct facet_provider_instance *instance = check->instance;
    const uint64_t word = UINT64_C(0x4444444444444444);
    enum facet_status status =
        ops->fill(instance, area->context, area->stream, area->address, 0, 2 * PIECE, &check->error);

    if (status == FACET_OK)
        status = facet_check_kernel_launch(check, kernel, area->address, WORDS, UINT64_C(0x1111111111111111));
    if (status == FACET_OK)
        status = ops->copy(instance, area->context, area->stream, area->address + PIECE, area->address, PIECE,
                           &check->error);
    if (status == FACET_OK)
        status = facet_check_kernel_launch(check, kernel, area->address, WORDS, UINT64_C(0x2222222222222222));
    if (status == FACET_OK)
        status = ops->write(instance, area->context, area->stream, area->address, &word, sizeof word, &check->error);
    return status;
}

static void check_beside_launches(struct area *area)
{
    struct facet_check *check = area->check;
    struct facet_check_kernel kernel = {0};

    if (!facet_check_kernel_published(check)) {
        facet_check_skip(check, "execution.copy: between two launches", "no property conformance_kernel is published");
        return;
    }
    if (!facet_check_kernel_open(check, area->context, &kernel))
        return;
    area->stream = kernel.stream;
    EXPECT_OK(check, "execution.launch: before and after transfers", queue_beside_launches(area, &kernel));
    EXPECT_OK(check, "execution.synchronize: waits for launches and transfers", wait_and_read(area));
    memset(area->expected, 0, sizeof area->expected);
    memset(area->expected, 0x22, WORDS * sizeof(uint64_t));
    memset(area->expected, 0x44, sizeof(uint64_t));
    memset(area->expected + PIECE, 0x11, WORDS * sizeof(uint64_t));
    expect_bytes(area, "execution.copy: between two launches takes what the first one wrote");
}

static bool prepare_area(struct area *area)
{
    struct facet_check *check = area->check;

    return facet_check_context(check, FACET_CHECK_OTHER, &area->other) &&
           EXPECT_OK(
               check, "execution.create_stream: for transfers",
               check->execution_ops.create_stream(check->instance, area->context, &area->stream, &check->error)) &&
           EXPECT_OK(check, "memory.alloc: two pieces for transfers",
                     check->memory_ops.alloc(check->instance, area->context, sizeof area->got, &area->address,
                                             &check->error));
}

void facet_check_enqueue(struct facet_check *check)
{
    struct area area = {.check = check};

    if (!facet_check_context(check, FACET_CHECK_WORKER, &area.context))
        return;
    refuse_unknown(check, area.context);
    if (prepare_area(&area)) {
        check_transfer_order(&area);
        refuse_outside(&area);
        refuse_others_memory(&area);
        check_counts(&area);
        check_beside_launches(&area);
        facet_check_drop_context(check, area.other);
    }
    facet_check_drop_context(check, area.context);
}
