/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention as two products with a softmax between them: softmax(Q * K^T * scale) * V.
 *
 * Owns: the parameters of the two products, the size of the scores, and the mask of causal attention.
 * Never: calls a library, or keeps memory.
 */
#ifndef FACET_KIT_GPU_ATTENTION_H
#define FACET_KIT_GPU_ATTENTION_H

#include <stdbool.h>

#include <facet/provider.h>

/* The size of the scores in f32; false if they need more than SCORES_MOST bytes (attention.c). */
bool gpu_attention_score_bytes(const struct facet_attention *attention, uint64_t *ret_bytes);

/*
 * The first function describes Q * K^T, written to the device address `scores`; K is the gemm's transposed B. The
 * second describes the softmax of the scores, which is at the device address `weights`, times V. All matrices are
 * row-major.
 */
struct facet_gemm gpu_attention_score_gemm(const struct facet_attention *attention, uint64_t scores);
struct facet_gemm gpu_attention_value_gemm(const struct facet_attention *attention, uint64_t weights);

/*
 * The mask of causal attention, `positions` * `positions` floats that are added to the scores of each head: minus
 * infinity for positions after i in row i. The caller frees the mask; NULL: no memory.
 */
float *gpu_attention_mask(uint64_t positions, uint64_t *ret_bytes);

#endif
