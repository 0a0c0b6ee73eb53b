/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: reference code of the five operations, as simple as possible. Never: gives up simplicity for speed. */
#include <float.h>
#include <math.h>

#include "base.h"

static void compute_gemm(const struct base_math_work *work)
{
    const struct base_operand *a = &work->operands[0], *b = &work->operands[1], *c = &work->operands[2];
    const struct facet_gemm *of = &work->math.of.gemm;
    bool columns = work->math.flags & FACET_MATH_COLUMN_MAJOR;
    bool turned_a = columns != !!(work->math.flags & FACET_MATH_TRANSPOSE_A);
    bool turned_b = columns != !!(work->math.flags & FACET_MATH_TRANSPOSE_B);

    for (uint64_t at = 0; at < of->batch * of->m * of->n; at++) {
        uint64_t batch = at / (of->m * of->n), i = at / of->n % of->m, j = at % of->n;
        uint64_t target = batch * of->stride_c + (columns ? j * of->lead_c + i : i * of->lead_c + j);
        double sum = 0;

        for (uint64_t p = 0; p < of->k; p++)
            sum += base_number(a, batch * of->stride_a + (turned_a ? p * of->lead_a + i : i * of->lead_a + p)) *
                   base_number(b, batch * of->stride_b + (turned_b ? j * of->lead_b + p : p * of->lead_b + j));
        sum *= (double)of->alpha;
        if (of->beta != 0)
            sum += (double)of->beta * base_number(c, target);
        base_store(c, target, sum);
    }
}

/* Computes the output element (batch, filter, row, column) from the channels of the filter's group. */
static double correlate_channels(const struct base_math_work *work, uint64_t batch, uint64_t filter, uint64_t row,
                                 uint64_t column)
{
    const struct base_operand *input = &work->operands[0], *weights = &work->operands[1];
    const struct facet_convolution *of = &work->math.of.convolution;
    uint64_t depth = of->in_channels / of->groups, group = filter / (of->out_channels / of->groups);
    double sum = 0;

    for (uint64_t at = 0; at < depth * of->kernel[0] * of->kernel[1]; at++) {
        uint64_t channel = at / (of->kernel[0] * of->kernel[1]);
        uint64_t y = row * of->stride[0] + at / of->kernel[1] % of->kernel[0] * of->dilation[0] - of->padding[0];
        uint64_t x = column * of->stride[1] + at % of->kernel[1] * of->dilation[1] - of->padding[1];

        if (y < of->height && x < of->width) /* unsigned: positions above or left of the input wrap around */
            sum += base_number(input,
                               ((batch * of->in_channels + group * depth + channel) * of->height + y) * of->width + x) *
                   base_number(weights, filter * depth * of->kernel[0] * of->kernel[1] + at);
    }
    return sum;
}

static void compute_convolution(const struct base_math_work *work)
{
    const struct base_operand *output = &work->operands[2], *bias = &work->operands[3];
    const struct facet_convolution *of = &work->math.of.convolution;
    uint64_t columns = (of->width + 2 * of->padding[1] - of->dilation[1] * (of->kernel[1] - 1) - 1) / of->stride[1] + 1;
    uint64_t positions = output->count / of->batch / of->out_channels;

    for (uint64_t at = 0; at < output->count; at++) {
        uint64_t position = at % positions, filter = at / positions % of->out_channels;
        double sum =
            correlate_channels(work, at / positions / of->out_channels, filter, position / columns, position % columns);

        base_store(output, at, sum + (bias->count > 0 ? base_number(bias, filter) : 0));
    }
}

static double activation_of(uint32_t kind, double alpha, double x)
{
    switch (kind) {
    case FACET_ACTIVATION_RELU:
        return x > 0 ? x : 0;
    case FACET_ACTIVATION_SIGMOID:
        return 1 / (1 + exp(-x));
    case FACET_ACTIVATION_TANH:
        return tanh(x);
    case FACET_ACTIVATION_GELU:
        return x / 2 * (1 + erf(x / sqrt(2)));
    case FACET_ACTIVATION_GELU_TANH:
        return x / 2 * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case FACET_ACTIVATION_SILU:
        return x / (1 + exp(-x));
    case FACET_ACTIVATION_LEAKY_RELU:
        return x < 0 ? alpha * x : x;
    default:
        return x < 0 ? alpha * (exp(x) - 1) : x;
    }
}

/* Softmax over the channels of one position: the first is element `first`, the others follow `step` elements apart. */
static void softmax_channels(const struct base_operand *input, const struct base_operand *output, uint64_t first,
                             uint64_t step, uint64_t channels)
{
    double largest = -DBL_MAX, sum = 0;

    for (uint64_t i = 0; i < channels; i++)
        largest = fmax(largest, base_number(input, first + i * step));
    for (uint64_t i = 0; i < channels; i++)
        sum += exp(base_number(input, first + i * step) - largest);
    for (uint64_t i = 0; i < channels; i++)
        base_store(output, first + i * step, exp(base_number(input, first + i * step) - largest) / sum);
}

static void compute_activation(const struct base_math_work *work)
{
    const struct base_operand *input = &work->operands[0], *output = &work->operands[1];
    const struct facet_activation *of = &work->math.of.activation;
    uint64_t step = of->height * of->width;

    for (uint64_t at = 0; of->kind != FACET_ACTIVATION_SOFTMAX && at < input->count; at++)
        base_store(output, at, activation_of(of->kind, (double)of->alpha, base_number(input, at)));
    for (uint64_t at = 0; of->kind == FACET_ACTIVATION_SOFTMAX && at < of->batch * step; at++)
        softmax_channels(input, output, at / step * of->channels * step + at % step, step, of->channels);
}

/* The index of element `i` of a channel. */
static uint64_t channel_index(const struct facet_normalization *of, uint64_t channel, uint64_t i)
{
    uint64_t step = of->height * of->width;

    return (i / step * of->channels + channel) * step + i % step;
}

static void measure_channel(const struct base_math_work *work, uint64_t channel)
{
    const struct facet_normalization *of = &work->math.of.normalization;
    uint64_t count = of->batch * of->height * of->width;
    double mean = 0, variance = 0;

    for (uint64_t i = 0; i < count; i++)
        mean += base_number(&work->operands[0], channel_index(of, channel, i)) / (double)count;
    for (uint64_t i = 0; i < count; i++) {
        double distance = base_number(&work->operands[0], channel_index(of, channel, i)) - mean;
        variance += distance * distance / (double)count;
    }
    base_store(&work->operands[4], channel, mean);
    base_store(&work->operands[5], channel, variance);
}

static void compute_normalization(const struct base_math_work *work)
{
    const struct base_operand *input = &work->operands[0], *scale = &work->operands[2], *bias = &work->operands[3];
    const struct facet_normalization *of = &work->math.of.normalization;

    for (uint64_t channel = 0; channel < of->channels; channel++) {
        if (work->math.flags & FACET_MATH_TRAINING)
            measure_channel(work, channel);
        double mean = base_number(&work->operands[4], channel);
        double factor = (scale->count > 0 ? base_number(scale, channel) : 1) /
                        sqrt(base_number(&work->operands[5], channel) + (double)of->epsilon);
        double shift = bias->count > 0 ? base_number(bias, channel) : 0;
        for (uint64_t i = 0; i < of->batch * of->height * of->width; i++) {
            uint64_t at = channel_index(of, channel, i);
            base_store(&work->operands[1], at, (base_number(input, at) - mean) * factor + shift);
        }
    }
}

static double attention_score(const struct base_math_work *work, uint64_t query, uint64_t key)
{
    const struct facet_attention *of = &work->math.of.attention;
    double sum = 0, scale = of->scale != 0 ? (double)of->scale : 1 / sqrt((double)of->dimension);

    for (uint64_t i = 0; i < of->dimension; i++)
        sum += base_number(&work->operands[0], query * of->dimension + i) *
               base_number(&work->operands[1], key * of->dimension + i);
    return sum * scale;
}

static void compute_attention(const struct base_math_work *work)
{
    const struct facet_attention *of = &work->math.of.attention;
    bool causal = work->math.flags & FACET_MATH_CAUSAL;

    for (uint64_t query = 0; query < of->batch * of->heads * of->queries; query++) {
        uint64_t first = query / of->queries * of->keys;
        uint64_t last = first + (causal ? query % of->queries + 1 : of->keys);
        double sum = 0;

        for (uint64_t key = first; key < last; key++)
            sum += exp(attention_score(work, query, key));
        for (uint64_t i = 0; i < of->dimension; i++) {
            double value = 0;
            for (uint64_t key = first; key < last; key++)
                value += exp(attention_score(work, query, key)) / sum *
                         base_number(&work->operands[2], key * of->dimension + i);
            base_store(&work->operands[3], query * of->dimension + i, value);
        }
    }
}

void (*const base_compute[FACET_MATH_KINDS])(const struct base_math_work *work) = {
    compute_gemm, compute_convolution, compute_activation, compute_normalization, compute_attention};
