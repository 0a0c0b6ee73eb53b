/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reference of the five operations of facet/provider/math.h, in double precision.
 *
 * Owns: small shapes whose sizes are no powers of 2, the expected results, and the margin of each: the error of sums in
 * f32, and of approximations of exp() and tanh(). math_numbers.c adds the error of rounding to the type of the result.
 * Never: shares code with a provider.
 */
#include <float.h>
#include <math.h>

#include "conformance/trial.h"

/* The allowed error of a result of approximated functions. */
#define APPROXIMATION_ERROR 1e-5

struct sum {
    double value, magnitude; /* magnitude: the sum of the terms' absolute values */
    uint64_t terms;
};

static void add_term(struct sum *sum, double term)
{
    sum->value += term;
    sum->magnitude += fabs(term);
    sum->terms++;
}

/* The error of a sum in f32 in any order, and of factors that FACET_MATH_MIXED allows to round to bf16. */
static double sum_margin(const struct facet_check_trial *trial, const struct sum *sum)
{
    if (trial->math.type == FACET_MATH_INT8)
        return 0;
    return sum->magnitude * ((double)sum->terms * 0x1p-24 + (trial->math.flags & FACET_MATH_MIXED ? 0x1p-7 : 0));
}

static uint32_t sum_type(const struct facet_check_trial *trial)
{
    return trial->math.type == FACET_MATH_INT8 ? FACET_CHECK_INT32 : trial->math.type;
}

#define ADDRESS(operand) facet_check_operand_address(trial, &(operand))
#define GET(operand, at) facet_check_operand_get(trial, &(operand), (at))

/* A matrix whose element (i, j), as the product sees it, is at i * row_stride + j * column_stride. */
struct matrix {
    struct facet_check_operand operand;
    uint64_t row_stride, column_stride, stride, leading_dimension;
};

/* `column_major`: the elements of a column are adjacent. */
static struct matrix matrix_shape(uint64_t rows, uint64_t columns, bool column_major, bool full_shape)
{
    uint64_t lead = (column_major ? rows : columns) + (full_shape ? 3 : 0);

    return (struct matrix){.row_stride = column_major ? 1 : lead,
                           .column_stride = column_major ? lead : 1,
                           .leading_dimension = lead,
                           .stride = (column_major ? columns : rows) * lead + (full_shape ? 5 : 0)};
}

static void expect_products(struct facet_check_trial *trial, const struct matrix *a, const struct matrix *b,
                            const struct matrix *c)
{
    const struct facet_gemm *of = &trial->math.of.gemm;
    uint64_t batch = of->batch ? of->batch : 1;

    for (uint64_t at = 0; at < batch * of->m * of->n; at++) {
        uint64_t n = at / of->m / of->n, i = at / of->n % of->m, j = at % of->n;
        uint64_t target = n * c->stride + i * c->row_stride + j * c->column_stride;
        struct sum sum = {0};

        for (uint64_t p = 0; p < of->k; p++)
            add_term(&sum, (double)of->alpha *
                               GET(a->operand, n * a->stride + i * a->row_stride + p * a->column_stride) *
                               GET(b->operand, n * b->stride + p * b->row_stride + j * b->column_stride));
        if (of->beta != 0)
            add_term(&sum, (double)of->beta * GET(c->operand, target));
        facet_check_operand_expect(trial, &c->operand, target, sum.value, sum_margin(trial, &sum));
    }
}

void facet_check_make_gemm(struct facet_check_trial *trial, const struct facet_check_variant *variant)
{
    bool columns = variant->flags & FACET_MATH_COLUMN_MAJOR, full_shape = variant->full_shape;
    bool int8 = trial->math.type == FACET_MATH_INT8;
    struct facet_gemm of = {
        .m = 5, .n = 7, .k = 65, .alpha = full_shape && !int8 ? 0.5f : 1, .beta = full_shape ? 1 : 0};
    struct matrix a = matrix_shape(of.m, of.k, columns != !!(variant->flags & FACET_MATH_TRANSPOSE_A), full_shape);
    struct matrix b = matrix_shape(of.k, of.n, columns != !!(variant->flags & FACET_MATH_TRANSPOSE_B), full_shape);
    struct matrix c = matrix_shape(of.m, of.n, columns, full_shape);

    of.batch = full_shape ? 3 : 0;
    if (full_shape && !int8)
        of.beta = 0.25f;
    a.operand = facet_check_operand_make(trial, trial->math.type, (of.batch + 1) * a.stride);
    b.operand = facet_check_operand_make(trial, trial->math.type, (of.batch + 1) * b.stride);
    c.operand = full_shape ? facet_check_operand_make(trial, sum_type(trial), (of.batch + 1) * c.stride)
                           : facet_check_operand_poison(trial, sum_type(trial), c.stride);
    of.a = ADDRESS(a.operand);
    of.b = ADDRESS(b.operand);
    of.c = ADDRESS(c.operand);
    if (full_shape) {
        of.lead_a = a.leading_dimension;
        of.lead_b = b.leading_dimension;
        of.lead_c = c.leading_dimension;
        of.stride_a = a.stride;
        of.stride_b = b.stride;
        of.stride_c = c.stride;
    }
    trial->math.of.gemm = of;
    expect_products(trial, &a, &b, &c);
}

/* The sum for filter `out` at row `y`, column `x` of its output. */
static struct sum correlate_at(const struct facet_check_trial *trial, const struct facet_check_operand *input,
                               const struct facet_check_operand *filter, uint64_t batch, uint64_t out, uint64_t y,
                               uint64_t x)
{
    const struct facet_convolution *of = &trial->math.of.convolution;
    uint64_t groups = of->groups ? of->groups : 1, depth = of->in_channels / groups;
    uint64_t first = out / (of->out_channels / groups) * depth;
    int64_t steps[2] = {(int64_t)(of->dilation[0] ? of->dilation[0] : 1),
                        (int64_t)(of->dilation[1] ? of->dilation[1] : 1)};
    struct sum sum = {0};

    for (uint64_t channel = 0; channel < depth; channel++)
        for (uint64_t i = 0; i < of->kernel[0]; i++)
            for (uint64_t j = 0; j < of->kernel[1]; j++) {
                int64_t row = (int64_t)(y * of->stride[0]) - (int64_t)of->padding[0] + (int64_t)i * steps[0];
                int64_t column = (int64_t)(x * of->stride[1]) - (int64_t)of->padding[1] + (int64_t)j * steps[1];

                if (row < 0 || column < 0 || row >= (int64_t)of->height || column >= (int64_t)of->width)
                    continue;
                add_term(&sum,
                         facet_check_operand_get(
                             trial, input,
                             ((batch * of->in_channels + first + channel) * of->height + (uint64_t)row) * of->width +
                                 (uint64_t)column) *
                             facet_check_operand_get(
                                 trial, filter, ((out * depth + channel) * of->kernel[0] + i) * of->kernel[1] + j));
            }
    return sum;
}

static void expect_convolution(struct facet_check_trial *trial, const struct facet_check_operand *input,
                               const struct facet_check_operand *filter, const struct facet_check_operand *bias,
                               const struct facet_check_operand *output, uint64_t columns)
{
    const struct facet_convolution *of = &trial->math.of.convolution;
    uint64_t positions = output->count / of->batch / of->out_channels;

    for (uint64_t at = 0; at < output->count; at++) {
        uint64_t out = at / positions % of->out_channels;
        struct sum sum = correlate_at(trial, input, filter, at / positions / of->out_channels, out,
                                      at % positions / columns, at % columns);

        if (of->bias)
            add_term(&sum, facet_check_operand_get(trial, bias, out));
        facet_check_operand_expect(trial, output, at, sum.value, sum_margin(trial, &sum));
    }
}

void facet_check_make_convolution(struct facet_check_trial *trial, const struct facet_check_variant *variant)
{
    struct facet_convolution of = {
        .batch = 1, .in_channels = 3, .out_channels = 2, .height = 5, .width = 4, .kernel = {3, 2}, .stride = {1, 1}};
    uint64_t rows = 3, columns = 3;

    if (variant->full_shape) {
        of = (struct facet_convolution){.batch = 2,
                                        .in_channels = 4,
                                        .out_channels = 6,
                                        .height = 7,
                                        .width = 6,
                                        .kernel = {3, 2},
                                        .stride = {2, 1},
                                        .padding = {1, 2},
                                        .dilation = {1, 3},
                                        .groups = 2};
        rows = 4;
        columns = 7;
    }
    uint64_t positions = rows * columns, groups = of.groups ? of.groups : 1;
    struct facet_check_operand input =
        facet_check_operand_make(trial, trial->math.type, of.batch * of.in_channels * of.height * of.width);
    struct facet_check_operand filter = facet_check_operand_make(
        trial, trial->math.type, of.out_channels * of.in_channels / groups * of.kernel[0] * of.kernel[1]);
    struct facet_check_operand bias = facet_check_operand_make(
        trial, trial->math.type == FACET_MATH_INT8 ? FACET_CHECK_INT32 : FACET_MATH_F32, of.out_channels);
    struct facet_check_operand output =
        facet_check_operand_poison(trial, sum_type(trial), of.batch * of.out_channels * positions);
    of.input = ADDRESS(input);
    of.filter = ADDRESS(filter);
    of.output = ADDRESS(output);
    of.bias = variant->full_shape ? ADDRESS(bias) : 0;
    trial->math.of.convolution = of;
    expect_convolution(trial, &input, &filter, &bias, &output, columns);
}

static double apply_activation(uint32_t kind, double alpha, double x)
{
    const double inner = sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x);

    switch (kind) {
    case FACET_ACTIVATION_RELU:
        return fmax(x, 0);
    case FACET_ACTIVATION_SIGMOID:
        return 1 / (1 + exp(-x));
    case FACET_ACTIVATION_TANH:
        return tanh(x);
    case FACET_ACTIVATION_GELU:
        return x / 2 * erfc(-x / sqrt(2));
    case FACET_ACTIVATION_GELU_TANH:
        return x / 2 * (1 + tanh(inner));
    case FACET_ACTIVATION_SILU:
        return x / (1 + exp(-x));
    case FACET_ACTIVATION_LEAKY_RELU:
        return x < 0 ? alpha * x : x;
    default:
        return x < 0 ? alpha * expm1(x) : x;
    }
}

static double softmax_at(const struct facet_check_trial *trial, const struct facet_check_operand *input, uint64_t at)
{
    const struct facet_activation *of = &trial->math.of.activation;
    uint64_t positions = of->height * of->width,
             first = at / positions / of->channels * of->channels * positions + at % positions;
    double sum = 0, x = facet_check_operand_get(trial, input, at);

    for (uint64_t channel = 0; channel < of->channels; channel++)
        sum += exp(facet_check_operand_get(trial, input, first + channel * positions) - x);
    return 1 / sum;
}

void facet_check_make_activation(struct facet_check_trial *trial, const struct facet_check_variant *variant)
{
    struct facet_activation of = {
        .batch = 2, .channels = 5, .height = 3, .width = 4, .kind = variant->activation, .alpha = 0.375f};
    uint64_t count = of.batch * of.channels * of.height * of.width;
    struct facet_check_operand input = facet_check_operand_make(trial, trial->math.type, count);
    struct facet_check_operand output =
        variant->full_shape ? input : facet_check_operand_poison(trial, trial->math.type, count);

    for (uint64_t i = 0; trial->math.type != FACET_MATH_INT8 && i < count; i++)
        facet_check_operand_set(trial, &input, i, 4 * GET(input, i));
    of.input = ADDRESS(input);
    of.output = ADDRESS(output);
    trial->math.of.activation = of;
    for (uint64_t i = 0; i < count; i++) {
        double value = of.kind == FACET_ACTIVATION_SOFTMAX ? softmax_at(trial, &input, i)
                                                           : apply_activation(of.kind, (double)of.alpha, GET(input, i));
        facet_check_operand_expect(trial, &output, i, value,
                                   of.kind == FACET_ACTIVATION_RELU ? 0 : APPROXIMATION_ERROR * (fabs(value) + 1));
    }
}

/* Computes the mean and variance of a channel, as training writes them. */
static void measure_channel(struct facet_check_trial *trial, const struct facet_check_operand *input, uint64_t channel,
                            double *ret_mean, double *ret_variance)
{
    const struct facet_normalization *of = &trial->math.of.normalization;
    uint64_t positions = of->height * of->width, count = of->batch * positions;
    double sum = 0, squares = 0;

    for (uint64_t i = 0; i < count; i++) {
        double x =
            facet_check_operand_get(trial, input, (i / positions * of->channels + channel) * positions + i % positions);
        sum += x;
        squares += x * x;
    }
    *ret_mean = sum / (double)count;
    *ret_variance = squares / (double)count - *ret_mean * *ret_mean;
}

/* Numbers of at least 0.5, because a variance is not negative. */
static struct facet_check_operand make_variance(struct facet_check_trial *trial, uint64_t count)
{
    struct facet_check_operand operand = facet_check_operand_make(trial, FACET_MATH_F32, count);

    for (uint64_t i = 0; i < count; i++)
        facet_check_operand_set(trial, &operand, i, 0.5 + fabs(GET(operand, i)));
    return operand;
}

void facet_check_make_normalization(struct facet_check_trial *trial, const struct facet_check_variant *variant)
{
    struct facet_normalization of = {
        .batch = 2, .channels = 3, .height = 4, .width = 3, .epsilon = variant->full_shape ? 0.125f : 0};
    bool training = variant->flags & FACET_MATH_TRAINING;
    uint64_t positions = of.height * of.width, count = of.batch * of.channels * positions;
    struct facet_check_operand input = facet_check_operand_make(trial, trial->math.type, count);
    struct facet_check_operand output =
        variant->in_place ? input : facet_check_operand_poison(trial, trial->math.type, count);
    struct facet_check_operand scale = facet_check_operand_make(trial, FACET_MATH_F32, of.channels);
    struct facet_check_operand bias = facet_check_operand_make(trial, FACET_MATH_F32, of.channels);
    struct facet_check_operand mean = facet_check_operand_make(trial, FACET_MATH_F32, of.channels);
    struct facet_check_operand variance = make_variance(trial, of.channels);
    double epsilon = of.epsilon > 0 ? (double)of.epsilon : 1e-5;

    of.input = ADDRESS(input);
    of.output = ADDRESS(output);
    of.mean = ADDRESS(mean);
    of.variance = ADDRESS(variance);
    of.scale = variant->full_shape ? ADDRESS(scale) : 0;
    of.bias = variant->full_shape ? ADDRESS(bias) : 0;
    trial->math.of.normalization = of;
    for (uint64_t channel = 0; channel < of.channels; channel++) {
        double center = GET(mean, channel), width = GET(variance, channel);
        if (training) {
            measure_channel(trial, &input, channel, &center, &width);
            facet_check_operand_expect(trial, &mean, channel, center, APPROXIMATION_ERROR);
            facet_check_operand_expect(trial, &variance, channel, width, APPROXIMATION_ERROR);
        }
        double factor = (of.scale ? GET(scale, channel) : 1) / sqrt(width + epsilon);
        double shift = of.bias ? GET(bias, channel) : 0;
        for (uint64_t i = 0; i < of.batch * positions; i++) {
            uint64_t at = (i / positions * of.channels + channel) * positions + i % positions;
            double value = (GET(input, at) - center) * factor + shift;
            facet_check_operand_expect(trial, &output, at, value,
                                       APPROXIMATION_ERROR * (fabs(value) + fabs(shift) + 1));
        }
    }
}

/* The operands of attention in memory. */
struct heads {
    struct facet_check_operand q, k, v, output;
};

static double attention_weight(const struct facet_check_trial *trial, const struct heads *heads, uint64_t query,
                               uint64_t key)
{
    const struct facet_attention *of = &trial->math.of.attention;
    double sum = 0, scale = of->scale != 0 ? (double)of->scale : 1 / sqrt((double)of->dimension);

    for (uint64_t i = 0; i < of->dimension; i++)
        sum += GET(heads->q, query * of->dimension + i) * GET(heads->k, key * of->dimension + i);
    return exp(sum * scale);
}

/*
 * The error that rounding the softmax to the operands' type may add to a sum of this magnitude. facet/provider/math.h
 * allows tensor units this rounding.
 */
static double weight_rounding_error(const struct facet_check_trial *trial, double magnitude)
{
    if (trial->math.flags & FACET_MATH_NO_TENSOR)
        return 0;
    return trial->math.type == FACET_MATH_BF16  ? magnitude * 0x1p-8
           : trial->math.type == FACET_MATH_F16 ? magnitude * 0x1p-11
                                                : 0;
}

static void expect_query(struct facet_check_trial *trial, const struct heads *heads, uint64_t query)
{
    const struct facet_attention *of = &trial->math.of.attention;
    uint64_t first = query / of->queries * of->keys;
    uint64_t seen = trial->math.flags & FACET_MATH_CAUSAL ? query % of->queries + 1 : of->keys;
    double all = 0, mixed = trial->math.flags & FACET_MATH_MIXED ? 0x1p-6 : 0;

    for (uint64_t key = 0; key < seen; key++)
        all += attention_weight(trial, heads, query, first + key);
    for (uint64_t i = 0; i < of->dimension; i++) {
        double value = 0, magnitude = 0;
        for (uint64_t key = 0; key < seen; key++) {
            double part = attention_weight(trial, heads, query, first + key) / all *
                          GET(heads->v, (first + key) * of->dimension + i);

            value += part;
            magnitude += fabs(part);
        }
        facet_check_operand_expect(trial, &heads->output, query * of->dimension + i, value,
                                   APPROXIMATION_ERROR + mixed + weight_rounding_error(trial, magnitude));
    }
}

void facet_check_make_attention(struct facet_check_trial *trial, const struct facet_check_variant *variant)
{
    bool causal = variant->flags & FACET_MATH_CAUSAL;
    struct facet_attention of = {.batch = 2,
                                 .heads = 2,
                                 .queries = causal ? 6 : 5,
                                 .keys = causal ? 6 : 7,
                                 .dimension = 9,
                                 .scale = variant->full_shape ? 1.25f : 0};
    uint64_t outer = of.batch * of.heads * of.queries, inner = of.batch * of.heads * of.keys;
    struct heads heads = {.q = facet_check_operand_make(trial, trial->math.type, outer * of.dimension),
                          .k = facet_check_operand_make(trial, trial->math.type, inner * of.dimension),
                          .v = facet_check_operand_make(trial, trial->math.type, inner * of.dimension),
                          .output = facet_check_operand_poison(trial, trial->math.type, outer * of.dimension)};

    of.q = ADDRESS(heads.q);
    of.k = ADDRESS(heads.k);
    of.v = ADDRESS(heads.v);
    of.output = ADDRESS(heads.output);
    trial->math.of.attention = of;
    for (uint64_t query = 0; query < outer; query++)
        expect_query(trial, &heads, query);
}

const char *facet_check_math_name(uint32_t operation)
{
    static const char *const names[] = {"gemm", "convolution", "activation", "normalization", "attention"};

    return names[operation];
}

void facet_check_make_plainest(struct facet_check_trial *trial, uint32_t operation, uint32_t type)
{
    static void (*const makers[])(struct facet_check_trial *, const struct facet_check_variant *) = {
        facet_check_make_gemm, facet_check_make_convolution, facet_check_make_activation,
        facet_check_make_normalization, facet_check_make_attention};
    const struct facet_check_variant plain = {.activation = FACET_ACTIVATION_RELU};

    facet_check_trial_begin(trial, operation, type, 0);
    makers[operation](trial, &plain);
}
