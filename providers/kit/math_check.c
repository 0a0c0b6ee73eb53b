/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: checking shapes, types and flags of the table `math`; the size of each operand.
 * Never: overflows: every product is checked, and no operand is above BYTES_MOST.
 */
#include "math_check.h"

#include <math.h>

#include "provider_kit.h"

#define BYTES_MOST (UINT64_C(1) << 48)
#define COUNT_MOST BYTES_MOST /* of any number: sums of a few of them stay far below 2^64 */

#define FLAGS_ALL  (FACET_MATH_NO_TENSOR | FACET_MATH_MIXED)
#define FLAGS_GEMM (FACET_MATH_TRANSPOSE_A | FACET_MATH_TRANSPOSE_B | FACET_MATH_COLUMN_MAJOR)

static const struct kind {
    const char *name;
    uint32_t flags, types;
} kinds[FACET_MATH_KINDS] = {
    [FACET_MATH_GEMM] = {"gemm", FLAGS_ALL | FLAGS_GEMM, 15},
    [FACET_MATH_CONVOLUTION] = {"convolution", FLAGS_ALL, 15},
    [FACET_MATH_ACTIVATION] = {"activation", FLAGS_ALL, 15},
    [FACET_MATH_NORMALIZATION] = {"normalization", FLAGS_ALL | FACET_MATH_TRAINING, 7},
    [FACET_MATH_ATTENTION] = {"attention", FLAGS_ALL | FACET_MATH_CAUSAL, 7},
};
static const char *const type_names[FACET_MATH_TYPES] = {"f32", "bf16", "f16", "int8"};

/* ---- numbers ---- */

struct field {
    const char *name;
    uint64_t value;
};

static enum facet_status check_counts(const struct field *fields, size_t count, struct facet_error *error)
{
    for (size_t i = 0; i < count; i++)
        if (fields[i].value == 0 || fields[i].value > COUNT_MOST)
            return facet_kit_fail(error, FACET_OUT_OF_RANGE, "%s %" PRIu64 ": expected 1 to 2^48", fields[i].name,
                                  fields[i].value);
    return FACET_OK;
}
#define CHECK_COUNTS(error, ...)                                                                                       \
    check_counts((const struct field[]){__VA_ARGS__},                                                                  \
                 sizeof((const struct field[]){__VA_ARGS__}) / sizeof(struct field), (error))

static enum facet_status add_operand(struct kit_math_operands *operands, const char *name, uint64_t address,
                                     const uint64_t *factors, size_t count, struct facet_error *error)
{
    uint64_t bytes = 1;

    for (size_t i = 0; i < count; i++)
        if (__builtin_mul_overflow(bytes, factors[i], &bytes) || bytes > BYTES_MOST)
            return facet_kit_fail(error, FACET_OUT_OF_RANGE, "%s: its shape is more than 2^48 bytes", name);
    operands->list[operands->count++] = (struct kit_math_operand){name, address, bytes};
    return FACET_OK;
}
#define ADD_OPERAND(operands, name, address, error, ...)                                                               \
    add_operand((operands), (name), (address), (const uint64_t[]){__VA_ARGS__},                                        \
                sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t), (error))

static enum facet_status check_finite(const char *name, float value, struct facet_error *error)
{
    if (isfinite(value))
        return FACET_OK;
    return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "%s %g: expected a finite number", name, (double)value);
}

/* ---- gemm ---- */

struct matrix {
    const char *name, *lead_name, *stride_name;
    uint64_t address, rows, columns; /* as stored: elements of a row are adjacent */
    uint64_t *lead, *stride;
    uint64_t batch;
    uint32_t type_bytes;
    bool written;
};

/* Computes the bytes from the first element of the first matrix to the last of the last. */
static enum facet_status check_matrix(const struct matrix *it, struct kit_math_operands *operands,
                                      struct facet_error *error)
{
    uint64_t one = 0, all = 0;

    if (*it->lead == 0)
        *it->lead = it->columns;
    if (*it->lead < it->columns)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                              "%s %" PRIu64 ": expected 0, or at least the %" PRIu64 " elements of a row of %s",
                              it->lead_name, *it->lead, it->columns, it->name);
    if (__builtin_mul_overflow(it->rows - 1, *it->lead, &one) || one > COUNT_MOST)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "%s: its shape is more than 2^48 bytes", it->name);
    one += it->columns;
    if (*it->stride == 0 && __builtin_mul_overflow(it->rows, *it->lead, it->stride))
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "%s: its shape is more than 2^48 bytes", it->name);
    if (it->written && it->batch > 1 && *it->stride < one)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                              "%s %" PRIu64 ": expected 0, or at least the %" PRIu64 " elements of %s", it->stride_name,
                              *it->stride, one, it->name);
    if (__builtin_mul_overflow(it->batch - 1, *it->stride, &all) || all > COUNT_MOST)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "%s: its shape is more than 2^48 bytes", it->name);
    return ADD_OPERAND(operands, it->name, it->address, error, all + one, it->type_bytes);
}

static enum facet_status check_scales(const struct facet_gemm *it, uint32_t type, struct facet_error *error)
{
    enum facet_status status = check_finite("alpha", it->alpha, error);

    if (status == FACET_OK)
        status = check_finite("beta", it->beta, error);
    if (status != FACET_OK || type != FACET_MATH_INT8)
        return status;
    if (it->alpha != 1.0f || (it->beta != 0.0f && it->beta != 1.0f))
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT,
                              "alpha %g, beta %g: expected an alpha of 1 and a beta of 0 or 1 for int8",
                              (double)it->alpha, (double)it->beta);
    return FACET_OK;
}

/* In column-major order the elements of a column are adjacent, so rows and columns change places. */
static enum facet_status check_gemm(struct facet_math *operation, struct kit_math_operands *operands,
                                    struct facet_error *error)
{
    struct facet_gemm *it = &operation->of.gemm;
    bool columns = operation->flags & FACET_MATH_COLUMN_MAJOR;
    bool turn_a = columns != !!(operation->flags & FACET_MATH_TRANSPOSE_A);
    bool turn_b = columns != !!(operation->flags & FACET_MATH_TRANSPOSE_B);
    uint32_t bytes = kit_math_type_bytes(operation->type);
    uint32_t c_bytes = operation->type == FACET_MATH_INT8 ? 4 : bytes;

    it->batch = it->batch > 0 ? it->batch : 1;
    enum facet_status status = CHECK_COUNTS(error, {"m", it->m}, {"n", it->n}, {"k", it->k}, {"batch", it->batch});
    if (status == FACET_OK)
        status = check_scales(it, operation->type, error);
    const struct matrix matrices[] = {
        {"a", "lead_a", "stride_a", it->a, turn_a ? it->k : it->m, turn_a ? it->m : it->k, &it->lead_a, &it->stride_a,
         it->batch, bytes, false},
        {"b", "lead_b", "stride_b", it->b, turn_b ? it->n : it->k, turn_b ? it->k : it->n, &it->lead_b, &it->stride_b,
         it->batch, bytes, false},
        {"c", "lead_c", "stride_c", it->c, columns ? it->n : it->m, columns ? it->m : it->n, &it->lead_c, &it->stride_c,
         it->batch, c_bytes, true},
    };
    for (int i = 0; i < 3 && status == FACET_OK; i++)
        status = check_matrix(&matrices[i], operands, error);
    return status;
}

/* ---- convolution ---- */

static enum facet_status check_window(const struct facet_convolution *it, int i, struct facet_error *error)
{
    static const char *const sizes[] = {"height", "width"};
    uint64_t size = i == 0 ? it->height : it->width, reach = 0;

    if (it->padding[i] > COUNT_MOST)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "padding[%d] %" PRIu64 ": expected at most 2^48", i,
                              it->padding[i]);
    bool over = __builtin_mul_overflow(it->dilation[i], it->kernel[i] - 1, &reach);
    if (over || reach >= size + 2 * it->padding[i])
        return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                              "kernel[%d] %" PRIu64 ", dilation[%d] %" PRIu64 ": expected to fit into the %s %" PRIu64
                              " with padding %" PRIu64,
                              i, it->kernel[i], i, it->dilation[i], sizes[i], size, it->padding[i]);
    return FACET_OK;
}

static enum facet_status check_groups(const struct facet_convolution *it, struct facet_error *error)
{
    if (it->in_channels % it->groups == 0 && it->out_channels % it->groups == 0)
        return FACET_OK;
    return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                          "groups %" PRIu64 ": expected a divisor of in_channels %" PRIu64 " and out_channels %" PRIu64,
                          it->groups, it->in_channels, it->out_channels);
}

static enum facet_status add_convolution(const struct facet_convolution *it, uint32_t type,
                                         struct kit_math_operands *operands, struct facet_error *error)
{
    uint32_t bytes = kit_math_type_bytes(type), out_bytes = type == FACET_MATH_INT8 ? 4 : bytes;
    enum facet_status status =
        ADD_OPERAND(operands, "input", it->input, error, it->batch, it->in_channels, it->height, it->width, bytes);

    if (status == FACET_OK)
        status = ADD_OPERAND(operands, "filter", it->filter, error, it->out_channels, it->in_channels / it->groups,
                             it->kernel[0], it->kernel[1], bytes);
    if (status == FACET_OK)
        status = ADD_OPERAND(operands, "output", it->output, error, it->batch, it->out_channels,
                             kit_math_outputs(it, 0), kit_math_outputs(it, 1), out_bytes);
    if (status == FACET_OK && it->bias)
        status = ADD_OPERAND(operands, "bias", it->bias, error, it->out_channels, 4);
    return status;
}

static enum facet_status check_convolution(struct facet_math *operation, struct kit_math_operands *operands,
                                           struct facet_error *error)
{
    struct facet_convolution *it = &operation->of.convolution;

    it->groups = it->groups > 0 ? it->groups : 1;
    for (int i = 0; i < 2; i++)
        it->dilation[i] = it->dilation[i] > 0 ? it->dilation[i] : 1;
    enum facet_status status =
        CHECK_COUNTS(error, {"batch", it->batch}, {"in_channels", it->in_channels}, {"out_channels", it->out_channels},
                     {"height", it->height}, {"width", it->width}, {"kernel[0]", it->kernel[0]},
                     {"kernel[1]", it->kernel[1]}, {"stride[0]", it->stride[0]}, {"stride[1]", it->stride[1]});

    if (status == FACET_OK)
        status = check_groups(it, error);
    for (int i = 0; i < 2 && status == FACET_OK; i++)
        status = check_window(it, i, error);
    return status == FACET_OK ? add_convolution(it, operation->type, operands, error) : status;
}

/* ---- activation and normalization ---- */

static enum facet_status check_activation(struct facet_math *operation, struct kit_math_operands *operands,
                                          struct facet_error *error)
{
    const struct facet_activation *it = &operation->of.activation;
    uint32_t bytes = kit_math_type_bytes(operation->type);

    if (it->kind > FACET_ACTIVATION_SOFTMAX)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "kind %" PRIu32 ": expected at most %d", it->kind,
                              FACET_ACTIVATION_SOFTMAX);
    if (operation->type == FACET_MATH_INT8 && it->kind != FACET_ACTIVATION_RELU)
        return facet_kit_fail(error, FACET_UNSUPPORTED, "activation of kind %" PRIu32 " has no int8: expected relu",
                              it->kind);
    enum facet_status status = CHECK_COUNTS(error, {"batch", it->batch}, {"channels", it->channels},
                                            {"height", it->height}, {"width", it->width});
    if (status == FACET_OK)
        status = check_finite("alpha", it->alpha, error);
    if (status == FACET_OK)
        status =
            ADD_OPERAND(operands, "input", it->input, error, it->batch, it->channels, it->height, it->width, bytes);
    if (status == FACET_OK)
        status =
            ADD_OPERAND(operands, "output", it->output, error, it->batch, it->channels, it->height, it->width, bytes);
    return status;
}

static enum facet_status check_epsilon(struct facet_normalization *it, struct facet_error *error)
{
    if (it->reserved != 0)
        return facet_kit_fail(error, FACET_UNSUPPORTED, "reserved %" PRIu32 ": expected 0: it has no meaning here",
                              it->reserved);
    if (!isfinite(it->epsilon) || it->epsilon < 0.0f)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "epsilon %g: expected a finite number, not below 0",
                              (double)it->epsilon);
    if (it->epsilon == 0.0f)
        it->epsilon = 1e-5f;
    return FACET_OK;
}

static enum facet_status check_normalization(struct facet_math *operation, struct kit_math_operands *operands,
                                             struct facet_error *error)
{
    struct facet_normalization *it = &operation->of.normalization;
    const struct kit_math_operand vectors[] = {{"mean", it->mean, 1},
                                               {"variance", it->variance, 1},
                                               {"scale", it->scale, it->scale},
                                               {"bias", it->bias, it->bias}};
    uint32_t bytes = kit_math_type_bytes(operation->type);
    enum facet_status status = CHECK_COUNTS(error, {"batch", it->batch}, {"channels", it->channels},
                                            {"height", it->height}, {"width", it->width});

    if (status == FACET_OK)
        status = check_epsilon(it, error);
    if (status == FACET_OK)
        status =
            ADD_OPERAND(operands, "input", it->input, error, it->batch, it->channels, it->height, it->width, bytes);
    if (status == FACET_OK)
        status =
            ADD_OPERAND(operands, "output", it->output, error, it->batch, it->channels, it->height, it->width, bytes);
    for (int i = 0; i < 4 && status == FACET_OK; i++)
        if (vectors[i].bytes)
            status = ADD_OPERAND(operands, vectors[i].name, vectors[i].address, error, it->channels, 4);
    return status;
}

/* ---- attention ---- */

static enum facet_status check_attention_values(struct facet_attention *it, uint32_t flags, struct facet_error *error)
{
    if (it->reserved != 0)
        return facet_kit_fail(error, FACET_UNSUPPORTED, "reserved %" PRIu32 ": expected 0: it has no meaning here",
                              it->reserved);
    if ((flags & FACET_MATH_CAUSAL) && it->queries != it->keys)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                              "queries %" PRIu64 ": expected the %" PRIu64 " of keys, as it is causal", it->queries,
                              it->keys);
    if (it->scale == 0.0f)
        it->scale = (float)(1.0 / sqrt((double)it->dimension));
    return check_finite("scale", it->scale, error);
}

static enum facet_status check_attention(struct facet_math *operation, struct kit_math_operands *operands,
                                         struct facet_error *error)
{
    struct facet_attention *it = &operation->of.attention;
    uint32_t bytes = kit_math_type_bytes(operation->type);
    enum facet_status status = CHECK_COUNTS(error, {"batch", it->batch}, {"heads", it->heads}, {"queries", it->queries},
                                            {"keys", it->keys}, {"dimension", it->dimension});

    if (status == FACET_OK)
        status = check_attention_values(it, operation->flags, error);
    const struct kit_math_operand all[] = {
        {"q", it->q, it->queries}, {"k", it->k, it->keys}, {"v", it->v, it->keys}, {"output", it->output, it->queries}};
    for (int i = 0; i < 4 && status == FACET_OK; i++)
        status = ADD_OPERAND(operands, all[i].name, all[i].address, error, it->batch, it->heads, all[i].bytes,
                             it->dimension, bytes);
    return status;
}

/* ---- all ---- */

/* Copies the host's operation; words beyond its size become zero. */
static enum facet_status copy_operation(const struct facet_math *operation, struct facet_math *ret_taken,
                                        struct facet_error *error)
{
    if (operation->size < offsetof(struct facet_math, of))
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "operation: size %" PRIu32 ": expected at least %zu",
                              operation->size, offsetof(struct facet_math, of));
    enum facet_status status = facet_kit_known("operation", operation, sizeof *operation, error);
    if (status != FACET_OK)
        return status;
    *ret_taken = (struct facet_math){0};
    memcpy(ret_taken, operation, operation->size < sizeof *ret_taken ? operation->size : sizeof *ret_taken);
    ret_taken->size = sizeof *ret_taken;
    return FACET_OK;
}

static enum facet_status check_head(const struct facet_math *it, struct facet_error *error)
{
    if (it->operation >= FACET_MATH_KINDS)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "operation %" PRIu32 ": expected at most %d",
                              it->operation, FACET_MATH_KINDS - 1);
    const struct kind *kind = &kinds[it->operation];
    if (it->type >= FACET_MATH_TYPES)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "type %" PRIu32 ": expected at most %d", it->type,
                              FACET_MATH_TYPES - 1);
    if (!(kind->types & (1u << it->type)))
        return facet_kit_fail(error, FACET_UNSUPPORTED, "%s has no %s", kind->name, type_names[it->type]);
    if (it->flags & ~kind->flags)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "flags %#" PRIx32 ": %#" PRIx32 " is none of %s",
                              it->flags, it->flags & ~kind->flags, kind->name);
    return FACET_OK;
}

enum facet_status kit_math_check(const struct facet_math *operation, struct facet_math *ret_operation,
                                 struct kit_math_operands *ret_operands, struct facet_error *error)
{
    static enum facet_status (*const checks[FACET_MATH_KINDS])(struct facet_math *, struct kit_math_operands *,
                                                               struct facet_error *) = {
        check_gemm, check_convolution, check_activation, check_normalization, check_attention};
    struct kit_math_operands operands = {0};
    struct facet_math copy;
    enum facet_status status = copy_operation(operation, &copy, error);

    if (status == FACET_OK)
        status = check_head(&copy, error);
    if (status == FACET_OK)
        status = checks[copy.operation](&copy, &operands, error);
    if (status != FACET_OK)
        return status;
    *ret_operation = copy;
    *ret_operands = operands;
    return FACET_OK;
}
