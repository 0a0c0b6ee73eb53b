/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the table of kernels and the generators of their inputs.
 * Never: runs anything.
 */
#include "set.h"

#include <string.h>

#define BLACK_RATE       0.02f
#define BLACK_VOLATILITY 0.3f

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state ^ *state >> 16;
}

static float random_unit(uint32_t *state)
{
    return (float)(next_random(state) >> 8) * 0x1p-24f;
}

static void fill_range(float *values, size_t count, uint32_t seed, float low, float high)
{
    for (size_t i = 0; i < count; i++)
        values[i] = low + (high - low) * random_unit(&seed);
}

/* Fills with numbers from -1 to 1. */
static void fill_signed(void *memory, size_t count, uint32_t seed)
{
    fill_range(memory, count, seed, -1.0f, 1.0f);
}

/* Prices and years stay away from zero. */
static void fill_price(void *memory, size_t count, uint32_t seed)
{
    fill_range(memory, count, seed, 10.0f, 100.0f);
}

static void fill_years(void *memory, size_t count, uint32_t seed)
{
    fill_range(memory, count, seed, 0.25f, 10.0f);
}

static void fill_bytes(void *memory, size_t count, uint32_t seed)
{
    uint8_t *values = memory;

    for (size_t i = 0; i < count; i++)
        values[i] = (uint8_t)next_random(&seed);
}

static void fill_bits(void *memory, size_t count, uint32_t seed)
{
    uint32_t *values = memory;

    for (size_t i = 0; i < count; i++)
        values[i] = next_random(&seed);
}

/* Cells are 0 or 1; of a mask, one in eight is 1. */
static void fill_cells(void *memory, size_t count, uint32_t seed)
{
    uint8_t *values = memory;

    for (size_t i = 0; i < count; i++)
        values[i] = next_random(&seed) >> 9 & 1;
}

static void fill_mask(void *memory, size_t count, uint32_t seed)
{
    uint32_t *values = memory;

    for (size_t i = 0; i < count; i++)
        values[i] = (next_random(&seed) >> 9 & 7) == 0;
}

/* Where each row begins, as in CSR; rows have 0 to SPARSE_MOST elements. */
static void fill_starts(void *memory, size_t count, uint32_t seed)
{
    uint32_t *starts = memory;
    uint32_t at = 0;

    for (size_t i = 0; i < count; i++) {
        starts[i] = at;
        at += next_random(&seed) % (SPARSE_MOST + 1);
    }
}

static void fill_columns(void *memory, size_t count, uint32_t seed)
{
    uint32_t *columns = memory;

    for (size_t i = 0; i < count; i++)
        columns[i] = next_random(&seed) % SPARSE_ROWS;
}

/* clang-format off */
#define F(v)          {.kind = BENCH_FLOAT, .value = {.f = (v)}}
#define I(v)          {.kind = BENCH_INT, .value = {.i = (v)}}
#define U(v)          {.kind = BENCH_UINT, .value = {.u = (v)}}
#define LOCAL(bytes)  {.kind = BENCH_LOCAL, .count = (bytes)}
#define IN(e, n, how) {.kind = BENCH_IN, .element = BENCH_##e, .count = (n), .fill = fill_##how}
#define OUT(e, n)     {.kind = BENCH_OUT, .element = BENCH_##e, .count = (n)}

/* name, file, label, tag, dimensions, {global}, {group}, {arguments}, tolerance, reference */
static const struct bench_kernel set[] = {
    {"saxpy", "saxpy", "saxpy", "streaming", 1, {SAXPY_COUNT}, {GROUP},
     {F(1.5f), IN(F32, SAXPY_COUNT, signed), IN(F32, SAXPY_COUNT, signed), OUT(F32, SAXPY_COUNT)}, 1e-6,
     reference_saxpy},
    {"vector_add", "vector_add", "vector_add", "streaming", 1, {SAXPY_COUNT / 4}, {GROUP},
     {IN(F32, SAXPY_COUNT, signed), IN(F32, SAXPY_COUNT, signed), OUT(F32, SAXPY_COUNT)}, 0,
     reference_vector_add},
    {"stencil2d", "stencil2d", "stencil2d", "streaming", 2, {PLANE, PLANE}, {64, 4},
     {IN(F32, PLANE * PLANE, signed), OUT(F32, PLANE * PLANE), I(PLANE), I(PLANE)}, 1e-6, reference_stencil2d},
    {"stencil3d", "stencil3d", "stencil3d", "streaming", 3, {VOLUME, VOLUME, VOLUME}, {32, 4, 2},
     {IN(F32, VOLUME * VOLUME * VOLUME, signed), OUT(F32, VOLUME * VOLUME * VOLUME), I(VOLUME), I(VOLUME), I(VOLUME)},
     1e-6, reference_stencil3d},
    {"reduce", "reduce", "reduce", "barrier", 1, {REDUCE_COUNT}, {GROUP},
     {IN(F32, REDUCE_COUNT, signed), OUT(F32, REDUCE_COUNT / GROUP), LOCAL(GROUP * 4)}, 1e-5, reference_reduce},
    {"scan", "scan", "scan", "barrier", 1, {REDUCE_COUNT}, {GROUP},
     {IN(U32, REDUCE_COUNT, bits), OUT(U32, REDUCE_COUNT), LOCAL(GROUP * 4)}, 0, reference_scan},
    {"matmul_tiled", "matmul_tiled", "matmul_tiled", "barrier", 2, {MATRIX, MATRIX}, {16, 16},
     {IN(F32, MATRIX * MATRIX, signed), IN(F32, MATRIX * MATRIX, signed), OUT(F32, MATRIX * MATRIX), I(MATRIX)}, 1e-4,
     reference_matmul},
    {"matmul_naive", "matmul_naive", "matmul_naive", "vector", 2, {MATRIX, MATRIX}, {16, 16},
     {IN(F32, MATRIX * MATRIX, signed), IN(F32, MATRIX * MATRIX, signed), OUT(F32, MATRIX * MATRIX), I(MATRIX)}, 1e-4,
     reference_matmul},
    {"nbody", "nbody", "nbody", "vector", 1, {BODIES}, {GROUP},
     {IN(F32, BODIES * 4, signed), OUT(F32, BODIES * 4), I(BODIES), F(0.01f)}, 1e-3, reference_nbody},
    {"black_scholes", "black_scholes", "black_scholes", "vector", 1, {OPTIONS}, {GROUP},
     {IN(F32, OPTIONS, price), IN(F32, OPTIONS, price), IN(F32, OPTIONS, years), OUT(F32, OPTIONS), OUT(F32, OPTIONS),
      F(BLACK_RATE), F(BLACK_VOLATILITY)},
     1e-3, reference_black_scholes},
    {"sha256", "sha256", "sha256", "vector", 1, {MESSAGES}, {GROUP},
     {IN(U32, MESSAGES * 8, bits), OUT(U32, MESSAGES * 8)}, 0, reference_sha256},
    {"conv2d", "conv2d", "conv2d", "vector", 2, {PLANE, PLANE}, {64, 4},
     {IN(F32, PLANE * PLANE, signed), OUT(F32, PLANE * PLANE), IN(F32, 25, signed), I(PLANE), I(PLANE)}, 1e-5,
     reference_conv2d},
    {"histogram", "histogram", "histogram", "atomic", 1, {HISTOGRAM_GROUPS * GROUP}, {GROUP},
     {IN(U8, HISTOGRAM_GROUPS * GROUP * EACH, bytes), OUT(U32, HISTOGRAM_GROUPS * 256)}, 0, reference_histogram},
    {"transpose", "transpose", "transpose", "barrier", 2, {PLANE, PLANE}, {16, 16},
     {IN(F32, PLANE * PLANE, signed), OUT(F32, PLANE * PLANE), I(PLANE), I(PLANE)}, 0, reference_transpose},
    {"softmax", "softmax", "softmax", "barrier", 1, {ROWS * 128}, {128},
     {IN(F32, ROWS * COLUMNS, signed), OUT(F32, ROWS * COLUMNS), I(COLUMNS), LOCAL(128 * 4)}, 1e-6,
     reference_softmax},
    {"layernorm", "layernorm", "layernorm", "barrier", 1, {ROWS * 128}, {128},
     {IN(F32, ROWS * COLUMNS, signed), IN(F32, COLUMNS, signed), IN(F32, COLUMNS, signed), OUT(F32, ROWS * COLUMNS),
      I(COLUMNS), LOCAL(128 * 4)},
     1e-4, reference_layernorm},
    {"fft_step", "fft_step", "fft_step", "vector", 1, {FFT_HALF}, {GROUP},
     {IN(F32, FFT_HALF * 4, signed), OUT(F32, FFT_HALF * 4), I(FFT_HALF), I(FFT_DONE)}, 1e-5, reference_fft_step},
    {"bitonic_step", "bitonic_step", "bitonic_step", "streaming", 1, {SORT_COUNT}, {GROUP},
     {IN(U32, SORT_COUNT, bits), OUT(U32, SORT_COUNT), U(SORT_DISTANCE), U(SORT_BLOCK)}, 0, reference_bitonic_step},
    {"monte_carlo", "monte_carlo", "monte_carlo", "vector", 1, {CARLO_COUNT}, {GROUP},
     {IN(U32, CARLO_COUNT, bits), OUT(U32, CARLO_COUNT), I(CARLO_DARTS)}, 0, reference_monte_carlo},
    {"random_walk", "random_walk", "random_walk", "divergent", 1, {WALKERS}, {GROUP},
     {IN(U32, WALKERS, bits), OUT(U32, WALKERS), I(WALK_BAND), U(WALK_MOST)}, 0, reference_random_walk},
    {"mandelbrot", "mandelbrot", "mandelbrot", "divergent", 2, {BROT, BROT}, {64, 4},
     {OUT(U32, BROT * BROT), I(BROT), I(BROT), I(BROT_MOST)}, 0, reference_mandelbrot},
    {"spmv", "spmv", "spmv", "divergent", 1, {SPARSE_ROWS}, {GROUP},
     {IN(U32, SPARSE_ROWS + 1, starts), IN(U32, SPARSE_ROWS * SPARSE_MOST, columns),
      IN(F32, SPARSE_ROWS * SPARSE_MOST, signed), IN(F32, SPARSE_ROWS, signed), OUT(F32, SPARSE_ROWS)},
     1e-5, reference_spmv},
    {"dot_product", "dot", "dot", "barrier", 1, {HISTOGRAM_GROUPS * GROUP}, {GROUP},
     {IN(F32, HISTOGRAM_GROUPS * GROUP * EACH, signed), IN(F32, HISTOGRAM_GROUPS * GROUP * EACH, signed),
      OUT(F32, HISTOGRAM_GROUPS)},
     1e-4, reference_dot},
    {"resize", "resize", "resize", "vector", 2, {PLANE, PLANE}, {64, 4},
     {IN(F32, RESIZE_FROM * RESIZE_FROM, signed), OUT(F32, PLANE * PLANE), I(RESIZE_FROM), I(RESIZE_FROM), I(PLANE),
      I(PLANE)},
     1e-5, reference_resize},
    {"kmeans", "kmeans", "kmeans", "vector", 1, {POINTS}, {GROUP},
     {IN(F32, POINTS * FEATURES, signed), IN(F32, CENTRES * FEATURES, signed), OUT(U32, POINTS), I(POINTS), I(CENTRES),
      I(FEATURES)},
     0, reference_kmeans},
    {"life", "life", "life", "vector", 2, {PLANE, PLANE}, {64, 4},
     {IN(U8, PLANE * PLANE, cells), OUT(U8, PLANE * PLANE), I(PLANE), I(PLANE)}, 0, reference_life},
    {"gemv", "gemv", "gemv", "vector", 1, {GEMV_ROWS}, {GROUP},
     {IN(F32, GEMV_ROWS * GEMV_COLUMNS, signed), IN(F32, GEMV_COLUMNS, signed), OUT(F32, GEMV_ROWS), I(GEMV_ROWS),
      I(GEMV_COLUMNS)},
     1e-4, reference_gemv},
    {"gray", "gray", "gray", "streaming", 1, {PIXELS}, {GROUP},
     {IN(U8, PIXELS * 4, bytes), OUT(U8, PIXELS)}, 0, reference_gray},
    {"jacobi", "jacobi", "jacobi", "streaming", 2, {PLANE, PLANE}, {64, 4},
     {IN(F32, (PLANE + 2) * (PLANE + 2), signed), IN(F32, (PLANE + 2) * (PLANE + 2), signed),
      IN(U32, (PLANE + 2) * (PLANE + 2), mask), OUT(F32, (PLANE + 2) * (PLANE + 2)), I(PLANE + 2), F(0.8f)},
     1e-5, reference_jacobi},
    {"stencil2d", "stencil2d", "stencil2d_cached", "vector", 2, {CACHED_PLANE, CACHED_PLANE}, {64, 4},
     {IN(F32, CACHED_PLANE * CACHED_PLANE, signed), OUT(F32, CACHED_PLANE * CACHED_PLANE), I(CACHED_PLANE),
      I(CACHED_PLANE)},
     1e-6, reference_stencil2d_cached},
    {"stencil3d", "stencil3d", "stencil3d_cached", "vector", 3, {CACHED_SIDE, CACHED_LAYERS, CACHED_LAYERS}, {32, 4, 2},
     {IN(F32, CACHED_SIDE * CACHED_LAYERS * CACHED_LAYERS, signed),
      OUT(F32, CACHED_SIDE * CACHED_LAYERS * CACHED_LAYERS), I(CACHED_SIDE), I(CACHED_LAYERS), I(CACHED_LAYERS)},
     1e-6, reference_stencil3d_cached},
    {"jacobi", "jacobi", "jacobi_cached", "vector", 2, {CACHED_WIDTH, CACHED_HEIGHT}, {64, 4},
     {IN(F32, (CACHED_WIDTH + 2) * (CACHED_HEIGHT + 2), signed),
      IN(F32, (CACHED_WIDTH + 2) * (CACHED_HEIGHT + 2), signed),
      IN(U32, (CACHED_WIDTH + 2) * (CACHED_HEIGHT + 2), mask), OUT(F32, (CACHED_WIDTH + 2) * (CACHED_HEIGHT + 2)),
      I(CACHED_WIDTH + 2), F(0.8f)},
     1e-5, reference_jacobi_cached},
    {"resize", "resize", "resize_cached", "vector", 2, {CACHED_PLANE, CACHED_PLANE}, {64, 4},
     {IN(F32, CACHED_RESIZE_FROM * CACHED_RESIZE_FROM, signed), OUT(F32, CACHED_PLANE * CACHED_PLANE),
      I(CACHED_RESIZE_FROM), I(CACHED_RESIZE_FROM), I(CACHED_PLANE), I(CACHED_PLANE)},
     1e-5, reference_resize_cached},
};
/* clang-format on */

const struct bench_kernel *bench_kernel_at(size_t index)
{
    return index < sizeof set / sizeof *set ? &set[index] : NULL;
}

const struct bench_kernel *bench_kernel_find(const char *label)
{
    for (size_t i = 0; i < sizeof set / sizeof *set; i++)
        if (strcmp(set[i].label, label) == 0)
            return &set[i];
    return NULL;
}

size_t bench_argument_bytes(const struct bench_argument *argument)
{
    if (argument->kind < BENCH_LOCAL)
        return sizeof argument->value;
    if (argument->kind == BENCH_LOCAL || argument->element == BENCH_U8)
        return argument->count;
    return argument->count * 4;
}
