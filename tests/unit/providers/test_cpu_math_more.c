/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of activation, normalization and attention, compared with results in double. Never: asserts a time. */
#include "cpu_math_world.h"

/* ---- activation ---- */

static double activation_value(double x, uint32_t kind, double alpha)
{
    switch (kind) {
    case FACET_ACTIVATION_RELU:
        return x < 0 ? 0 : x;
    case FACET_ACTIVATION_SIGMOID:
        return 1 / (1 + exp(-x));
    case FACET_ACTIVATION_TANH:
        return tanh(x);
    case FACET_ACTIVATION_GELU:
        return x / 2 * erfc(-x / sqrt(2));
    case FACET_ACTIVATION_GELU_TANH:
        return x / 2 * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case FACET_ACTIVATION_SILU:
        return x / (1 + exp(-x));
    case FACET_ACTIVATION_LEAKY_RELU:
        return x < 0 ? alpha * x : x;
    default:
        return x < 0 ? alpha * expm1(x) : x;
    }
}

static struct facet_math activation_of(uint32_t type, uint32_t kind, uint64_t channels, uint64_t height, uint64_t batch)
{
    struct facet_math operation = operation_of(FACET_MATH_ACTIVATION, type, 0);
    struct facet_activation *it = &operation.of.activation;

    *it = (struct facet_activation){
        .batch = batch, .channels = channels, .height = height, .width = 7, .kind = kind, .alpha = 0.3f};
    it->input = random_numbers(type, batch * channels * height * 7);
    it->output = world_alloc(&world, world.context, batch * channels * height * 7 * bytes_of[type]);
    return operation;
}

/* The inputs cover the range in which the function is not flat, and more. They take several work-groups. */
static void every_activation_is_right(void **state)
{
    const uint64_t count = UINT64_C(2) * 500 * 10 * 7;
    (void)state;

    for (uint32_t type = 0; type < FACET_MATH_TYPES; type++)
        for (uint32_t kind = 0; kind < FACET_ACTIVATION_SOFTMAX; kind++) {
            if (type == FACET_MATH_INT8 && kind != FACET_ACTIVATION_RELU)
                continue;
            struct facet_math operation = activation_of(type, kind, 500, 10, 2);
            struct facet_activation *it = &operation.of.activation;

            for (uint64_t i = 0; type != FACET_MATH_INT8 && i < count; i++)
                put(it->input, type, i, random_number(type) * (i % 3 == 0 ? 100 : i % 3 == 1 ? 6 : 0.01));
            run_math(&operation);
            for (uint64_t i = 0; i < count; i++) {
                double x = get(it->input, type, i), expected = activation_value(x, kind, (double)0.3f);

                /* x and the result are rounded a few times */
                assert_near(get(it->output, type, i), expected, type, fabs(expected) + fmin(fabs(x), 1), 1);
            }
            give_back(it->input);
            give_back(it->output);
        }
}

/* Checks all channels of one position. `first`: the index of the element in its first channel. */
static void check_softmax(const struct facet_activation *it, uint32_t type, uint64_t first, const double *before)
{
    uint64_t positions = it->height * it->width;
    const double *line = before + first;
    double highest = -INFINITY, sum = 0;

    for (uint64_t c = 0; c < it->channels; c++)
        highest = fmax(highest, line[c * positions]);
    for (uint64_t c = 0; c < it->channels; c++)
        sum += exp(line[c * positions] - highest);
    for (uint64_t c = 0; c < it->channels; c++) {
        double expected = exp(line[c * positions] - highest) / sum;

        /* the rounding of x - largest, which is at most 40, becomes a relative error of exp */
        assert_near(get(it->output, type, first + c * positions), expected, type, expected * 40, 1);
    }
}

/* Channels are adjacent in memory or apart; they are few, or more than fit into scratch memory at a time. */
static void softmax_over_channels_is_right(void **state)
{
    static const uint64_t shapes[][4] = {{1, 1, 1, 5},   {10, 3, 5, 2},    {1000, 1, 1, 70},
                                         {3, 50, 60, 2}, {40000, 1, 1, 2}, {2500, 1, 20, 2}};
    (void)state;

    for (uint32_t type = 0; type < FACET_MATH_INT8; type++)
        for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
            uint64_t channels = shapes[s][0], positions = shapes[s][1] * shapes[s][2], batch = shapes[s][3];
            struct facet_math operation = operation_of(FACET_MATH_ACTIVATION, type, 0);
            struct facet_activation *it = &operation.of.activation;

            *it = (struct facet_activation){.batch = batch,
                                            .channels = channels,
                                            .height = shapes[s][1],
                                            .width = shapes[s][2],
                                            .kind = FACET_ACTIVATION_SOFTMAX};
            it->input = it->output = random_numbers(type, batch * channels * positions); /* in place */
            double *before = malloc(batch * channels * positions * sizeof *before);
            assert_non_null(before);
            for (uint64_t i = 0; i < batch * channels * positions; i++) {
                put(it->input, type, i, random_number(type) * 20);
                before[i] = get(it->input, type, i);
            }
            run_math(&operation);
            for (uint64_t b = 0; b < batch; b++)
                for (uint64_t p = 0; p < positions; p++)
                    check_softmax(it, type, b * channels * positions + p, before);
            free(before);
            give_back(it->input);
        }
}

/* ---- normalization ---- */

static void put_floats(uint64_t address, uint64_t count, double from, double range)
{
    for (uint64_t i = 0; i < count; i++)
        put(address, FACET_MATH_F32, i, from + range * random_number(FACET_MATH_F32));
}

/* The index of a channel's element i. */
static uint64_t place_of(const struct facet_normalization *it, uint64_t channel, uint64_t i)
{
    uint64_t positions = it->height * it->width;

    return (i / positions * it->channels + channel) * positions + i % positions;
}

/* Compares mean and variance with those of the input, which the operation did not change. */
static void check_moments(const struct facet_normalization *it, uint32_t type, uint64_t channel)
{
    double mean = 0, variance = 0, count = (double)(it->batch * it->height * it->width);

    for (uint64_t i = 0; i < (uint64_t)count; i++)
        mean += get(it->input, type, place_of(it, channel, i)) / count;
    for (uint64_t i = 0; i < (uint64_t)count; i++) {
        double off = get(it->input, type, place_of(it, channel, i)) - mean;

        variance += off * off / count;
    }
    assert_near(get(it->mean, FACET_MATH_F32, channel), mean, FACET_MATH_F32, fabs(mean), 1);
    assert_near(get(it->variance, FACET_MATH_F32, channel), variance, FACET_MATH_F32, variance, 1);
}

static void check_normalized(const struct facet_math *operation, uint64_t channel, bool scaled)
{
    const struct facet_normalization *it = &operation->of.normalization;
    double scale = scaled ? get(it->scale, FACET_MATH_F32, channel) : 1;
    double bias = scaled ? get(it->bias, FACET_MATH_F32, channel) : 0;
    uint64_t count = it->batch * it->height * it->width;

    if (operation->flags & FACET_MATH_TRAINING)
        check_moments(it, operation->type, channel);
    double mean = get(it->mean, FACET_MATH_F32, channel), variance = get(it->variance, FACET_MATH_F32, channel);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t place = place_of(it, channel, i);
        double factor = scale / sqrt(variance + (scaled ? 0.5 : 1e-5)); /* epsilon: as given, or the default */
        double x = get(it->input, operation->type, place) - mean;

        assert_near(get(it->output, operation->type, place), x * factor + bias, operation->type,
                    fabs(x * factor) + fabs(bias), 4);
    }
}

static void check_normalization_of(uint32_t type, uint32_t flags, uint64_t channels, uint64_t height, uint64_t batch,
                                   bool scaled)
{
    struct facet_math operation = operation_of(FACET_MATH_NORMALIZATION, type, flags);
    struct facet_normalization *it = &operation.of.normalization;
    uint64_t positions = height * 9, count = batch * positions;

    *it = (struct facet_normalization){.batch = batch, .channels = channels, .height = height, .width = 9};
    it->input = random_numbers(type, count * channels);
    for (uint64_t i = 0; i < count * channels; i++)
        put(it->input, type, i, 3 + get(it->input, type, i));
    it->output = world_alloc(&world, world.context, count * channels * bytes_of[type]);
    it->mean = random_numbers(FACET_MATH_F32, channels);
    it->variance = random_numbers(FACET_MATH_F32, channels);
    put_floats(it->variance, channels, 2, 1);
    if (scaled) {
        it->scale = random_numbers(FACET_MATH_F32, channels);
        it->bias = random_numbers(FACET_MATH_F32, channels);
        it->epsilon = 0.5f;
    }
    run_math(&operation);
    run_math(&operation); /* a second run does not continue the first */
    for (uint64_t c = 0; c < channels; c++)
        check_normalized(&operation, c, scaled);
    for (int i = 0; i < 2; i++)
        give_back(i ? it->input : it->output);
    give_back(it->mean);
    give_back(it->variance);
    if (scaled) {
        give_back(it->scale);
        give_back(it->bias);
    }
}

static void normalization_is_right_in_every_type(void **state)
{
    (void)state;
    for (uint32_t type = 0; type < FACET_MATH_INT8; type++)
        for (int training = 0; training < 2; training++) {
            uint32_t flags = training ? FACET_MATH_TRAINING : 0;

            check_normalization_of(type, flags, 1, 1, 1, false);
            check_normalization_of(type, flags, 5, 4, 3, true);
            check_normalization_of(type, flags, 3, 4000, 4, true); /* each channel takes several work-groups */
            check_normalization_of(type, flags, 3000, 1, 4, false);
        }
}

/* ---- attention ---- */

/* The numbers that an attention reads. */
struct attention_inputs {
    double *q, *k, *v;
};

/* Gives the weights of one query, not divided by their sum. Returns the largest sum of a score's magnitudes. */
static double score_weights(const struct facet_attention *it, const struct attention_inputs *inputs, double scale,
                            uint64_t head, uint64_t query, uint64_t keys, double *ret_weights)
{
    const double *q = inputs->q + (head * it->queries + query) * it->dimension;
    double highest = -INFINITY, score_magnitude = 0;

    for (uint64_t j = 0; j < keys; j++) {
        double magnitudes;

        ret_weights[j] = scale * sum_of_products(q, 1, inputs->k + (head * it->keys + j) * it->dimension, 1,
                                                 it->dimension, &magnitudes);
        highest = fmax(highest, ret_weights[j]);
        score_magnitude = fmax(score_magnitude, fabs(scale) * magnitudes);
    }
    for (uint64_t j = 0; j < keys; j++)
        ret_weights[j] = exp(ret_weights[j] - highest);
    return score_magnitude;
}

/* The error of a score becomes a relative error of its weight. With MIXED, all values are rounded to bf16. In bf16,
 * each weight is used in two parts of eight digits. */
static double attention_error(const struct facet_math *operation, double score_magnitude, double magnitudes,
                              uint64_t keys)
{
    double dimension = (double)operation->of.attention.dimension;
    double off = operation->flags & FACET_MATH_MIXED  ? 0x1p-8 * (2 + 2 * score_magnitude) * magnitudes
                 : operation->type == FACET_MATH_BF16 ? 0x1p-16 * magnitudes
                                                      : 0;

    return off + 4 * 0x1p-24 * (sqrt(dimension) * score_magnitude + sqrt((double)keys) + 8) * magnitudes;
}

/* Checks every third output of one query; `weights` is memory for its weights. */
static void check_attended(const struct facet_math *operation, const struct attention_inputs *inputs, double scale,
                           uint64_t head, uint64_t query, double *weights)
{
    const struct facet_attention *it = &operation->of.attention;
    uint64_t keys = operation->flags & FACET_MATH_CAUSAL ? query + 1 : it->keys;
    double score_magnitude = score_weights(it, inputs, scale, head, query, keys, weights), sum = 0;

    for (uint64_t j = 0; j < keys; j++)
        sum += weights[j];
    for (uint64_t d = 0; d < it->dimension; d += 3) {
        const double *v = inputs->v + head * it->keys * it->dimension + d;
        double magnitudes, expected = sum_of_products(weights, 1, v, it->dimension, keys, &magnitudes) / sum;
        double off = attention_error(operation, score_magnitude, magnitudes / sum, keys);
        double got = get(it->output, operation->type, (head * it->queries + query) * it->dimension + d);
        off += rounding_error[operation->type] * fabs(expected) + 0x1p-25;
        assert_true(fabs(got - expected) <= off);
    }
}

static void check_attention_of(uint32_t type, uint32_t flags, uint64_t queries, uint64_t keys, uint64_t dimension,
                               float scale)
{
    enum { BATCH = 2, HEADS = 2 };
    struct facet_math operation = operation_of(FACET_MATH_ATTENTION, type, flags);
    struct facet_attention *it = &operation.of.attention;
    double *weights = malloc(keys * sizeof *weights),
           scale_used = scale != 0 ? (double)scale : 1 / sqrt((double)dimension);
    uint64_t step = queries > 300 ? 7 : 1; /* only some of many are checked */

    assert_non_null(weights);
    *it = (struct facet_attention){
        .batch = BATCH, .heads = HEADS, .queries = queries, .keys = keys, .dimension = dimension, .scale = scale};
    it->q = random_numbers(type, BATCH * HEADS * queries * dimension);
    it->k = random_numbers(type, BATCH * HEADS * keys * dimension);
    it->v = random_numbers(type, BATCH * HEADS * keys * dimension);
    it->output = world_alloc(&world, world.context, BATCH * HEADS * queries * dimension * bytes_of[type]);
    for (uint64_t i = 0; i < BATCH * HEADS * queries * dimension; i++)
        put(it->q, type, i, get(it->q, type, i) * 4);
    struct attention_inputs inputs = {
        .q = get_all(it->q, type, BATCH * HEADS * queries * dimension),
        .k = get_all(it->k, type, BATCH * HEADS * keys * dimension),
        .v = get_all(it->v, type, BATCH * HEADS * keys * dimension),
    };
    run_math(&operation);
    for (uint64_t h = 0; h < BATCH * HEADS; h++)
        for (uint64_t i = 0; i < queries; i += step)
            check_attended(&operation, &inputs, scale_used, h, i, weights);
    free(weights);
    free(inputs.q);
    free(inputs.k);
    free(inputs.v);
    give_back(it->q);
    give_back(it->k);
    give_back(it->v);
    give_back(it->output);
}

static void attention_is_right_in_every_type(void **state)
{
    (void)state;
    for (uint32_t type = 0; type < FACET_MATH_INT8; type++)
        for (uint32_t tensor = 0; tensor < 2; tensor++) {
            uint32_t flags = tensor ? 0 : FACET_MATH_NO_TENSOR;

            check_attention_of(type, flags, 1, 1, 1, 0);
            check_attention_of(type, flags, 5, 9, 16, -0.7f);
            check_attention_of(type, flags | FACET_MATH_CAUSAL, 300, 300, 24, 0);
            check_attention_of(type, flags, 130, 600, 40, 0.2f);
            check_attention_of(type, flags, 20, 9000, 64, 0); /* the keys take several steps */
        }
    check_attention_of(FACET_MATH_F32, FACET_MATH_MIXED, 40, 300, 32, 0);
}

static void causal_attention_is_right_in_several_steps(void **state)
{
    (void)state;
    check_attention_of(FACET_MATH_F32, FACET_MATH_CAUSAL, 2500, 2500, 130, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_activation_is_right, math_begin, math_end),
        cmocka_unit_test_setup_teardown(softmax_over_channels_is_right, math_begin, math_end),
        cmocka_unit_test_setup_teardown(normalization_is_right_in_every_type, math_begin, math_end),
        cmocka_unit_test_setup_teardown(attention_is_right_in_every_type, math_begin, math_end),
        cmocka_unit_test_setup_teardown(causal_attention_is_right_in_several_steps, math_begin, math_end),
    };

    return cmocka_run_group_tests_name("cpu math functions", tests, NULL, NULL);
}
