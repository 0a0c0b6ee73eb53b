/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the choice of the convolutions that are computed by strips, their division into tiles, and the choice of
 * primitives. Never: runs anything.
 */
#include <string.h>

#include "math/strips.h"
#include "math_check.h"
#include "provider_kit.h"

#define TILE_F32      (UINT64_C(16) << 20) /* multiplications of a tile: some hundred microseconds */
#define PACK_BYTES    (UINT64_C(32) << 20) /* of packed input */
#define FILTER_BYTES  (UINT64_C(64) << 20) /* of packed filters: all of them are kept */
#define PRODUCT_BYTES (UINT64_C(4) << 20)  /* of a tile */
#define PACK_ELEMENTS UINT64_C(65536)      /* that a work-group packs, about */
#define CHANNELS      UINT64_C(16)         /* with fewer, most of a vector is empty */
#define POSITIONS     UINT64_C(64)         /* least positions of a tile: fewer do not pay for reading the filter */
#define STRIP_BYTES   (UINT64_C(1) << 19)  /* of input that a tile packs itself */
#define SIZE_MOST     (UINT64_C(1) << 16)
#define STEPS_MOST    (UINT64_C(1) << 20)

static enum facet_status refuse_convolution(struct facet_error *error)
{
    return facet_kit_fail(error, FACET_UNSUPPORTED, "this convolution would be slow or too large by strips");
}

/* Whether strips suit the convolution. Sizes that pass keep all products in this file below 2^64. */
static bool is_suited(const struct cpu_math_strips *plan)
{
    const struct facet_convolution *convolution = &plan->convolution;

    if (plan->type == FACET_MATH_INT8 && plan->product_type != CPU_MATH_PRODUCT_TYPE_INT8) /* f32 would not be exact */
        return false;
    if (plan->out_channels < CHANNELS || plan->in_channels > SIZE_MOST || plan->out_channels > SIZE_MOST)
        return false;
    if (convolution->height > SIZE_MOST || convolution->width > SIZE_MOST)
        return false;
    for (int i = 0; i < 2; i++)
        if (convolution->stride[i] > 1024 || convolution->kernel[i] > 1024 || convolution->dilation[i] > 1024 ||
            convolution->padding[i] > convolution->dilation[i] * (convolution->kernel[i] - 1))
            return false;
    return convolution->groups <= SIZE_MOST && convolution->groups * plan->out_channels * plan->in_channels *
                                                       convolution->kernel[0] * convolution->kernel[1] *
                                                       plan->product_type_bytes <=
                                                   FILTER_BYTES;
}

/* ---- sizes ---- */

static void measure_plan(struct cpu_math_strips *plan)
{
    const struct facet_convolution *convolution = &plan->convolution;

    plan->type_bytes = kit_math_type_bytes(plan->type);
    plan->product_type_bytes = cpu_math_product_type_bytes(plan->product_type);
    plan->out_bytes = plan->type == FACET_MATH_INT8 ? 4 : plan->type_bytes;
    plan->converts_operands = plan->type_bytes != plan->product_type_bytes;
    plan->in_channels = convolution->in_channels / convolution->groups;
    plan->out_channels = convolution->out_channels / convolution->groups;
    plan->planes = convolution->batch * convolution->groups;
    plan->rows = kit_math_outputs(convolution, 0);
    plan->columns = kit_math_outputs(convolution, 1);
}

/* The size of a part when `whole` is cut into parts of nearly the same size, as few as `most` allows. */
static uint64_t even_size(uint64_t whole, uint64_t most)
{
    return cpu_math_parts(whole, cpu_math_parts(whole, most));
}

/* Takes few channels at a time only where a tile would otherwise read much of the filter for few positions. */
static void choose_tile(struct cpu_math_strips *plan)
{
    uint64_t limit = TILE_F32 * 4 / plan->product_type_bytes,
             positions = cpu_math_min(POSITIONS, plan->rows * plan->columns);

    plan->block =
        plan->out_channels <= 512 ? plan->out_channels : cpu_math_round(even_size(plan->out_channels, 512), 64);
    do {
        plan->strip = cpu_math_max(limit / cpu_math_max(1, plan->columns * plan->depth * plan->block), 1);
        if (plan->strip * plan->columns >= positions || plan->block <= 64)
            break;
        plan->block = cpu_math_round(plan->block / 2, 64);
    } while (true);
    plan->strip = even_size(plan->rows, cpu_math_min(plan->strip, plan->rows));
    plan->blocks = cpu_math_parts(plan->out_channels, plan->block);
    while (plan->strip > 1 && plan->planes * plan->blocks * cpu_math_parts(plan->rows, plan->strip) <
                                  2 * (uint64_t)plan->prepared.engine->units)
        plan->strip = cpu_math_parts(plan->strip, 2);
}

static enum facet_status choose_sizes(struct cpu_math_strips *plan, struct facet_error *error)
{
    const struct facet_convolution *convolution = &plan->convolution;

    plan->depth = plan->in_channels * convolution->kernel[0] * convolution->kernel[1];
    choose_tile(plan);
    plan->packed_width =
        (plan->columns - 1) * convolution->stride[1] + convolution->dilation[1] * (convolution->kernel[1] - 1) + 1;
    plan->row_bytes = plan->packed_width * plan->in_channels * plan->product_type_bytes;
    plan->pack_rows = cpu_math_max(PACK_ELEMENTS / (plan->packed_width * plan->in_channels), 1);
    uint64_t least = cpu_math_strips_reach(plan, plan->strip) * plan->row_bytes, strips = 1;
    if (plan->strip * plan->columns * plan->block * 4 > PRODUCT_BYTES || least > PACK_BYTES)
        return refuse_convolution(error);
    plan->packs_own_input = plan->blocks == 1 && least <= STRIP_BYTES;
    if (plan->packs_own_input) {
        plan->step_rows = plan->rows;
        plan->step_planes = plan->planes;
        return FACET_OK;
    }
    uint64_t more = cpu_math_max(1, plan->strip * convolution->stride[0] * plan->row_bytes);
    strips += (PACK_BYTES - least) / more;
    plan->step_rows = cpu_math_min(strips * plan->strip, plan->rows);
    plan->plane_bytes = cpu_math_round(cpu_math_strips_reach(plan, plan->step_rows) * plan->row_bytes, CPU_MATH_ALIGN);
    plan->step_planes =
        plan->step_rows < plan->rows ? 1 : cpu_math_min(cpu_math_max(PACK_BYTES / plan->plane_bytes, 1), plan->planes);
    uint64_t steps = cpu_math_parts(plan->planes, plan->step_planes);
    return __builtin_mul_overflow(steps, cpu_math_parts(plan->rows, plan->step_rows), &steps) || steps > STEPS_MOST
               ? refuse_convolution(error)
               : FACET_OK;
}

/* ---- primitives ---- */

static enum facet_status get_convolution(struct cpu_math_strips *plan, int edge_rows, int edge_block,
                                         struct facet_error *error)
{
    const struct facet_convolution *convolution = &plan->convolution;
    uint64_t rows = edge_rows ? plan->rows % cpu_math_max(1, plan->strip) : plan->strip; /* steps are of whole strips */
    struct cpu_math_convolve convolve = {
        .in_channels = plan->in_channels, .input_width = plan->packed_width, .product_type = plan->product_type};

    convolve.out_channels = edge_block ? plan->out_channels % cpu_math_max(1, plan->block) : plan->block;
    if (rows == 0 || convolve.out_channels == 0)
        return FACET_OK;
    convolve.input_height = cpu_math_strips_reach(plan, rows);
    for (int i = 0; i < 2; i++) {
        convolve.kernel[i] = convolution->kernel[i];
        convolve.stride[i] = convolution->stride[i];
        convolve.dilation[i] = convolution->dilation[i];
    }
    struct cpu_math_primitive **primitive = &plan->convolve[edge_rows][edge_block];
    enum facet_status status = cpu_math_convolution(plan->prepared.engine, &convolve, primitive, error);
    if (status == FACET_OK && strncmp((*primitive)->name, "ref", 3) == 0)
        status = refuse_convolution(error);
    if (status == FACET_OK && !edge_rows)
        status =
            cpu_math_filter_order(plan->prepared.engine, &convolve, *primitive, &plan->filter_order[edge_block], error);
    return status;
}

/* All strips read the filter in one order. */
static enum facet_status get_primitives(struct cpu_math_strips *plan, struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    for (int i = 0; i < 4 && status == FACET_OK; i++)
        status = get_convolution(plan, i >> 1, i & 1, error);
    for (int i = 0; i < 2 && status == FACET_OK; i++)
        if (plan->convolve[1][i] && !cpu_math_same_filter(plan->convolve[0][i], plan->convolve[1][i]))
            status = refuse_convolution(error);
    return status;
}

/* ---- memory ---- */

static void place_memory(struct cpu_math_strips *plan)
{
    uint64_t products = cpu_math_round(plan->strip * plan->columns * plan->block * 4, CPU_MATH_ALIGN), rest = 0;

    for (int i = 0; i < 4; i++)
        if (plan->convolve[i >> 1][i & 1])
            rest = cpu_math_max(rest, plan->convolve[i >> 1][i & 1]->scratch_bytes);
    for (int i = 0; i < 2; i++)
        if (plan->filter_order[i]) {
            plan->filter_bytes = cpu_math_max(plan->filter_bytes, cpu_math_filter_bytes(plan->convolve[0][i]));
            rest = cpu_math_max(rest, plan->filter_order[i]->scratch_bytes);
        }
    plan->filter_bytes = cpu_math_round(plan->filter_bytes, CPU_MATH_ALIGN);
    plan->input_offset = plan->convolution.groups * plan->blocks * plan->filter_bytes;
    plan->prepared.memory_bytes =
        plan->input_offset + (plan->packs_own_input ? 0 : plan->step_planes * plan->plane_bytes);
    uint64_t filter = plan->converts_operands ? plan->block * plan->depth * plan->product_type_bytes : 0;
    plan->products_offset = cpu_math_round(filter, CPU_MATH_ALIGN);
    plan->transposed_offset = plan->products_offset + products;
    plan->strip_offset = plan->transposed_offset + (plan->convolution.bias || plan->out_bytes != 4 ? products : 0);
    uint64_t strip = plan->packs_own_input ? cpu_math_strips_reach(plan, plan->strip) * plan->row_bytes : 0;
    plan->primitive_offset = plan->strip_offset + cpu_math_round(strip, CPU_MATH_ALIGN);
    plan->primitive_bytes = rest;
}

enum facet_status cpu_math_strips_plan(struct cpu_math_strips *plan, struct facet_error *error)
{
    measure_plan(plan);
    enum facet_status status = is_suited(plan) ? choose_sizes(plan, error) : refuse_convolution(error);
    if (status == FACET_OK)
        status = get_primitives(plan, error);
    if (status == FACET_OK)
        place_memory(plan);
    return status;
}
