/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A product of matrices as tiles, for gemm and convolution.
 *
 * Owns: cutting it into tiles of some hundred microseconds, packing, multiplying, storing.
 * Never: knows flags or layouts of the ABI: its operands are row-major, with strides.
 */
#ifndef CPU_MATH_PRODUCT_H
#define CPU_MATH_PRODUCT_H

#include "math/engine.h"

/* Element (i, j) of matrix number b of a batch is at address + (b * batch + i * row + j * column) elements. */
struct cpu_math_matrix {
    uint64_t address;
    uint64_t row, column, batch;
};

/* C = alpha * A * B + beta * C + bias, with a bias for each row of C. */
struct cpu_math_product {
    const char *operation;          /* for the record */
    struct cpu_math_matrix a, b, c; /* c: column is 1 */
    uint64_t m, n, k, batch;
    uint32_t type;  /* of A, B and C: enum facet_math_type; INT8: C is int32 */
    uint32_t flags; /* FACET_MATH_NO_TENSOR, FACET_MATH_MIXED */
    float alpha, beta;
    uint64_t bias;   /* address; 0: none */
    uint64_t period; /* of A and bias: matrix number b of the batch has number b % period of them; 0: none */
    bool windows;    /* B is made of the windows of `convolution`; b.address and b.batch are of its input */
    struct facet_convolution convolution;
};

enum facet_status cpu_math_product_prepare(struct cpu_math_engine *engine, const struct cpu_math_product *product,
                                           struct cpu_math_piece **ret_piece, struct facet_error *error);

/* --- windows.c --- */

/* Rows [k0, k0 + rows) and columns [n0, n0 + columns) of the matrix of windows of one image and group at `input`: a row
 * for each element of the filter, a column for each position of the output. In one piece; `bytes` of an element. */
void cpu_math_windows(const struct facet_convolution *convolution, const void *input, uint64_t k0, uint64_t rows,
                      uint64_t n0, uint64_t columns, uint64_t bytes, void *to);

/* --- product_plan.c --- */

/* A part of the product, whose B is packed at once: a phase packs, the next multiplies. */
struct cpu_math_step {
    uint64_t b0, batches, m0, rows, n0, columns, k0, depth;
    enum cpu_math_step_task { CPU_MATH_STEP_PACK, CPU_MATH_STEP_MULTIPLY, CPU_MATH_STEP_REST } task;
};

/* rest.c; from plan and piece. */
struct cpu_math_rest {
    uint64_t columns;                     /* that are left over of each matrix; 0: there is no rest */
    uint64_t tile_m, tile_batch;          /* rows, and matrices, of a tile */
    uint64_t panel_bytes;                 /* of a tile's B; the panels of a step begin the piece's memory */
    struct cpu_math_primitive *matmul[2]; /* by whether rows are those of an edge */
};

struct cpu_math_product_piece {
    struct cpu_math_piece piece;
    struct cpu_math_product product;
    enum cpu_math_as as;
    uint64_t type_bytes, c_bytes, as_bytes;

    uint64_t main_columns; /* columns of C without the rest */
    struct cpu_math_rest rest;
    uint64_t tile_m, tile_n, tile_k;     /* of a tile; tile_k: of a step */
    uint64_t step_m, step_n, step_batch; /* multiples of tile_m and tile_n, or all */
    bool packs_a, packs_b;
    bool converts_operands;                             /* packing goes through f32 */
    bool stores_directly;                               /* products go straight to C */
    bool streams_c;                                     /* C is too large for caches to keep */
    bool refuses_order;                                 /* the library wants B in another order than ours */
    bool orders_b;                                      /* packed B is in the order in which the library multiplies */
    void (*multiply)(const struct cpu_math_tile *tile); /* a microkernel instead of the library; NULL: none */
    uint64_t pack_rows;                                 /* rows of a panel that a work-group packs */
    uint64_t slabs_per_wave;                            /* slabs that meet all panels before the next ones do */
    uint64_t panel_bytes, slab_bytes;                   /* of packed B and A for one tile */
    struct cpu_math_primitive *matmul[2][2][2];         /* by whether m, n, k are those of an edge */

    struct cpu_math_step *steps;
    uint32_t step_count;
    uint64_t a_offset, sums_offset; /* in the piece's memory, behind packed B: packed A, sums */
    uint64_t scratch_most;          /* of a primitive */
    uint64_t products_offset;       /* in scratch memory, behind the gathered operands: the products */
    uint64_t rest_offset;           /* behind them: the scratch memory of primitives */
};

/* Everything of the above but the steps and memory. */
enum facet_status cpu_math_product_plan(struct cpu_math_product_piece *plan, struct facet_error *error);

/* --- rest.c --- */

/* Plans the rest, for a plan that packs nothing and whose tiles are whole rows. False: no rest is worth its cost. */
bool cpu_math_rest_plan(struct cpu_math_product_piece *plan);
enum facet_status cpu_math_rest_primitives(struct cpu_math_product_piece *plan, struct facet_error *error);
/* Matrices of a step at most. */
uint64_t cpu_math_rest_step(const struct cpu_math_product_piece *plan);
/* The panels of `matrices` matrices. */
uint64_t cpu_math_rest_tiles(const struct cpu_math_product_piece *plan, uint64_t matrices);
uint64_t cpu_math_rest_groups(const struct cpu_math_product_piece *plan, const struct cpu_math_step *step);
/* Gathers the rest of matrix `index` of the step, which the caller has read just now. */
void cpu_math_rest_gather(const struct cpu_math_product_piece *plan, const struct cpu_math_step *step, uint64_t index);
/* A tile, when all are gathered. */
enum facet_status cpu_math_rest_run(const struct cpu_math_product_piece *plan, const struct cpu_math_step *step,
                                    uint64_t index, char *scratch);

#endif
