/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the operands of an operation and their sizes, and the refusal of invalid operations. Never: reads memory. */
#include "base.h"

#define MOST_BYTES (UINT64_C(1) << 48)

/* The state of the checks of one operation. The first fault is kept. */
struct shapes {
    struct base_math_work *work;
    struct facet_error *error;
    enum facet_status status;
};

static uint64_t multiply_sizes(uint64_t a, uint64_t b)
{
    uint64_t product;

    return __builtin_mul_overflow(a, b, &product) || product > MOST_BYTES ? MOST_BYTES + 1 : product;
}

static uint64_t add_sizes(uint64_t a, uint64_t b)
{
    return a > MOST_BYTES || b > MOST_BYTES ? MOST_BYTES + 1 : a + b;
}

static uint64_t product_of(const uint64_t *sizes, int count)
{
    uint64_t all = 1;

    for (int i = 0; i < count; i++)
        all = multiply_sizes(all, sizes[i]);
    return all;
}

static void shape_fault(struct shapes *shapes, const char *name, const char *expected)
{
    if (shapes->status == FACET_OK)
        shapes->status = facet_kit_fail(shapes->error, FACET_OUT_OF_RANGE, "%s: expected %s", name, expected);
}

static void expect_positive(struct shapes *shapes, const char *name, uint64_t value)
{
    if (value == 0)
        shape_fault(shapes, name, "at least 1");
}

#define POSITIVE(of, field) expect_positive(shapes, #field, (of)->field)

static void add_operand(struct shapes *shapes, const char *name, uint64_t address, uint32_t type, uint64_t count,
                        bool written)
{
    if (multiply_sizes(count, base_bytes_of(type)) > MOST_BYTES)
        shape_fault(shapes, name, "at most 2^48 bytes");
    shapes->work->operands[shapes->work->count++] =
        (struct base_operand){.name = name, .address = address, .count = count, .type = type, .written = written};
}

static uint32_t sum_type(const struct facet_math *math)
{
    return math->type == FACET_MATH_INT8 ? BASE_INT32 : math->type;
}

/* Adds a batch of matrices, one after the other, each of `major` rows (or columns) of `minor` elements. */
static void add_matrix(struct shapes *shapes, const char *name, uint64_t address, uint32_t type, uint64_t major,
                       uint64_t minor, uint64_t lead, uint64_t stride, bool written)
{
    uint64_t batch = shapes->work->math.of.gemm.batch;

    if (lead < minor)
        shape_fault(shapes, name, "a leading dimension of at least a row");
    add_operand(shapes, name, address, type,
                add_sizes(multiply_sizes(batch - 1, stride), add_sizes(multiply_sizes(major - 1, lead), minor)),
                written);
}

/* Replaces each 0 that stands for a default in the operation. */
static void shape_of_gemm(struct shapes *shapes)
{
    struct facet_math *math = &shapes->work->math;
    struct facet_gemm *of = &math->of.gemm;
    bool columns = math->flags & FACET_MATH_COLUMN_MAJOR;
    bool turned_a = columns != !!(math->flags & FACET_MATH_TRANSPOSE_A);
    bool turned_b = columns != !!(math->flags & FACET_MATH_TRANSPOSE_B);
    uint64_t a[] = {turned_a ? of->k : of->m, turned_a ? of->m : of->k};
    uint64_t b[] = {turned_b ? of->n : of->k, turned_b ? of->k : of->n};
    uint64_t c[] = {columns ? of->n : of->m, columns ? of->m : of->n};

    POSITIVE(of, m);
    POSITIVE(of, n);
    POSITIVE(of, k);
    of->batch = of->batch ? of->batch : 1;
    of->lead_a = of->lead_a ? of->lead_a : a[1];
    of->lead_b = of->lead_b ? of->lead_b : b[1];
    of->lead_c = of->lead_c ? of->lead_c : c[1];
    of->stride_a = of->stride_a ? of->stride_a : multiply_sizes(a[0], of->lead_a);
    of->stride_b = of->stride_b ? of->stride_b : multiply_sizes(b[0], of->lead_b);
    of->stride_c = of->stride_c ? of->stride_c : multiply_sizes(c[0], of->lead_c);
    if (math->type == FACET_MATH_INT8 && (of->alpha != 1 || (of->beta != 0 && of->beta != 1)))
        shapes->status = facet_kit_fail(shapes->error, FACET_INVALID_ARGUMENT, "alpha, beta: expected 1, and 0 or 1");
    if (shapes->status != FACET_OK)
        return;
    add_matrix(shapes, "a", of->a, math->type, a[0], a[1], of->lead_a, of->stride_a, false);
    add_matrix(shapes, "b", of->b, math->type, b[0], b[1], of->lead_b, of->stride_b, false);
    add_matrix(shapes, "c", of->c, sum_type(math), c[0], c[1], of->lead_c, of->stride_c, true);
}

/* The number of positions of the filter in direction `i`; 0: it does not fit. */
static uint64_t filter_positions(struct shapes *shapes, const struct facet_convolution *of, uint64_t size, int i)
{
    uint64_t there = add_sizes(size, multiply_sizes(2, of->padding[i]));
    uint64_t wanted = add_sizes(multiply_sizes(of->dilation[i], of->kernel[i] - 1), 1);

    if (there < wanted || wanted > MOST_BYTES) {
        shape_fault(shapes, "kernel", "a filter no larger than the padded input");
        return 0;
    }
    return (there - wanted) / of->stride[i] + 1;
}

static void shape_of_convolution(struct shapes *shapes)
{
    struct facet_math *math = &shapes->work->math;
    struct facet_convolution *of = &math->of.convolution;
    const uint64_t input[] = {of->batch, of->in_channels, of->height, of->width};

    POSITIVE(of, batch);
    POSITIVE(of, in_channels);
    POSITIVE(of, out_channels);
    POSITIVE(of, height);
    POSITIVE(of, width);
    of->groups = of->groups ? of->groups : 1;
    for (int i = 0; i < 2; i++) {
        POSITIVE(of, kernel[i]);
        POSITIVE(of, stride[i]);
        of->dilation[i] = of->dilation[i] ? of->dilation[i] : 1;
    }
    if (of->in_channels % of->groups || of->out_channels % of->groups)
        shape_fault(shapes, "groups", "a divisor of both numbers of channels");
    if (shapes->status != FACET_OK)
        return;
    const uint64_t filter[] = {of->out_channels, of->in_channels / of->groups, of->kernel[0], of->kernel[1]};
    const uint64_t output[] = {of->batch, of->out_channels, filter_positions(shapes, of, of->height, 0),
                               filter_positions(shapes, of, of->width, 1)};
    add_operand(shapes, "input", of->input, math->type, product_of(input, 4), false);
    add_operand(shapes, "filter", of->filter, math->type, product_of(filter, 4), false);
    add_operand(shapes, "output", of->output, sum_type(math), product_of(output, 4), true);
    add_operand(shapes, "bias", of->bias, math->type == FACET_MATH_INT8 ? BASE_INT32 : FACET_MATH_F32,
                of->bias ? of->out_channels : 0, false);
}

static void shape_of_activation(struct shapes *shapes)
{
    const struct facet_math *math = &shapes->work->math;
    const struct facet_activation *of = &math->of.activation;
    const uint64_t sizes[] = {of->batch, of->channels, of->height, of->width};

    if (of->kind > FACET_ACTIVATION_SOFTMAX)
        shapes->status =
            facet_kit_fail(shapes->error, FACET_INVALID_ARGUMENT, "kind %" PRIu32 ": expected 0 to 8", of->kind);
    else if (math->type == FACET_MATH_INT8 && of->kind != FACET_ACTIVATION_RELU)
        shapes->status = facet_kit_fail(shapes->error, FACET_UNSUPPORTED, "type int8: expected another, or relu");
    POSITIVE(of, batch);
    POSITIVE(of, channels);
    POSITIVE(of, height);
    POSITIVE(of, width);
    add_operand(shapes, "input", of->input, math->type, product_of(sizes, 4), false);
    add_operand(shapes, "output", of->output, math->type, product_of(sizes, 4), true);
}

static void shape_of_normalization(struct shapes *shapes)
{
    struct facet_math *math = &shapes->work->math;
    struct facet_normalization *of = &math->of.normalization;
    const uint64_t sizes[] = {of->batch, of->channels, of->height, of->width};
    bool training = math->flags & FACET_MATH_TRAINING;

    POSITIVE(of, batch);
    POSITIVE(of, channels);
    POSITIVE(of, height);
    POSITIVE(of, width);
    of->epsilon = of->epsilon > 0 ? of->epsilon : 1e-5f;
    add_operand(shapes, "input", of->input, math->type, product_of(sizes, 4), false);
    add_operand(shapes, "output", of->output, math->type, product_of(sizes, 4), true);
    add_operand(shapes, "scale", of->scale, FACET_MATH_F32, of->scale ? of->channels : 0, false);
    add_operand(shapes, "bias", of->bias, FACET_MATH_F32, of->bias ? of->channels : 0, false);
    add_operand(shapes, "mean", of->mean, FACET_MATH_F32, of->channels, training);
    add_operand(shapes, "variance", of->variance, FACET_MATH_F32, of->channels, training);
}

static void shape_of_attention(struct shapes *shapes)
{
    const struct facet_math *math = &shapes->work->math;
    const struct facet_attention *of = &math->of.attention;
    const uint64_t outer[] = {of->batch, of->heads, of->queries, of->dimension};
    const uint64_t inner[] = {of->batch, of->heads, of->keys, of->dimension};

    POSITIVE(of, batch);
    POSITIVE(of, heads);
    POSITIVE(of, queries);
    POSITIVE(of, keys);
    POSITIVE(of, dimension);
    if ((math->flags & FACET_MATH_CAUSAL) && of->queries != of->keys)
        shape_fault(shapes, "keys", "as many as queries, when causal");
    add_operand(shapes, "q", of->q, math->type, product_of(outer, 4), false);
    add_operand(shapes, "k", of->k, math->type, product_of(inner, 4), false);
    add_operand(shapes, "v", of->v, math->type, product_of(inner, 4), false);
    add_operand(shapes, "output", of->output, math->type, product_of(outer, 4), true);
}

static enum facet_status check_head(const struct facet_math *math, struct facet_error *error)
{
    static const uint32_t flags[FACET_MATH_KINDS] = {FACET_MATH_TRANSPOSE_A | FACET_MATH_TRANSPOSE_B |
                                                         FACET_MATH_COLUMN_MAJOR,
                                                     0, 0, FACET_MATH_TRAINING, FACET_MATH_CAUSAL};

    if (math->operation >= FACET_MATH_KINDS)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "operation %" PRIu32 ": expected 0 to 4", math->operation);
    if (math->type >= FACET_MATH_TYPES)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "type %" PRIu32 ": expected 0 to 3", math->type);
    if (math->flags & ~(flags[math->operation] | FACET_MATH_NO_TENSOR | FACET_MATH_MIXED))
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "flags 0x%" PRIx32 ": expected those of %s", math->flags,
                              base_math_name(math->operation));
    if (math->type == FACET_MATH_INT8 && math->operation >= FACET_MATH_NORMALIZATION)
        return facet_kit_fail(error, FACET_UNSUPPORTED, "type int8: %s has none", base_math_name(math->operation));
    return FACET_OK;
}

enum facet_status base_math_check(const struct facet_math *math, struct base_math_work *ret_work,
                                  struct facet_error *error)
{
    static void (*const shape_of[FACET_MATH_KINDS])(struct shapes *) = {
        shape_of_gemm, shape_of_convolution, shape_of_activation, shape_of_normalization, shape_of_attention};
    struct shapes shapes = {.work = ret_work, .error = error, .status = check_head(math, error)};

    if (shapes.status != FACET_OK)
        return shapes.status;
    *ret_work = (struct base_math_work){.math = *math};
    shape_of[math->operation](&shapes);
    return shapes.status;
}
