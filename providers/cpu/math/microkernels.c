/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the functions of microkernels.h for x86-64-v3. Never: is called on a processor without AVX2 and FMA. */
#include "math/microkernels.h"

#include <immintrin.h>
#include <string.h>

#define ROWS   6u /* of two vectors of columns: 12 sums, two vectors of B, and a factor fit in 16 registers */
#define LANES  8u
#define INLINE static inline __attribute__((always_inline))

static uint64_t smaller(uint64_t left, uint64_t right)
{
    return left < right ? left : right;
}

/* ---- multiplying ---- */

/* A sum has one type throughout: where the type changes, some compilers copy the sum in each step. */
typedef float f32_lanes __attribute__((vector_size(32)));
typedef uint32_t int16_lanes __attribute__((vector_size(32))); /* wraps */

INLINE f32_lanes f32_multiply_add(f32_lanes left, f32_lanes right, f32_lanes sum)
{
    return _mm256_fmadd_ps(left, right, sum);
}

INLINE int16_lanes int16_multiply_add(int16_lanes left, int16_lanes right, int16_lanes sum)
{
    return sum + (int16_lanes)_mm256_madd_epi16((__m256i)left, (__m256i)right);
}

#define DEFINE_LANES(type)                                                                                             \
    INLINE type##_lanes type##_load(const uint32_t *from)                                                              \
    {                                                                                                                  \
        return (type##_lanes)_mm256_loadu_si256((const __m256i *)from);                                                \
    }                                                                                                                  \
    INLINE void type##_store(uint32_t *to, type##_lanes words)                                                         \
    {                                                                                                                  \
        _mm256_storeu_si256((__m256i *)to, (__m256i)words);                                                            \
    }                                                                                                                  \
    INLINE type##_lanes type##_all(uint32_t word)                                                                      \
    {                                                                                                                  \
        return (type##_lanes)_mm256_set1_epi32((int)word);                                                             \
    }
DEFINE_LANES(f32)
DEFINE_LANES(int16)

/* Some rows of A by one panel of B, along one block. */
struct part {
    uint32_t *c, *packed;
    const uint32_t *a, *b;
    uint64_t c_row, a_row, b_row, depth;
    bool adds;
};

/* The sums of each row are variables, not an array, which some compilers would keep in memory. */
#define EACH_ROW(DO, type) DO(0, type) DO(1, type) DO(2, type) DO(3, type) DO(4, type) DO(5, type)

#define BEGIN_ROW(i, type)                                                                                             \
    type##_lanes left_##i = {0}, right_##i = {0};                                                                      \
    if (i < rows && part->adds) {                                                                                      \
        left_##i = type##_load(part->c + i * part->c_row);                                                             \
        right_##i = type##_load(part->c + i * part->c_row + LANES);                                                    \
    }

#define ADD_ROW(i, type)                                                                                               \
    if (i < rows) {                                                                                                    \
        type##_lanes factor = type##_all(a[i * a_row]);                                                                \
                                                                                                                       \
        left_##i = type##_multiply_add(factor, left, left_##i);                                                        \
        right_##i = type##_multiply_add(factor, right, right_##i);                                                     \
    }

#define END_ROW(i, type)                                                                                               \
    if (i < rows) {                                                                                                    \
        type##_store(part->c + i * part->c_row, left_##i);                                                             \
        type##_store(part->c + i * part->c_row + LANES, right_##i);                                                    \
    }

/* `packs`: B is not packed yet, and the function packs it as it reads it. */
#define DEFINE_ROWS(type)                                                                                              \
    INLINE void type##_rows(const struct part *part, unsigned rows, bool packs)                                        \
    {                                                                                                                  \
        const uint32_t *a = part->a, *b = part->b, *end = a + part->depth;                                             \
        uint64_t a_row = part->a_row, b_row = packs ? part->b_row : CPU_MATH_PANEL;                                    \
        uint32_t *packed = part->packed;                                                                               \
                                                                                                                       \
        EACH_ROW(BEGIN_ROW, type)                                                                                      \
        do {                                                                                                           \
            type##_lanes left = type##_load(b), right = type##_load(b + LANES);                                        \
                                                                                                                       \
            EACH_ROW(ADD_ROW, type)                                                                                    \
            if (packs) {                                                                                               \
                type##_store(packed, left);                                                                            \
                type##_store(packed + LANES, right);                                                                   \
                packed += CPU_MATH_PANEL;                                                                              \
            }                                                                                                          \
            b += b_row;                                                                                                \
        } while (++a != end);                                                                                          \
        EACH_ROW(END_ROW, type)                                                                                        \
    }
DEFINE_ROWS(f32)
DEFINE_ROWS(int16)

/* One function for each number of rows, so that each has all registers. */
#define DEFINE_FOR_ROWS(i, type)                                                                                       \
    static __attribute__((noinline)) void type##_rows_##i(const struct part *part)                                     \
    {                                                                                                                  \
        type##_rows(part, i + 1, false);                                                                               \
    }
EACH_ROW(DEFINE_FOR_ROWS, f32)
EACH_ROW(DEFINE_FOR_ROWS, int16)

#define DEFINE_PACKING_FOR_ROWS(i, type)                                                                               \
    static __attribute__((noinline)) void type##_first_##i(const struct part *part)                                    \
    {                                                                                                                  \
        type##_rows(part, i + 1, true);                                                                                \
    }
EACH_ROW(DEFINE_PACKING_FOR_ROWS, f32)

/* The index of these tables is the number of rows minus 1. */
typedef void (*multiply_func)(const struct part *part);
static const multiply_func f32_functions[ROWS] = {f32_rows_0, f32_rows_1, f32_rows_2,
                                                  f32_rows_3, f32_rows_4, f32_rows_5};
static const multiply_func f32_packing_functions[ROWS] = {f32_first_0, f32_first_1, f32_first_2,
                                                          f32_first_3, f32_first_4, f32_first_5};
static const multiply_func int16_functions[ROWS] = {int16_rows_0, int16_rows_1, int16_rows_2,
                                                    int16_rows_3, int16_rows_4, int16_rows_5};

static void copy_rows(uint32_t *to, uint64_t to_row, const uint32_t *from, uint64_t from_row, uint64_t rows,
                      uint64_t columns)
{
    for (uint64_t i = 0; i < rows; i++)
        memcpy(to + i * to_row, from + i * from_row, columns * sizeof *to);
}

/* Multiplies by the last panel of B, whose columns beyond C are dropped. */
static void multiply_edge(const struct part *part, uint64_t rows, uint64_t columns, multiply_func multiply_part)
{
    uint32_t sums[ROWS * CPU_MATH_PANEL];
    struct part edge = *part;

    edge.c = sums;
    edge.c_row = CPU_MATH_PANEL;
    if (part->adds)
        copy_rows(sums, CPU_MATH_PANEL, part->c, part->c_row, rows, columns);
    multiply_part(&edge);
    copy_rows(part->c, part->c_row, sums, CPU_MATH_PANEL, rows, columns);
}

static struct part part_of(const struct cpu_math_tile *tile, uint64_t k, uint64_t j, uint64_t i)
{
    uint64_t depth = smaller(CPU_MATH_BLOCK, tile->depth - k);

    return (struct part){
        .c = (uint32_t *)tile->c + i * tile->c_row + j,
        .a = (const uint32_t *)tile->a + (tile->a_row ? i * tile->a_row + k : k * tile->rows + i * depth),
        .b = (const uint32_t *)tile->b + (tile->b_row ? k * tile->b_row + j : j * tile->depth + k * CPU_MATH_PANEL),
        .packed = tile->packed,
        .c_row = tile->c_row,
        .a_row = tile->a_row ? tile->a_row : depth,
        .b_row = tile->b_row,
        .depth = depth,
        .adds = tile->adds || k > 0,
    };
}

/* Multiplies by one panel of B along one block. If B is not packed, packing_functions[] pack it with the first rows. */
static void multiply_panel(const struct cpu_math_tile *tile, uint64_t k, uint64_t j, const multiply_func *functions,
                           const multiply_func *packing_functions)
{
    uint64_t columns = smaller(CPU_MATH_PANEL, tile->columns - j);
    bool packs = tile->b_row > 0, edge = columns < CPU_MATH_PANEL;

    if (packs && edge) {
        struct part part = part_of(tile, k, j, 0);

        memset(tile->packed, 0, part.depth * CPU_MATH_PANEL * 4);
        copy_rows(tile->packed, CPU_MATH_PANEL, part.b, tile->b_row, part.depth, columns);
    }
    for (uint64_t i = 0; i < tile->rows; i += ROWS) {
        uint64_t rows = smaller(ROWS, tile->rows - i);
        struct part part = part_of(tile, k, j, i);
        const multiply_func *multiply = packs && !edge && i == 0 ? packing_functions : functions;

        if (packs && multiply == functions)
            part.b = tile->packed;
        if (edge)
            multiply_edge(&part, rows, columns, multiply[rows - 1]);
        else
            multiply[rows - 1](&part);
    }
}

static void multiply_tile(const struct cpu_math_tile *tile, const multiply_func *functions,
                          const multiply_func *packing_functions)
{
    for (uint64_t k = 0; k < tile->depth; k += CPU_MATH_BLOCK)
        for (uint64_t j = 0; j < tile->columns; j += CPU_MATH_PANEL)
            multiply_panel(tile, k, j, functions, packing_functions);
}

static void multiply_f32(const struct cpu_math_tile *tile)
{
    multiply_tile(tile, f32_functions, f32_packing_functions);
}

static void multiply_int16(const struct cpu_math_tile *tile)
{
    multiply_tile(tile, int16_functions, NULL);
}

/* ---- packing ---- */

static void spread_row(float *to, uint64_t panel, const float *from, uint64_t columns)
{
    uint64_t j = 0;

    for (; j + CPU_MATH_PANEL <= columns; j += CPU_MATH_PANEL, to += panel)
        memcpy(to, from + j, CPU_MATH_PANEL * sizeof *to);
    if (j == columns)
        return;
    memset(to, 0, CPU_MATH_PANEL * sizeof *to);
    memcpy(to, from + j, (columns - j) * sizeof *to);
}

static void widen_values(int16_t *to, const int8_t *from, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        to[i] = (int16_t)from[i];
}

INLINE void spread_panel(uint32_t *to, const int8_t *even, const int8_t *odd)
{
    __m256i low = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)even));
    __m256i high = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)odd));

    _mm256_storeu_si256((__m256i *)to, _mm256_blend_epi16(low, _mm256_slli_epi32(high, 16), 0xaa));
}

static void spread_pairs(uint32_t *to, uint64_t panel, const int8_t *even, const int8_t *odd, uint64_t columns)
{
    int8_t last[2][CPU_MATH_PANEL] = {{0}};
    uint64_t j = 0;

    for (; j + CPU_MATH_PANEL <= columns; j += CPU_MATH_PANEL, to += panel)
        for (unsigned half = 0; half < CPU_MATH_PANEL; half += LANES)
            spread_panel(to + half, even + j + half, odd + j + half);
    if (j == columns)
        return;
    memcpy(last[0], even + j, columns - j);
    memcpy(last[1], odd + j, columns - j);
    for (unsigned half = 0; half < CPU_MATH_PANEL; half += LANES)
        spread_panel(to + half, last[0] + half, last[1] + half);
}

const struct cpu_math_microkernels cpu_math_microkernels_v3 = {
    .name = "facet:avx2",
    .multiply_f32 = multiply_f32,
    .multiply_int16 = multiply_int16,
    .spread = spread_row,
    .spread_pairs = spread_pairs,
    .widen = widen_values,
};
