/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the checks that an operation behaves as a launch of its stream: it is counted and recorded, runs in order, and
 * is paused and cancelled. Never: runs more than one variant of an operation in one type; check_math_result.c does.
 */
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "conformance/kernel.h"
#include "conformance/trial.h"

/* Large enough that a device splits the product into pieces. */
enum { SIDE = 192 };

#define POLL_NS (20 * FACET_NS_PER_MS)

static enum facet_status run_operation(struct facet_check_trial *trial)
{
    struct facet_check *check = trial->check;

    return check->math_ops.run(check->instance, trial->context, trial->stream, &trial->math, &check->error);
}

static enum facet_status wait_for(struct facet_check_trial *trial, uint64_t timeout_ns)
{
    struct facet_check *check = trial->check;

    return check->execution_ops.synchronize(check->instance, trial->context, trial->stream, timeout_ns, &check->error);
}

static struct facet_stream_state query_stream(struct facet_check_trial *trial)
{
    struct facet_check *check = trial->check;
    struct facet_stream_state state = {.size = sizeof state};

    EXPECT_OK(check, "execution.query: with operations",
              check->execution_ops.query(check->instance, trial->context, trial->stream, &state, &check->error));
    return state;
}

static bool starts_with(const char *kernel, const char *name)
{
    size_t length = strlen(name);

    return strncmp(kernel, name, length) == 0 && (kernel[length] == '\0' || kernel[length] == ' ');
}

static void expect_record(struct facet_check_trial *trial, uint64_t before)
{
    struct facet_check *check = trial->check;
    const char *name = facet_check_math_name(trial->math.operation);
    uint32_t count = 0;

    if (!facet_check_claims(check, FACET_CAN_RECORD))
        return;
    FACET_CLEANUP_FREE struct facet_launch_record *all =
        facet_check_fetch_records(check, trial->context, trial->stream, before, &count);
    if (!all)
        return;
    facet_check_begin(check, "execution.records: %s leaves one record, which names the operation", name);
    facet_check_judge(check,
                      count == 1 && all[0].sequence == before + 1 && all[0].status == FACET_OK &&
                          starts_with(all[0].kernel, name),
                      "expected: 1 record, number %" PRIu64 " of '%s' with status ok\ngot: %" PRIu32
                      " records, the first number %" PRIu64 " of '%.63s' with status %s",
                      before + 1, name, count, count ? all[0].sequence : 0, count ? all[0].kernel : "",
                      count ? facet_status_name((enum facet_status)all[0].status) : "none");
}

/* Runs an operation, and checks that it counts as one launch, even if the device splits it. */
static void run_as_one_launch(struct facet_check_trial *trial)
{
    struct facet_check *check = trial->check;
    const char *name = facet_check_math_name(trial->math.operation);
    struct facet_stream_state before = query_stream(trial);

    facet_check_begin(check, "math.run: %s between two reads of the stream's counts", name);
    if (!facet_check_status(check, FACET_OK, run_operation(trial)) ||
        !EXPECT_OK(check, "execution.synchronize: with an operation", wait_for(trial, FACET_CHECK_KERNEL_NS)))
        return;
    struct facet_stream_state after = query_stream(trial);
    facet_check_begin(check, "math.run: %s counts as one launch", name);
    facet_check_judge(check,
                      after.launched == before.launched + 1 && after.completed == after.launched &&
                          after.begun == after.launched && after.failed == 0,
                      "expected: %" PRIu64 " launched, begun and completed, status of failure 0\ngot: %" PRIu64
                      " launched, %" PRIu64 " begun, %" PRIu64 " completed, status of failure %" PRIu32,
                      before.launched + 1, after.launched, after.begun, after.completed, after.failed);
    expect_record(trial, before.launched);
}

static void check_counts(struct facet_check_trial *trial, const struct facet_math_support *support)
{
    for (uint32_t operation = 0; operation < FACET_MATH_KINDS; operation++) {
        uint32_t type = facet_check_first_type(support, operation);

        if (type == FACET_MATH_TYPES)
            continue;
        facet_check_make_plainest(trial, operation, type);
        run_as_one_launch(trial);
    }
}

/* Every element of a is 1 and of b is 2, so all elements of c must be equal. */
static void check_large_product(struct facet_check_trial *trial)
{
    struct facet_check *check = trial->check;
    static float a[SIDE * SIDE], b[SIDE * SIDE], c[SIDE * SIDE];
    uint64_t address = 0;
    uint32_t wrong = 0;

    for (int i = 0; i < SIDE * SIDE; i++) {
        a[i] = 1;
        b[i] = 2;
    }
    if (!EXPECT_OK(check, "memory.alloc: for large matrices",
                   check->memory_ops.alloc(check->instance, trial->context, sizeof a + sizeof b + sizeof c, &address,
                                           &check->error)))
        return;
    EXPECT_OK(check, "memory.write: a large matrix",
              check->memory_ops.write(check->instance, trial->context, address, a, sizeof a, &check->error));
    EXPECT_OK(check, "memory.write: another large matrix",
              check->memory_ops.write(check->instance, trial->context, address + sizeof a, b, sizeof b, &check->error));
    facet_check_trial_begin(trial, FACET_MATH_GEMM, FACET_MATH_F32, 0);
    trial->math.of.gemm = (struct facet_gemm){.a = address,
                                              .b = address + sizeof a,
                                              .c = address + sizeof a + sizeof b,
                                              .m = SIDE,
                                              .n = SIDE,
                                              .k = SIDE,
                                              .alpha = 1};
    run_as_one_launch(trial);
    EXPECT_OK(check, "memory.read: a large product",
              check->memory_ops.read(check->instance, trial->context, address + sizeof a + sizeof b, sizeof c, c,
                                     &check->error));
    for (int i = 0; i < SIDE * SIDE; i++)
        wrong += c[i] < 2 * SIDE || c[i] > 2 * SIDE;
    EXPECT_NUMBER(check, "math.run: all of a large product is right", 0, wrong);
}

/* Queues three launches: the published kernel writes ones into matrix a, two numbers to a word; the product reads a;
 * the kernel writes zeros into a. So the product is 2 only if the launches run in this order. */
static void check_order_behind_launch(struct facet_check_trial *trial)
{
    struct facet_check *check = trial->check;
    const float ones[] = {1, 1, 1, 1};
    struct facet_check_kernel kernel = {0};
    float got[4] = {0};
    uint64_t word;

    if (!facet_check_kernel_published(check)) {
        facet_check_skip(check, "math.run: runs in the order of its stream",
                         "no property conformance_kernel is published");
        return;
    }
    if (!facet_check_kernel_open(check, trial->context, &kernel) ||
        !facet_check_kernel_lengthen(check, &kernel, trial->address))
        return;
    memcpy(&word, ones, sizeof word);
    kernel.stream = trial->stream;
    facet_check_trial_begin(trial, FACET_MATH_GEMM, FACET_MATH_F32, 0);
    trial->math.of.gemm = (struct facet_gemm){
        .a = trial->address, .b = trial->address + 64, .c = trial->address + 128, .m = 2, .n = 2, .k = 2, .alpha = 1};
    EXPECT_OK(check, "memory.fill: matrices of zeros",
              check->memory_ops.fill(check->instance, trial->context, trial->address, 0, 192, &check->error));
    EXPECT_OK(check, "memory.write: a matrix of ones",
              check->memory_ops.write(check->instance, trial->context, trial->address + 64, ones, sizeof ones,
                                      &check->error));
    EXPECT_OK(check, "execution.launch: a kernel that writes an operand of gemm",
              facet_check_kernel_launch(check, &kernel, trial->address, 2, word));
    EXPECT_OK(check, "math.run: gemm behind a launch", run_operation(trial));
    EXPECT_OK(check, "execution.launch: a kernel that overwrites the operand, behind gemm",
              facet_check_kernel_launch(check, &kernel, trial->address, 2, 0));
    EXPECT_OK(check, "execution.synchronize: with launches and an operation", wait_for(trial, FACET_CHECK_KERNEL_NS));
    EXPECT_OK(
        check, "memory.read: a product between launches",
        check->memory_ops.read(check->instance, trial->context, trial->address + 128, sizeof got, got, &check->error));
    EXPECT_TRUE(check, "math.run: runs after launches queued before it, and before launches queued behind it",
                got[0] > 1.5f && got[0] < 2.5f && got[3] > 1.5f && got[3] < 2.5f,
                "expected: 2 and 2, the product's first and last element\ngot: %g and %g", (double)got[0],
                (double)got[3]);
}

/* Queues two operations during a pause and cancels the second. */
static void cancel_paused_operation(struct facet_check_trial *trial)
{
    struct facet_check *check = trial->check;
    const struct facet_execution_ops *ops = &check->execution_ops;
    static unsigned char got[FACET_CHECK_AREA_BYTES];
    char text[200];

    facet_check_make_plainest(trial, FACET_MATH_GEMM, FACET_MATH_F32);
    EXPECT_OK(check, "memory.write: matrices for a pause",
              check->memory_ops.write(check->instance, trial->context, trial->address, trial->image,
                                      sizeof trial->image, &check->error));
    uint64_t before = query_stream(trial).launched;
    EXPECT_OK(check, "execution.pause: before an operation",
              ops->pause(check->instance, trial->context, 1, &check->error));
    EXPECT_OK(check, "math.run: while paused", run_operation(trial));
    trial->math.of.gemm.c =
        trial->address + trial->used_bytes; /* a result of the cancelled operation would show there */
    EXPECT_OK(check, "math.run: another while paused", run_operation(trial));
    EXPECT_OK(check, "execution.cancel_launch: an operation",
              ops->cancel_launch(check->instance, trial->context, trial->stream, before + 2, &check->error));
    EXPECT_STATUS(check, "execution.synchronize: an operation that is paused is not done", FACET_TIMEOUT,
                  wait_for(trial, POLL_NS));
    uint64_t begun = query_stream(trial).begun;
    EXPECT_NUMBER(check, "execution.query: an operation that is paused has not begun", before, begun);
    EXPECT_OK(check, "execution.pause: ends, so that an operation can begin",
              ops->pause(check->instance, trial->context, 0, &check->error));
    EXPECT_OK(check, "execution.synchronize: an operation that was paused", wait_for(trial, FACET_CHECK_KERNEL_NS));
    EXPECT_OK(check, "memory.read: after an operation that was paused",
              check->memory_ops.read(check->instance, trial->context, trial->address, sizeof got, got, &check->error));
    const char *fault = facet_check_trial_fault(trial, got, text, sizeof text);
    EXPECT_TRUE(check, "math.run: a paused operation is done, and a cancelled one is not", !fault, "%s", fault);
}

void facet_check_math_order(struct facet_check_trial *trial, const struct facet_math_support *support)
{
    check_counts(trial, support);
    if (!(support->types[FACET_MATH_GEMM] & (1u << FACET_MATH_F32)))
        return;
    check_large_product(trial);
    check_order_behind_launch(trial);
    if (facet_check_claims(trial->check, FACET_CAN_CONTROL))
        cancel_paused_operation(trial);
}
