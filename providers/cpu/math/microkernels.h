/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of packed tiles, for processors on which oneDNN packs both factors anew in each call (AVX2 without AVX-512).
 *
 * Owns: the order of packed numbers, and multiplying them. A word of 32 bits is one f32, or a pair of 16-bit integers.
 * Both products of a pair are added to a sum of 32 bits, so int8 is exact, which it is not in oneDNN's 16-bit sums.
 * Never: allocates, or takes other types.
 *
 * B lies in panels of CPU_MATH_PANEL columns, each row by row; the last panel is filled up with zeros.
 */
#ifndef CPU_MATH_MICROKERNELS_H
#define CPU_MATH_MICROKERNELS_H

#include <stdbool.h>
#include <stdint.h>

#define CPU_MATH_PANEL 16u  /* columns of B */
#define CPU_MATH_BLOCK 512u /* words of A along its depth, and of a panel of B: that stays in the nearest caches */

/* C = A * B, or C += A * B. Sizes in words; `depth` at least 1. */
struct cpu_math_tile {
    void *c;
    const void *a, *b;
    uint64_t c_row;
    uint64_t a_row; /* 0: A is packed, in blocks of CPU_MATH_BLOCK words of depth, each row by row */
    uint64_t b_row; /* 0: B is packed; else B is rows of f32, and each panel is packed when it is first read */
    void *packed;   /* room for a panel that is packed when it is read: CPU_MATH_BLOCK * CPU_MATH_PANEL words */
    uint64_t rows, columns, depth;
    bool adds;
};

struct cpu_math_microkernels {
    const char *name;
    void (*multiply_f32)(const struct cpu_math_tile *tile);
    void (*multiply_int16)(const struct cpu_math_tile *tile);
    /* Packs one row of f32, or two of integers, of B. `panel`: words from one panel to the next. */
    void (*spread)(float *to, uint64_t panel, const float *from, uint64_t columns);
    void (*spread_pairs)(uint32_t *to, uint64_t panel, const int8_t *even, const int8_t *odd, uint64_t columns);
    void (*widen)(int16_t *to, const int8_t *from, uint64_t count);
};

extern const struct cpu_math_microkernels cpu_math_microkernels_v3; /* x86-64-v3 */

#endif
