/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the rest: the columns that are left over where the width of a matrix is not a multiple of a vector. With 14 x
 * 14 positions and 16 lanes, for example, the last of 13 vectors has only 4 numbers. The rests of many matrices with
 * the same A are multiplied together, in full vectors. Never: multiplies the other columns (product.c).
 */
#include "math/product.h"

#define TILE_COLUMNS UINT64_C(512)       /* most columns of a tile, which are the rests of several matrices */
#define TILE_ROWS    UINT64_C(64)        /* least rows of a tile: with fewer, packing its B costs more than it gains */
#define GAIN         UINT64_C(64)        /* the rest is separate if one computed column in 64 would be wasted */
#define PANELS_BYTES (UINT64_C(4) << 20) /* of all panels of a step */

/* ---- planning ---- */

bool cpu_math_rest_plan(struct cpu_math_prepared_product *plan)
{
    const struct cpu_math_product *product = &plan->product;
    uint64_t lanes = plan->prepared.engine->lanes, over = lanes > 0 ? product->n % lanes : 0;

    if (over == 0 || product->type != FACET_MATH_F32 || plan->product_type != CPU_MATH_PRODUCT_TYPE_F32 ||
        product->n < 2 * lanes || product->n > (lanes - over) * GAIN || product->batch * over < lanes ||
        product->period != 1)
        return false;
    uint64_t rows = cpu_math_round(cpu_math_parts(product->m, plan->prepared.engine->units), lanes);
    uint64_t tiles = cpu_math_parts(product->batch, TILE_COLUMNS / over);
    plan->rest.columns = over;
    plan->rest.tile_m = cpu_math_min(cpu_math_max(rows, TILE_ROWS), product->m);
    plan->rest.tile_batch = cpu_math_parts(product->batch, tiles);
    plan->rest.panel_bytes = cpu_math_round(plan->rest.tile_batch * over * product->k * sizeof(float), CPU_MATH_ALIGN);
    return true;
}

enum facet_status cpu_math_rest_primitives(struct cpu_math_prepared_product *plan, struct facet_error *error)
{
    const struct cpu_math_product *product = &plan->product;
    struct cpu_math_rest *rest = &plan->rest;
    const uint64_t rows[] = {rest->tile_m, product->m % rest->tile_m};
    enum facet_status status = FACET_OK;

    for (int i = 0; i < 2 && rows[i] > 0 && status == FACET_OK; i++) {
        const struct cpu_math_matmul matmul = {
            .m = rows[i],
            .n = rest->tile_batch * rest->columns,
            .k = product->k,
            .product_type = plan->product_type,
            .a_row = product->a.row,
            .a_column = product->a.column,
            .b_row = rest->tile_batch * rest->columns,
            .b_column = 1,
        };

        status = cpu_math_matmul(plan->prepared.engine, &matmul, &rest->matmul[i], error);
    }
    return status;
}

uint64_t cpu_math_rest_step(const struct cpu_math_prepared_product *plan)
{
    return cpu_math_max(1, PANELS_BYTES / plan->rest.panel_bytes) * plan->rest.tile_batch;
}

uint64_t cpu_math_rest_tiles(const struct cpu_math_prepared_product *plan, uint64_t matrices)
{
    return cpu_math_parts(matrices, plan->rest.tile_batch);
}

uint64_t cpu_math_rest_groups(const struct cpu_math_prepared_product *plan, const struct cpu_math_step *step)
{
    return cpu_math_rest_tiles(plan, step->batches) * cpu_math_parts(plan->product.m, plan->rest.tile_m);
}

/* ---- running ---- */

/* Copies word by word: rows are too short for memcpy() to pay. */
static void copy_rows(uint32_t *to, uint64_t to_row, const uint32_t *from, uint64_t from_row, uint64_t rows,
                      uint64_t columns)
{
    for (uint64_t i = 0; i < rows; i++)
        for (uint64_t j = 0; j < columns; j++)
            to[i * to_row + j] = from[i * from_row + j];
}

static char *panel_of(const struct cpu_math_prepared_product *plan, uint64_t tile)
{
    return plan->prepared.memory + tile * plan->rest.panel_bytes;
}

void cpu_math_rest_gather(const struct cpu_math_prepared_product *plan, const struct cpu_math_step *step,
                          uint64_t index)
{
    const struct cpu_math_product *product = &plan->product;
    const struct cpu_math_rest *rest = &plan->rest;
    uint64_t at = index % rest->tile_batch * rest->columns;
    const uint32_t *from =
        (const uint32_t *)product->b.address + (step->b0 + index) * product->b.batch + plan->main_columns;

    copy_rows((uint32_t *)panel_of(plan, index / rest->tile_batch) + at, rest->tile_batch * rest->columns, from,
              product->b.row, product->k, rest->columns);
}

static void scatter_products(const struct cpu_math_prepared_product *plan, uint64_t first, uint64_t matrices,
                             uint64_t m, uint64_t rows, const uint32_t *products)
{
    const struct cpu_math_product *product = &plan->product;
    const struct cpu_math_rest *rest = &plan->rest;
    uint32_t *c = (uint32_t *)product->c.address + first * product->c.batch + m * product->c.row + plan->main_columns;

    for (uint64_t i = 0; i < matrices; i++)
        copy_rows(c + i * product->c.batch, product->c.row, products + i * rest->columns,
                  rest->tile_batch * rest->columns, rows, rest->columns);
}

enum facet_status cpu_math_rest_run(const struct cpu_math_prepared_product *plan, const struct cpu_math_step *step,
                                    uint64_t index, char *scratch)
{
    const struct cpu_math_product *product = &plan->product;
    const struct cpu_math_rest *rest = &plan->rest;
    uint64_t slabs = cpu_math_max(1, cpu_math_parts(product->m, rest->tile_m)), tile = index / slabs;
    uint64_t m = index % slabs * rest->tile_m, rows = cpu_math_min(rest->tile_m, product->m - m);
    uint64_t first = tile * rest->tile_batch, matrices = cpu_math_min(rest->tile_batch, step->batches - first);
    enum facet_status status =
        cpu_math_execute(plan->prepared.engine, rest->matmul[rows != rest->tile_m],
                         (const void *)(product->a.address + m * product->a.row * sizeof(float)), panel_of(plan, tile),
                         scratch + plan->products_offset, scratch + plan->primitive_offset);

    if (status == FACET_OK)
        scatter_products(plan, step->b0 + first, matrices, m, rows,
                         (const uint32_t *)(scratch + plan->products_offset));
    return status;
}
