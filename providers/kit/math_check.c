/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: checking shapes, types and flags of the table `math`; the size of each operand.
 * Never: lets a computation overflow: every product is checked, and no operand has more than BYTES_MOST bytes.
 */
#include "math_check.h"

#include <math.h>

#include "provider_kit.h"

#define BYTES_MOST (UINT64_C(1) << 48)
#define COUNT_MOST BYTES_MOST /* the most of any count, so that sums of a few counts stay far below 2^64 */

#define FLAGS_ALL  (FACET_MATH_NO_TENSOR | FACET_MATH_MIXED)
#define FLAGS_GEMM (FACET_MATH_TRANSPOSE_A | FACET_MATH_TRANSPOSE_B | FACET_MATH_COLUMN_MAJOR)

static const struct kind {
    const char *name;
    uint32_t flags, types; /* allowed flags; allowed types, bit n for type n of enum facet_math_type */
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
static enum facet_status check_matrix(const struct matrix *matrix, struct kit_math_operands *operands,
                                      struct facet_error *error)
{
    uint64_t matrix_elements = 0, last_offset = 0;

    if (*matrix->lead == 0)
        *matrix->lead = matrix->columns;
    if (*matrix->lead < matrix->columns)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                              "%s %" PRIu64 ": expected 0, or at least the %" PRIu64 " elements of a row of %s",
                              matrix->lead_name, *matrix->lead, matrix->columns, matrix->name);
    if (__builtin_mul_overflow(matrix->rows - 1, *matrix->lead, &matrix_elements) || matrix_elements > COUNT_MOST)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "%s: its shape is more than 2^48 bytes", matrix->name);
    matrix_elements += matrix->columns;
    if (*matrix->stride == 0 && __builtin_mul_overflow(matrix->rows, *matrix->lead, matrix->stride))
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "%s: its shape is more than 2^48 bytes", matrix->name);
    if (matrix->written && matrix->batch > 1 && *matrix->stride < matrix_elements)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                              "%s %" PRIu64 ": expected 0, or at least the %" PRIu64 " elements of %s",
                              matrix->stride_name, *matrix->stride, matrix_elements, matrix->name);
    if (__builtin_mul_overflow(matrix->batch - 1, *matrix->stride, &last_offset) || last_offset > COUNT_MOST)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "%s: its shape is more than 2^48 bytes", matrix->name);
    return ADD_OPERAND(operands, matrix->name, matrix->address, error, last_offset + matrix_elements,
                       matrix->type_bytes);
}

static enum facet_status check_scales(const struct facet_gemm *gemm, uint32_t type, struct facet_error *error)
{
    enum facet_status status = check_finite("alpha", gemm->alpha, error);

    if (status == FACET_OK)
        status = check_finite("beta", gemm->beta, error);
    if (status != FACET_OK || type != FACET_MATH_INT8)
        return status;
    if (gemm->alpha != 1.0f || (gemm->beta != 0.0f && gemm->beta != 1.0f))
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT,
                              "alpha %g, beta %g: expected an alpha of 1 and a beta of 0 or 1 for int8",
                              (double)gemm->alpha, (double)gemm->beta);
    return FACET_OK;
}

/* Checks a product. In column-major order the elements of a column are adjacent, so rows and columns change places. */
static enum facet_status check_gemm(struct facet_math *operation, struct kit_math_operands *operands,
                                    struct facet_error *error)
{
    struct facet_gemm *gemm = &operation->of.gemm;
    bool columns = operation->flags & FACET_MATH_COLUMN_MAJOR;
    bool turn_a = columns != !!(operation->flags & FACET_MATH_TRANSPOSE_A);
    bool turn_b = columns != !!(operation->flags & FACET_MATH_TRANSPOSE_B);
    uint32_t bytes = kit_math_type_bytes(operation->type);
    uint32_t c_bytes = operation->type == FACET_MATH_INT8 ? 4 : bytes;

    gemm->batch = gemm->batch > 0 ? gemm->batch : 1;
    enum facet_status status =
        CHECK_COUNTS(error, {"m", gemm->m}, {"n", gemm->n}, {"k", gemm->k}, {"batch", gemm->batch});
    if (status == FACET_OK)
        status = check_scales(gemm, operation->type, error);
    const struct matrix matrices[] = {
        {"a", "lead_a", "stride_a", gemm->a, turn_a ? gemm->k : gemm->m, turn_a ? gemm->m : gemm->k, &gemm->lead_a,
         &gemm->stride_a, gemm->batch, bytes, false},
        {"b", "lead_b", "stride_b", gemm->b, turn_b ? gemm->n : gemm->k, turn_b ? gemm->k : gemm->n, &gemm->lead_b,
         &gemm->stride_b, gemm->batch, bytes, false},
        {"c", "lead_c", "stride_c", gemm->c, columns ? gemm->n : gemm->m, columns ? gemm->m : gemm->n, &gemm->lead_c,
         &gemm->stride_c, gemm->batch, c_bytes, true},
    };
    for (int i = 0; i < 3 && status == FACET_OK; i++)
        status = check_matrix(&matrices[i], operands, error);
    return status;
}

/* ---- convolution ---- */

static enum facet_status check_window(const struct facet_convolution *convolution, int i, struct facet_error *error)
{
    static const char *const sizes[] = {"height", "width"};
    uint64_t size = i == 0 ? convolution->height : convolution->width, reach = 0;

    if (convolution->padding[i] > COUNT_MOST)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "padding[%d] %" PRIu64 ": expected at most 2^48", i,
                              convolution->padding[i]);
    bool over = __builtin_mul_overflow(convolution->dilation[i], convolution->kernel[i] - 1, &reach);
    if (over || reach >= size + 2 * convolution->padding[i])
        return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                              "kernel[%d] %" PRIu64 ", dilation[%d] %" PRIu64 ": expected to fit into the %s %" PRIu64
                              " with padding %" PRIu64,
                              i, convolution->kernel[i], i, convolution->dilation[i], sizes[i], size,
                              convolution->padding[i]);
    return FACET_OK;
}

static enum facet_status check_groups(const struct facet_convolution *convolution, struct facet_error *error)
{
    if (convolution->in_channels % convolution->groups == 0 && convolution->out_channels % convolution->groups == 0)
        return FACET_OK;
    return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                          "groups %" PRIu64 ": expected a divisor of in_channels %" PRIu64 " and out_channels %" PRIu64,
                          convolution->groups, convolution->in_channels, convolution->out_channels);
}

static enum facet_status add_convolution(const struct facet_convolution *convolution, uint32_t type,
                                         struct kit_math_operands *operands, struct facet_error *error)
{
    uint32_t bytes = kit_math_type_bytes(type), out_bytes = type == FACET_MATH_INT8 ? 4 : bytes;
    enum facet_status status = ADD_OPERAND(operands, "input", convolution->input, error, convolution->batch,
                                           convolution->in_channels, convolution->height, convolution->width, bytes);

    if (status == FACET_OK)
        status = ADD_OPERAND(operands, "filter", convolution->filter, error, convolution->out_channels,
                             convolution->in_channels / convolution->groups, convolution->kernel[0],
                             convolution->kernel[1], bytes);
    if (status == FACET_OK)
        status =
            ADD_OPERAND(operands, "output", convolution->output, error, convolution->batch, convolution->out_channels,
                        kit_math_outputs(convolution, 0), kit_math_outputs(convolution, 1), out_bytes);
    if (status == FACET_OK && convolution->bias)
        status = ADD_OPERAND(operands, "bias", convolution->bias, error, convolution->out_channels, 4);
    return status;
}

static enum facet_status check_convolution(struct facet_math *operation, struct kit_math_operands *operands,
                                           struct facet_error *error)
{
    struct facet_convolution *convolution = &operation->of.convolution;

    convolution->groups = convolution->groups > 0 ? convolution->groups : 1;
    for (int i = 0; i < 2; i++)
        convolution->dilation[i] = convolution->dilation[i] > 0 ? convolution->dilation[i] : 1;
    enum facet_status status = CHECK_COUNTS(
        error, {"batch", convolution->batch}, {"in_channels", convolution->in_channels},
        {"out_channels", convolution->out_channels}, {"height", convolution->height}, {"width", convolution->width},
        {"kernel[0]", convolution->kernel[0]}, {"kernel[1]", convolution->kernel[1]},
        {"stride[0]", convolution->stride[0]}, {"stride[1]", convolution->stride[1]});

    if (status == FACET_OK)
        status = check_groups(convolution, error);
    for (int i = 0; i < 2 && status == FACET_OK; i++)
        status = check_window(convolution, i, error);
    return status == FACET_OK ? add_convolution(convolution, operation->type, operands, error) : status;
}

/* ---- activation and normalization ---- */

static enum facet_status check_activation(struct facet_math *operation, struct kit_math_operands *operands,
                                          struct facet_error *error)
{
    const struct facet_activation *activation = &operation->of.activation;
    uint32_t bytes = kit_math_type_bytes(operation->type);

    if (activation->kind > FACET_ACTIVATION_SOFTMAX)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "kind %" PRIu32 ": expected at most %d", activation->kind,
                              FACET_ACTIVATION_SOFTMAX);
    if (operation->type == FACET_MATH_INT8 && activation->kind != FACET_ACTIVATION_RELU)
        return facet_kit_fail(error, FACET_UNSUPPORTED, "activation of kind %" PRIu32 " has no int8: expected relu",
                              activation->kind);
    enum facet_status status = CHECK_COUNTS(error, {"batch", activation->batch}, {"channels", activation->channels},
                                            {"height", activation->height}, {"width", activation->width});
    if (status == FACET_OK)
        status = check_finite("alpha", activation->alpha, error);
    if (status == FACET_OK)
        status = ADD_OPERAND(operands, "input", activation->input, error, activation->batch, activation->channels,
                             activation->height, activation->width, bytes);
    if (status == FACET_OK)
        status = ADD_OPERAND(operands, "output", activation->output, error, activation->batch, activation->channels,
                             activation->height, activation->width, bytes);
    return status;
}

static enum facet_status check_epsilon(struct facet_normalization *normalization, struct facet_error *error)
{
    if (normalization->reserved != 0)
        return facet_kit_fail(error, FACET_UNSUPPORTED, "reserved %" PRIu32 ": expected 0: it has no meaning here",
                              normalization->reserved);
    if (!isfinite(normalization->epsilon) || normalization->epsilon < 0.0f)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "epsilon %g: expected a finite number, not below 0",
                              (double)normalization->epsilon);
    if (normalization->epsilon == 0.0f)
        normalization->epsilon = 1e-5f;
    return FACET_OK;
}

static enum facet_status check_normalization(struct facet_math *operation, struct kit_math_operands *operands,
                                             struct facet_error *error)
{
    struct facet_normalization *normalization = &operation->of.normalization;
    const struct kit_math_operand vectors[] = {{"mean", normalization->mean, 1},
                                               {"variance", normalization->variance, 1},
                                               {"scale", normalization->scale, normalization->scale},
                                               {"bias", normalization->bias, normalization->bias}};
    uint32_t bytes = kit_math_type_bytes(operation->type);
    enum facet_status status =
        CHECK_COUNTS(error, {"batch", normalization->batch}, {"channels", normalization->channels},
                     {"height", normalization->height}, {"width", normalization->width});

    if (status == FACET_OK)
        status = check_epsilon(normalization, error);
    if (status == FACET_OK)
        status = ADD_OPERAND(operands, "input", normalization->input, error, normalization->batch,
                             normalization->channels, normalization->height, normalization->width, bytes);
    if (status == FACET_OK)
        status = ADD_OPERAND(operands, "output", normalization->output, error, normalization->batch,
                             normalization->channels, normalization->height, normalization->width, bytes);
    for (int i = 0; i < 4 && status == FACET_OK; i++)
        if (vectors[i].bytes)
            status = ADD_OPERAND(operands, vectors[i].name, vectors[i].address, error, normalization->channels, 4);
    return status;
}

/* ---- attention ---- */

static enum facet_status check_attention_values(struct facet_attention *attention, uint32_t flags,
                                                struct facet_error *error)
{
    if (attention->reserved != 0)
        return facet_kit_fail(error, FACET_UNSUPPORTED, "reserved %" PRIu32 ": expected 0: it has no meaning here",
                              attention->reserved);
    if ((flags & FACET_MATH_CAUSAL) && attention->queries != attention->keys)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                              "queries %" PRIu64 ": expected the number of keys, %" PRIu64 ", for causal attention",
                              attention->queries, attention->keys);
    if (attention->scale == 0.0f)
        attention->scale = (float)(1.0 / sqrt((double)attention->dimension));
    return check_finite("scale", attention->scale, error);
}

static enum facet_status check_attention(struct facet_math *operation, struct kit_math_operands *operands,
                                         struct facet_error *error)
{
    struct facet_attention *attention = &operation->of.attention;
    uint32_t bytes = kit_math_type_bytes(operation->type);
    enum facet_status status =
        CHECK_COUNTS(error, {"batch", attention->batch}, {"heads", attention->heads}, {"queries", attention->queries},
                     {"keys", attention->keys}, {"dimension", attention->dimension});

    if (status == FACET_OK)
        status = check_attention_values(attention, operation->flags, error);
    const struct kit_math_operand tensors[] = {{"q", attention->q, attention->queries},
                                               {"k", attention->k, attention->keys},
                                               {"v", attention->v, attention->keys},
                                               {"output", attention->output, attention->queries}};
    for (int i = 0; i < 4 && status == FACET_OK; i++)
        status = ADD_OPERAND(operands, tensors[i].name, tensors[i].address, error, attention->batch, attention->heads,
                             tensors[i].bytes, attention->dimension, bytes);
    return status;
}

/* ---- any operation ---- */

/* Copies the host's operation; members beyond its size become zero. */
static enum facet_status copy_operation(const struct facet_math *operation, struct facet_math *ret_taken,
                                        struct facet_error *error)
{
    if (operation->size < offsetof(struct facet_math, of))
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "operation: size %" PRIu32 ": expected at least %zu",
                              operation->size, offsetof(struct facet_math, of));
    enum facet_status status = facet_kit_check_size("operation", operation, sizeof *operation, error);
    if (status != FACET_OK)
        return status;
    *ret_taken = (struct facet_math){0};
    memcpy(ret_taken, operation, operation->size < sizeof *ret_taken ? operation->size : sizeof *ret_taken);
    ret_taken->size = sizeof *ret_taken;
    return FACET_OK;
}

static enum facet_status check_head(const struct facet_math *math, struct facet_error *error)
{
    if (math->operation >= FACET_MATH_KINDS)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "operation %" PRIu32 ": expected at most %d",
                              math->operation, FACET_MATH_KINDS - 1);
    const struct kind *kind = &kinds[math->operation];
    if (math->type >= FACET_MATH_TYPES)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "type %" PRIu32 ": expected at most %d", math->type,
                              FACET_MATH_TYPES - 1);
    if (!(kind->types & (1u << math->type)))
        return facet_kit_fail(error, FACET_UNSUPPORTED, "%s has no %s", kind->name, type_names[math->type]);
    if (math->flags & ~kind->flags)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "flags %#" PRIx32 ": %#" PRIx32 " is none of %s",
                              math->flags, math->flags & ~kind->flags, kind->name);
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
