/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the functions of loops.h for the level CPU_MATH_LEVEL, for which this file is compiled. Never: differs in
 * meaning by level.
 */
#include "math/loops.h"

#include <stdbool.h>
#include <string.h>
#if defined(__F16C__) || defined(__SSE2__)
#include <immintrin.h>
#endif

#define PASTE(left, right)    left##right
#define PASTE_OF(left, right) PASTE(left, right)
#define NAME_OF(level)        PASTE_OF(cpu_math_loops_, level)
#define TEXT_OF(level)        TEXT_AGAIN(level)
#define TEXT_AGAIN(level)     #level
#define BLOCK                 256u /* numbers at a time, on the stack */
#define LANES                 16u
#define INLINE                static inline __attribute__((always_inline))

static uint64_t smaller(uint64_t left, uint64_t right)
{
    return left < right ? left : right;
}

INLINE uint32_t bits_of(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

INLINE float float_of(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

/* ---- types ---- */

/* Rounds to nearest even; a NaN stays a NaN. */
INLINE uint16_t bf16_of(float value)
{
    uint32_t bits = bits_of(value), rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;

    return (uint16_t)(value != value ? (bits >> 16) | 0x40 : rounded);
}

#if defined(__F16C__)
static void load_f16(float *to, const uint16_t *from, uint64_t count)
{
    uint16_t rest[8] = {0};
    float numbers[8];
    uint64_t i = 0;

    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from + i))));
    memcpy(rest, from + i, (count - i) * sizeof rest[0]);
    _mm256_storeu_ps(numbers, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)rest)));
    memcpy(to + i, numbers, (count - i) * sizeof numbers[0]);
}

static void save_f16(uint16_t *to, const float *from, uint64_t count)
{
    float rest[8] = {0};
    uint16_t numbers[8];
    uint64_t i = 0;

    for (; i + 8 <= count; i += 8)
        _mm_storeu_si128((__m128i *)(to + i), _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
    memcpy(rest, from + i, (count - i) * sizeof rest[0]);
    _mm_storeu_si128((__m128i *)numbers, _mm256_cvtps_ph(_mm256_loadu_ps(rest), _MM_FROUND_TO_NEAREST_INT));
    memcpy(to + i, numbers, (count - i) * sizeof numbers[0]);
}
#else
static float float_of_f16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7fff;

    if (rest >= 0x7c00)
        return float_of(sign | 0x7f800000 | (rest & 0x3ff) << 13);
    if (rest < 0x400) /* subnormal: a multiple of 2^-24 */
        return float_of(sign | bits_of((float)rest * 0x1p-24f));
    return float_of(sign | ((rest << 13) + ((127u - 15u) << 23)));
}

static uint16_t f16_of(float value)
{
    uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;

    if (rest > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (rest >= 0x477ff000) /* rounds to a value that f16 does not have */
        return (uint16_t)(sign | 0x7c00);
    if (rest < 0x38800000) /* subnormal: the sum has its last bit where f16 has it */
        return (uint16_t)(sign | (bits_of(float_of(rest) + 0.5f) - bits_of(0.5f)));
    rest += 0xfff + (rest >> 13 & 1);
    return (uint16_t)(sign | ((rest >> 13) - ((127u - 15u) << 10)));
}

static void load_f16(float *to, const uint16_t *from, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        to[i] = float_of_f16(from[i]);
}

static void save_f16(uint16_t *to, const float *from, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        to[i] = f16_of(from[i]);
}
#endif

static void load_values(float *to, const void *from, uint64_t count, uint32_t type)
{
    const uint16_t *halves = from;
    const int8_t *bytes = from;

    switch (type) {
    case FACET_MATH_BF16:
        for (uint64_t i = 0; i < count; i++)
            to[i] = float_of((uint32_t)halves[i] << 16);
        return;
    case FACET_MATH_F16:
        load_f16(to, halves, count);
        return;
    case FACET_MATH_INT8:
        for (uint64_t i = 0; i < count; i++)
            to[i] = (float)bytes[i];
        return;
    default:
        memcpy(to, from, count * sizeof *to);
    }
}

static void save_values(void *to, const float *from, uint64_t count, uint32_t type)
{
    uint16_t *halves = to;

    switch (type) {
    case FACET_MATH_BF16:
        for (uint64_t i = 0; i < count; i++)
            halves[i] = bf16_of(from[i]);
        return;
    case FACET_MATH_F16:
        save_f16(halves, from, count);
        return;
    default:
        memcpy(to, from, count * sizeof *from);
    }
}

static uint64_t bytes_of(uint32_t type)
{
    return type == FACET_MATH_F32 ? 4 : type == FACET_MATH_INT8 ? 1 : 2;
}

/* ---- products ---- */

/* Sums wrap, like those of tensor units. */
static void store_integers(uint32_t *c, const void *products, uint64_t count, const struct cpu_math_store *store)
{
    const float *floats = products;
    const uint32_t *integers = products;
    uint32_t bias = 0;

    if (store->bias)
        memcpy(&bias, store->bias, sizeof bias);
    for (uint64_t i = 0; i < count; i++) {
        uint32_t product = store->integers ? integers[i] : (uint32_t)(int32_t)floats[i];

        c[i] = bias + product + (store->beta != 0.0f ? c[i] : 0);
    }
}

static void scale_products(float *to, const float *products, const float *c, uint64_t count,
                           const struct cpu_math_store *store, float bias)
{
    float alpha = store->alpha, beta = store->beta;

    if (beta == 0.0f) /* c is not read: it may be anything */
        for (uint64_t i = 0; i < count; i++)
            to[i] = alpha * products[i] + bias;
    else
        for (uint64_t i = 0; i < count; i++)
            to[i] = alpha * products[i] + beta * c[i] + bias;
}

static void store_cached(void *c, const void *products, uint64_t count, const struct cpu_math_store *store)
{
    float before[BLOCK], after[BLOCK], bias = 0.0f;

    if (store->type == FACET_MATH_INT8) {
        store_integers(c, products, count, store);
        return;
    }
    if (store->bias)
        memcpy(&bias, store->bias, sizeof bias);
    if (store->type == FACET_MATH_F32) {
        scale_products(c, products, c, count, store, bias);
        return;
    }
    for (uint64_t i = 0, step; i < count; i += step) {
        uint16_t *place = (uint16_t *)c + i;

        step = smaller(count - i, BLOCK);
        if (store->beta != 0.0f)
            load_values(before, place, step, store->type);
        scale_products(after, (const float *)products + i, before, step, store, bias);
        save_values(place, after, step, store->type);
    }
}

#if defined(__SSE2__)
#define LINE 64u

static void copy_around_cache(char *to, const char *from, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i += LINE) {
#if defined(__AVX512F__)
        _mm512_stream_si512((__m512i *)(to + i), _mm512_load_si512((const __m512i *)(from + i)));
#else
        for (uint64_t j = i; j < i + LINE; j += 16)
            _mm_stream_si128((__m128i *)(to + j), _mm_load_si128((const __m128i *)(from + j)));
#endif
    }
}

/*
 * Writes whole cache lines past the caches, so that they are not read before they are overwritten. False: the row is
 * not whole lines, or C has to be read.
 */
static bool store_streamed(char *c, const char *products, uint64_t count, const struct cpu_math_store *store)
{
    uint64_t bytes = store->type == FACET_MATH_F32 || store->type == FACET_MATH_INT8 ? 4 : 2;
    _Alignas(LINE) float block[BLOCK]; /* of any type */

    if (!store->streams_c || store->beta != 0.0f || (uintptr_t)c % LINE || count * bytes % LINE)
        return false;
    for (uint64_t i = 0, step; i < count; i += step) {
        step = smaller(count - i, BLOCK);
        store_cached(block, products + i * 4, step, store);
        copy_around_cache(c + i * bytes, (const char *)block, step * bytes);
    }
    return true;
}
#else
static bool store_streamed(char *c, const char *products, uint64_t count, const struct cpu_math_store *store)
{
    return false;
}
#endif

static void store_row(void *c, const void *products, uint64_t count, const struct cpu_math_store *store)
{
    if (!store_streamed(c, products, count, store))
        store_cached(c, products, count, store);
}

static void add_values(float *to, const float *from, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        to[i] += from[i];
}

/* Transposes eight rows of eight: rows i and i + 4 are merged element by element, three times. */
#define MERGE(to, from)                                                                                                \
    for (int i = 0; i < 4; i++) {                                                                                      \
        to[2 * i] = __builtin_shufflevector(from[i], from[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);                           \
        to[2 * i + 1] = __builtin_shufflevector(from[i], from[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);                     \
    }

#define DEFINE_TRANSPOSE(name, type)                                                                                   \
    typedef type name##_lanes __attribute__((vector_size(8 * sizeof(type))));                                          \
    INLINE void name##_block(type *to, uint64_t to_row, const type *from, uint64_t from_row)                           \
    {                                                                                                                  \
        name##_lanes left[8], right[8];                                                                                \
                                                                                                                       \
        for (uint64_t i = 0; i < 8; i++)                                                                               \
            memcpy(&left[i], from + i * from_row, sizeof left[i]);                                                     \
        MERGE(right, left)                                                                                             \
        MERGE(left, right)                                                                                             \
        MERGE(right, left)                                                                                             \
        for (uint64_t i = 0; i < 8; i++)                                                                               \
            memcpy(to + i * to_row, &right[i], sizeof right[i]);                                                       \
    }                                                                                                                  \
    INLINE void name##_rest(type *to, uint64_t to_row, const type *from, uint64_t from_row, uint64_t rows,             \
                            uint64_t columns)                                                                          \
    {                                                                                                                  \
        for (uint64_t i = 0; i < rows; i++)                                                                            \
            for (uint64_t j = 0; j < columns; j++)                                                                     \
                to[i * to_row + j] = from[j * from_row + i];                                                           \
    }                                                                                                                  \
    static void name(type *to, uint64_t to_row, const type *from, uint64_t from_row, uint64_t rows, uint64_t columns)  \
    {                                                                                                                  \
        uint64_t whole_rows = rows / 8 * 8, whole_columns = columns / 8 * 8;                                           \
                                                                                                                       \
        for (uint64_t i = 0; i < whole_rows; i += 8)                                                                   \
            for (uint64_t j = 0; j < whole_columns; j += 8)                                                            \
                name##_block(to + i * to_row + j, to_row, from + j * from_row + i, from_row);                          \
        name##_rest(to + whole_columns, to_row, from + whole_columns * from_row, from_row, whole_rows,                 \
                    columns - whole_columns);                                                                          \
        name##_rest(to + whole_rows * to_row, to_row, from + whole_rows, from_row, rows - whole_rows, columns);        \
    }
DEFINE_TRANSPOSE(transpose_words, uint32_t)
DEFINE_TRANSPOSE(transpose_halves, uint16_t)
DEFINE_TRANSPOSE(transpose_bytes, uint8_t)

static void transpose_elements(void *to, uint64_t to_row, const void *from, uint64_t from_row, uint64_t rows,
                               uint64_t columns, uint64_t bytes)
{
    if (bytes == 4)
        transpose_words(to, to_row, from, from_row, rows, columns);
    else if (bytes == 2)
        transpose_halves(to, to_row, from, from_row, rows, columns);
    else
        transpose_bytes(to, to_row, from, from_row, rows, columns);
}

/* ---- functions ---- */

/* 2^n * (1 + r + ...) with x = n * ln 2 + r. Scaling by 2^n takes two steps, so that subnormal results are right. */
INLINE float exp_of(float x)
{
    float clamped = x > 89.0f ? 89.0f : x < -105.0f ? -105.0f : x;
    float shifted = clamped * 0x1.715476p+0f + 0x1.8p23f; /* its last bits are the integer */
    float n = shifted - 0x1.8p23f, r = clamped - n * 0x1.62e4p-1f - n * 0x1.7f7d1cp-20f;
    float p = 0x1.6c16c2p-10f;

    p = p * r + 0x1.111112p-7f;
    p = p * r + 0x1.555556p-5f;
    p = p * r + 0x1.555556p-3f;
    p = p * r + 0.5f;
    p = p * r * r + r + 1.0f;
    int32_t power = (int32_t)(bits_of(shifted) - bits_of(0x1.8p23f)), half = power >> 1;
    return p * float_of((uint32_t)(half + 127) << 23) * float_of((uint32_t)(power - half + 127) << 23);
}

static void interleave_pairs(uint16_t *to, const uint16_t *even, const uint16_t *odd, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        to[2 * i] = even[i];
        to[2 * i + 1] = odd[i];
    }
}

static float exp_of_value(float x)
{
    return exp_of(x);
}

INLINE float expm1_of(float x)
{
    float p = 0x1.a01a02p-13f;

    p = p * x + 0x1.6c16c2p-10f;
    p = p * x + 0x1.111112p-7f;
    p = p * x + 0x1.555556p-5f;
    p = p * x + 0x1.555556p-3f;
    p = p * x + 0.5f;
    p = p * x * x + x;
    return x > -0.4f && x < 0.4f ? p : exp_of(x) - 1.0f;
}

INLINE float tanh_of(float x)
{
    float magnitude = x < 0 ? -x : x, z = x * x, p = -5.70498872745e-3f;

    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    float large = 1.0f - 2.0f / (exp_of(2.0f * (magnitude > 20.0f ? 20.0f : magnitude)) + 1.0f);
    return magnitude < 0.625f ? p * z * x + x : x < 0 ? -large : x != x ? x : large;
}

/* 1 - erf(x) for x >= 1, to full precision. Minimax polynomials in 1 / x^2. */
INLINE float erfc_large(float x)
{
    static const float near[] = {2.326819970068386e-2f,  -1.387039388740657e-1f, 3.687424674597105e-1f,
                                 -5.824733027278666e-1f, 6.210004621745983e-1f,  -4.944515323274145e-1f,
                                 3.404879937665872e-1f,  -2.741127028184656e-1f, 5.638259427386472e-1f};
    static const float far[] = {0.0f,
                                -1.047766399936249e+1f,
                                1.297719955372516e+1f,
                                -7.495518717768503e+0f,
                                2.921019019210786e+0f,
                                -1.015265279202700e+0f,
                                4.218463358204948e-1f,
                                -2.820767439740514e-1f,
                                5.641895067754075e-1f};
    float inverse = 1.0f / x, z = inverse * inverse, p = near[0], q = far[0];

    for (int i = 1; i < 9; i++) {
        p = p * z + near[i];
        q = q * z + far[i];
    }
    /* exp(-x^2) without rounding the square: x is split into a part with few bits and a remainder */
    float high = float_of(bits_of(x) & 0xfffff000u), rest = (x - high) * (x + high);
    return exp_of(-high * high) * exp_of(-rest) * inverse * (x < 2.0f ? p : q);
}

INLINE float gelu_of(float value)
{
    float x = value * 0x1.6a09e6p-1f, magnitude = x < 0 ? -x : x, z = x * x, p = 7.853861353153693e-5f;

    p = p * z - 8.010193625184903e-4f;
    p = p * z + 5.188327685732524e-3f;
    p = p * z - 2.685381193529856e-2f;
    p = p * z + 1.128358514861418e-1f;
    p = p * z - 3.761262582423300e-1f;
    p = p * z + 1.128379165726710e+0f;
    float tail = erfc_large(magnitude < 1.0f ? 1.0f : magnitude > 14.0f ? 14.0f : magnitude);
    float twice = magnitude < 1.0f ? 1.0f + p * x : x < 0 ? tail : 2.0f - tail;
    return 0.5f * value * twice;
}

INLINE float sigmoid_of(float x)
{
    return 1.0f / (1.0f + exp_of(-x));
}

#define EACH(expression)                                                                                               \
    for (uint64_t i = 0; i < count; i++) {                                                                             \
        float x = values[i];                                                                                           \
        values[i] = (expression);                                                                                      \
    }                                                                                                                  \
    break

static void apply_activation(float *values, uint64_t count, uint32_t kind, float alpha)
{
    switch (kind) {
    case FACET_ACTIVATION_RELU:
        EACH(x < 0.0f ? 0.0f : x);
    case FACET_ACTIVATION_SIGMOID:
        EACH(sigmoid_of(x));
    case FACET_ACTIVATION_TANH:
        EACH(tanh_of(x));
    case FACET_ACTIVATION_GELU:
        EACH(gelu_of(x));
    case FACET_ACTIVATION_GELU_TANH: /* (1 + tanh(y)) / 2 is sigmoid(2 y), which loses no digits */
        EACH(x * sigmoid_of(0x1.988454p+0f * x * (1.0f + 0.044715f * x * x)));
    case FACET_ACTIVATION_SILU:
        EACH(x * sigmoid_of(x));
    case FACET_ACTIVATION_LEAKY_RELU:
        EACH(x < 0.0f ? alpha * x : x);
    case FACET_ACTIVATION_ELU:
        EACH(x < 0.0f ? alpha * expm1_of(x) : x);
    default:
        break;
    }
}

static void activate_values(void *to, const void *from, uint64_t count, uint32_t type, uint32_t kind, float alpha)
{
    float values[BLOCK];

    for (uint64_t i = 0, step; i < count; i += step) {
        step = smaller(count - i, BLOCK);
        if (type == FACET_MATH_INT8) { /* relu alone */
            for (uint64_t j = i; j < i + step; j++)
                ((int8_t *)to)[j] = ((const int8_t *)from)[j] < 0 ? 0 : ((const int8_t *)from)[j];
            continue;
        }
        load_values(values, (const char *)from + i * bytes_of(type), step, type);
        apply_activation(values, step, kind, alpha);
        save_values((char *)to + i * bytes_of(type), values, step, type);
    }
}

/* ---- sums and lines ---- */

static void scale_and_shift(void *to, const void *from, uint64_t count, uint32_t type, float subtract, float factor,
                            float constant)
{
    float values[BLOCK];

    for (uint64_t i = 0, step; i < count; i += step) {
        step = smaller(count - i, BLOCK);
        load_values(values, (const char *)from + i * bytes_of(type), step, type);
        for (uint64_t j = 0; j < step; j++)
            values[j] = (values[j] - subtract) * factor + constant;
        save_values((char *)to + i * bytes_of(type), values, step, type);
    }
}

static void add_moments(const void *from, uint64_t count, uint32_t type, float shift, double *add_sum,
                        double *add_squares)
{
    float values[BLOCK];
    double sums[LANES] = {0}, squares[LANES] = {0};

    for (uint64_t i = 0, step; i < count; i += step) {
        step = smaller(count - i, BLOCK);
        load_values(values, (const char *)from + i * bytes_of(type), step, type);
        uint64_t padded = (step + LANES - 1) / LANES * LANES;
        for (uint64_t j = step; j < padded; j++)
            values[j] = shift;
        for (uint64_t j = 0; j < padded; j += LANES)
            for (unsigned lane = 0; lane < LANES; lane++) {
                double value = (double)values[j + lane] - (double)shift;

                sums[lane] += value;
                squares[lane] += value * value;
            }
    }
    for (unsigned lane = 0; lane < LANES; lane++) {
        *add_sum += sums[lane];
        *add_squares += squares[lane];
    }
}

static void scale_values(float *values, uint64_t count, float factor)
{
    for (uint64_t i = 0; i < count; i++)
        values[i] *= factor;
}

/* Uses 64 lanes, because the compiler would split 16 lanes into 16 scalars. */
static float largest_value(const float *values, uint64_t count)
{
    float lanes[4 * LANES], most = -__builtin_inff();
    uint64_t i = 0;

    for (unsigned lane = 0; lane < 4 * LANES; lane++)
        lanes[lane] = most;
    for (; i + 4 * LANES <= count; i += 4 * LANES)
        for (unsigned lane = 0; lane < 4 * LANES; lane++)
            lanes[lane] = values[i + lane] > lanes[lane] ? values[i + lane] : lanes[lane];
    for (unsigned lane = 0; lane < 4 * LANES; lane++)
        most = lanes[lane] > most ? lanes[lane] : most;
    for (; i < count; i++)
        most = values[i] > most ? values[i] : most;
    return most;
}

static float exp_of_values(float *values, uint64_t count, float factor, float subtract)
{
    float lanes[LANES] = {0}, sum = 0.0f;
    uint64_t i = 0;

    for (; i + LANES <= count; i += LANES)
        for (unsigned lane = 0; lane < LANES; lane++) {
            values[i + lane] = exp_of(values[i + lane] * factor - subtract);
            lanes[lane] += values[i + lane];
        }
    for (; i < count; i++) {
        values[i] = exp_of(values[i] * factor - subtract);
        sum += values[i];
    }
    for (unsigned lane = 0; lane < LANES; lane++)
        sum += lanes[lane];
    return sum;
}

static void lanes_largest(float *most, const float *values, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        most[i] = values[i] > most[i] ? values[i] : most[i];
}

static void lanes_exponentials(float *values, const float *subtract, float *sums, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        values[i] = exp_of(values[i] - subtract[i]);
        sums[i] += values[i];
    }
}

static void lanes_divide(float *values, const float *sums, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        values[i] /= sums[i];
}

const struct cpu_math_loops NAME_OF(CPU_MATH_LEVEL) = {
    .name = TEXT_OF(CPU_MATH_LEVEL),
    .load = load_values,
    .save = save_values,
    .store = store_row,
    .add = add_values,
    .transpose = transpose_elements,
    .pair = interleave_pairs,
    .exponential = exp_of_value,
    .activate = activate_values,
    .linear = scale_and_shift,
    .moments = add_moments,
    .scale = scale_values,
    .largest = largest_value,
    .exponentials = exp_of_values,
    .lanes_largest = lanes_largest,
    .lanes_exponentials = lanes_exponentials,
    .lanes_divide = lanes_divide,
};
