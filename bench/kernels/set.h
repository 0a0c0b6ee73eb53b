/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The set of kernels that the bench runs: the inputs and the right results of each.
 *
 * Owns: sizes, inputs by fixed seeds, references in plain C, tolerances.
 * Never: knows OpenCL or Facet; both get the same bytes.
 */
#ifndef BENCH_SET_H
#define BENCH_SET_H

#include <stddef.h>
#include <stdint.h>

#define BENCH_ARGUMENTS_MOST 8u

enum bench_kind {
    BENCH_NONE, /* past the last argument */
    BENCH_FLOAT,
    BENCH_INT,
    BENCH_UINT,
    BENCH_LOCAL, /* `count` bytes */
    BENCH_IN,
    BENCH_OUT,
};

enum bench_element {
    BENCH_U8,
    BENCH_U32,
    BENCH_F32,
};

/* Fills an input of `count` elements with the sequence that the seed determines. */
typedef void (*bench_fill_func)(void *memory, size_t count, uint32_t seed);

struct bench_argument {
    enum bench_kind kind;
    enum bench_element element;
    size_t count; /* elements; bytes of BENCH_LOCAL */
    bench_fill_func fill;
    union {
        float f;
        int32_t i;
        uint32_t u;
    } value;
};

/* The arguments' memory, by index; NULL where the argument has none. */
typedef void (*bench_reference_func)(void *const *memory);

struct bench_kernel {
    const char *name;  /* of the kernel */
    const char *file;  /* without ".cl" */
    const char *label; /* its name in the tables, which is unique */
    const char *tag;   /* streaming: waits for memory; vector: no barrier, vectorizable; barrier; divergent; atomic */
    uint32_t dimensions;
    size_t global[3], group[3];
    struct bench_argument arguments[BENCH_ARGUMENTS_MOST];
    double tolerance; /* of |x - y| / max(1, |y|), for floats; integers are exact */
    bench_reference_func reference;
};

/* The kernel with this index; NULL past the last one. */
const struct bench_kernel *bench_kernel_at(size_t index);
/* The kernel with this label; NULL: there is none. */
const struct bench_kernel *bench_kernel_find(const char *label);
size_t bench_argument_bytes(const struct bench_argument *argument);

/* Sizes that table and references share. */
enum {
    SAXPY_COUNT = 1 << 22,
    PLANE = 1024,
    VOLUME = 128,
    REDUCE_COUNT = 1 << 20,
    GROUP = 256,
    MATRIX = 384,
    BODIES = 2048,
    OPTIONS = 1 << 17,
    MESSAGES = 1 << 14,
    HISTOGRAM_GROUPS = 256,
    EACH = 16, /* elements of one work-item of `histogram` and `dot` */
    ROWS = 1024,
    COLUMNS = 1024,
    FFT_HALF = 1 << 18,
    FFT_DONE = 1 << 9,
    SORT_COUNT = 1 << 20,
    SORT_DISTANCE = 1 << 6,
    SORT_BLOCK = 1 << 10,
    CARLO_COUNT = 1 << 13,
    CARLO_DARTS = 256,
    WALKERS = 1 << 13,
    WALK_BAND = 12,
    WALK_MOST = 1024,
    BROT = 384,
    BROT_MOST = 256,
    SPARSE_ROWS = 1 << 15,
    SPARSE_MOST = 32, /* of a row */
    RESIZE_FROM = 700,
    /* Sizes of the ..._cached kernels: inputs and outputs are at most 512 KiB, half of a core's own cache. */
    CACHED_PLANE = 256,
    CACHED_LAYERS = 32,
    CACHED_SIDE = 64, /* the length of a volume's row; a plane has CACHED_LAYERS rows, and the volume as many planes */
    CACHED_WIDTH = 192,
    CACHED_HEIGHT = 128,
    CACHED_RESIZE_FROM = 175,
    POINTS = 1 << 15,
    CENTRES = 16,
    FEATURES = 8,
    GEMV_ROWS = 4096,
    GEMV_COLUMNS = 1024,
    PIXELS = 1 << 21,
};

/* references.c */
void reference_saxpy(void *const *memory);
void reference_vector_add(void *const *memory);
void reference_stencil2d(void *const *memory);
void reference_stencil2d_cached(void *const *memory);
void reference_stencil3d(void *const *memory);
void reference_stencil3d_cached(void *const *memory);
void reference_reduce(void *const *memory);
void reference_scan(void *const *memory);
void reference_matmul(void *const *memory);
void reference_nbody(void *const *memory);
void reference_black_scholes(void *const *memory);
void reference_sha256(void *const *memory);
void reference_conv2d(void *const *memory);
void reference_histogram(void *const *memory);
void reference_transpose(void *const *memory);
void reference_softmax(void *const *memory);
void reference_layernorm(void *const *memory);
void reference_fft_step(void *const *memory);
void reference_bitonic_step(void *const *memory);
void reference_monte_carlo(void *const *memory);
void reference_random_walk(void *const *memory);
void reference_mandelbrot(void *const *memory);
void reference_spmv(void *const *memory);
void reference_dot(void *const *memory);
void reference_resize(void *const *memory);
void reference_resize_cached(void *const *memory);
void reference_kmeans(void *const *memory);
void reference_life(void *const *memory);
void reference_gemv(void *const *memory);
void reference_gray(void *const *memory);
void reference_jacobi(void *const *memory);
void reference_jacobi_cached(void *const *memory);

#endif
