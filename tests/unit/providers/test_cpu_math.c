/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of the table `math`: gemm and convolution, compared with results in double. Never: asserts a time. */
#include "cpu_math_world.h"

/* ---- gemm ---- */

struct shape {
    uint64_t m, n, k, batch, more; /* more: elements between rows, and between matrices */
    float alpha, beta;
};

struct gemm_case {
    struct facet_math operation;
    bool c_by_columns, a_by_columns, b_by_columns; /* stored column by column, not row by row */
    uint64_t a_count, b_count, c_count;
    double *c_before;
};

static uint64_t element_index(uint64_t row, uint64_t column, uint64_t lead, bool by_columns)
{
    return by_columns ? column * lead + row : row * lead + column;
}

static void make_gemm(struct gemm_case *ret_case, const struct shape *shape, uint32_t type, uint32_t flags)
{
    struct gemm_case it = {.operation = operation_of(FACET_MATH_GEMM, type, flags)};
    struct facet_gemm *gemm = &it.operation.of.gemm;
    uint64_t rows[3], columns[3] = {shape->k, shape->n, shape->n};

    rows[0] = rows[2] = shape->m;
    rows[1] = shape->k;
    it.c_by_columns = flags & FACET_MATH_COLUMN_MAJOR;
    it.a_by_columns = it.c_by_columns != !!(flags & FACET_MATH_TRANSPOSE_A);
    it.b_by_columns = it.c_by_columns != !!(flags & FACET_MATH_TRANSPOSE_B);
    const bool by_columns[3] = {it.a_by_columns, it.b_by_columns, it.c_by_columns};
    uint64_t *leads[] = {&gemm->lead_a, &gemm->lead_b, &gemm->lead_c};
    uint64_t *strides[] = {&gemm->stride_a, &gemm->stride_b, &gemm->stride_c}, counts[3];

    for (int i = 0; i < 3; i++) {
        uint64_t lead = (by_columns[i] ? rows[i] : columns[i]) + shape->more;
        uint64_t stride = (by_columns[i] ? columns[i] : rows[i]) * lead + shape->more;

        counts[i] = stride * shape->batch;
        *leads[i] = shape->more ? lead : 0;
        *strides[i] = shape->more ? stride : 0;
    }
    gemm->m = shape->m;
    gemm->n = shape->n;
    gemm->k = shape->k;
    gemm->batch = shape->batch == 1 ? 0 : shape->batch;
    gemm->alpha = shape->alpha;
    gemm->beta = shape->beta;
    gemm->a = random_numbers(type, counts[0]);
    gemm->b = random_numbers(type, counts[1]);
    gemm->c = world_alloc(&world, world.context, counts[2] * product_bytes(type));
    it.a_count = counts[0];
    it.b_count = counts[1];
    it.c_count = counts[2];
    it.c_before = malloc(counts[2] * sizeof(double));
    assert_non_null(it.c_before);
    for (uint64_t i = 0; i < counts[2]; i++) {
        put_product(gemm->c, type, i, random_number(type));
        it.c_before[i] = get_product(gemm->c, type, i);
    }
    *ret_case = it;
}

static uint64_t value_or(uint64_t value, uint64_t fallback)
{
    return value ? value : fallback;
}

/* Checks the result. Memory beside the matrix must be unchanged. */
static void check_gemm(const struct gemm_case *it, bool rounds_inputs)
{
    const struct facet_gemm *gemm = &it->operation.of.gemm;
    uint32_t type = it->operation.type;
    uint64_t lead_a = value_or(gemm->lead_a, it->a_by_columns ? gemm->m : gemm->k);
    uint64_t lead_b = value_or(gemm->lead_b, it->b_by_columns ? gemm->k : gemm->n);
    uint64_t lead_c = value_or(gemm->lead_c, it->c_by_columns ? gemm->m : gemm->n);
    uint64_t stride_a = value_or(gemm->stride_a, gemm->m * gemm->k),
             stride_b = value_or(gemm->stride_b, gemm->k * gemm->n);
    uint64_t stride_c = value_or(gemm->stride_c, gemm->m * gemm->n), batch = gemm->batch ? gemm->batch : 1;
    double *a = get_all(gemm->a, type, it->a_count), *b = get_all(gemm->b, type, it->b_count);

    for (uint64_t matrix = 0; matrix < batch; matrix++)
        for (uint64_t i = 0; i < gemm->m; i++)
            for (uint64_t j = 0; j < gemm->n; j++) {
                uint64_t place = matrix * stride_c + element_index(i, j, lead_c, it->c_by_columns);
                double magnitudes,
                    sum = sum_of_products(a + matrix * stride_a + element_index(i, 0, lead_a, it->a_by_columns),
                                          it->a_by_columns ? lead_a : 1,
                                          b + matrix * stride_b + element_index(0, j, lead_b, it->b_by_columns),
                                          it->b_by_columns ? 1 : lead_b, gemm->k, &magnitudes);
                double before = gemm->beta == 0.0f ? 0 : (double)gemm->beta * it->c_before[place];
                double expected = (double)gemm->alpha * sum + before;
                magnitudes = fabs((double)gemm->alpha) * magnitudes + fabs(before);
                if (rounds_inputs) /* both factors are rounded to bf16 */
                    assert_true(fabs(get(gemm->c, type, place) - expected) <= 0x1.01p-7 * magnitudes);
                else
                    assert_near(get_product(gemm->c, type, place), expected, type, magnitudes,
                                type == FACET_MATH_INT8 ? 0 : (double)gemm->k + 2);
                it->c_before[place] = NAN;
            }
    for (uint64_t i = 0; i < it->c_count; i++)
        assert_true(isnan(it->c_before[i]) || get_product(gemm->c, type, i) == it->c_before[i]);
    free(a);
    free(b);
}

static void gemm_is_right(const struct shape *shape, uint32_t type, uint32_t flags)
{
    struct gemm_case it;

    make_gemm(&it, shape, type, flags);
    if (it.operation.of.gemm.beta == 0.0f && type == FACET_MATH_F32 && shape->more == 0)
        for (uint64_t i = 0; i < it.c_count; i++) /* beta is 0: these are not read */
            put(it.operation.of.gemm.c, type, i, NAN);
    run_math(&it.operation);
    check_gemm(&it, flags & FACET_MATH_MIXED);
    free(it.c_before);
    give_back(it.operation.of.gemm.a);
    give_back(it.operation.of.gemm.b);
    give_back(it.operation.of.gemm.c);
}

static void gemm_is_right_in_every_type_and_layout(void **state)
{
    static const struct shape shapes[] = {
        {1, 1, 1, 1, 0, 1, 0},    {3, 5, 7, 1, 0, 1, 0},     {17, 33, 65, 2, 3, 1, 1},
        {64, 64, 64, 3, 0, 1, 0}, {40, 100, 50, 2, 0, 1, 0}, {70, 130, 40, 1, 5, 1, 0},
    };
    (void)state;

    for (uint32_t type = 0; type < FACET_MATH_TYPES; type++)
        for (uint32_t layout = 0; layout < 8; layout++)
            for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
                struct shape shape = shapes[i];

                gemm_is_right(&shape, type, layout << 8);
                gemm_is_right(&shape, type, layout << 8 | FACET_MATH_NO_TENSOR);
                if (type == FACET_MATH_INT8)
                    continue;
                shape.alpha = -0.5f;
                shape.beta = 1.75f;
                gemm_is_right(&shape, type, layout << 8);
            }
}

/* The shapes (m, n, k, batch, more, alpha, beta) have edges in all directions, take several steps, or have few rows. */
static void large_gemms_are_right(void **state)
{
    static const struct shape shapes[] = {
        {300, 260, 520, 1, 0, 1, 0}, {20, 24, 11000, 1, 0, 2, 3}, {1, 700, 900, 1, 0, 1, 0},
        {530, 3, 300, 1, 0, 1, 0},   {9, 70, 9000, 2, 1, 1, 1},   {2, 1, 70000, 1, 0, 1, 0},
        {40, 530, 300, 2, 0, 1, 0},  {33, 48, 1300, 1, 0, 1, 0},  {20, 64, 11008, 1, 0, 2, 3}};
    (void)state;

    for (uint32_t type = 0; type < FACET_MATH_TYPES; type++)
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
            struct shape shape = shapes[i];

            if (type == FACET_MATH_INT8) {
                shape.alpha = 1;
                shape.beta = shape.beta != 0 ? 1 : 0;
            }
            gemm_is_right(&shape, type, 0);
            gemm_is_right(&shape, type, FACET_MATH_NO_TENSOR | FACET_MATH_TRANSPOSE_A);
            gemm_is_right(&shape, type, FACET_MATH_COLUMN_MAJOR);
        }
}

/* Instructions that multiply 8 bits may saturate: the sum of two products does not always fit into 16 bits. */
static void sums_of_int8_are_exact(void **state)
{
    static const struct shape shape = {34, 48, 130, 1, 0, 1, 0};
    static const int extremes[][2] = {{127, 127}, {-128, -128}, {127, -128}};
    (void)state;

    for (size_t i = 0; i < sizeof extremes / sizeof extremes[0]; i++) {
        struct gemm_case it;

        make_gemm(&it, &shape, FACET_MATH_INT8, 0);
        const struct facet_gemm *gemm = &it.operation.of.gemm;
        memset((void *)gemm->a, extremes[i][0], shape.m * shape.k);
        memset((void *)gemm->b, extremes[i][1], shape.k * shape.n);
        run_math(&it.operation);
        for (uint64_t j = 0; j < shape.m * shape.n; j++)
            assert_int_equal(((const int32_t *)gemm->c)[j], (int)shape.k * extremes[i][0] * extremes[i][1]);
        free(it.c_before);
        give_back(gemm->a);
        give_back(gemm->b);
        give_back(gemm->c);
    }
}

/* Results whose rows are whole cache lines are written with stores that bypass the caches. */
static void results_larger_than_the_caches_are_right(void **state)
{
    static const struct shape four_bytes = {520, 4096, 8, 1, 0, 1, 0}, two_bytes = {1030, 4096, 8, 1, 0, 1, 0},
                              no_lines = {520, 4097, 3, 1, 0, 1, 0};
    (void)state;

    for (uint32_t type = 0; type < FACET_MATH_TYPES; type++)
        gemm_is_right(product_bytes(type) == 4 ? &four_bytes : &two_bytes, type, FACET_MATH_TRANSPOSE_A);
    gemm_is_right(&no_lines, FACET_MATH_F32, FACET_MATH_TRANSPOSE_A);
}

/* ---- convolution ---- */

/* The numbers of a convolution's operands. */
struct operands {
    double *input, *filter;
};

static double window_sum(const struct facet_convolution *it, const struct operands *operands, uint64_t n, uint64_t out,
                         int64_t y, int64_t x, double *ret_magnitudes)
{
    uint64_t in = it->in_channels / it->groups, group = out / (it->out_channels / it->groups);
    double sum = 0, magnitude = 0;
    int64_t first = x < 0 ? (-x + (int64_t)it->dilation[1] - 1) / (int64_t)it->dilation[1] : 0;
    int64_t last = x < (int64_t)it->width ? ((int64_t)it->width - 1 - x) / (int64_t)it->dilation[1] : -1;

    last = last < (int64_t)it->kernel[1] ? last : (int64_t)it->kernel[1] - 1;
    *ret_magnitudes = 0;
    for (uint64_t c = 0; c < in && first <= last; c++)
        for (uint64_t ky = 0; ky < it->kernel[0]; ky++) {
            int64_t iy = y + (int64_t)(ky * it->dilation[0]);
            uint64_t line = ((n * it->in_channels + group * in + c) * it->height + (uint64_t)iy) * it->width;

            if (iy < 0 || iy >= (int64_t)it->height)
                continue;
            sum += sum_of_products(
                operands->input + (int64_t)line + x + first * (int64_t)it->dilation[1], it->dilation[1],
                operands->filter + (int64_t)(((out * in + c) * it->kernel[0] + ky) * it->kernel[1]) + first, 1,
                (uint64_t)(last - first + 1), &magnitude);
            *ret_magnitudes += magnitude;
        }
    return sum;
}

static double bias_of(const struct facet_convolution *it, uint32_t type, uint64_t out)
{
    if (!it->bias)
        return 0;
    return type == FACET_MATH_INT8 ? (double)((const int32_t *)it->bias)[out] : (double)((const float *)it->bias)[out];
}

static void check_convolution(const struct facet_convolution *it, uint32_t type, const uint64_t *outputs)
{
    uint64_t place = 0;
    uint64_t terms = it->in_channels / it->groups * it->kernel[0] * it->kernel[1];
    double k = (double)terms;
    struct operands operands = {
        .input = get_all(it->input, type, it->batch * it->in_channels * it->height * it->width),
        .filter = get_all(it->filter, type, it->out_channels * terms),
    };

    for (uint64_t n = 0; n < it->batch; n++)
        for (uint64_t out = 0; out < it->out_channels; out++)
            for (uint64_t y = 0; y < outputs[0]; y++)
                for (uint64_t x = 0; x < outputs[1]; x++) {
                    double magnitudes,
                        sum = window_sum(it, &operands, n, out, (int64_t)(y * it->stride[0]) - (int64_t)it->padding[0],
                                         (int64_t)(x * it->stride[1]) - (int64_t)it->padding[1], &magnitudes);
                    double bias = bias_of(it, type, out);

                    assert_near(get_product(it->output, type, place++), sum + bias, type, magnitudes + fabs(bias),
                                type == FACET_MATH_INT8 ? 0 : k + 1);
                }
    free(operands.input);
    free(operands.filter);
}

static void convolution_is_right(const struct facet_convolution *shape, uint32_t type, uint32_t flags, bool bias)
{
    struct facet_math operation = operation_of(FACET_MATH_CONVOLUTION, type, flags);
    struct facet_convolution *it = &operation.of.convolution, whole = *shape;
    uint64_t outputs[2];

    whole.groups = whole.groups ? whole.groups : 1;
    for (int i = 0; i < 2; i++) {
        whole.dilation[i] = whole.dilation[i] ? whole.dilation[i] : 1;
        outputs[i] =
            ((i ? whole.width : whole.height) + 2 * whole.padding[i] - whole.dilation[i] * (whole.kernel[i] - 1) - 1) /
                whole.stride[i] +
            1;
    }
    uint64_t count = whole.batch * whole.out_channels * outputs[0] * outputs[1];
    *it = *shape;
    it->input = whole.input = random_numbers(type, whole.batch * whole.in_channels * whole.height * whole.width);
    it->filter = whole.filter =
        random_numbers(type, whole.out_channels * whole.in_channels / whole.groups * whole.kernel[0] * whole.kernel[1]);
    it->output = whole.output = world_alloc(&world, world.context, count * product_bytes(type));
    if (bias) {
        it->bias = whole.bias = world_alloc(&world, world.context, whole.out_channels * 4);
        for (uint64_t i = 0; i < whole.out_channels; i++)
            put_product(it->bias, type == FACET_MATH_INT8 ? type : FACET_MATH_F32, i, random_number(type));
        give_back(it->bias); /* the second bias may be in the memory of this one */
        it->bias = whole.bias = world_alloc(&world, world.context, whole.out_channels * 4);
        for (uint64_t i = 0; i < whole.out_channels; i++)
            put_product(it->bias, type == FACET_MATH_INT8 ? type : FACET_MATH_F32, i, random_number(type));
    }
    run_math(&operation);
    check_convolution(&whole, type, outputs);
    give_back(it->input);
    give_back(it->filter);
    give_back(it->output);
    if (bias)
        give_back(it->bias);
}

static const struct facet_convolution shapes[] = {
    {.batch = 2,
     .in_channels = 5,
     .out_channels = 7,
     .height = 9,
     .width = 11,
     .kernel = {3, 3},
     .stride = {1, 1},
     .padding = {1, 1}},
    {.batch = 2,
     .in_channels = 6,
     .out_channels = 4,
     .height = 8,
     .width = 7,
     .kernel = {1, 1},
     .stride = {1, 1},
     .groups = 2},
    {.batch = 1,
     .in_channels = 3,
     .out_channels = 8,
     .height = 23,
     .width = 19,
     .kernel = {7, 5},
     .stride = {2, 3},
     .padding = {3, 2}},
    {.batch = 1,
     .in_channels = 4,
     .out_channels = 4,
     .height = 12,
     .width = 12,
     .kernel = {3, 2},
     .stride = {1, 2},
     .padding = {0, 4},
     .dilation = {2, 3},
     .groups = 4},
    {.batch = 1,
     .in_channels = 64,
     .out_channels = 70,
     .height = 20,
     .width = 20,
     .kernel = {3, 3},
     .stride = {1, 1},
     .padding = {1, 1}},
    {.batch = 3, /* two strips of different sizes, and two groups */
     .in_channels = 34,
     .out_channels = 38,
     .height = 21,
     .width = 18,
     .kernel = {3, 5},
     .stride = {2, 1},
     .padding = {1, 3},
     .dilation = {3, 1},
     .groups = 2},
    {.batch = 2,
     .in_channels = 3,
     .out_channels = 16,
     .height = 17,
     .width = 30,
     .kernel = {7, 7},
     .stride = {2, 2},
     .padding = {3, 3}},
    {.batch = 2, /* the input beyond the last window is not read */
     .in_channels = 40,
     .out_channels = 24,
     .height = 10,
     .width = 12,
     .kernel = {1, 2},
     .stride = {3, 4}},
    {.batch = 2,
     .in_channels = 1,
     .out_channels = 1,
     .height = 1,
     .width = 1,
     .kernel = {1, 1},
     .stride = {5, 5},
     .padding = {7, 0}},
};

static void convolution_is_right_in_every_type(void **state)
{
    (void)state;

    for (uint32_t type = 0; type < FACET_MATH_TYPES; type++)
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
            convolution_is_right(&shapes[i], type, 0, i % 2 == 0);
            convolution_is_right(&shapes[i], type, FACET_MATH_NO_TENSOR, i % 2 == 1);
        }
}

/* The input and the output channels are divided into blocks, and the last block is incomplete. */
static void convolution_of_many_channels_is_right(void **state)
{
    const struct facet_convolution shape = {.batch = 1,
                                            .in_channels = 200,
                                            .out_channels = 600,
                                            .height = 9,
                                            .width = 7,
                                            .kernel = {3, 3},
                                            .stride = {1, 1},
                                            .padding = {2, 1}};
    (void)state;

    for (uint32_t type = 0; type < FACET_MATH_TYPES; type++)
        convolution_is_right(&shape, type, 0, type % 2 == 0);
}

/* 14 x 14 positions are no multiple of a vector. The remaining positions of all images are multiplied together. */
static void convolution_of_positions_beside_whole_vectors_is_right(void **state)
{
    static const struct facet_convolution remainders[] = {
        {.batch = 5, .in_channels = 64, .out_channels = 150, .height = 14, .width = 14},
        {.batch = 85, .in_channels = 1024, .out_channels = 3, .height = 4, .width = 19},
        {.batch = 2, .in_channels = 64, .out_channels = 40, .height = 6, .width = 13}, /* too few remain */
        {.batch = 6, .in_channels = 130, .out_channels = 80, .height = 11, .width = 7, .groups = 2},
    };
    (void)state;

    for (size_t i = 0; i < sizeof remainders / sizeof remainders[0]; i++) {
        struct facet_convolution shape = remainders[i];

        for (int j = 0; j < 2; j++)
            shape.kernel[j] = shape.stride[j] = 1;
        convolution_is_right(&shape, FACET_MATH_F32, 0, false);
    }
}

/* 130 channels of 3 x 3 are more terms than f32 can add exactly. */
static void int8_is_exact_without_int8_units(void **state)
{
    const struct facet_convolution shape = {.batch = 1,
                                            .in_channels = 130,
                                            .out_channels = 20,
                                            .height = 6,
                                            .width = 6,
                                            .kernel = {3, 3},
                                            .stride = {1, 1},
                                            .padding = {1, 1}};
    (void)state;

    convolution_is_right(&shape, FACET_MATH_INT8, FACET_MATH_NO_TENSOR, true);
    convolution_is_right(&shape, FACET_MATH_INT8, 0, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(gemm_is_right_in_every_type_and_layout, math_begin, math_end),
        cmocka_unit_test_setup_teardown(large_gemms_are_right, math_begin, math_end),
        cmocka_unit_test_setup_teardown(sums_of_int8_are_exact, math_begin, math_end),
        cmocka_unit_test_setup_teardown(results_larger_than_the_caches_are_right, math_begin, math_end),
        cmocka_unit_test_setup_teardown(convolution_is_right_in_every_type, math_begin, math_end),
        cmocka_unit_test_setup_teardown(convolution_of_many_channels_is_right, math_begin, math_end),
        cmocka_unit_test_setup_teardown(convolution_of_positions_beside_whole_vectors_is_right, math_begin, math_end),
        cmocka_unit_test_setup_teardown(int8_is_exact_without_int8_units, math_begin, math_end),
    };

    return cmocka_run_group_tests_name("cpu math products", tests, NULL, NULL);
}
