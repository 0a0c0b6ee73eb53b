/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the steps of a product, and the work of its work-groups. Never: chooses sizes (product_plan.c). */
#include "math/product.h"

#include <stdlib.h>
#include <string.h>

#include "provider_kit.h"

#define STEPS_MOST (UINT64_C(1) << 20)

struct tile {
    const struct cpu_math_step *step;
    uint64_t batch, m, n;       /* of the tile, counted from the step's beginning */
    uint64_t rows, columns;     /* in elements */
    int edge_m, edge_n, edge_k; /* whether its sizes are those of an edge */
    const struct facet_host_group *group;
};

static char *scratch_at(const struct facet_host_group *group, uint64_t at)
{
    return (char *)group->scratch + at;
}

static uint64_t element_address(const struct cpu_math_matrix *matrix, uint64_t batch, uint64_t row, uint64_t column,
                                uint64_t bytes)
{
    return matrix->address + (batch * matrix->batch + row * matrix->row + column * matrix->column) * bytes;
}

static uint64_t period_of(const struct cpu_math_product *product, uint64_t batch)
{
    return product->period ? batch % product->period : batch;
}

static char *panel_of(const struct cpu_math_prepared_product *plan, const struct tile *tile)
{
    uint64_t panels = cpu_math_parts(plan->step_n, plan->tile_n);

    return plan->prepared.memory + (tile->batch * panels + tile->n) * plan->panel_bytes;
}

static char *slab_of(const struct cpu_math_prepared_product *plan, const struct tile *tile)
{
    uint64_t slabs = cpu_math_parts(plan->step_m, plan->tile_m);

    return plan->prepared.memory + plan->a_offset + (tile->batch * slabs + tile->m) * plan->slab_bytes;
}

/* ---- packing ---- */

/* Gathers windows, and converts them to the type in which they are multiplied. */
static void pack_windows(const struct cpu_math_prepared_product *plan, const struct tile *tile)
{
    const struct cpu_math_product *product = &plan->product;
    const struct cpu_math_step *step = tile->step;
    uint64_t image = element_address(&product->b, step->b0 + tile->batch, 0, 0, plan->type_bytes);
    void *to = panel_of(plan, tile), *raw = plan->converts_operands ? tile->group->scratch : to;

    cpu_math_windows(&product->convolution, (const void *)image, step->k0, step->depth,
                     step->n0 + tile->n * plan->tile_n, tile->columns, plan->type_bytes, raw);
    if (plan->converts_operands)
        cpu_math_convert(plan->prepared.engine, to, raw, step->depth * tile->columns, product->type,
                         plan->product_type);
}

static uint64_t parts_of(const struct cpu_math_prepared_product *plan, const struct cpu_math_step *step)
{
    return plan->orders_b || plan->multiply ? cpu_math_parts(step->depth, plan->pack_rows) : 1;
}

static void pack_ordered(const struct cpu_math_prepared_product *plan, const struct tile *tile,
                         struct cpu_math_gather gather, uint64_t part)
{
    uint64_t row = part * plan->pack_rows;

    gather.from += row * gather.row * plan->type_bytes;
    gather.rows = cpu_math_min(plan->pack_rows, gather.rows - row);
    if (plan->multiply)
        cpu_math_gather_panels(plan->prepared.engine, &gather, tile->step->depth,
                               panel_of(plan, tile) + row * CPU_MATH_PANEL * plan->product_type_bytes);
    else
        cpu_math_gather_ordered(plan->prepared.engine, &gather, tile->step->depth,
                                panel_of(plan, tile) + row * CPU_MATH_ORDER_COLUMNS * plan->product_type_bytes);
}

static void pack_b(const struct cpu_math_prepared_product *plan, const struct tile *tile, uint64_t part)
{
    const struct cpu_math_product *product = &plan->product;
    const struct cpu_math_step *step = tile->step;
    uint64_t column = step->n0 + tile->n * plan->tile_n;
    const struct cpu_math_gather gather = {
        .from = element_address(&product->b, step->b0 + tile->batch, step->k0, column, plan->type_bytes),
        .row = product->b.row,
        .column = product->b.column,
        .rows = step->depth,
        .columns = tile->columns,
        .type = product->type,
        .product_type = plan->product_type,
    };

    if (product->windows)
        pack_windows(plan, tile);
    else if (plan->orders_b || plan->multiply)
        pack_ordered(plan, tile, gather, part);
    else
        cpu_math_gather(plan->prepared.engine, &gather, panel_of(plan, tile));
}

static void pack_a(const struct cpu_math_prepared_product *plan, const struct tile *tile)
{
    const struct cpu_math_product *product = &plan->product;
    const struct cpu_math_step *step = tile->step;
    uint64_t block = plan->multiply ? CPU_MATH_BLOCK * 4 / plan->product_type_bytes : step->depth;
    struct cpu_math_gather gather = {.row = product->a.row,
                                     .column = product->a.column,
                                     .rows = tile->rows,
                                     .type = product->type,
                                     .product_type = plan->product_type};

    for (uint64_t k = 0; k < step->depth; k += block) {
        gather.from = element_address(&product->a, period_of(product, step->b0 + tile->batch),
                                      step->m0 + tile->m * plan->tile_m, step->k0 + k, plan->type_bytes);
        gather.columns = cpu_math_min(block, step->depth - k);
        cpu_math_gather(plan->prepared.engine, &gather,
                        slab_of(plan, tile) + tile->rows * k * plan->product_type_bytes);
    }
}

/* ---- storing ---- */

static void store_tile(const struct cpu_math_prepared_product *plan, const struct tile *tile, const float *products)
{
    const struct cpu_math_product *product = &plan->product;
    const struct cpu_math_step *step = tile->step;
    const struct cpu_math_loops *loops = plan->prepared.engine->loops;
    uint64_t batch = step->b0 + tile->batch, m = step->m0 + tile->m * plan->tile_m, n = tile->n * plan->tile_n;
    bool first = step->k0 == 0, last = step->k0 + step->depth == product->k;
    bool sums = plan->prepared.memory_bytes > plan->sums_offset;
    struct cpu_math_store store = {.type = product->type,
                                   .integers = plan->product_type == CPU_MATH_PRODUCT_TYPE_INT8 ||
                                               plan->product_type == CPU_MATH_PRODUCT_TYPE_INT16,
                                   .streams_c = plan->streams_c,
                                   .alpha = product->alpha};

    store.beta = first || sums ? product->beta : 1.0f;
    for (uint64_t i = 0; i < tile->rows; i++) {
        const float *row = products + i * tile->columns;
        float *sum = sums ? (float *)(plan->prepared.memory + plan->sums_offset) +
                                ((tile->batch * plan->step_m + tile->m * plan->tile_m + i) * plan->step_n + n)
                          : NULL;

        if (sums && first)
            memcpy(sum, row, tile->columns * sizeof *sum);
        else if (sums)
            loops->add(sum, row, tile->columns);
        if (sums && !last)
            continue;
        store.bias = product->bias && (first || sums)
                         ? (const void *)(product->bias + (period_of(product, batch) * product->m + m + i) * 4)
                         : NULL;
        loops->store((void *)element_address(&product->c, batch, m + i, step->n0 + n, plan->c_bytes), sums ? sum : row,
                     tile->columns, &store);
    }
    if (plan->streams_c)
        cpu_math_streamed();
}

/* ---- multiplying ---- */

static enum facet_status multiply_packed(const struct cpu_math_prepared_product *plan, const struct tile *tile,
                                         const void *a, const void *b, void *c)
{
    uint64_t word = 4 / plan->product_type_bytes;
    const struct cpu_math_tile packed = {
        .c = c,
        .a = a,
        .b = b,
        .c_row = plan->stores_directly ? plan->product.c.row : tile->columns,
        .a_row = plan->packs_a ? 0 : plan->product.a.row / word,
        .b_row = plan->packs_b ? 0 : plan->product.b.row,
        .packed = scratch_at(tile->group, plan->primitive_offset),
        .rows = tile->rows,
        .columns = tile->columns,
        .depth = tile->step->depth / word,
        .adds = plan->stores_directly && tile->step->k0 > 0,
    };

    if (!plan->multiply)
        return cpu_math_execute(plan->prepared.engine, plan->matmul[tile->edge_m][tile->edge_n][tile->edge_k], a, b, c,
                                scratch_at(tile->group, plan->primitive_offset));
    plan->multiply(&packed);
    return FACET_OK;
}

static enum facet_status multiply_tile(const struct cpu_math_prepared_product *plan, const struct tile *tile)
{
    const struct cpu_math_product *product = &plan->product;
    const struct cpu_math_step *step = tile->step;
    uint64_t batch = step->b0 + tile->batch, m = step->m0 + tile->m * plan->tile_m;
    uint64_t n = step->n0 + tile->n * plan->tile_n;
    const void *a = plan->packs_a ? slab_of(plan, tile)
                                  : (const void *)element_address(&product->a, period_of(product, batch), m, step->k0,
                                                                  plan->type_bytes);
    const void *b = plan->packs_b ? panel_of(plan, tile)
                                  : (const void *)element_address(&product->b, batch, step->k0, n, plan->type_bytes);
    void *c = plan->stores_directly ? (void *)element_address(&product->c, batch, m, n, plan->c_bytes)
                                    : scratch_at(tile->group, plan->products_offset);
    enum facet_status status = multiply_packed(plan, tile, a, b, c);

    if (status == FACET_OK && !plan->stores_directly)
        store_tile(plan, tile, c);
    if (plan->rest.columns > 0 && tile->m == 0)
        cpu_math_rest_gather(plan, step, tile->batch);
    return status;
}

/* ---- work-groups ---- */

static void measure_tile(const struct cpu_math_prepared_product *plan, struct tile *tile)
{
    const struct cpu_math_step *step = tile->step;

    tile->rows = cpu_math_min(plan->tile_m, step->rows - cpu_math_min(step->rows, tile->m * plan->tile_m));
    tile->columns = cpu_math_min(plan->tile_n, step->columns - cpu_math_min(step->columns, tile->n * plan->tile_n));
    tile->edge_m = tile->rows != plan->tile_m;
    tile->edge_n = tile->columns != plan->tile_n;
    tile->edge_k = step->depth != plan->tile_k;
}

static enum facet_status run_pack(const struct cpu_math_prepared_product *plan, struct tile *tile, uint64_t index)
{
    uint64_t parts = parts_of(plan, tile->step);
    uint64_t panels = plan->packs_b ? parts * cpu_math_parts(tile->step->columns, plan->tile_n) : 0;
    uint64_t slabs = plan->packs_a ? cpu_math_parts(tile->step->rows, plan->tile_m) : 0, each = panels + slabs;

    if (each == 0)
        return FACET_OK; /* nothing is packed, so no work-group comes here */
    uint64_t at = index % each;
    tile->batch = index / each;
    tile->n = at < panels ? at / cpu_math_max(parts, 1) : 0;
    tile->m = at < panels ? 0 : at - panels;
    measure_tile(plan, tile);
    if (at < panels)
        pack_b(plan, tile, at % cpu_math_max(parts, 1));
    else
        pack_a(plan, tile);
    return FACET_OK;
}

static enum facet_status run_multiply(const struct cpu_math_prepared_product *plan, struct tile *tile, uint64_t index)
{
    uint64_t panels = cpu_math_max(1, cpu_math_parts(tile->step->columns, plan->tile_n));
    uint64_t slabs = cpu_math_max(1, cpu_math_parts(tile->step->rows, plan->tile_m));

    tile->batch = index / slabs / panels;
    index %= slabs * panels;
    uint64_t first = index / (plan->slabs_per_wave * panels) * plan->slabs_per_wave,
             wave = cpu_math_min(plan->slabs_per_wave, slabs - first);
    index -= first * panels;
    tile->m = first + index % wave;
    tile->n = index / wave;
    measure_tile(plan, tile);
    return multiply_tile(plan, tile);
}

static void run_group(const void *arguments, const struct facet_host_group *group)
{
    struct cpu_math_prepared_product *plan = *(struct cpu_math_prepared_product *const *)arguments;
    uint64_t first = 0;
    const struct cpu_math_step *step =
        &plan->steps[cpu_math_phase_of(&plan->prepared.work, group->group_id[0], &first)];
    struct tile tile = {.step = step, .group = group};
    uint64_t index = group->group_id[0] - first;

    if (!cpu_math_prepared_ready(&plan->prepared))
        return;
    switch (step->task) {
    case CPU_MATH_STEP_PACK:
        cpu_math_prepared_fail(&plan->prepared, run_pack(plan, &tile, index));
        break;
    case CPU_MATH_STEP_MULTIPLY:
        cpu_math_prepared_fail(&plan->prepared, run_multiply(plan, &tile, index));
        break;
    case CPU_MATH_STEP_REST:
        cpu_math_prepared_fail(&plan->prepared, cpu_math_rest_run(plan, step, index, group->scratch));
        break;
    }
}

/* ---- steps ---- */

static uint64_t groups_of(const struct cpu_math_prepared_product *plan, const struct cpu_math_step *step)
{
    uint64_t panels = cpu_math_parts(step->columns, plan->tile_n), slabs = cpu_math_parts(step->rows, plan->tile_m);

    if (step->task == CPU_MATH_STEP_REST)
        return cpu_math_rest_groups(plan, step);
    if (step->task == CPU_MATH_STEP_PACK)
        return step->batches * ((plan->packs_b ? panels * parts_of(plan, step) : 0) + (plan->packs_a ? slabs : 0));
    return step->batches * panels * slabs;
}

static void add_step(struct cpu_math_prepared_product *plan, uint64_t *ends, struct cpu_math_step step)
{
    uint64_t before = plan->step_count > 0 ? ends[plan->step_count - 1] : 0;

    plan->steps[plan->step_count] = step;
    ends[plan->step_count++] = before + groups_of(plan, &step);
}

/* Steps along k follow each other, so that the sums of one part of C are finished before others begin. */
static void fill_steps(struct cpu_math_prepared_product *plan, uint64_t *ends)
{
    const struct cpu_math_product *product = &plan->product;

    for (uint64_t b = 0; b < product->batch; b += plan->step_batch)
        for (uint64_t m = 0; m < product->m; m += plan->step_m)
            for (uint64_t n = 0; n < plan->main_columns; n += plan->step_n)
                for (uint64_t k = 0; k < product->k; k += plan->tile_k) {
                    struct cpu_math_step step = {.b0 = b,
                                                 .batches = cpu_math_min(plan->step_batch, product->batch - b),
                                                 .m0 = m,
                                                 .rows = cpu_math_min(plan->step_m, product->m - m),
                                                 .n0 = n,
                                                 .columns = cpu_math_min(plan->step_n, plan->main_columns - n),
                                                 .k0 = k,
                                                 .depth = cpu_math_min(plan->tile_k, product->k - k),
                                                 .task = CPU_MATH_STEP_PACK};

                    if (plan->packs_a || plan->packs_b)
                        add_step(plan, ends, step);
                    step.task = CPU_MATH_STEP_MULTIPLY;
                    add_step(plan, ends, step);
                    step.task = CPU_MATH_STEP_REST;
                    if (plan->rest.columns > 0)
                        add_step(plan, ends, step);
                }
}

static enum facet_status make_steps(struct cpu_math_prepared_product *plan, uint64_t scratch_bytes,
                                    struct facet_error *error)
{
    const struct cpu_math_product *product = &plan->product;
    uint64_t count = 2,
             parts[] = {cpu_math_parts(product->batch, plan->step_batch), cpu_math_parts(product->m, plan->step_m),
                        cpu_math_parts(product->n, plan->step_n), cpu_math_parts(product->k, plan->tile_k)};
    char name[64];

    for (int i = 0; i < 4; i++)
        if (__builtin_mul_overflow(count, parts[i], &count) || count > STEPS_MOST)
            return facet_kit_fail(error, FACET_OUT_OF_RANGE, "the product is too large to be cut into 2^20 steps");
    uint64_t *ends = calloc(count, sizeof *ends);
    plan->steps = calloc(count, sizeof *plan->steps);
    enum facet_status status = FACET_NO_MEMORY;
    if (ends && plan->steps) {
        fill_steps(plan, ends);
        snprintf(name, sizeof name, "%.16s %.36s %s", product->operation,
                 plan->multiply ? plan->prepared.engine->microkernels->name : plan->matmul[0][0][0]->name,
                 cpu_math_product_type_name(plan->product_type));
        status = cpu_math_prepared_finish(&plan->prepared, name, scratch_bytes, plan->step_count, ends, error);
    } else {
        facet_kit_fail(error, status, "no memory for %" PRIu64 " steps of a product", count);
    }
    free(ends);
    return status;
}

static void release_plan(struct cpu_math_prepared *prepared)
{
    struct cpu_math_prepared_product *plan = (struct cpu_math_prepared_product *)prepared;

    cpu_math_primitives_drop(prepared->engine, &plan->matmul[0][0][0], 8);
    cpu_math_primitives_drop(prepared->engine, plan->rest.matmul, 2);
    free(plan->steps);
}

enum facet_status cpu_math_product_prepare(struct cpu_math_engine *engine, const struct cpu_math_product *product,
                                           struct cpu_math_prepared **ret_prepared, struct facet_error *error)
{
    struct cpu_math_prepared *prepared = NULL;
    enum facet_status status = cpu_math_prepared_new(engine, sizeof(struct cpu_math_prepared_product), run_group,
                                                     release_plan, &prepared, error);

    if (status != FACET_OK)
        return status;
    struct cpu_math_prepared_product *plan = (struct cpu_math_prepared_product *)prepared;
    prepared->is_repeatable = true;
    plan->product = *product;
    status = cpu_math_product_plan(plan, error);
    if (status == FACET_OK)
        status = make_steps(plan, plan->primitive_offset + plan->scratch_most, error);
    if (status != FACET_OK)
        cpu_math_prepared_free(prepared);
    else
        *ret_prepared = prepared;
    return status;
}
