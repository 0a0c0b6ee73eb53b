/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ways without a runtime, on one thread: kernels of the set as plain C loops, and a pass that only reads and writes
 * their memory once, which no launch can beat.
 *
 * Owns: the loops that are bound by memory or by loads, where runtimes that make vector code cannot differ much.
 *       Compiled with -O3 -march=native -ffast-math (meson.build).
 * Never: is the reference: the loops' output is checked against references.c, like that of every other way.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "way.h"

#define HUGE_BYTES ((size_t)2 << 20)

typedef void (*loop_func)(void *const *memory);

static void loop_saxpy(void *const *memory)
{
    const float *restrict x = memory[1], *restrict y = memory[2];
    float *restrict z = memory[3];

    for (size_t i = 0; i < SAXPY_COUNT; i++)
        z[i] = 1.5f * x[i] + y[i];
}

static void loop_vector_add(void *const *memory)
{
    const float *restrict x = memory[0], *restrict y = memory[1];
    float *restrict z = memory[2];

    for (size_t i = 0; i < SAXPY_COUNT; i++)
        z[i] = x[i] + y[i];
}

/* Inlined into the loop of each size, so that the compiler knows the size. */
#define OF_A_SIZE static inline __attribute__((always_inline)) void

OF_A_SIZE stencil2d(void *const *memory, int side)
{
    const float *restrict in = memory[0];
    float *restrict out = memory[1];

    memcpy(out, in, (size_t)side * sizeof(float));
    for (int y = 1; y < side - 1; y++) {
        out[y * side] = in[y * side];
        for (int at = y * side + 1; at < y * side + side - 1; at++)
            out[at] = 0.5f * in[at] + 0.1f * (in[at - 1] + in[at + 1] + in[at - side] + in[at + side]) +
                      0.025f * (in[at - side - 1] + in[at - side + 1] + in[at + side - 1] + in[at + side + 1]);
        out[y * side + side - 1] = in[y * side + side - 1];
    }
    memcpy(out + side * (side - 1), in + side * (side - 1), (size_t)side * sizeof(float));
}

static void loop_stencil2d(void *const *memory)
{
    stencil2d(memory, PLANE);
}

static void loop_stencil2d_cached(void *const *memory)
{
    stencil2d(memory, CACHED_PLANE);
}

OF_A_SIZE stencil3d(void *const *memory, int width, int height, int depth)
{
    const float *restrict in = memory[0];
    float *restrict out = memory[1];
    int slice = width * height;

    for (int z = 0; z < depth; z++)
        for (int y = 0; y < height; y++) {
            int row = (z * height + y) * width;

            if (z == 0 || y == 0 || z == depth - 1 || y == height - 1) {
                memset(out + row, 0, (size_t)width * sizeof(float));
                continue;
            }
            out[row] = out[row + width - 1] = 0.0f;
            for (int at = row + 1; at < row + width - 1; at++)
                out[at] = 0.4f * in[at] + 0.1f * (in[at - 1] + in[at + 1] + in[at - width] + in[at + width] +
                                                  in[at - slice] + in[at + slice]);
        }
}

static void loop_stencil3d(void *const *memory)
{
    stencil3d(memory, VOLUME, VOLUME, VOLUME);
}

static void loop_stencil3d_cached(void *const *memory)
{
    stencil3d(memory, CACHED_SIDE, CACHED_LAYERS, CACHED_LAYERS);
}

OF_A_SIZE jacobi(void *const *memory, int columns, int rows)
{
    const float *restrict old = memory[0], *restrict right = memory[1];
    const int *restrict fixed = memory[2];
    float *restrict new = memory[3];
    int width = columns + 2;

    for (int y = 1; y <= rows; y++)
        for (int at = y * width + 1; at <= y * width + columns; at++) {
            float around = 0.25f * (old[at - 1] + old[at + 1] + old[at - width] + old[at + width] - right[at]);

            new[at] = fixed[at] ? old[at] : old[at] + 0.8f * (around - old[at]);
        }
}

static void loop_jacobi(void *const *memory)
{
    jacobi(memory, PLANE, PLANE);
}

static void loop_jacobi_cached(void *const *memory)
{
    jacobi(memory, CACHED_WIDTH, CACHED_HEIGHT);
}

OF_A_SIZE resize(void *const *memory, int from, int to)
{
    const float *restrict in = memory[0];
    float *restrict out = memory[1];

    for (int y = 0; y < to; y++) {
        float fy = (float)y * (float)(from - 1) / (float)to;
        int top = (int)fy;
        float ay = fy - (float)top;

        for (int x = 0; x < to; x++) {
            float fx = (float)x * (float)(from - 1) / (float)to;
            int left = (int)fx;
            const float *corner = in + top * from + left;
            float ax = fx - (float)left, above = corner[0] + (corner[1] - corner[0]) * ax;
            float below = corner[from] + (corner[from + 1] - corner[from]) * ax;

            out[y * to + x] = above + (below - above) * ay;
        }
    }
}

static void loop_resize(void *const *memory)
{
    resize(memory, RESIZE_FROM, PLANE);
}

static void loop_resize_cached(void *const *memory)
{
    resize(memory, CACHED_RESIZE_FROM, CACHED_PLANE);
}

static void loop_spmv(void *const *memory)
{
    const uint32_t *restrict starts = memory[0], *restrict columns = memory[1];
    const float *restrict values = memory[2], *restrict x = memory[3];
    float *restrict y = memory[4];

    for (size_t row = 0; row < SPARSE_ROWS; row++) {
        float sum = 0.0f;

        for (uint32_t i = starts[row]; i < starts[row + 1]; i++)
            sum += values[i] * x[columns[i]];
        y[row] = sum;
    }
}

static const struct {
    const char *label;
    loop_func run;
} loops[] = {
    {"saxpy", loop_saxpy},         {"vector_add", loop_vector_add},
    {"stencil2d", loop_stencil2d}, {"stencil2d_cached", loop_stencil2d_cached},
    {"stencil3d", loop_stencil3d}, {"stencil3d_cached", loop_stencil3d_cached},
    {"jacobi", loop_jacobi},       {"jacobi_cached", loop_jacobi_cached},
    {"resize", loop_resize},       {"resize_cached", loop_resize_cached},
    {"spmv", loop_spmv},
};

struct loop {
    loop_func run;
    const struct bench_kernel *kernel;
    void *memory[BENCH_ARGUMENTS_MOST];
    uint64_t sum; /* of what was read, so that the compiler keeps the reads */
};

/* Allocates in huge pages, as both runtimes do at best. */
static void *take_huge(size_t bytes)
{
    void *memory = aligned_alloc(HUGE_BYTES, (bytes + HUGE_BYTES - 1) / HUGE_BYTES * HUGE_BYTES);

    if (!memory)
        abort();
    madvise(memory, bytes, MADV_HUGEPAGE);
    return memory;
}

/* Makes a way's own copy of the kernel's inputs and outputs. */
static struct loop *open_loop(struct bench_way *way, const struct bench_data *data)
{
    struct loop *loop = calloc(1, sizeof *loop);

    if (!loop)
        abort();
    way->state = loop;
    loop->kernel = data->kernel;
    for (unsigned i = 0; i < BENCH_ARGUMENTS_MOST; i++) {
        const struct bench_argument *argument = &data->kernel->arguments[i];
        size_t bytes = bench_argument_bytes(argument);

        if (argument->kind < BENCH_IN)
            continue;
        loop->memory[i] = take_huge(bytes);
        memcpy(loop->memory[i], data->input[i], bytes);
    }
    return loop;
}

static bool build(struct bench_way *way, const struct bench_data *data)
{
    struct loop *loop = open_loop(way, data);

    for (size_t i = 0; i < sizeof loops / sizeof *loops; i++)
        if (strcmp(loops[i].label, data->kernel->label) == 0)
            loop->run = loops[i].run;
    if (!loop->run) {
        snprintf(way->missing, sizeof way->missing, "not written as a loop");
        return false;
    }
    loop->run(loop->memory);
    return true;
}

static bool launch(struct bench_way *way, uint64_t *ret_device_ns)
{
    struct loop *loop = way->state;

    loop->run(loop->memory);
    *ret_device_ns = 0;
    return true;
}

static uint64_t sum_of(const uint64_t *restrict words, size_t count)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += words[i];
    return sum;
}

static bool build_touch(struct bench_way *way, const struct bench_data *data)
{
    open_loop(way, data);
    return true;
}

static bool touch(struct bench_way *way, uint64_t *ret_device_ns)
{
    struct loop *loop = way->state;

    for (unsigned i = 0; i < BENCH_ARGUMENTS_MOST; i++) {
        const struct bench_argument *argument = &loop->kernel->arguments[i];

        if (argument->kind == BENCH_IN)
            loop->sum += sum_of(loop->memory[i], bench_argument_bytes(argument) / sizeof(uint64_t));
        else if (argument->kind == BENCH_OUT)
            memset(loop->memory[i], (int)(loop->sum & 0xff), bench_argument_bytes(argument));
    }
    *ret_device_ns = 0;
    return true;
}

static bool read_memory(struct bench_way *way, unsigned argument, void *data, size_t bytes)
{
    const struct loop *loop = way->state;

    memcpy(data, loop->memory[argument], bytes);
    return true;
}

void bench_way_loop(struct bench_way *way)
{
    *way = (struct bench_way){.name = "loop", .build = build, .launch = launch, .read = read_memory};
}

void bench_way_touch(struct bench_way *way)
{
    *way = (struct bench_way){.name = "touch", .build = build_touch, .launch = touch};
}
