/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: invalid operations, and the status expected of each. Never: runs a valid operation. */
#include <inttypes.h>

#include "conformance/trial.h"

enum { UNKNOWN = 0x7fffffff };

/* The last address of the area: an operand that starts there lies partly outside. */
#define BEYOND(trial) ((trial)->address + FACET_CHECK_AREA_BYTES - 1)

static enum facet_status run_operation(struct facet_check_trial *trial)
{
    struct facet_check *check = trial->check;

    return check->math_ops.run(check->instance, trial->context, trial->stream, &trial->math, &check->error);
}

/* One change that makes the plainest operation of its kind invalid, and the status that must refuse it. */
struct change {
    const char *text;
    enum facet_status expected;
    void (*make)(struct facet_check_trial *trial);
};

static void expect_either_refusal(struct facet_check_trial *trial, const char *text, enum facet_status one,
                                  enum facet_status other)
{
    struct facet_check *check = trial->check;

    facet_check_begin(check, "%s", text);
    enum facet_status status = run_operation(trial);
    facet_check_judge(check, status == one || status == other, "expected: %s or %s from math.run\ngot: %s",
                      facet_status_name(one), facet_status_name(other), facet_status_name(status));
}

#define CHANGE(name, statement)                                                                                        \
    static void name(struct facet_check_trial *trial)                                                                  \
    {                                                                                                                  \
        struct facet_math *math = &trial->math;                                                                        \
        statement;                                                                                                     \
    }

CHANGE(flag_of_attention, math->flags = FACET_MATH_CAUSAL)
CHANGE(flag_of_nothing, math->flags = UINT32_C(1) << 31)
CHANGE(gemm_m_0, math->of.gemm.m = 0)
CHANGE(gemm_n_0, math->of.gemm.n = 0)
CHANGE(gemm_k_0, math->of.gemm.k = 0)
CHANGE(gemm_huge, math->of.gemm.m = math->of.gemm.k = UINT64_C(1) << 40)
CHANGE(gemm_wraps, math->of.gemm.batch = UINT64_C(1) << 63)
CHANGE(gemm_a_outside, math->of.gemm.a = BEYOND(trial))
CHANGE(gemm_b_nowhere, math->of.gemm.b = 8)
CHANGE(gemm_c_wraps, math->of.gemm.c = UINT64_MAX - 7)
CHANGE(gemm_stride_outside, (math->of.gemm.batch = 2, math->of.gemm.stride_b = FACET_CHECK_AREA_BYTES))
CHANGE(gemm_lead_outside, math->of.gemm.lead_c = FACET_CHECK_AREA_BYTES)

static const struct change gemms[] = {
    {"math.run: gemm with a flag of attention is an invalid argument", FACET_INVALID_ARGUMENT, flag_of_attention},
    {"math.run: gemm with a flag of nothing is an invalid argument", FACET_INVALID_ARGUMENT, flag_of_nothing},
    {"math.run: gemm with m 0 is out of range", FACET_OUT_OF_RANGE, gemm_m_0},
    {"math.run: gemm with n 0 is out of range", FACET_OUT_OF_RANGE, gemm_n_0},
    {"math.run: gemm with k 0 is out of range", FACET_OUT_OF_RANGE, gemm_k_0},
    {"math.run: gemm above 2^48 bytes is out of range", FACET_OUT_OF_RANGE, gemm_huge},
    {"math.run: gemm of a size that wraps around is out of range", FACET_OUT_OF_RANGE, gemm_wraps},
    {"math.run: gemm with a partly outside memory is out of range", FACET_OUT_OF_RANGE, gemm_a_outside},
    {"math.run: gemm with b at an address without memory is out of range", FACET_OUT_OF_RANGE, gemm_b_nowhere},
    {"math.run: gemm with c that wraps around is out of range", FACET_OUT_OF_RANGE, gemm_c_wraps},
    {"math.run: gemm with a stride that leads outside is out of range", FACET_OUT_OF_RANGE, gemm_stride_outside},
    {"math.run: gemm with a leading dimension that leads outside is out of range", FACET_OUT_OF_RANGE,
     gemm_lead_outside},
};

CHANGE(flag_of_gemm, math->flags = FACET_MATH_TRANSPOSE_A)
CHANGE(convolution_kernel_0, math->of.convolution.kernel[1] = 0)
CHANGE(convolution_stride_0, math->of.convolution.stride[0] = 0)
CHANGE(convolution_channels_0, math->of.convolution.in_channels = 0)
CHANGE(convolution_groups, math->of.convolution.groups = 2)
CHANGE(convolution_filter, math->of.convolution.kernel[0] = 6)
CHANGE(convolution_dilation, math->of.convolution.dilation[1] = UINT64_MAX)
CHANGE(convolution_padding, math->of.convolution.padding[0] = UINT64_MAX / 2)
CHANGE(convolution_output, math->of.convolution.output = BEYOND(trial))
CHANGE(convolution_bias, math->of.convolution.bias = BEYOND(trial))

static const struct change convolutions[] = {
    {"math.run: convolution with a flag of gemm is an invalid argument", FACET_INVALID_ARGUMENT, flag_of_gemm},
    {"math.run: convolution with a filter of width 0 is out of range", FACET_OUT_OF_RANGE, convolution_kernel_0},
    {"math.run: convolution with a stride of 0 is out of range", FACET_OUT_OF_RANGE, convolution_stride_0},
    {"math.run: convolution of no channels is out of range", FACET_OUT_OF_RANGE, convolution_channels_0},
    {"math.run: convolution with groups that divide no channels is out of range", FACET_OUT_OF_RANGE,
     convolution_groups},
    {"math.run: convolution with a filter above the input is out of range", FACET_OUT_OF_RANGE, convolution_filter},
    {"math.run: convolution with a dilation that wraps around is out of range", FACET_OUT_OF_RANGE,
     convolution_dilation},
    {"math.run: convolution with a padding that wraps around is out of range", FACET_OUT_OF_RANGE, convolution_padding},
    {"math.run: convolution with an output partly outside memory is out of range", FACET_OUT_OF_RANGE,
     convolution_output},
    {"math.run: convolution with a bias partly outside memory is out of range", FACET_OUT_OF_RANGE, convolution_bias},
};

CHANGE(activation_kind, math->of.activation.kind = FACET_ACTIVATION_SOFTMAX + 1)
CHANGE(activation_channels_0, math->of.activation.channels = 0)
CHANGE(activation_huge, math->of.activation.batch = UINT64_C(1) << 62)
CHANGE(activation_input, math->of.activation.input = BEYOND(trial))

static const struct change activations[] = {
    {"math.run: activation of an unknown kind is an invalid argument", FACET_INVALID_ARGUMENT, activation_kind},
    {"math.run: activation with a flag of gemm is an invalid argument", FACET_INVALID_ARGUMENT, flag_of_gemm},
    {"math.run: activation of no channels is out of range", FACET_OUT_OF_RANGE, activation_channels_0},
    {"math.run: activation of a size that wraps around is out of range", FACET_OUT_OF_RANGE, activation_huge},
    {"math.run: activation with an input partly outside memory is out of range", FACET_OUT_OF_RANGE, activation_input},
};

CHANGE(normalization_batch_0, math->of.normalization.batch = 0)
CHANGE(normalization_mean, math->of.normalization.mean = BEYOND(trial))
CHANGE(normalization_no_variance, math->of.normalization.variance = 0)
CHANGE(normalization_scale, math->of.normalization.scale = BEYOND(trial))

static const struct change normalizations[] = {
    {"math.run: normalization with a flag of attention is an invalid argument", FACET_INVALID_ARGUMENT,
     flag_of_attention},
    {"math.run: normalization of nothing is out of range", FACET_OUT_OF_RANGE, normalization_batch_0},
    {"math.run: normalization with a mean partly outside memory is out of range", FACET_OUT_OF_RANGE,
     normalization_mean},
    {"math.run: normalization without a variance is out of range", FACET_OUT_OF_RANGE, normalization_no_variance},
    {"math.run: normalization with a scale partly outside memory is out of range", FACET_OUT_OF_RANGE,
     normalization_scale},
};

CHANGE(attention_heads_0, math->of.attention.heads = 0)
CHANGE(attention_keys_0, math->of.attention.keys = 0)
CHANGE(attention_causal, math->flags = FACET_MATH_CAUSAL)
CHANGE(attention_v, math->of.attention.v = BEYOND(trial))
CHANGE(attention_output, math->of.attention.output = UINT64_MAX - 63)

static const struct change attentions[] = {
    {"math.run: attention with a flag of gemm is an invalid argument", FACET_INVALID_ARGUMENT, flag_of_gemm},
    {"math.run: attention of no heads is out of range", FACET_OUT_OF_RANGE, attention_heads_0},
    {"math.run: attention to no keys is out of range", FACET_OUT_OF_RANGE, attention_keys_0},
    {"math.run: attention that is causal, of more keys than queries, is out of range", FACET_OUT_OF_RANGE,
     attention_causal},
    {"math.run: attention with v partly outside memory is out of range", FACET_OUT_OF_RANGE, attention_v},
    {"math.run: attention with an output that wraps around is out of range", FACET_OUT_OF_RANGE, attention_output},
};

static void change_all(struct facet_check_trial *trial, const struct facet_math_support *support, uint32_t operation,
                       const struct change *changes, size_t count)
{
    uint32_t type = facet_check_first_type(support, operation);

    for (size_t i = 0; type < FACET_MATH_TYPES && i < count; i++) {
        facet_check_make_plainest(trial, operation, type);
        changes[i].make(trial);
        EXPECT_STATUS(trial->check, changes[i].text, changes[i].expected, run_operation(trial));
    }
}

static void unclaimed_types(struct facet_check_trial *trial, const struct facet_math_support *support)
{
    for (uint32_t operation = 0; operation < FACET_MATH_KINDS; operation++)
        for (uint32_t type = 0; type < FACET_MATH_TYPES; type++) {
            if (support->types[operation] & (1u << type))
                continue;
            facet_check_make_plainest(trial, operation, type);
            facet_check_begin(trial->check, "math.run: %s of %s is unsupported, as it is not claimed",
                              facet_check_math_name(operation), facet_check_type_name(type));
            facet_check_status(trial->check, FACET_UNSUPPORTED, run_operation(trial));
        }
}

static void refuse_int8(struct facet_check_trial *trial, const struct facet_math_support *support)
{
    if (!(support->types[FACET_MATH_GEMM] & (1u << FACET_MATH_INT8)))
        return;
    facet_check_make_plainest(trial, FACET_MATH_GEMM, FACET_MATH_INT8);
    trial->math.of.gemm.alpha = 2;
    expect_either_refusal(trial, "math.run: gemm of int8 with an alpha of 2 is refused", FACET_INVALID_ARGUMENT,
                          FACET_OUT_OF_RANGE);
    facet_check_make_plainest(trial, FACET_MATH_GEMM, FACET_MATH_INT8);
    trial->math.of.gemm.beta = 0.5f;
    expect_either_refusal(trial, "math.run: gemm of int8 with a beta of a half is refused", FACET_INVALID_ARGUMENT,
                          FACET_OUT_OF_RANGE);
}

/* Errors that are independent of the operation's kind. */
static void refuse_common_errors(struct facet_check_trial *trial, uint32_t operation, uint32_t type)
{
    struct facet_check *check = trial->check;
    const struct facet_math_ops *ops = &check->math_ops;

    facet_check_make_plainest(trial, operation, type);
    EXPECT_STATUS(check, "math.run: NULL for the operation is an invalid argument", FACET_INVALID_ARGUMENT,
                  ops->run(check->instance, trial->context, trial->stream, NULL, &check->error));
    EXPECT_STATUS(check, "math.run: an unknown context is not found", FACET_NOT_FOUND,
                  ops->run(check->instance, UNKNOWN, trial->stream, &trial->math, NULL));
    EXPECT_STATUS(check, "math.run: an unknown stream is not found", FACET_NOT_FOUND,
                  ops->run(check->instance, trial->context, UNKNOWN, &trial->math, &check->error));
    trial->math.size = 0;
    EXPECT_STATUS(check, "math.run: a struct of size 0 is an invalid argument", FACET_INVALID_ARGUMENT,
                  run_operation(trial));
    facet_check_make_plainest(trial, operation, type);
    trial->math.operation = FACET_MATH_KINDS + 90;
    expect_either_refusal(trial, "math.run: an unknown operation is refused", FACET_INVALID_ARGUMENT,
                          FACET_UNSUPPORTED);
    facet_check_make_plainest(trial, operation, type);
    trial->math.type = FACET_MATH_TYPES + 90;
    expect_either_refusal(trial, "math.run: an unknown type is refused", FACET_INVALID_ARGUMENT, FACET_UNSUPPORTED);
}

/* Runs an operation in another context's stream, with operands of this context. */
static void refuse_others_operands(struct facet_check_trial *trial, uint32_t operation, uint32_t type)
{
    struct facet_check *check = trial->check;
    uint64_t other = 0, theirs = 0;

    if (!facet_check_context(check, FACET_CHECK_OTHER, &other))
        return;
    facet_check_make_plainest(trial, operation, type);
    if (EXPECT_OK(check, "execution.create_stream: for another worker",
                  check->execution_ops.create_stream(check->instance, other, &theirs, &check->error))) {
        EXPECT_STATUS(check, "math.run: another context's memory is out of range", FACET_OUT_OF_RANGE,
                      check->math_ops.run(check->instance, other, theirs, &trial->math, &check->error));
        EXPECT_STATUS(check, "math.run: another context's stream is not found", FACET_NOT_FOUND,
                      check->math_ops.run(check->instance, trial->context, theirs, &trial->math, &check->error));
    }
    facet_check_drop_context(check, other);
}

#define CHANGE_ALL(operation, changes)                                                                                 \
    change_all(trial, support, operation, changes, sizeof(changes) / sizeof(changes)[0])

void facet_check_math_refusals(struct facet_check_trial *trial, const struct facet_math_support *support)
{
    struct facet_check *check = trial->check;
    struct facet_stream_state state = {.size = sizeof state};
    uint32_t operation = 0;

    while (operation < FACET_MATH_KINDS && facet_check_first_type(support, operation) == FACET_MATH_TYPES)
        operation++;
    if (operation == FACET_MATH_KINDS)
        return;
    refuse_common_errors(trial, operation, facet_check_first_type(support, operation));
    refuse_others_operands(trial, operation, facet_check_first_type(support, operation));
    CHANGE_ALL(FACET_MATH_GEMM, gemms);
    CHANGE_ALL(FACET_MATH_CONVOLUTION, convolutions);
    CHANGE_ALL(FACET_MATH_ACTIVATION, activations);
    CHANGE_ALL(FACET_MATH_NORMALIZATION, normalizations);
    CHANGE_ALL(FACET_MATH_ATTENTION, attentions);
    unclaimed_types(trial, support);
    refuse_int8(trial, support);
    EXPECT_OK(check, "execution.query: after operations that were refused",
              check->execution_ops.query(check->instance, trial->context, trial->stream, &state, &check->error));
    EXPECT_NUMBER(check, "math.run: what was refused is not queued", 0, state.launched);
}
