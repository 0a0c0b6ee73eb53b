/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the cases on oneDNN alone, in each way that a user of oneDNN would consider.
 * Never: measures what is made once: primitives, and memory for what they reorder.
 */
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"

#define STEPS 4

/* A function of the OpenMP library that oneDNN uses; clang has no header for it. */
void omp_set_num_threads(int count);

/* The primitives that run one after the other, each with its memory. */
struct bench_bare {
    const struct bench_case *bench_case;
    int way, threads, count;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    struct {
        dnnl_primitive_t primitive;
        dnnl_exec_arg_t arguments[3];
        int argument_count;
    } steps[STEPS];
    void *memory[4];
    int memories;
};

static void need_success(dnnl_status_t status, const char *what)
{
    if (status == dnnl_success)
        return;
    fprintf(stderr, "bench_math: oneDNN: %s: status %d\n", what, (int)status);
    exit(1);
}
#define NEED(call) need_success((call), #call)

const char *bench_bare_name(int way)
{
    static const char *const names[] = {"plain memory", "sgemm, or the library's own layout with reorders", NULL};

    return names[way];
}

static dnnl_memory_t memory_of(struct bench_bare *bare, const dnnl_memory_desc_t *description, void *data)
{
    dnnl_memory_t memory;

    if (!data) {
        size_t bytes = (dnnl_memory_desc_get_size(description) + 4095) / 4096 * 4096;

        data = bare->memory[bare->memories++] = aligned_alloc(4096, bytes);
    }
    NEED(dnnl_memory_create(&memory, description, bare->engine, data));
    return memory;
}

static void add_step(struct bench_bare *bare, dnnl_primitive_desc_t description, const dnnl_exec_arg_t *arguments,
                     int count)
{
    NEED(dnnl_primitive_create(&bare->steps[bare->count].primitive, description));
    dnnl_primitive_desc_destroy(description);
    for (int i = 0; i < count; i++)
        bare->steps[bare->count].arguments[i] = arguments[i];
    bare->steps[bare->count++].argument_count = count;
}

static void add_reorder(struct bench_bare *bare, dnnl_memory_t from, dnnl_memory_t to)
{
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    const dnnl_memory_desc_t *from_description, *to_description;
    dnnl_primitive_desc_t description;

    NEED(dnnl_memory_get_memory_desc(from, &from_description));
    NEED(dnnl_memory_get_memory_desc(to, &to_description));
    NEED(dnnl_reorder_primitive_desc_create(&description, from_description, bare->engine, to_description, bare->engine,
                                            NULL));
    add_step(bare, description, arguments, 2);
}

/* ---- gemm and attention ---- */

/* False: oneDNN has no such product on this processor. */
static bool add_matmul(struct bench_bare *bare, const dnnl_memory_desc_t *a, const dnnl_memory_desc_t *b,
                       const dnnl_memory_desc_t *c, void *const *data, float scale)
{
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, memory_of(bare, a, data[0])},
                                         {DNNL_ARG_WEIGHTS, memory_of(bare, b, data[1])},
                                         {DNNL_ARG_DST, memory_of(bare, c, data[2])}};
    dnnl_primitive_attr_t attributes;
    dnnl_primitive_desc_t description;
    dnnl_matmul_desc_t operation;

    NEED(dnnl_primitive_attr_create(&attributes));
    if (scale != 1.0f)
        NEED(dnnl_primitive_attr_set_output_scales(attributes, 1, 0, &scale));
    NEED(dnnl_matmul_desc_init(&operation, a, b, NULL, c));
    dnnl_status_t status = dnnl_primitive_desc_create(&description, &operation, attributes, bare->engine, NULL);
    dnnl_primitive_attr_destroy(attributes);
    if (status == dnnl_unimplemented)
        return false;
    need_success(status, "dnnl_primitive_desc_create");
    add_step(bare, description, arguments, 3);
    return true;
}

static bool open_gemm(struct bench_bare *bare)
{
    static const dnnl_data_type_t types[] = {dnnl_f32, dnnl_bf16, dnnl_f16, dnnl_s8};
    dnnl_data_type_t type = types[bare->bench_case->operation.type];
    dnnl_dim_t n = (dnnl_dim_t)bare->bench_case->operation.of.gemm.n;
    const dnnl_dims_t sizes = {n, n};
    dnnl_memory_desc_t input, output;
    void *const data[] = {(void *)bare->bench_case->operands[0], (void *)bare->bench_case->operands[1],
                          (void *)bare->bench_case->operands[3]};

    NEED(dnnl_memory_desc_init_by_tag(&input, 2, sizes, type, dnnl_ab));
    NEED(dnnl_memory_desc_init_by_tag(&output, 2, sizes, type == dnnl_s8 ? dnnl_s32 : type, dnnl_ab));
    return add_matmul(bare, &input, &input, &output, data, 1.0f);
}

static bool open_attention(struct bench_bare *bare)
{
    const struct facet_attention *attention = &bare->bench_case->operation.of.attention;
    dnnl_dim_t h = (dnnl_dim_t)attention->heads, n = (dnnl_dim_t)attention->queries,
               d = (dnnl_dim_t)attention->dimension;
    const dnnl_dims_t rows = {h, n, d}, turned = {h, d, n}, square = {h, n, n}, strides = {d * n, 1, d};
    dnnl_memory_desc_t values, keys, scores;
    dnnl_primitive_desc_t description;
    dnnl_softmax_desc_t softmax;

    NEED(dnnl_memory_desc_init_by_tag(&values, 3, rows, dnnl_f32, dnnl_abc));
    NEED(dnnl_memory_desc_init_by_strides(&keys, 3, turned, dnnl_f32, strides));
    NEED(dnnl_memory_desc_init_by_tag(&scores, 3, square, dnnl_f32, dnnl_abc));
    void *between = bare->memory[bare->memories++] = aligned_alloc(4096, (size_t)(h * n * n) * 4);
    void *const first[] = {(void *)bare->bench_case->operands[0], (void *)bare->bench_case->operands[1], between};
    void *const second[] = {between, (void *)bare->bench_case->operands[2], (void *)bare->bench_case->operands[3]};
    if (!add_matmul(bare, &values, &keys, &scores, first, 0.125f))
        return false;
    NEED(dnnl_softmax_forward_desc_init(&softmax, dnnl_forward_inference, &scores, 2));
    NEED(dnnl_primitive_desc_create(&description, &softmax, NULL, bare->engine, NULL));
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, memory_of(bare, &scores, between)},
                                         {DNNL_ARG_DST, memory_of(bare, &scores, between)}};
    add_step(bare, description, arguments, 2);
    return add_matmul(bare, &scores, &values, &values, second, 1.0f);
}

/* ---- convolution ---- */

static void plain_description(dnnl_memory_desc_t *ret_description, const dnnl_dims_t sizes, bool any)
{
    NEED(dnnl_memory_desc_init_by_tag(ret_description, 4, sizes, dnnl_f32, any ? dnnl_format_tag_any : dnnl_abcd));
}

/* The filter is reordered once, and reused by all runs. */
static void open_convolution(struct bench_bare *bare)
{
    const struct facet_convolution *convolution = &bare->bench_case->operation.of.convolution;
    dnnl_dim_t n = (dnnl_dim_t)convolution->batch, in = (dnnl_dim_t)convolution->in_channels,
               out = (dnnl_dim_t)convolution->out_channels;
    dnnl_dim_t h = (dnnl_dim_t)convolution->height, k = (dnnl_dim_t)convolution->kernel[0],
               pad = (dnnl_dim_t)convolution->padding[0];
    const dnnl_dims_t from = {n, in, h, h}, filter = {out, in, k, k}, to = {n, out, h, h}, ones = {1, 1},
                      pads = {pad, pad};
    dnnl_memory_desc_t plains[3], wanted[3];
    const dnnl_dim_t *sizes[] = {from, filter, to};
    dnnl_convolution_desc_t operation;
    dnnl_primitive_desc_t description;

    for (int i = 0; i < 3; i++) {
        plain_description(&plains[i], sizes[i], false);
        plain_description(&wanted[i], sizes[i], bare->way == 1);
    }
    NEED(dnnl_convolution_forward_desc_init(&operation, dnnl_forward_inference, dnnl_convolution_direct, &wanted[0],
                                            &wanted[1], NULL, &wanted[2], ones, pads, pads));
    NEED(dnnl_primitive_desc_create(&description, &operation, NULL, bare->engine, NULL));
    static const dnnl_query_t queries[] = {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md};
    static const int places[] = {0, 1, 3};
    dnnl_memory_t plain_memory[3], chosen_memory[3];
    for (int i = 0; i < 3; i++) {
        const dnnl_memory_desc_t *chosen = dnnl_primitive_desc_query_md(description, queries[i], 0);

        plain_memory[i] = memory_of(bare, &plains[i], (void *)bare->bench_case->operands[places[i]]);
        chosen_memory[i] = dnnl_memory_desc_equal(chosen, &plains[i]) ? plain_memory[i] : memory_of(bare, chosen, NULL);
    }
    if (chosen_memory[1] != plain_memory[1]) {
        add_reorder(bare, plain_memory[1], chosen_memory[1]);
        bare->count = 0;
        NEED(dnnl_primitive_execute(bare->steps[0].primitive, bare->stream, 2, bare->steps[0].arguments));
    }
    if (chosen_memory[0] != plain_memory[0])
        add_reorder(bare, plain_memory[0], chosen_memory[0]);
    const dnnl_exec_arg_t arguments[] = {
        {DNNL_ARG_SRC, chosen_memory[0]}, {DNNL_ARG_WEIGHTS, chosen_memory[1]}, {DNNL_ARG_DST, chosen_memory[2]}};
    add_step(bare, description, arguments, 3);
    if (chosen_memory[2] != plain_memory[2])
        add_reorder(bare, chosen_memory[2], plain_memory[2]);
}

/* ---- all ---- */

struct bench_bare *bench_bare_open(const struct bench_case *bench_case, int way, int threads)
{
    uint32_t operation = bench_case->operation.operation;
    bool gemm = operation == FACET_MATH_GEMM;

    if (bench_case->operation.type == FACET_MATH_F16 || (way == 1 && operation == FACET_MATH_ATTENTION) ||
        (way == 1 && gemm && bench_case->operation.type != FACET_MATH_F32))
        return NULL;
    struct bench_bare *bare = calloc(1, sizeof *bare);
    bare->bench_case = bench_case;
    bare->way = way;
    bare->threads = threads;
    omp_set_num_threads(threads);
    NEED(dnnl_engine_create(&bare->engine, dnnl_cpu, 0));
    NEED(dnnl_stream_create(&bare->stream, bare->engine, dnnl_stream_default_flags));
    bool has_it = true;
    if (gemm && way == 0)
        has_it = open_gemm(bare);
    else if (operation == FACET_MATH_CONVOLUTION)
        open_convolution(bare);
    else if (!gemm)
        has_it = open_attention(bare);
    if (has_it)
        return bare;
    bench_bare_close(bare);
    return NULL;
}

void bench_bare_run(struct bench_bare *bare)
{
    dnnl_dim_t n = (dnnl_dim_t)bare->bench_case->operation.of.gemm.n;

    omp_set_num_threads(bare->threads);
    if (bare->count == 0)
        NEED(dnnl_sgemm('N', 'N', n, n, n, 1.0f, (const float *)bare->bench_case->operands[0], n,
                        (const float *)bare->bench_case->operands[1], n, 0.0f, (float *)bare->bench_case->operands[3],
                        n));
    for (int i = 0; i < bare->count; i++)
        NEED(dnnl_primitive_execute(bare->steps[i].primitive, bare->stream, bare->steps[i].argument_count,
                                    bare->steps[i].arguments));
}

/* Memory objects are left to the end of the process. */
void bench_bare_close(struct bench_bare *bare)
{
    if (!bare)
        return;
    for (int i = 0; i < bare->memories; i++)
        free(bare->memory[i]);
    dnnl_stream_destroy(bare->stream);
    free(bare);
}
