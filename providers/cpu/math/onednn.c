/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: primitives of oneDNN: making, keeping and running them.
 * Never: changes OpenMP's number of threads for a thread of the program for longer than a call.
 */
#include <stdlib.h>
#include <string.h>

#include "math/engine.h"
#include "provider_kit.h"

#define PRIMITIVES_MOST 256u

/* Functions of oneDNN's OpenMP, declared as specified, because not every compiler has the header. */
int omp_get_max_threads(void);
void omp_set_num_threads(int count);

/* The first number of a primitive's key. */
enum { KEY_MATMUL, KEY_CONVOLUTION, KEY_FILTER };

#define MEMORIES 4

struct cpu_math_memories {
    dnnl_exec_arg_t arguments[MEMORIES];
    int count;
};

static const dnnl_data_type_t product_types[] = {dnnl_f32, dnnl_bf16, dnnl_s8}; /* the types that oneDNN multiplies */

static enum facet_status fail_onednn(dnnl_status_t status, const char *what, struct facet_error *error)
{
    if (status == dnnl_out_of_memory)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a %s of oneDNN", what);
    if (status == dnnl_unimplemented)
        return facet_kit_fail(error, FACET_UNSUPPORTED, "oneDNN has no %s of this kind", what);
    return facet_kit_fail(error, FACET_INTERNAL, "oneDNN refused a %s with its status %d", what, (int)status);
}

/* ---- keeping ---- */

/* With the lock held. */
static struct cpu_math_primitive *find_primitive(struct cpu_math_engine *engine, const uint64_t *key)
{
    struct cpu_math_primitive *primitive;

    TAILQ_FOREACH (primitive, &engine->primitives, link)
        if (memcmp(primitive->key, key, sizeof primitive->key) == 0)
            break;
    if (!primitive)
        return NULL;
    primitive->references++;
    TAILQ_REMOVE(&engine->primitives, primitive, link);
    TAILQ_INSERT_HEAD(&engine->primitives, primitive, link);
    return primitive;
}

static void free_memories(struct cpu_math_memories *memories)
{
    for (int i = 0; memories && i < memories->count; i++)
        dnnl_memory_destroy(memories->arguments[i].memory);
    free(memories);
}

static void free_primitive(struct cpu_math_primitive *primitive)
{
    for (unsigned i = 0; i < CPU_MATH_CACHED_MEMORIES; i++)
        free_memories(atomic_load(&primitive->cached_memories[i]));
    if (primitive->handle)
        dnnl_primitive_destroy(primitive->handle);
    free(primitive);
}

/* With the lock held: drops primitives without references, the least recently used first. */
static void trim_primitives(struct cpu_math_engine *engine, uint32_t most)
{
    struct cpu_math_primitive *primitive = TAILQ_LAST(&engine->primitives, cpu_math_primitives), *before;

    for (; primitive && engine->primitive_count > most; primitive = before) {
        before = TAILQ_PREV(primitive, cpu_math_primitives, link);
        if (primitive->references > 0)
            continue;
        TAILQ_REMOVE(&engine->primitives, primitive, link);
        engine->primitive_count--;
        free_primitive(primitive);
    }
}

void cpu_math_primitives_drop(struct cpu_math_engine *engine, struct cpu_math_primitive *const *primitives,
                              uint32_t count)
{
    pthread_mutex_lock(&engine->lock);
    for (uint32_t i = 0; i < count; i++)
        if (primitives[i])
            primitives[i]->references--;
    trim_primitives(engine, PRIMITIVES_MOST);
    pthread_mutex_unlock(&engine->lock);
}

void cpu_math_primitives_forget(struct cpu_math_engine *engine)
{
    trim_primitives(engine, 0);
}

/* ---- making ---- */

/* Makes a primitive of any kind from its description, which is freed. */
static dnnl_status_t make_primitive(struct cpu_math_primitive *primitive, dnnl_primitive_desc_t description)
{
    const char *name = NULL;
    dnnl_status_t status = dnnl_primitive_create(&primitive->handle, description);

    if (status == dnnl_success) {
        primitive->from = *dnnl_primitive_desc_query_md(description, dnnl_query_src_md, 0);
        primitive->to = *dnnl_primitive_desc_query_md(description, dnnl_query_dst_md, 0);
        const dnnl_memory_desc_t *weights = dnnl_primitive_desc_query_md(description, dnnl_query_weights_md, 0);
        const dnnl_memory_desc_t *scratch = dnnl_primitive_desc_query_md(description, dnnl_query_scratchpad_md, 0);
        if (weights)
            primitive->weights = *weights;
        if (scratch)
            primitive->scratch = *scratch;
        primitive->scratch_bytes = scratch ? dnnl_memory_desc_get_size(scratch) : 0;
        dnnl_primitive_desc_query(description, dnnl_query_impl_info_str, 0, &name);
        facet_kit_text(primitive->name, sizeof primitive->name, name ? name : "?");
    }
    dnnl_primitive_desc_destroy(description);
    return status;
}

/* A primitive that is made with one OpenMP thread runs with one. The caller's number of threads is restored. */
typedef dnnl_status_t (*describe_func)(struct cpu_math_engine *engine, const void *what, dnnl_primitive_attr_t scratch,
                                       dnnl_primitive_desc_t *ret_description);

static dnnl_status_t make_single_threaded(struct cpu_math_engine *engine, describe_func describe, const void *what,
                                          struct cpu_math_primitive *primitive)
{
    int threads = omp_get_max_threads();
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_primitive_desc_t description = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(&attributes);

    if (status != dnnl_success)
        return status;
    omp_set_num_threads(1);
    status = dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user);
    if (status == dnnl_success)
        status = describe(engine, what, attributes, &description);
    if (status == dnnl_success)
        status = make_primitive(primitive, description);
    omp_set_num_threads(threads);
    dnnl_primitive_attr_destroy(attributes);
    return status;
}

static enum facet_status get_primitive(struct cpu_math_engine *engine, const uint64_t *key, describe_func describe,
                                       const void *what, struct cpu_math_primitive **ret_primitive,
                                       struct facet_error *error)
{
    dnnl_status_t made = dnnl_success;

    pthread_mutex_lock(&engine->lock);
    struct cpu_math_primitive *primitive = find_primitive(engine, key);
    if (!primitive && (primitive = calloc(1, sizeof *primitive))) {
        memcpy(primitive->key, key, sizeof primitive->key);
        primitive->references = 1;
        made = make_single_threaded(engine, describe, what, primitive);
        if (made == dnnl_success) {
            TAILQ_INSERT_HEAD(&engine->primitives, primitive, link);
            engine->primitive_count++;
        } else {
            free_primitive(primitive);
            primitive = NULL;
        }
    } else if (!primitive) {
        made = dnnl_out_of_memory;
    }
    pthread_mutex_unlock(&engine->lock);
    if (!primitive)
        return fail_onednn(made, key[0] == KEY_MATMUL ? "matmul" : "convolution", error);
    *ret_primitive = primitive;
    return FACET_OK;
}

/* ---- matmul ---- */

static dnnl_status_t describe_matrix(dnnl_memory_desc_t *ret_matrix, uint64_t rows, uint64_t columns,
                                     dnnl_data_type_t type, uint64_t row, uint64_t column)
{
    const dnnl_dims_t sizes = {(dnnl_dim_t)rows, (dnnl_dim_t)columns};
    const dnnl_dims_t strides = {(dnnl_dim_t)row, (dnnl_dim_t)column};

    return dnnl_memory_desc_init_by_strides(ret_matrix, 2, sizes, type, strides);
}

static dnnl_status_t describe_matmul(struct cpu_math_engine *engine, const void *what, dnnl_primitive_attr_t attributes,
                                     dnnl_primitive_desc_t *ret_description)
{
    const struct cpu_math_matmul *matmul = what;
    dnnl_memory_desc_t a, b, c;
    dnnl_matmul_desc_t operation;
    dnnl_status_t status =
        describe_matrix(&a, matmul->m, matmul->k, product_types[matmul->product_type], matmul->a_row, matmul->a_column);

    if (status == dnnl_success && matmul->orders_b)
        status = dnnl_memory_desc_init_by_tag(&b, 2, (dnnl_dims_t){(dnnl_dim_t)matmul->k, (dnnl_dim_t)matmul->n},
                                              product_types[matmul->product_type], dnnl_format_tag_any);
    else if (status == dnnl_success)
        status = describe_matrix(&b, matmul->k, matmul->n, product_types[matmul->product_type], matmul->b_row,
                                 matmul->b_column);
    if (status == dnnl_success)
        status = describe_matrix(&c, matmul->m, matmul->n,
                                 matmul->rounds_c                                     ? dnnl_bf16
                                 : matmul->product_type == CPU_MATH_PRODUCT_TYPE_INT8 ? dnnl_s32
                                                                                      : dnnl_f32,
                                 matmul->c_row ? matmul->c_row : matmul->n, 1);
    if (status == dnnl_success)
        status = dnnl_matmul_desc_init(&operation, &a, &b, NULL, &c);
    if (status == dnnl_success)
        status = dnnl_primitive_desc_create(ret_description, &operation, attributes, engine->dnnl, NULL);
    return status;
}

/* Whether oneDNN requires B in panels of 64 columns, in blocks of 16 rows (of bf16: 16 pairs of rows). */
static bool is_ordered(const dnnl_memory_desc_t *b, const struct cpu_math_matmul *matmul)
{
    const dnnl_blocking_desc_t *how = &b->format_desc.blocking;
    bool pairs = matmul->product_type == CPU_MATH_PRODUCT_TYPE_BF16;
    dnnl_dim_t block = (pairs ? 32 : 16) * CPU_MATH_ORDER_COLUMNS;

    return b->format_kind == dnnl_blocked && matmul->product_type != CPU_MATH_PRODUCT_TYPE_INT8 &&
           b->extra.flags == 0 && how->inner_nblks == (pairs ? 3 : 2) && how->inner_idxs[0] == 0 &&
           how->inner_blks[0] == 16 && how->inner_idxs[1] == 1 && how->inner_blks[1] == CPU_MATH_ORDER_COLUMNS &&
           (!pairs || (how->inner_idxs[2] == 0 && how->inner_blks[2] == 2)) && how->strides[0] == block &&
           how->strides[1] == (dnnl_dim_t)(matmul->k * CPU_MATH_ORDER_COLUMNS);
}

enum facet_status cpu_math_matmul(struct cpu_math_engine *engine, const struct cpu_math_matmul *matmul,
                                  struct cpu_math_primitive **ret_primitive, struct facet_error *error)
{
    const uint64_t key[CPU_MATH_KEY] = {
        KEY_MATMUL,       matmul->m,       matmul->n,        matmul->k,     matmul->a_row,
        matmul->a_column, matmul->b_row,   matmul->b_column, matmul->c_row, (uint64_t)matmul->product_type,
        matmul->rounds_c, matmul->orders_b};
    struct cpu_math_primitive *primitive = NULL;
    enum facet_status status = get_primitive(engine, key, describe_matmul, matmul, &primitive, error);

    if (status != FACET_OK)
        return status;
    if (matmul->orders_b && !is_ordered(&primitive->weights, matmul)) {
        cpu_math_primitives_drop(engine, &primitive, 1);
        return facet_kit_fail(error, FACET_UNSUPPORTED, "oneDNN requires another order of B than packed panels");
    }
    *ret_primitive = primitive;
    return FACET_OK;
}

/* ---- convolution ---- */

static void make_key(const struct cpu_math_convolve *convolve, uint64_t kind, uint64_t *ret_key)
{
    const uint64_t key[CPU_MATH_KEY] = {kind,
                                        convolve->in_channels,
                                        convolve->out_channels,
                                        convolve->input_height,
                                        convolve->input_width,
                                        convolve->kernel[0],
                                        convolve->kernel[1],
                                        convolve->stride[0],
                                        convolve->stride[1],
                                        convolve->dilation[0],
                                        convolve->dilation[1],
                                        (uint64_t)convolve->product_type};

    memcpy(ret_key, key, sizeof key);
}

static dnnl_dim_t output_size(const struct cpu_math_convolve *convolve, int i)
{
    uint64_t size = i == 0 ? convolve->input_height : convolve->input_width;

    return (dnnl_dim_t)((size - convolve->dilation[i] * (convolve->kernel[i] - 1) - 1) / convolve->stride[i] + 1);
}

static dnnl_status_t filter_memory(const struct cpu_math_convolve *convolve, dnnl_format_tag_t tag,
                                   dnnl_memory_desc_t *ret_filter)
{
    const dnnl_dims_t sizes = {(dnnl_dim_t)convolve->out_channels, (dnnl_dim_t)convolve->in_channels,
                               (dnnl_dim_t)convolve->kernel[0], (dnnl_dim_t)convolve->kernel[1]};

    return dnnl_memory_desc_init_by_tag(ret_filter, 4, sizes, product_types[convolve->product_type], tag);
}

static dnnl_status_t describe_convolution(struct cpu_math_engine *engine, const void *what,
                                          dnnl_primitive_attr_t attributes, dnnl_primitive_desc_t *ret_description)
{
    const struct cpu_math_convolve *convolve = what;
    const dnnl_dims_t from_sizes = {1, (dnnl_dim_t)convolve->in_channels, (dnnl_dim_t)convolve->input_height,
                                    (dnnl_dim_t)convolve->input_width};
    const dnnl_dims_t to_sizes = {1, (dnnl_dim_t)convolve->out_channels, output_size(convolve, 0),
                                  output_size(convolve, 1)},
                      none = {0, 0};
    dnnl_dims_t strides, gaps;
    dnnl_memory_desc_t from, filter, to;
    dnnl_convolution_desc_t operation;

    for (int i = 0; i < 2; i++) {
        strides[i] = (dnnl_dim_t)convolve->stride[i];
        gaps[i] = (dnnl_dim_t)convolve->dilation[i] - 1;
    }
    dnnl_status_t status =
        dnnl_memory_desc_init_by_tag(&from, 4, from_sizes, product_types[convolve->product_type], dnnl_nhwc);
    if (status == dnnl_success)
        status = filter_memory(convolve, dnnl_format_tag_any, &filter);
    if (status == dnnl_success)
        status = dnnl_memory_desc_init_by_tag(
            &to, 4, to_sizes, convolve->product_type == CPU_MATH_PRODUCT_TYPE_INT8 ? dnnl_s32 : dnnl_f32, dnnl_nhwc);
    if (status == dnnl_success)
        status = dnnl_dilated_convolution_forward_desc_init(&operation, dnnl_forward_inference, dnnl_convolution_direct,
                                                            &from, &filter, NULL, &to, strides, gaps, none, none);
    if (status == dnnl_success)
        status = dnnl_primitive_desc_create(ret_description, &operation, attributes, engine->dnnl, NULL);
    return status;
}

enum facet_status cpu_math_convolution(struct cpu_math_engine *engine, const struct cpu_math_convolve *convolve,
                                       struct cpu_math_primitive **ret_primitive, struct facet_error *error)
{
    uint64_t key[CPU_MATH_KEY];

    make_key(convolve, KEY_CONVOLUTION, key);
    return get_primitive(engine, key, describe_convolution, convolve, ret_primitive, error);
}

struct order {
    const struct cpu_math_convolve *convolve;
    const dnnl_memory_desc_t *to;
};

static dnnl_status_t describe_order(struct cpu_math_engine *engine, const void *what, dnnl_primitive_attr_t attributes,
                                    dnnl_primitive_desc_t *ret_description)
{
    const struct order *order = what;
    dnnl_memory_desc_t from;
    dnnl_status_t status = filter_memory(order->convolve, dnnl_oihw, &from);

    if (status == dnnl_success)
        status = dnnl_reorder_primitive_desc_create(ret_description, &from, engine->dnnl, order->to, engine->dnnl,
                                                    attributes);
    return status;
}

enum facet_status cpu_math_filter_order(struct cpu_math_engine *engine, const struct cpu_math_convolve *convolve,
                                        const struct cpu_math_primitive *convolution,
                                        struct cpu_math_primitive **ret_primitive, struct facet_error *error)
{
    const struct order order = {convolve, &convolution->weights};
    uint64_t key[CPU_MATH_KEY];

    make_key(convolve, KEY_FILTER, key);
    return get_primitive(engine, key, describe_order, &order, ret_primitive, error);
}

uint64_t cpu_math_filter_bytes(const struct cpu_math_primitive *convolution)
{
    return dnnl_memory_desc_get_size(&convolution->weights);
}

bool cpu_math_same_filter(const struct cpu_math_primitive *left, const struct cpu_math_primitive *right)
{
    return dnnl_memory_desc_equal(&left->weights, &right->weights);
}

/* ---- running ---- */

static struct cpu_math_memories *take_memories(struct cpu_math_primitive *primitive)
{
    struct cpu_math_memories *memories = NULL;

    for (unsigned i = 0; i < CPU_MATH_CACHED_MEMORIES && !memories; i++)
        if (atomic_load_explicit(&primitive->cached_memories[i], memory_order_relaxed))
            memories = atomic_exchange_explicit(&primitive->cached_memories[i], NULL, memory_order_acquire);
    return memories;
}

static void keep_memories(struct cpu_math_primitive *primitive, struct cpu_math_memories *memories)
{
    struct cpu_math_memories *none;

    for (unsigned i = 0; i < CPU_MATH_CACHED_MEMORIES; i++)
        if (none = NULL, atomic_compare_exchange_strong_explicit(&primitive->cached_memories[i], &none, memories,
                                                                 memory_order_release, memory_order_relaxed))
            return;
    free_memories(memories);
}

static dnnl_status_t add_memory(struct cpu_math_engine *engine, struct cpu_math_memories *memories, int argument,
                                const dnnl_memory_desc_t *description)
{
    dnnl_memory_t memory = NULL;
    dnnl_status_t status = dnnl_memory_create(&memory, description, engine->dnnl, DNNL_MEMORY_NONE);

    if (status == dnnl_success)
        memories->arguments[memories->count++] = (dnnl_exec_arg_t){argument, memory};
    return status;
}

/* Makes the memory objects in the order in which cpu_math_execute() sets their addresses. */
static struct cpu_math_memories *make_memories(struct cpu_math_engine *engine,
                                               const struct cpu_math_primitive *primitive)
{
    struct cpu_math_memories *memories = calloc(1, sizeof *memories);
    dnnl_status_t status = dnnl_success;

    if (!memories)
        return NULL;
    status = add_memory(engine, memories, DNNL_ARG_FROM, &primitive->from);
    if (status == dnnl_success)
        status = add_memory(engine, memories, DNNL_ARG_TO, &primitive->to);
    if (status == dnnl_success)
        status = add_memory(engine, memories, DNNL_ARG_SCRATCHPAD, &primitive->scratch);
    if (status == dnnl_success && primitive->weights.ndims > 0)
        status = add_memory(engine, memories, DNNL_ARG_WEIGHTS, &primitive->weights);
    if (status == dnnl_success)
        return memories;
    free_memories(memories);
    return NULL;
}

enum facet_status cpu_math_execute(struct cpu_math_engine *engine, struct cpu_math_primitive *primitive,
                                   const void *from, const void *weights, void *to, void *scratch)
{
    const void *const places[MEMORIES] = {from, to, scratch, weights};
    struct cpu_math_memories *memories = take_memories(primitive);
    dnnl_status_t status = dnnl_success;

    if (!memories && !(memories = make_memories(engine, primitive)))
        return FACET_NO_MEMORY;
    for (int i = 0; i < memories->count && status == dnnl_success; i++)
        status =
            dnnl_memory_set_data_handle_v2(memories->arguments[i].memory, (void *)(uintptr_t)places[i], engine->stream);
    omp_set_num_threads(1); /* for this thread, which is a unit's */
    if (status == dnnl_success)
        status = dnnl_primitive_execute(primitive->handle, engine->stream, memories->count, memories->arguments);
    keep_memories(primitive, memories);
    return status == dnnl_success ? FACET_OK : status == dnnl_out_of_memory ? FACET_NO_MEMORY : FACET_INTERNAL;
}
