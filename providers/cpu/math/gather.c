/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: bringing parts of matrices into one piece.
 * Never: leaves that to oneDNN's reorders: reordering a panel costs more than multiplying it.
 */
#include <string.h>

#include "math/engine.h"

#define BLOCK 64u /* rows and columns that are transposed at a time */

static uint64_t bytes_of(uint32_t type)
{
    return type == FACET_MATH_F32 ? 4 : type == FACET_MATH_INT8 ? 1 : 2;
}

void cpu_math_convert(const struct cpu_math_engine *engine, void *to, const void *from, uint64_t count, uint32_t type,
                      enum cpu_math_as as)
{
    if (as == CPU_MATH_AS_F32)
        engine->loops->load(to, from, count, type);
    else if (as == CPU_MATH_AS_BF16 && type == FACET_MATH_F32) /* may be mixed */
        engine->loops->save(to, from, count, FACET_MATH_BF16);
    else if (as == CPU_MATH_AS_INT16)
        engine->microkernels->widen(to, from, count);
    else
        memcpy(to, from, count * bytes_of(type));
}

/* Columns lie in one piece. */
static void gather_transposed(const struct cpu_math_engine *engine, const struct cpu_math_gather *it, char *to)
{
    uint64_t bytes = bytes_of(it->type), as_bytes = cpu_math_as_bytes(it->as);
    uint32_t block[BLOCK * BLOCK];

    for (uint64_t j = 0; j < it->columns; j += BLOCK)
        for (uint64_t i = 0; i < it->rows; i += BLOCK) {
            uint64_t rows = cpu_math_least(BLOCK, it->rows - i), columns = cpu_math_least(BLOCK, it->columns - j);
            const void *from = (const void *)(it->from + (i + j * it->column) * bytes);

            if (bytes == as_bytes) {
                engine->loops->transpose(to + (i * it->columns + j) * bytes, it->columns, from, it->column, rows,
                                         columns, bytes);
                continue;
            }
            engine->loops->transpose(block, BLOCK, from, it->column, rows, columns, bytes);
            for (uint64_t l = 0; l < rows; l++)
                cpu_math_convert(engine, to + ((i + l) * it->columns + j) * as_bytes,
                                 (const char *)block + l * BLOCK * bytes, columns, it->type, it->as);
        }
}

void cpu_math_gather(const struct cpu_math_engine *engine, const struct cpu_math_gather *it, void *to)
{
    uint64_t bytes = bytes_of(it->type), as_bytes = cpu_math_as_bytes(it->as);

    if (it->column != 1) {
        gather_transposed(engine, it, to);
        return;
    }
    for (uint64_t i = 0; i < it->rows; i++)
        cpu_math_convert(engine, (char *)to + i * it->columns * as_bytes,
                         (const void *)(it->from + i * it->row * bytes), it->columns, it->type, it->as);
}

/* Along rows first, so that each page of B is met once. */
void cpu_math_order(const struct cpu_math_engine *engine, const struct cpu_math_gather *it, uint64_t depth, void *to)
{
    uint64_t bytes = bytes_of(it->type), as_bytes = cpu_math_as_bytes(it->as);
    uint16_t rows[CPU_MATH_ORDER_ROWS][CPU_MATH_ORDER_COLUMNS];
    struct cpu_math_gather block = *it;

    block.rows = CPU_MATH_ORDER_ROWS;
    block.columns = CPU_MATH_ORDER_COLUMNS;
    for (uint64_t i = 0; i < it->rows; i += block.rows)
        for (uint64_t j = 0; j < it->columns; j += block.columns) {
            char *at = (char *)to + (j * depth + i * block.columns) * as_bytes;

            block.from = it->from + (i * it->row + j * it->column) * bytes;
            cpu_math_gather(engine, &block, it->as == CPU_MATH_AS_BF16 ? (void *)rows : at);
            for (uint64_t l = 0; it->as == CPU_MATH_AS_BF16 && l < block.rows; l += 2)
                engine->loops->pair((uint16_t *)at + l * block.columns, rows[l], rows[l + 1], block.columns);
        }
}

/* Rows [row, row + rows) of some columns, each in one piece: as they lie, or transposed into `transposed`. */
static const char *rows_of(const struct cpu_math_engine *engine, const struct cpu_math_gather *it, uint64_t row,
                           uint64_t rows, uint64_t column, uint64_t columns, void *transposed, uint64_t *ret_stride)
{
    uint64_t bytes = bytes_of(it->type);
    const char *from = (const char *)it->from + (row * it->row + column * it->column) * bytes;

    *ret_stride = it->row * bytes;
    if (it->column == 1)
        return from;
    engine->loops->transpose(transposed, columns, from, it->column, rows, columns, bytes);
    *ret_stride = columns * bytes;
    return transposed;
}

/* Whole blocks, so that each page of B is met once, and nothing is transposed twice. */
void cpu_math_panels(const struct cpu_math_engine *engine, const struct cpu_math_gather *it, uint64_t depth, void *to)
{
    const struct cpu_math_microkernels *microkernels = engine->microkernels;
    uint64_t step = it->as == CPU_MATH_AS_INT16 ? 2 : 1, panel = depth / step * CPU_MATH_PANEL, stride;
    uint32_t transposed[BLOCK * BLOCK];
    float values[BLOCK];

    for (uint64_t i = 0; i < it->rows; i += BLOCK)
        for (uint64_t j = 0; j < it->columns; j += BLOCK) {
            uint64_t rows = cpu_math_least(BLOCK, it->rows - i), columns = cpu_math_least(BLOCK, it->columns - j);
            const char *from = rows_of(engine, it, i, rows, j, columns, transposed, &stride);
            uint32_t *at = (uint32_t *)to + j / CPU_MATH_PANEL * panel + i / step * CPU_MATH_PANEL;

            for (uint64_t l = 0; l < rows; l += step, at += CPU_MATH_PANEL, from += step * stride) {
                if (it->as == CPU_MATH_AS_INT16) {
                    microkernels->spread_pairs(at, panel, (const int8_t *)from, (const int8_t *)from + stride, columns);
                    continue;
                }
                if (it->type != FACET_MATH_F32)
                    engine->loops->load(values, from, columns, it->type);
                microkernels->spread((float *)at, panel, it->type == FACET_MATH_F32 ? (const float *)from : values,
                                     columns);
            }
        }
}
