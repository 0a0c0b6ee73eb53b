/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: copying parts of matrices into contiguous memory.
 * Never: copies by oneDNN's reorders: reordering a panel by them costs more than multiplying it.
 */
#include <string.h>

#include "math/engine.h"

#define BLOCK 64u /* rows and columns that are transposed at a time */

static uint64_t bytes_of(uint32_t type)
{
    return type == FACET_MATH_F32 ? 4 : type == FACET_MATH_INT8 ? 1 : 2;
}

void cpu_math_convert(const struct cpu_math_engine *engine, void *to, const void *from, uint64_t count, uint32_t type,
                      enum cpu_math_product_type product_type)
{
    if (product_type == CPU_MATH_PRODUCT_TYPE_F32)
        engine->loops->load(to, from, count, type);
    else if (product_type == CPU_MATH_PRODUCT_TYPE_BF16 && type == FACET_MATH_F32) /* FACET_MATH_MIXED */
        engine->loops->save(to, from, count, FACET_MATH_BF16);
    else if (product_type == CPU_MATH_PRODUCT_TYPE_INT16)
        engine->microkernels->widen(to, from, count);
    else
        memcpy(to, from, count * bytes_of(type));
}

/* Gathers a matrix whose columns are contiguous. */
static void gather_transposed(const struct cpu_math_engine *engine, const struct cpu_math_gather *matrix, char *to)
{
    uint64_t bytes = bytes_of(matrix->type), product_type_bytes = cpu_math_product_type_bytes(matrix->product_type);
    uint32_t block[BLOCK * BLOCK];

    for (uint64_t j = 0; j < matrix->columns; j += BLOCK)
        for (uint64_t i = 0; i < matrix->rows; i += BLOCK) {
            uint64_t rows = cpu_math_min(BLOCK, matrix->rows - i), columns = cpu_math_min(BLOCK, matrix->columns - j);
            const void *from = (const void *)(matrix->from + (i + j * matrix->column) * bytes);

            if (bytes == product_type_bytes) {
                engine->loops->transpose(to + (i * matrix->columns + j) * bytes, matrix->columns, from, matrix->column,
                                         rows, columns, bytes);
                continue;
            }
            engine->loops->transpose(block, BLOCK, from, matrix->column, rows, columns, bytes);
            for (uint64_t l = 0; l < rows; l++)
                cpu_math_convert(engine, to + ((i + l) * matrix->columns + j) * product_type_bytes,
                                 (const char *)block + l * BLOCK * bytes, columns, matrix->type, matrix->product_type);
        }
}

void cpu_math_gather(const struct cpu_math_engine *engine, const struct cpu_math_gather *matrix, void *to)
{
    uint64_t bytes = bytes_of(matrix->type), product_type_bytes = cpu_math_product_type_bytes(matrix->product_type);

    if (matrix->column != 1) {
        gather_transposed(engine, matrix, to);
        return;
    }
    for (uint64_t i = 0; i < matrix->rows; i++)
        cpu_math_convert(engine, (char *)to + i * matrix->columns * product_type_bytes,
                         (const void *)(matrix->from + i * matrix->row * bytes), matrix->columns, matrix->type,
                         matrix->product_type);
}

/* Goes along rows first, so that each page of B is read once. */
void cpu_math_gather_ordered(const struct cpu_math_engine *engine, const struct cpu_math_gather *matrix, uint64_t depth,
                             void *to)
{
    uint64_t bytes = bytes_of(matrix->type), product_type_bytes = cpu_math_product_type_bytes(matrix->product_type);
    uint16_t rows[CPU_MATH_ORDER_ROWS][CPU_MATH_ORDER_COLUMNS];
    struct cpu_math_gather block = *matrix;

    block.rows = CPU_MATH_ORDER_ROWS;
    block.columns = CPU_MATH_ORDER_COLUMNS;
    for (uint64_t i = 0; i < matrix->rows; i += block.rows)
        for (uint64_t j = 0; j < matrix->columns; j += block.columns) {
            char *at = (char *)to + (j * depth + i * block.columns) * product_type_bytes;

            block.from = matrix->from + (i * matrix->row + j * matrix->column) * bytes;
            cpu_math_gather(engine, &block, matrix->product_type == CPU_MATH_PRODUCT_TYPE_BF16 ? (void *)rows : at);
            for (uint64_t l = 0; matrix->product_type == CPU_MATH_PRODUCT_TYPE_BF16 && l < block.rows; l += 2)
                engine->loops->pair((uint16_t *)at + l * block.columns, rows[l], rows[l + 1], block.columns);
        }
}

/* Rows [row, row + rows) of some columns, each row contiguous: where they are, or transposed into `transposed`. */
static const char *rows_of(const struct cpu_math_engine *engine, const struct cpu_math_gather *matrix, uint64_t row,
                           uint64_t rows, uint64_t column, uint64_t columns, void *transposed, uint64_t *ret_stride)
{
    uint64_t bytes = bytes_of(matrix->type);
    const char *from = (const char *)matrix->from + (row * matrix->row + column * matrix->column) * bytes;

    *ret_stride = matrix->row * bytes;
    if (matrix->column == 1)
        return from;
    engine->loops->transpose(transposed, columns, from, matrix->column, rows, columns, bytes);
    *ret_stride = columns * bytes;
    return transposed;
}

/* Takes whole blocks, so that each page of B is read once, and nothing is transposed twice. */
void cpu_math_gather_panels(const struct cpu_math_engine *engine, const struct cpu_math_gather *matrix, uint64_t depth,
                            void *to)
{
    const struct cpu_math_microkernels *microkernels = engine->microkernels;
    uint64_t step = matrix->product_type == CPU_MATH_PRODUCT_TYPE_INT16 ? 2 : 1, panel = depth / step * CPU_MATH_PANEL,
             stride;
    uint32_t transposed[BLOCK * BLOCK];
    float values[BLOCK];

    for (uint64_t i = 0; i < matrix->rows; i += BLOCK)
        for (uint64_t j = 0; j < matrix->columns; j += BLOCK) {
            uint64_t rows = cpu_math_min(BLOCK, matrix->rows - i), columns = cpu_math_min(BLOCK, matrix->columns - j);
            const char *from = rows_of(engine, matrix, i, rows, j, columns, transposed, &stride);
            uint32_t *at = (uint32_t *)to + j / CPU_MATH_PANEL * panel + i / step * CPU_MATH_PANEL;

            for (uint64_t l = 0; l < rows; l += step, at += CPU_MATH_PANEL, from += step * stride) {
                if (matrix->product_type == CPU_MATH_PRODUCT_TYPE_INT16) {
                    microkernels->spread_pairs(at, panel, (const int8_t *)from, (const int8_t *)from + stride, columns);
                    continue;
                }
                if (matrix->type != FACET_MATH_F32)
                    engine->loops->load(values, from, columns, matrix->type);
                microkernels->spread((float *)at, panel, matrix->type == FACET_MATH_F32 ? (const float *)from : values,
                                     columns);
            }
        }
}
