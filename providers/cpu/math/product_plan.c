/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the division of a product into tiles, and the choice of primitives. Never: runs anything. */
#include <string.h>

#include "math/product.h"

#define TILE_F32    (UINT64_C(32) << 20) /* multiplications of a tile: some hundred microseconds */
#define TILE_MEMORY (UINT64_C(1) << 19)  /* elements that a tile reads, where reading takes longer than multiplying */
#define DEPTH       UINT64_C(4096)
#define DEPTH_EXACT UINT64_C(1024)       /* this many products of int8 are exact in f32 */
#define PACK_BYTES  (UINT64_C(32) << 20) /* of packed B, and of packed A, of a step */
#define SMALL_BYTES (UINT64_C(1) << 20)  /* of B, when nothing is packed and a tile is whole rows of C */
#define FEW_ROWS    UINT64_C(8)          /* rows of A, for which packing B costs more than it gains */

/*
 * Sizes of tiles whose B is ordered, as measured. A few rows of A stay in a core's cache while panels of B are read.
 * For f32 with a large k one narrow panel of B stays in the cache, while rows of A are read.
 */
#define ORDERED_ROWS    UINT64_C(64)
#define ORDERED_COLUMNS UINT64_C(512)
#define DEEP_F32        UINT64_C(1024)
#define DEEP_ROWS       UINT64_C(256)
#define DEPTH_F32       UINT64_C(4096)
#define PART            UINT64_C(65536)     /* elements of B that a work-group orders, about */
#define STREAM_BYTES    (UINT64_C(8) << 20) /* a larger C is written past the caches */

/* Sizes of tiles for microkernels: a block's rows of A stay in the second-level cache while panels of B are read. */
#define KERNEL_TILE    (UINT64_C(16) << 20) /* multiplications */
#define KERNEL_ROWS    UINT64_C(96)
#define KERNEL_COLUMNS UINT64_C(512)
#define KERNEL_DEPTH   CPU_MATH_BLOCK      /* words */
#define KERNEL_B       (UINT64_C(1) << 18) /* most elements of a B that each tile packs for itself */
#define KERNEL_B_ROWS  UINT64_C(256)       /* rows of a tile that packs B for itself */
#define KERNEL_LEAST   UINT64_C(16)        /* least rows and columns of a product for which packing pays */
#define KERNEL_A_ROW   UINT64_C(1024)      /* most elements between rows of an A that is not packed */
#define WAVE_BYTES     (UINT64_C(8) << 20) /* of A that is multiplied by all of B before the next part is */

/* ---- tiles ---- */

static bool is_contiguous(const struct cpu_math_matrix *matrix, uint64_t columns)
{
    return matrix->column == 1 && matrix->row == columns;
}

/* The size of a part when `whole` is cut into parts of nearly the same size, as few as `most` allows. */
static uint64_t even_size(uint64_t whole, uint64_t most, uint64_t step)
{
    return cpu_math_min(whole, cpu_math_round(cpu_math_parts(whole, cpu_math_parts(whole, most)), step));
}

static void choose_depth(struct cpu_math_prepared_product *plan)
{
    const struct cpu_math_product *product = &plan->product;
    uint64_t most = DEPTH;

    if (product->type == FACET_MATH_INT8 && plan->product_type == CPU_MATH_PRODUCT_TYPE_F32)
        most = DEPTH_EXACT;
    else if (product->m * product->n < 4096) /* may wrap, which only makes the depth a worse choice */
        most = cpu_math_max(DEPTH, (UINT64_C(1) << 20) / cpu_math_min(product->n, 64));
    plan->tile_k = product->k <= most + most / 4 && most != DEPTH_EXACT ? product->k : cpu_math_min(product->k, most);
}

static void choose_tile(struct cpu_math_prepared_product *plan)
{
    const struct cpu_math_product *product = &plan->product;
    uint64_t limit = TILE_F32 * 4 / plan->product_type_bytes, k = cpu_math_max(plan->tile_k, 1); /* no size is 0 */

    uint64_t n = limit / (k * 256) >= 256 ? 256 : limit / (k * 128) >= 64 ? 128 : 64;
    plan->tile_n = product->n <= n ? product->n : even_size(product->n, n, 64);
    uint64_t m = limit / (k * cpu_math_max(plan->tile_n, 1)) / 16 * 16;
    plan->tile_m = even_size(product->m, cpu_math_min(cpu_math_max(m, 16), 256), 16);
    uint64_t tiles_n = cpu_math_parts(product->n, plan->tile_n);
    while (plan->tile_m > 32 && product->batch < plan->prepared.engine->units &&
           tiles_n * cpu_math_parts(product->m, plan->tile_m) < 2 * (uint64_t)plan->prepared.engine->units)
        plan->tile_m = cpu_math_round(plan->tile_m / 2, 16);
}

/* Packs nothing where operands are small or rows few: packing would cost more than it gains. */
static void choose_small(struct cpu_math_prepared_product *plan, bool small)
{
    const struct cpu_math_product *product = &plan->product;
    uint64_t units = plan->prepared.engine->units;

    plan->packs_a = plan->packs_b = plan->orders_b = false;
    if (small) {
        plan->tile_n = product->n;
        plan->tile_m = product->batch >= units ? product->m : cpu_math_parts(product->m, units);
        uint64_t most =
            cpu_math_max(2 * TILE_F32 * 4 / plan->product_type_bytes / (product->n * product->k) / 16 * 16, 128);
        plan->tile_m = even_size(product->m, cpu_math_min(cpu_math_max(plan->tile_m, 16), most), 16);
    } else {
        plan->tile_m = product->m;
        plan->tile_n = cpu_math_min(product->n, cpu_math_round(cpu_math_max(TILE_MEMORY / plan->tile_k, 64), 64));
    }
}

static bool can_order(const struct cpu_math_prepared_product *plan)
{
    const struct cpu_math_product *product = &plan->product;

    return !plan->refuses_order && !product->windows && plan->product_type != CPU_MATH_PRODUCT_TYPE_INT8 &&
           product->m > FEW_ROWS && product->k % CPU_MATH_ORDER_ROWS == 0 && plan->tile_k % CPU_MATH_ORDER_ROWS == 0 &&
           product->n % CPU_MATH_ORDER_COLUMNS == 0;
}

/* A tile is whole rows of C where that is not too large, so that they are written in place. */
static void choose_ordered(struct cpu_math_prepared_product *plan)
{
    const struct cpu_math_product *product = &plan->product;
    uint64_t limit = TILE_F32 * 4 / plan->product_type_bytes, units = plan->prepared.engine->units;

    bool f32 = plan->product_type == CPU_MATH_PRODUCT_TYPE_F32;

    if (f32 && plan->tile_k > DEPTH_F32 + DEPTH_F32 / 4)
        plan->tile_k = even_size(product->k, DEPTH_F32, CPU_MATH_ORDER_ROWS);
    bool deep = f32 && plan->tile_k > DEEP_F32;
    uint64_t deep_rows = limit / CPU_MATH_ORDER_COLUMNS / cpu_math_max(plan->tile_k, 1);
    deep_rows = cpu_math_min(cpu_math_max(deep_rows, ORDERED_ROWS), DEEP_ROWS);
    plan->tile_m = even_size(product->m, deep ? deep_rows : ORDERED_ROWS, 16);
    uint64_t column = cpu_math_max(plan->tile_m * plan->tile_k, 1); /* no size is 0 */
    uint64_t n = cpu_math_min(limit / column / CPU_MATH_ORDER_COLUMNS * CPU_MATH_ORDER_COLUMNS, ORDERED_COLUMNS);
    plan->tile_n = product->n <= 2 * limit / column
                       ? product->n
                       : even_size(product->n, cpu_math_max(n, CPU_MATH_ORDER_COLUMNS), CPU_MATH_ORDER_COLUMNS);
    while (plan->tile_n > CPU_MATH_ORDER_COLUMNS && product->batch < units &&
           cpu_math_parts(product->m, plan->tile_m) * cpu_math_parts(product->n, plan->tile_n) < 2 * units)
        plan->tile_n = cpu_math_round(plan->tile_n / 2, CPU_MATH_ORDER_COLUMNS);
    plan->pack_rows = cpu_math_round(cpu_math_max(PART / cpu_math_max(plan->tile_n, 1), 1), CPU_MATH_ORDER_ROWS);
}

/*
 * Chooses a microkernel for operands that oneDNN would multiply as f32. int8 in pairs is as fast as it would be in
 * oneDNN's sums of 16 bits.
 */
static void find_microkernel(struct cpu_math_prepared_product *plan)
{
    const struct cpu_math_product *product = &plan->product;
    const struct cpu_math_microkernels *microkernels = plan->prepared.engine->microkernels;

    if (!microkernels || product->windows || plan->product_type != CPU_MATH_PRODUCT_TYPE_F32 ||
        product->m < KERNEL_LEAST || product->n < KERNEL_LEAST || product->k == 0)
        return;
    if (product->n % CPU_MATH_PANEL == 0 || product->n >= KERNEL_COLUMNS)
        plan->multiply = microkernels->multiply_f32;
    if (product->type != FACET_MATH_INT8 || (product->flags & FACET_MATH_NO_TENSOR) || product->k % 2 != 0)
        return;
    plan->product_type = CPU_MATH_PRODUCT_TYPE_INT16;
    plan->multiply = microkernels->multiply_int16;
}

/* If there are few tiles, makes them smaller until the units can share them evenly. */
static void choose_microkernel(struct cpu_math_prepared_product *plan)
{
    const struct cpu_math_product *product = &plan->product;
    uint64_t limit = KERNEL_TILE * 4 / plan->product_type_bytes, units = plan->prepared.engine->units;

    plan->packs_b = plan->converts_operands || product->b.column != 1 || product->n > KERNEL_B / product->k;
    uint64_t rows_most = plan->packs_b ? KERNEL_ROWS : KERNEL_B_ROWS;
    uint64_t depth = KERNEL_DEPTH * 4 / plan->product_type_bytes;
    plan->tile_k = product->k <= depth + depth / 4 ? product->k : even_size(product->k, depth, depth);
    uint64_t rows = cpu_math_max(cpu_math_parts(product->m, rows_most), 1), tallest = cpu_math_parts(product->m, rows);
    uint64_t most = cpu_math_max(limit / cpu_math_max(tallest * plan->tile_k, 1) / CPU_MATH_PANEL, 1) * CPU_MATH_PANEL;
    plan->tile_n = even_size(product->n, cpu_math_min(most, KERNEL_COLUMNS), CPU_MATH_PANEL);
    uint64_t columns = cpu_math_parts(product->n, plan->tile_n);
    while (rows * columns * product->batch < 2 * units && plan->tile_n > CPU_MATH_PANEL) {
        plan->tile_n = cpu_math_round(plan->tile_n / 2, CPU_MATH_PANEL);
        columns = cpu_math_parts(product->n, plan->tile_n);
    }
    while (rows * columns * product->batch < 8 * units && rows * columns * product->batch % units != 0)
        rows++;
    plan->tile_m = cpu_math_min(product->m, cpu_math_round(cpu_math_parts(product->m, rows), 2));
    plan->pack_rows = cpu_math_round(cpu_math_max(PART / cpu_math_max(plan->tile_n, 1), 1), CPU_MATH_ORDER_ROWS);
    plan->packs_a = plan->converts_operands || product->a.column != 1 || product->a.row > KERNEL_A_ROW;
    plan->streams_c = product->m > STREAM_BYTES / plan->c_bytes / product->n;
    plan->stores_directly = product->alpha == 1.0f && product->beta == 0.0f && !product->bias &&
                            (product->type == FACET_MATH_F32 || plan->product_type == CPU_MATH_PRODUCT_TYPE_INT16) &&
                            !(plan->streams_c && plan->tile_k == product->k);
}

static void choose_method(struct cpu_math_prepared_product *plan)
{
    plan->main_columns = plan->product.n;
    if (plan->multiply) {
        choose_microkernel(plan);
        return;
    }
    const struct cpu_math_product *product = &plan->product;
    bool same = !plan->converts_operands && !product->windows;
    bool contiguous = is_contiguous(&product->a, product->k) && is_contiguous(&product->b, product->n);

    choose_depth(plan);
    plan->orders_b = can_order(plan);
    if (plan->orders_b)
        choose_ordered(plan);
    else
        choose_tile(plan);
    plan->packs_a = plan->converts_operands || plan->tile_k != product->k || !is_contiguous(&product->a, product->k);
    plan->packs_b = plan->orders_b || !same || plan->tile_n != product->n || !is_contiguous(&product->b, product->n);
    bool small =
        same && contiguous && plan->tile_k == product->k && product->n <= SMALL_BYTES / plan->type_bytes / product->k;
    bool few = same && product->m <= FEW_ROWS && (product->b.column == 1 || product->b.row == 1) &&
               is_contiguous(&product->a, product->k);
    if (small || few)
        choose_small(plan, small);
    plan->stores_directly = plan->tile_n == product->n && product->c.row == product->n && plan->tile_k == product->k &&
                            product->alpha == 1.0f && product->beta == 0.0f && !product->bias &&
                            (product->type == FACET_MATH_F32 || plan->product_type != CPU_MATH_PRODUCT_TYPE_F32);
    if (small && plan->stores_directly && cpu_math_rest_plan(plan))
        plan->tile_n = plan->main_columns = product->n - plan->rest.columns;
    plan->streams_c = product->m > STREAM_BYTES / plan->c_bytes / cpu_math_max(product->n, 1);
}

/* ---- steps ---- */

static void choose_steps(struct cpu_math_prepared_product *plan)
{
    const struct cpu_math_product *product = &plan->product;
    uint64_t column_bytes = cpu_math_max(plan->tile_k * plan->product_type_bytes, 1);
    uint64_t columns = cpu_math_max(PACK_BYTES / (column_bytes * cpu_math_max(plan->tile_n, 1)), 1) * plan->tile_n;
    uint64_t rows = cpu_math_max(PACK_BYTES / (column_bytes * cpu_math_max(plan->tile_m, 1)), 1) * plan->tile_m;

    plan->step_n = plan->packs_b ? cpu_math_min(columns, product->n) : plan->main_columns;
    plan->step_m = plan->packs_a ? cpu_math_min(rows, product->m) : product->m;
    if (plan->tile_k < product->k) /* sums are kept */
        plan->step_m = cpu_math_min(plan->step_m, cpu_math_round(4096, plan->tile_m));
    plan->slabs_per_wave = plan->orders_b || plan->multiply
                               ? cpu_math_max(WAVE_BYTES / (column_bytes * cpu_math_max(plan->tile_m, 1)), 1)
                               : cpu_math_max(product->m, 1);
    uint64_t bytes = (plan->packs_b ? plan->step_n : 0) + (plan->packs_a ? plan->step_m : 0);
    plan->step_batch =
        bytes ? cpu_math_min(cpu_math_max(2 * PACK_BYTES / column_bytes / bytes, 1), product->batch) : product->batch;
    if (plan->rest.columns > 0)
        plan->step_batch = cpu_math_min(cpu_math_rest_step(plan), product->batch);
}

/* ---- primitives ---- */

/* The size of the last tile if it is smaller than the others; 0: it is not. */
static uint64_t last_tile(uint64_t whole, uint64_t tile)
{
    return whole % cpu_math_max(tile, 1);
}

static enum facet_status get_matmul(struct cpu_math_prepared_product *plan, int i, struct facet_error *error)
{
    const struct cpu_math_product *product = &plan->product;
    const int edge_m = i & 1, edge_n = i >> 1 & 1, edge_k = i >> 2;
    struct cpu_math_matmul matmul = {
        .m = edge_m ? last_tile(product->m, plan->tile_m) : plan->tile_m,
        .n = edge_n ? last_tile(plan->main_columns, plan->tile_n) : plan->tile_n,
        .k = edge_k ? last_tile(product->k, plan->tile_k) : plan->tile_k,
        .product_type = plan->product_type,
    };

    if (matmul.m == 0 || matmul.n == 0 || matmul.k == 0)
        return FACET_OK;
    matmul.a_row = plan->packs_a ? matmul.k : product->a.row;
    matmul.a_column = plan->packs_a ? 1 : product->a.column;
    matmul.b_row = plan->packs_b ? matmul.n : product->b.row;
    matmul.b_column = plan->packs_b ? 1 : product->b.column;
    matmul.c_row = plan->rest.columns > 0 ? product->c.row : 0;
    matmul.rounds_c = plan->stores_directly && product->type == FACET_MATH_BF16;
    matmul.orders_b = plan->orders_b;
    return cpu_math_matmul(plan->prepared.engine, &matmul, &plan->matmul[edge_m][edge_n][edge_k], error);
}

static enum facet_status get_primitives(struct cpu_math_prepared_product *plan, struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    for (int i = 0; i < 8 && status == FACET_OK && !plan->multiply; i++)
        status = get_matmul(plan, i, error);
    if (status == FACET_OK && plan->rest.columns > 0)
        status = cpu_math_rest_primitives(plan, error);
    return status;
}

/* ---- memory ---- */

static uint64_t scratch_most(const struct cpu_math_prepared_product *plan)
{
    uint64_t most = 0;

    for (int i = 0; i < 8; i++)
        if (plan->matmul[i & 1][i >> 1 & 1][i >> 2])
            most = cpu_math_max(most, plan->matmul[i & 1][i >> 1 & 1][i >> 2]->scratch_bytes);
    for (int i = 0; i < 2; i++)
        if (plan->rest.matmul[i])
            most = cpu_math_max(most, plan->rest.matmul[i]->scratch_bytes);
    return most;
}

static void place_memory(struct cpu_math_prepared_product *plan)
{
    const struct cpu_math_product *product = &plan->product;
    bool raw = product->windows && plan->converts_operands; /* windows are gathered as they are, then converted */
    uint64_t gathered = raw ? plan->tile_k * plan->tile_n * plan->type_bytes : 0;

    uint64_t columns = plan->multiply ? cpu_math_round(plan->tile_n, CPU_MATH_PANEL) : plan->tile_n;
    plan->panel_bytes =
        plan->packs_b ? cpu_math_round(columns * plan->tile_k * plan->product_type_bytes, CPU_MATH_ALIGN) : 0;
    plan->slab_bytes =
        plan->packs_a ? cpu_math_round(plan->tile_m * plan->tile_k * plan->product_type_bytes, CPU_MATH_ALIGN) : 0;
    uint64_t rest = plan->rest.columns > 0 ? cpu_math_rest_tiles(plan, plan->step_batch) * plan->rest.panel_bytes : 0;
    plan->a_offset = rest + plan->step_batch * cpu_math_parts(plan->step_n, plan->tile_n) * plan->panel_bytes;
    plan->sums_offset =
        plan->a_offset + plan->step_batch * cpu_math_parts(plan->step_m, plan->tile_m) * plan->slab_bytes;
    bool sums = plan->tile_k < product->k && (product->type == FACET_MATH_BF16 || product->type == FACET_MATH_F16);
    plan->prepared.memory_bytes = plan->sums_offset + (sums ? plan->step_batch * plan->step_m * plan->step_n * 4 : 0);
    plan->products_offset = cpu_math_round(gathered, CPU_MATH_ALIGN);
    uint64_t products = plan->rest.tile_m * plan->rest.tile_batch * plan->rest.columns;
    products = cpu_math_max(products, plan->tile_m * plan->tile_n);
    plan->primitive_offset = plan->products_offset + cpu_math_round(products * 4, CPU_MATH_ALIGN);
}

enum facet_status cpu_math_product_plan(struct cpu_math_prepared_product *plan, struct facet_error *error)
{
    const struct cpu_math_product *product = &plan->product;

    plan->product_type = cpu_math_product_type_of(plan->prepared.engine, product->type, product->flags);
    find_microkernel(plan);
    plan->product_type_bytes = cpu_math_product_type_bytes(plan->product_type);
    plan->type_bytes = product->type == FACET_MATH_F32 ? 4 : product->type == FACET_MATH_INT8 ? 1 : 2;
    plan->c_bytes = product->type == FACET_MATH_INT8 ? 4 : plan->type_bytes;
    plan->converts_operands = plan->type_bytes != plan->product_type_bytes;
    choose_method(plan);
    enum facet_status status = get_primitives(plan, error);
    if (status == FACET_UNSUPPORTED && plan->orders_b) {
        cpu_math_primitives_drop(plan->prepared.engine, &plan->matmul[0][0][0], 8);
        memset(plan->matmul, 0, sizeof plan->matmul);
        plan->refuses_order = true;
        choose_method(plan);
        status = get_primitives(plan, error);
    }
    choose_steps(plan);
    if (status == FACET_OK)
        place_memory(plan);
    plan->scratch_most = plan->multiply ? CPU_MATH_BLOCK * CPU_MATH_PANEL * 4 : scratch_most(plan);
    return status;
}
