/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A product of matrices as tiles, for gemm and convolution.
 *
 * Owns: cutting a product into tiles of some hundred microseconds, packing, multiplying, storing.
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
    uint64_t period; /* matrix number b of the batch uses A and bias number b % period; 0: number b */
    bool windows;    /* B is made of the windows of `convolution`; b.address and b.batch are of its input */
    struct facet_convolution convolution;
};

enum facet_status cpu_math_product_prepare(struct cpu_math_engine *engine, const struct cpu_math_product *product,
                                           struct cpu_math_prepared **ret_prepared, struct facet_error *error);

/* --- windows.c --- */

/* Rows [k0, k0 + rows) and columns [n0, n0 + columns) of the matrix of windows of one image and group at `input`. The
 * matrix has a row for each element of the filter and a column for each position of the output. Rows are contiguous.
 * `bytes`: the size of an element. */
void cpu_math_windows(const struct facet_convolution *convolution, const void *input, uint64_t k0, uint64_t rows,
                      uint64_t n0, uint64_t columns, uint64_t bytes, void *to);

/* --- product_plan.c --- */

/* A part of the product, whose A and B are packed at once: one phase packs, the next multiplies. */
struct cpu_math_step {
    uint64_t b0, batches, m0, rows, n0, columns, k0, depth;
    enum cpu_math_step_task { CPU_MATH_STEP_PACK, CPU_MATH_STEP_MULTIPLY, CPU_MATH_STEP_REST } task;
};

/* The columns of each matrix that do not fill a vector (rest.c). */
struct cpu_math_rest {
    uint64_t columns;            /* of each matrix; 0: there is no rest */
    uint64_t tile_m, tile_batch; /* rows, and matrices, of a tile */
    uint64_t panel_bytes;        /* of a tile's B; the panels of a step begin the prepared operation's memory */
    struct cpu_math_primitive *matmul[2]; /* [rows of an edge tile] */
};

struct cpu_math_prepared_product {
    struct cpu_math_prepared prepared;
    struct cpu_math_product product;
    enum cpu_math_product_type product_type;
    uint64_t type_bytes, c_bytes, product_type_bytes;

    uint64_t main_columns; /* columns of C without the rest */
    struct cpu_math_rest rest;
    uint64_t tile_m, tile_n, tile_k;     /* sizes of a tile; tile_k is also that of a step */
    uint64_t step_m, step_n, step_batch; /* multiples of tile_m and tile_n, or all */
    bool packs_a, packs_b;
    bool converts_operands;                             /* packing goes through f32 */
    bool stores_directly;                               /* products go straight to C */
    bool streams_c;                                     /* C is too large for the caches */
    bool refuses_order;                                 /* oneDNN requires another order of B than packed panels */
    bool orders_b;                                      /* packed B is in the order in which oneDNN multiplies */
    void (*multiply)(const struct cpu_math_tile *tile); /* a microkernel instead of the library; NULL: none */
    uint64_t pack_rows;                                 /* rows of a panel that a work-group packs */
    uint64_t slabs_per_wave;                            /* slabs multiplied by all panels before the next slabs are */
    uint64_t panel_bytes, slab_bytes;                   /* of a panel (packed B) and a slab (packed A) of one tile */
    struct cpu_math_primitive *matmul[2][2][2];         /* [is m that of an edge tile][is n][is k] */

    struct cpu_math_step *steps;
    uint32_t step_count;
    uint64_t a_offset, sums_offset; /* of packed A and sums in the prepared operation's memory, behind packed B */
    uint64_t scratch_most;          /* of a primitive */
    uint64_t products_offset;       /* of the products in scratch memory, behind the gathered operands */
    uint64_t primitive_offset;      /* of the primitives' own scratch memory, behind the products */
};

/* Plans everything except the steps. */
enum facet_status cpu_math_product_plan(struct cpu_math_prepared_product *plan, struct facet_error *error);

/* --- rest.c --- */

/* Plans the rest, if nothing is packed and tiles are whole rows. False: a separate rest would not pay. */
bool cpu_math_rest_plan(struct cpu_math_prepared_product *plan);
enum facet_status cpu_math_rest_primitives(struct cpu_math_prepared_product *plan, struct facet_error *error);
/* The most matrices of a step. */
uint64_t cpu_math_rest_step(const struct cpu_math_prepared_product *plan);
/* The number of tiles, and of their panels, of `matrices` matrices. */
uint64_t cpu_math_rest_tiles(const struct cpu_math_prepared_product *plan, uint64_t matrices);
uint64_t cpu_math_rest_groups(const struct cpu_math_prepared_product *plan, const struct cpu_math_step *step);
/* Gathers the rest of matrix `index` of the step while it is in the caches, as the caller has just read it. */
void cpu_math_rest_gather(const struct cpu_math_prepared_product *plan, const struct cpu_math_step *step,
                          uint64_t index);
/* Multiplies one tile, when all columns of the rest are gathered. */
enum facet_status cpu_math_rest_run(const struct cpu_math_prepared_product *plan, const struct cpu_math_step *step,
                                    uint64_t index, char *scratch);

#endif
