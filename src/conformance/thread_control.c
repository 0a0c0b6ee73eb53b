/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the rounds of control, policies and mathematics, in a context of the thread's own. Never: sets a policy under
 * which other threads would wait. */
#include <string.h>

#include "conformance/thread.h"

enum { PIECE = 64, SIDE = 2 };

/* A wait that is queued during a pause ends after the pause; a launch that was never made cannot be cancelled. */
static void use_pause_and_cancel(struct facet_check_thread *thread, uint64_t context, uint64_t stream)
{
    uint64_t other = 0;

    FACET_THREAD_EXPECT(thread, FACET_OK, execution, set_bounds, context, 1, 1);
    if (!FACET_THREAD_EXPECT(thread, FACET_OK, execution, create_stream, context, &other))
        return;
    FACET_THREAD_EXPECT(thread, FACET_OK, execution, pause, context, 1);
    FACET_THREAD_EXPECT(thread, FACET_OK, execution, wait, context, stream, other);
    FACET_THREAD_EXPECT(thread, FACET_NOT_FOUND, execution, cancel_launch, context, stream, 99);
    FACET_THREAD_EXPECT(thread, FACET_OK, execution, pause, context, 0);
    FACET_THREAD_EXPECT(thread, FACET_OK, execution, synchronize, context, stream, FACET_CHECK_KERNEL_NS);
    FACET_THREAD_EXPECT(thread, FACET_OK, execution, destroy_stream, context, other);
}

static bool has_gemm(struct facet_check_thread *thread)
{
    struct facet_math_support support = {.size = sizeof support};

    return FACET_THREAD_EXPECT(thread, FACET_OK, math, support, thread->check.device, &support) &&
           (support.types[FACET_MATH_GEMM] & (1u << FACET_MATH_F32));
}

static void multiply_matrices(struct facet_check_thread *thread, uint64_t context, uint64_t stream)
{
    const float own_value = (float)(thread->number + 1), matrices[] = {own_value, 0, 0, own_value, 1, 2, 3, 4};
    struct facet_math math = {.size = sizeof math, .of.gemm = {.m = SIDE, .n = SIDE, .k = SIDE, .alpha = 1}};
    float got[SIDE * SIDE] = {0};
    uint64_t address = 0;

    if (!has_gemm(thread)) {
        FACET_THREAD_EXPECT(thread, FACET_INVALID_ARGUMENT, math, run, context, stream, NULL);
        return;
    }
    if (!FACET_THREAD_EXPECT(thread, FACET_OK, memory, alloc, context, 3 * PIECE, &address))
        return;
    math.of.gemm.a = address;
    math.of.gemm.b = address + PIECE;
    math.of.gemm.c = address + 2 * PIECE;
    FACET_THREAD_EXPECT(thread, FACET_OK, memory, write, context, math.of.gemm.a, matrices, sizeof got);
    FACET_THREAD_EXPECT(thread, FACET_OK, memory, write, context, math.of.gemm.b, &matrices[4], sizeof got);
    FACET_THREAD_EXPECT(thread, FACET_OK, math, run, context, stream, &math);
    FACET_THREAD_EXPECT(thread, FACET_OK, execution, synchronize, context, stream, FACET_CHECK_KERNEL_NS);
    FACET_THREAD_EXPECT(thread, FACET_OK, memory, read, context, math.of.gemm.c, sizeof got, got);
    for (int i = 0; i < SIDE * SIDE; i++)
        if (got[i] < own_value * matrices[4 + i] || got[i] > own_value * matrices[4 + i])
            facet_thread_complain(thread, "math.run: not this thread's product");
}

void facet_thread_control(struct facet_check_thread *thread)
{
    const struct facet_check *check = &thread->check;
    uint64_t context = 0, stream = 0;

    if (facet_check_claims(check, FACET_CAN_SCHEDULE))
        FACET_THREAD_EXPECT(thread, FACET_OK, execution, set_policy, check->device, FACET_SCHEDULE_FAIR, 1, 0);
    if (!facet_thread_context(thread, &context))
        return;
    if (FACET_THREAD_EXPECT(thread, FACET_OK, execution, create_stream, context, &stream)) {
        if (facet_check_claims(check, FACET_CAN_CONTROL))
            use_pause_and_cancel(thread, context, stream);
        if (facet_check_claims(check, FACET_CAN_MATH))
            multiply_matrices(thread, context, stream);
        FACET_THREAD_EXPECT(thread, FACET_OK, execution, destroy_stream, context, stream);
    }
    facet_thread_drop_context(thread, context);
}
