/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A convolution as strips of output rows.
 *
 * Owns: the plan that strips.c and strips_plan.c share. Never: knows the ABI's order of channels: packed data has them
 * last.
 */
#ifndef CPU_MATH_STRIPS_H
#define CPU_MATH_STRIPS_H

#include "math/engine.h"

/* Planes (groups of images) and output rows whose input is packed at once. The first step packs the filters, too. */
struct cpu_math_strips_step {
    uint64_t plane, planes, row, rows, filters;
};

struct cpu_math_strips {
    struct cpu_math_prepared prepared;
    struct facet_convolution convolution;
    uint32_t type;
    enum cpu_math_product_type product_type;
    bool packs_own_input;   /* each tile packs its own input, as no other tile reads it */
    bool converts_operands; /* numbers are multiplied in another type than that of the operands */
    uint64_t type_bytes, product_type_bytes, out_bytes;

    uint64_t in_channels, out_channels, depth; /* channels of a group; numbers that one output adds up */
    uint64_t planes, rows, columns;            /* rows and columns of the output */
    uint64_t packed_width;                     /* positions of a packed row of input */
    uint64_t strip, block, blocks;             /* output rows and channels of a tile; blocks of a group */
    uint64_t pack_rows;                        /* rows of input that a work-group packs */
    uint64_t step_planes, step_rows;
    struct cpu_math_primitive *convolve[2][2];  /* [rows of an edge strip][channels of an edge block] */
    struct cpu_math_primitive *filter_order[2]; /* [channels of an edge block] */

    struct cpu_math_strips_step *steps;
    uint32_t step_count;
    uint64_t filter_bytes, row_bytes, plane_bytes, input_offset; /* in the prepared operation's memory */
    uint64_t products_offset, transposed_offset, strip_offset;   /* in scratch memory; first: a filter, converted */
    uint64_t primitive_offset, primitive_bytes;                  /* of oneDNN's own scratch memory, behind them */
};

/* The number of input rows that `rows` rows of output need. */
static inline uint64_t cpu_math_strips_reach(const struct cpu_math_strips *plan, uint64_t rows)
{
    return (rows - 1) * plan->convolution.stride[0] +
           plan->convolution.dilation[0] * (plan->convolution.kernel[0] - 1) + 1;
}

/* Plans everything except the steps, from `convolution`, `type` and `as`. */
enum facet_status cpu_math_strips_plan(struct cpu_math_strips *plan, struct facet_error *error);
enum facet_status cpu_math_prepare_strips(struct cpu_math_engine *engine, const struct facet_math *operation,
                                          struct cpu_math_prepared **ret_prepared, struct facet_error *error);

#endif
