/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that the tests of the table `math` share: numbers of four types, and how far a result may differ from the
 * result computed in double.
 *
 * Owns: encoding numbers, random numbers, running one operation to its end.
 * Never: asks the provider how a number is rounded; the compiler's types and double decide that.
 */
#ifndef CPU_MATH_WORLD_H
#define CPU_MATH_WORLD_H

#include <math.h>

#include "test_cpu_world.h"

static struct world world;

static inline int math_begin(void **state)
{
    (void)state;
    world_begin(&world);
    return 0;
}

static inline int math_end(void **state)
{
    (void)state;
    world_end(&world);
    return 0;
}

/* ---- numbers ---- */

static const uint32_t bytes_of[] = {4, 2, 2, 1};
static const char *const names_of[] = {"f32", "bf16", "f16", "int8"};
/* Half of the distance from 1 to the next number: the relative error of one rounding. */
static const double rounding_error[] = {0x1p-24, 0x1p-8, 0x1p-11, 0};

/*
 * IEEE binary16, because not every compiler has the type. All rounding here is to nearest even. Numbers from 65520 on
 * are rounded to infinity (0x7c00); 0x7e00 is a NaN.
 */
static inline uint16_t half_from_double(double value)
{
    double magnitude = fabs(value);
    uint16_t sign = signbit(value) ? 0x8000 : 0;

    if (!(magnitude < 65520))
        return (uint16_t)(sign | (isnan(value) ? 0x7e00 : 0x7c00));
    if (magnitude <= 0)
        return sign;
    int exponent = ilogb(magnitude) < -14 ? -14 : ilogb(magnitude);
    double steps = rint(ldexp(magnitude, 10 - exponent)); /* 1024 to 2048, or below for what is subnormal */

    return (uint16_t)(sign + (uint16_t)((exponent + 14) * 1024) + (uint16_t)steps);
}

static inline double double_from_half(uint16_t bits)
{
    int exponent = bits >> 10 & 31, steps = bits & 1023;
    double magnitude = exponent == 31  ? (steps ? NAN : INFINITY)
                       : exponent == 0 ? ldexp(steps, -24)
                                       : ldexp(1024 + steps, exponent - 25);

    return bits & 0x8000 ? -magnitude : magnitude;
}

static inline void put(uint64_t address, uint32_t type, uint64_t index, double value)
{
    float single = (float)value;
    uint32_t bits;

    memcpy(&bits, &single, 4);
    bits += 0x7fff + (bits >> 16 & 1);
    switch (type) {
    case FACET_MATH_F32:
        ((float *)address)[index] = single;
        break;
    case FACET_MATH_BF16:
        ((uint16_t *)address)[index] = (uint16_t)(bits >> 16);
        break;
    case FACET_MATH_F16:
        ((uint16_t *)address)[index] = half_from_double(value);
        break;
    default:
        ((int8_t *)address)[index] = (int8_t)lrint(value);
    }
}

static inline double get(uint64_t address, uint32_t type, uint64_t index)
{
    uint32_t bits;
    float single;

    switch (type) {
    case FACET_MATH_F32:
        return (double)((const float *)address)[index];
    case FACET_MATH_BF16:
        bits = (uint32_t)((const uint16_t *)address)[index] << 16;
        memcpy(&single, &bits, 4);
        return (double)single;
    case FACET_MATH_F16:
        return double_from_half(((const uint16_t *)address)[index]);
    default:
        return (double)((const int8_t *)address)[index];
    }
}

/* All elements as doubles; the caller frees them. */
static inline double *get_all(uint64_t address, uint32_t type, uint64_t count)
{
    double *numbers = malloc(count * sizeof *numbers);

    assert_non_null(numbers);
    for (uint64_t i = 0; i < count; i++)
        numbers[i] = get(address, type, i);
    return numbers;
}

/*
 * The sum of `count` products, and in *ret_magnitudes the sum of their magnitudes. The thread sanitizer does not check
 * this function: only one thread uses these numbers, and most of a test's time is spent here.
 */
__attribute__((no_sanitize_thread)) static inline double sum_of_products(const double *a, uint64_t a_step,
                                                                         const double *b, uint64_t b_step,
                                                                         uint64_t count, double *ret_magnitudes)
{
    double sum = 0, magnitudes = 0;

    for (uint64_t i = 0; i < count; i++) {
        double product = a[i * a_step] * b[i * b_step];

        sum += product;
        magnitudes += fabs(product);
    }
    *ret_magnitudes = magnitudes;
    return sum;
}

/* Outputs of int8 products are int32. */
static inline double get_product(uint64_t address, uint32_t type, uint64_t index)
{
    return type == FACET_MATH_INT8 ? (double)((const int32_t *)address)[index] : get(address, type, index);
}

static inline void put_product(uint64_t address, uint32_t type, uint64_t index, double value)
{
    if (type == FACET_MATH_INT8)
        ((int32_t *)address)[index] = (int32_t)lrint(value);
    else
        put(address, type, index, value);
}

static inline uint32_t product_bytes(uint32_t type)
{
    return type == FACET_MATH_INT8 ? 4 : bytes_of[type];
}

static inline uint32_t next_random(void)
{
    static uint64_t state = 88172645463325252u;

    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 16);
}

/* A number from -1 to 1, or any byte for int8. */
static inline double random_number(uint32_t type)
{
    return type == FACET_MATH_INT8 ? (double)(int8_t)next_random() : (double)(int32_t)next_random() * 0x1p-31;
}

static inline uint64_t random_numbers(uint32_t type, uint64_t count)
{
    uint64_t address = world_alloc(&world, world.context, count * bytes_of[type]);

    for (uint64_t i = 0; i < count; i++)
        put(address, type, i, random_number(type));
    return address;
}

static inline void give_back(uint64_t address)
{
    OK(&world, world.provider->memory->free(world.instance, world.context, address, &world.error));
}

/* ---- operations ---- */

static inline struct facet_math operation_of(uint32_t operation, uint32_t type, uint32_t flags)
{
    return (struct facet_math){.size = sizeof(struct facet_math), .operation = operation, .type = type, .flags = flags};
}

static inline enum facet_status try_math(const struct facet_math *operation)
{
    return world.provider->math->run(world.instance, world.context, world.stream, operation, &world.error);
}

static inline struct facet_launch_record last_record(void)
{
    struct facet_launch_record records[256];
    struct facet_stream_state stream = {.size = sizeof stream};
    uint32_t count = 0;

    OK(&world, world.provider->execution->query(world.instance, world.context, world.stream, &stream, &world.error));
    OK(&world, world.provider->execution->records(world.instance, world.context, world.stream, stream.launched - 1,
                                                  records, sizeof records[0], 256, &count, &world.error));
    assert_int_equal(count, 1);
    return records[0];
}

static inline struct facet_launch_record run_math(const struct facet_math *operation)
{
    OK(&world, try_math(operation));
    OK(&world, world_wait(&world));
    struct facet_launch_record record = last_record();
    assert_int_equal(record.status, FACET_OK);
    return record;
}

/* `sums`: the sum of the magnitudes of `count` terms. Each addition in f32 has an error; some cancel each other. */
static inline void assert_near(double got, double expected, uint32_t type, double sums, double count)
{
    double off = rounding_error[type] * fabs(expected) + 4 * sqrt(count) * 0x1p-24 * sums;

    if (type == FACET_MATH_F16)
        off += 0x1p-25; /* half of the smallest subnormal number */
    if (!(fabs(got - expected) <= off))
        fail_msg("%s: %.9g, expected %.9g, off by %.3g, allowed %.3g", names_of[type], got, expected,
                 fabs(got - expected), off);
}

#endif
